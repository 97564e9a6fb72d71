"""The job of test_spark_archives.py: executors write, and say where they found the package.

archived_job.py HOST:PORT QUEUE rows|source
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator

from pyspark.sql import SparkSession
from spoolrack.spark import register, write_partition


def where(_: Iterable[object]) -> Iterator[str]:
    import spoolrack

    yield spoolrack.__file__


if __name__ == "__main__":
    endpoint, queue, way = sys.argv[1:]
    spark = SparkSession.builder.getOrCreate()
    rows = spark.range(20, numPartitions=4).selectExpr("cast(id AS string) AS body")
    if way == "rows":
        rows.foreachPartition(write_partition(endpoint, queue))
    else:
        register(spark)
        writer = rows.write.format("spoolrack").mode("append")
        writer.option("endpoint", endpoint).option("queue", queue).save()
        # Planned by a process of the driver's, read by an executor's.
        read = spark.read.format("spoolrack").option("endpoint", endpoint).option("queue", queue)
        assert read.load().count() == rows.count()
    print(json.dumps(sorted(set(rows.rdd.mapPartitions(where).collect()))))
    spark.stop()
