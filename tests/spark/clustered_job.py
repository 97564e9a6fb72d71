"""The job of test_spark_clusters.py, on a cluster and over Spark Connect.

Rows go into a queue and are peeked at, or a stream moves them into another queue and a table.

clustered_job.py HOST:PORT CREDENTIALS FOLDER batch|stream [sc://HOST:PORT [ARTIFACT]]
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession

ROWS = 40


def where(batches: Iterator[Any]) -> Iterator[Any]:
    import pyarrow as pa
    import spoolrack

    for _ in batches:
        pass
    yield pa.RecordBatch.from_pydict({"folder": [os.getcwd()], "package": [spoolrack.__file__]})


def moved(spark: Any, options: dict[str, str], folder: str, copies: Any) -> None:
    """From a queue into another, and from there into two outputs as docs/how-to/spark.md has it."""
    source = spark.readStream.format("spoolrack").options(**options, queue="jobs")
    moving = (
        source.option("numPartitions", 4)
        .load()
        .select("body")
        .writeStream.format("spoolrack")
        .options(**options, queue="done")
    )
    moving = moving.option("checkpointLocation", f"{folder}/moving").trigger(availableNow=True).start()
    assert moving.awaitTermination(200)
    moving.explain(extended=True)

    def deliver(found: Any, batch: int) -> None:
        copies(found.select("body"), batch)
        path = f"{folder}/rows/query=copies-1/batch={batch}"
        found.select("body").write.mode("overwrite").parquet(path)

    source = spark.readStream.format("spoolrack").options(**options, queue="done").load()
    query = (
        source.writeStream.foreachBatch(deliver)
        .option("checkpointLocation", f"{folder}/copies-1")
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(200)
    written = sorted(int(row.body) for row in spark.read.parquet(f"{folder}/rows").collect())
    assert written == list(range(ROWS)), written


if __name__ == "__main__":
    endpoint, credentials, folder, way, *remote = sys.argv[1:]
    builder = SparkSession.builder
    spark = builder.remote(remote[0]).getOrCreate() if remote else builder.getOrCreate()
    if remote[1:]:
        spark.addArtifacts(remote[1], pyfile=True)
    from spoolrack.spark import register, writer

    register(spark)
    options = {"endpoint": endpoint, "credentials": credentials}
    rows = spark.range(ROWS, numPartitions=8).selectExpr("cast(id AS string) AS body")
    rows.write.format("spoolrack").options(**options, queue="jobs").mode("append").save()
    assert spark.read.format("spoolrack").options(**options, queue="jobs").load().count() == ROWS
    copies = writer(endpoint, "copies", query="copies-1", credentials=credentials)
    if way == "stream":
        moved(spark, options, folder, copies)
    else:
        copies(rows, 0)
        copies(rows, 0)
    places = (
        spark.range(8, numPartitions=8).mapInArrow(where, "folder string, package string").collect()
    )
    print(json.dumps(sorted({(place.folder, place.package) for place in places})))
    spark.stop()
