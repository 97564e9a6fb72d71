"""Queries over three shards: each message is read once and written once, also over a restart."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from pyspark.sql import SparkSession
from spoolrack._shards import shard_of
from spoolrack.testing import running_shards

from tests.support import STUCK

QUEUES = [f"in-{number}" for number in range(8)]


def test_a_query_of_all_shards_moves_each_message_once(spark: SparkSession, tmp_path: Path) -> None:
    assert {shard_of(queue, 3) for queue in QUEUES} == {0, 1, 2}
    with running_shards(3) as shards, shards.client() as client:
        for queue in (*QUEUES, "out"):
            client.create_queue(queue)

        def place(queue: str) -> dict[str, str]:
            return {"endpoint": shards.url, "queue": queue}

        for begin in (0, 50):
            for queue in QUEUES:
                client.queue(queue).send_many(
                    [f"{queue} {number}" for number in range(begin, begin + 50)]
                )
            messages = spark.readStream.format("spoolrack").options(**place("in-*")).load()
            query = (
                messages.select("body")
                .writeStream.format("spoolrack")
                .options(**place("out"))
                .option("checkpointLocation", str(tmp_path / "checkpoint"))
                .trigger(availableNow=True)
                .start()
            )
            assert query.awaitTermination(STUCK)

        look = spark.read.format("spoolrack").options(**place("*"), columns="queue, body").load()
        found = Counter((row.queue, bytes(row.body).decode()) for row in look.collect())
        moved = {body: count for (queue, body), count in found.items() if queue == "out"}
        assert moved == {f"{queue} {number}": 1 for queue in QUEUES for number in range(100)}
