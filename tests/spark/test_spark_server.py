"""Queries over a real server and its folders: every row is counted, also when the server dies."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery
from spoolrack import Client
from spoolrack.testing import RunningServer, running_server

from tests.support import STUCK

ROWS = 6_000
BODIES = Counter(str(number).encode() for number in range(ROWS))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    with running_server(tmp_path / "root") as server:
        yield server


@pytest.fixture
def client(server: RunningServer) -> Iterator[Client]:
    with server.client(timeout=120) as client:
        client.create_queue("in")
        client.create_queue("out")
        yield client


def write(spark: SparkSession, server: RunningServer, queue: str, **options: Any) -> None:
    rows = spark.range(ROWS, numPartitions=3).selectExpr("cast(id as string) AS body")
    writer = rows.write.format("spoolrack").mode("append")
    writer.options(endpoint=server.url, queue=queue, **options).save()


def bodies(spark: SparkSession, server: RunningServer, queue: str) -> Counter[bytes]:
    frame = spark.read.format("spoolrack").options(endpoint=server.url, queue=queue).load()
    return Counter(bytes(row.body) for row in frame.select("body").collect())


def drain(spark: SparkSession, server: RunningServer, checkpoint: Path) -> StreamingQuery:
    read = {"queue": "in", "maxMessagesPerTrigger": 2_500, "numPartitions": 2}
    return (
        spark.readStream.format("spoolrack")
        .options(endpoint=server.url, **read)
        .load()
        .select("body")
        .writeStream.format("spoolrack")
        .options(endpoint=server.url, queue="out", checkpointLocation=str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )


def test_a_server_that_is_restarted_in_mid_batch_is_waited_for(
    spark: SparkSession, server: RunningServer, client: Client, tmp_path: Path
) -> None:
    write(spark, server, "in")
    query = drain(spark, server, tmp_path / "checkpoint")
    for _ in range(3):
        threading.Event().wait(0.7)  # anywhere: the promise holds at each moment
        server.restart()

    assert query.awaitTermination(STUCK)
    assert bodies(spark, server, "out") == BODIES
    assert bodies(spark, server, "in") == Counter()


def test_a_query_of_a_pattern_reads_each_queue_once_through_a_restart(
    spark: SparkSession, server: RunningServer, client: Client, tmp_path: Path
) -> None:
    for queue in ("part-a", "part-b"):
        client.create_queue(queue)
        write(spark, server, queue)
    write(spark, server, "in")

    def drained() -> Counter[tuple[str, bytes]]:
        seen: Counter[tuple[str, bytes]] = Counter()

        def keep(frame: Any, batch: int) -> None:
            found = frame.select("queue", "body").collect()
            batches[batch] = Counter((row.queue, bytes(row.body)) for row in found)

        batches: dict[int, Counter[tuple[str, bytes]]] = {}
        query = (
            spark.readStream.format("spoolrack")
            .options(endpoint=server.url, queue="part-*", maxMessagesPerTrigger=5_000, numPartitions=2)
            .load()
            .writeStream.foreachBatch(keep)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        server.restart()
        assert query.awaitTermination(STUCK)
        for found in batches.values():
            seen += found
        return seen

    each = {(queue, body): count for queue in ("part-a", "part-b") for body, count in BODIES.items()}
    assert drained() == each
    client.create_queue("part-c")
    client.queue("part-c").send("late")
    assert drained() == {("part-c", b"late"): 1}
    assert bodies(spark, server, "part-*") == Counter()
    assert bodies(spark, server, "in") == BODIES
