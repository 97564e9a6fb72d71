"""The job of test_spark_versions.py for an old Spark: batches go into queues, each of them twice.

old_job.py HOST:PORT FOLDER
"""

from __future__ import annotations

import sys
from typing import Any

import pyspark
from pyspark.sql import SparkSession
from spoolrack.spark import writer
from spoolrack.spark._row_sender import OtherRows

ROWS = 40


def rows(spark: Any, first: int = 0) -> Any:
    numbers = spark.range(first, first + ROWS, numPartitions=4)
    return numbers.selectExpr("cast(id AS string) AS body", "map('n', id % 7 || '') AS attributes")


if __name__ == "__main__":
    endpoint, folder = sys.argv[1:]
    assert not hasattr(pyspark.sql, "datasource") or pyspark.__version__ < "4.2", pyspark.__version__
    spark = SparkSession.builder.master("local[2]").getOrCreate()
    batches = writer(endpoint, "batches", query="batches")
    for epoch in (0, 0, 1, 1):
        batches(rows(spark, epoch * ROWS), epoch)
    try:
        batches(rows(spark, 1), 1)
        raise AssertionError("other rows were taken for the same")
    except OtherRows:
        pass
    partitions = writer(endpoint, "partitions", query="partitions")
    for _ in range(2):
        rows(spark).foreachPartition(partitions.partition(7))
    rows(spark).select("body").write.text(f"{folder}/in")
    for number in range(2):
        query = (
            spark.readStream.schema("body string")
            .text(f"{folder}/in")
            .writeStream.foreachBatch(writer(endpoint, "stream", query="stream"))
            # A new checkpoint with the old name: as if Spark repeated the batch.
            .option("checkpointLocation", f"{folder}/checkpoint-{number}")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    print(pyspark.__version__)
    spark.stop()
