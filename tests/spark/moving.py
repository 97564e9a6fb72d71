"""A program of its own that moves a queue into another with Spark, until what is there is done.

    python moving.py '{"master": "local[2,4]", "endpoint": "...", "checkpoint": "...", ...}'

It ends with 0 when the query has ended by itself. Tests kill it, or parts of it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def in_any_order(folder: str) -> Any:
    """Gives the rows of each attempt in another order, and fails the first attempt of each task after
    it gave all of them."""

    def shuffled(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.compute as pc
        from pyspark import TaskContext

        context = TaskContext.get()
        rows = pa.Table.from_batches(list(batches), schema=pa.schema([("body", pa.binary())]))
        seed = 1 + context.attemptNumber() + 100 * context.partitionId()
        order = pc.array_sort_indices(pc.random(rows.num_rows, initializer=seed))
        yield from rows.take(order).to_batches(max_chunksize=100)
        mark = Path(folder) / f"failed-{context.partitionId()}"
        if not mark.exists():
            mark.touch()
            raise RuntimeError("this attempt dies after it gave all its rows")

    return shuffled


def slow_once(folder: str) -> Any:
    """Keeps the first attempt of one task until another attempt of it has come to its end."""

    def kept(batches: Iterator[Any]) -> Iterator[Any]:
        import threading

        from pyspark import TaskContext

        context = TaskContext.get()
        yield from batches
        if context.partitionId() == 0:
            done = Path(folder) / "overtaken"
            if context.attemptNumber() > 0:
                done.touch()
            for _ in range(1_200):
                if done.exists():
                    break
                threading.Event().wait(0.1)

    return kept


def main() -> None:
    from pyspark.sql import SparkSession

    given = json.loads(sys.argv[1])
    builder = SparkSession.builder.master(given["master"]).appName("moving")
    for name, value in given.get("conf", {}).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    place = {"endpoint": given["endpoint"], "retrySeconds": 60}
    frame = (
        spark.readStream.format("spoolrack")
        .options(**place, queue="in", **given.get("read", {}))
        .load()
        .select("body")
    )
    if given.get("through"):
        frame = frame.mapInArrow(globals()[given["through"]](given["marks"]), "body binary")
    query = (
        frame.writeStream.format("spoolrack")
        .options(**place, queue="out", checkpointLocation=given["checkpoint"])
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print("moved", os.getpid(), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
