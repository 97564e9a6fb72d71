"""A batch read and a stream have the columns that are asked for, and a batch read is repeatable."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import spoolrack
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructField, StructType
from spoolrack.spark import SpoolrackDataSource
from spoolrack.spark._options import InvalidOption
from spoolrack.spark._rows import InvalidColumn
from spoolrack.testing import RunningServer, running_server


@pytest.fixture
def server() -> Iterator[RunningServer]:
    with running_server() as server:
        yield server


def test_a_batch_read_has_the_columns_and_messages_that_are_asked_for_each_time(
    spark: SparkSession, server: RunningServer
) -> None:
    with server.client() as client:
        client.create_queue("jobs", visibility_timeout=3_600)  # longer than Spark takes
        jobs = client.queue("jobs")
        jobs.send_many([spoolrack.Outgoing(body=b"%d" % n, group=f"g{n % 2}") for n in range(20)])
        (leased,) = jobs.receive(1)
        source = spark.read.format("spoolrack").options(endpoint=server.url, queue="jobs")
        table = source.option("columns", "id, group, state, lease_expires_at, body_size").load()

        first, again = ({row.id: row for row in table.collect()} for _ in range(2))

        assert table.columns == ["id", "group", "state", "lease_expires_at", "body_size"]
        assert first == again
        assert {row.group for row in first.values()} == {"g0", "g1"}
        assert [id for id, row in first.items() if row.state == "leased"] == [leased.id]
        assert first[leased.id].lease_expires_at is not None
        assert source.option("columns", "id").option("states", "ready").load().count() == 19
        assert jobs.info().counts.ready_count == 19


def test_a_stream_has_the_columns_that_are_asked_for_and_writes_what_a_message_has(
    spark: SparkSession, server: RunningServer, tmp_path: Path
) -> None:
    with server.client() as client:
        for name in ("jobs", "out"):
            client.create_queue(name)
        client.queue("jobs").send(
            b"x", group="g", priority=3, attributes={"text": "a", "bytes": b"\xff"}
        )
        at = {"endpoint": server.url}
        messages = spark.readStream.format("spoolrack").options(**at, queue="jobs")
        messages = messages.option("columns", "body, attributes, binary_attributes, group, priority")
        query = (
            messages.load()
            .writeStream.format("spoolrack")
            .options(**at, queue="out")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)

        (message,) = client.queue("out").receive(1)
        assert (message.body, message.group, message.priority) == (b"x", "g", 3)
        assert message.attributes == {"text": "a", "bytes": b"\xff"}


def test_a_filter_of_a_batch_read_is_refused_in_a_stream_and_so_is_a_column_of_another_type() -> None:
    source = SpoolrackDataSource({"endpoint": "queues:50051", "queue": "jobs", "states": "ready"})

    with pytest.raises(InvalidOption, match="for a batch read"):
        source.streamReader(StructType([StructField("body", StringType())]))
    with pytest.raises(InvalidColumn, match=r"have the columns sent_at .*`sent_at` timestamp"):
        source.reader(StructType([StructField("sent_at", StringType())]))


def test_the_rows_of_a_stream_never_replace_those_of_a_queue() -> None:
    sink = SpoolrackDataSource({"endpoint": "queues:50051", "queue": "jobs"})
    with pytest.raises(InvalidOption, match="can't be overwritten with each batch"):
        sink.streamWriter(StructType([StructField("body", StringType())]), overwrite=True)
