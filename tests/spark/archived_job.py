"""What test_spark_archives.py submits: executors send, and say where they found the package.

archived_job.py URL QUEUE
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator

from pyspark.sql import SparkSession


def send(numbers: Iterable[int]) -> Iterator[str]:
    import spoolrack

    with spoolrack.connect(url, timeout=60) as client:
        client.queue(queue).send_many([str(number).encode() for number in numbers])
    yield spoolrack.__file__


if __name__ == "__main__":
    url, queue = sys.argv[1:]
    spark = SparkSession.builder.getOrCreate()
    found = spark.sparkContext.parallelize(range(20), 4).mapPartitions(send).collect()
    print(json.dumps(sorted(set(found))))
    spark.stop()
