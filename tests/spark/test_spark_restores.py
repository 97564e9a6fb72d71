"""Checkpoints that are restored, copied or begun anew, over a real server: no row is lost unsaid.

Each query runs until its input is done. A refusal is read from the query's failure, as a user reads
it.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its usual name)
from spoolrack import Client
from spoolrack.testing import RunningServer, running_server

from tests.support import STUCK
from tests.support.waiting import until

SLOW = pytest.mark.slow
ROWS = 300


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    with running_server(tmp_path / "root") as server:
        yield server


@pytest.fixture
def client(server: RunningServer) -> Iterator[Client]:
    with server.client(timeout=60) as client:
        client.create_queue("in")
        client.create_queue("out")
        yield client


def lines(name: str) -> Counter[bytes]:
    return Counter(f"{name}-{number}".encode() for number in range(ROWS))


def add_file(folder: Path, name: str) -> None:
    folder.mkdir(exist_ok=True)
    made = folder / f".{name}"
    made.write_bytes(b"".join(line + b"\n" for line in lines(name)))
    made.rename(folder / f"{name}.txt")


def send(client: Client, name: str) -> None:
    client.queue("in").send_many(list(lines(name)))


def bodies(client: Client, queue: str) -> Counter[bytes]:
    return Counter(message.body for message in client.queue(queue).peek())


def of_files(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.readStream.text(str(folder)).select(F.col("value").alias("body"))


def of_queue(spark: SparkSession, server: RunningServer, **options: Any) -> DataFrame:
    reader = spark.readStream.format("spoolrack").options(endpoint=server.url, queue="in", **options)
    return reader.load().select(F.col("body").cast("string"))


def drain(frame: DataFrame, checkpoint: Path, format: str, **options: Any) -> None:
    writer = frame.writeStream.format(format).options(**options)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(STUCK)


def into_queue(frame: DataFrame, server: RunningServer, checkpoint: Path, **options: Any) -> None:
    drain(frame, checkpoint, "spoolrack", endpoint=server.url, queue="out", **options)


def into_files(frame: DataFrame, folder: Path, checkpoint: Path) -> None:
    drain(frame, checkpoint, "parquet", path=str(folder))


def in_files(spark: SparkSession, folder: Path) -> Counter[bytes]:
    return Counter(row.body.encode() for row in spark.read.parquet(str(folder)).collect())


def test_a_sink_with_a_checkpoint_one_batch_old_fails_and_keeps_the_rows(
    spark: SparkSession, server: RunningServer, client: Client, tmp_path: Path
) -> None:
    files, now, old = tmp_path / "files", tmp_path / "now", tmp_path / "old"
    add_file(files, "a")
    into_queue(of_files(spark, files), server, now)
    shutil.copytree(now, old)
    add_file(files, "b")
    into_queue(of_files(spark, files), server, now)
    shutil.rmtree(now)
    old.rename(now)
    add_file(files, "c")

    with pytest.raises(StreamingQueryException, match="published before, with other rows") as refused:
        into_queue(of_files(spark, files), server, now)

    assert bodies(client, "out") == lines("a") + lines("b")
    staged = list(client.staging.list())
    assert sum(stage.message_counts["out"] for stage in staged) == 2 * ROWS
    assert any(stage.name in str(refused.value) for stage in staged)
    assert "new checkpointLocation" in str(refused.value)


def test_a_sink_takes_a_batch_that_is_repeated_with_the_same_rows_for_done(
    spark: SparkSession, server: RunningServer, client: Client, tmp_path: Path
) -> None:
    """Divided otherwise and in another order, as after a crash between the write and Spark's log."""
    files, now = tmp_path / "files", tmp_path / "now"
    add_file(files, "a")
    add_file(files, "b")
    into_queue(of_files(spark, files).repartition(3), server, now)
    for written in (now / "commits").iterdir():
        written.unlink()
    add_file(files, "c")
    into_queue(of_files(spark, files).coalesce(1), server, now)

    assert bodies(client, "out") == lines("a") + lines("b") + lines("c")
    assert not list(client.staging.list())


def test_a_batch_whose_rows_are_made_anew_is_done_when_it_is_to_be_skipped(
    spark: SparkSession, server: RunningServer, client: Client, tmp_path: Path
) -> None:
    files, now = tmp_path / "files", tmp_path / "now"
    add_file(files, "a")
    frame = of_files(spark, files).select(F.concat("body", F.lit(" "), F.expr("uuid()")).alias("body"))
    into_queue(frame, server, now)
    first = bodies(client, "out")
    for written in (now / "commits").iterdir():
        written.unlink()

    with pytest.raises(StreamingQueryException, match="onDifferentRows"):
        into_queue(frame, server, now)
    into_queue(frame, server, now, onDifferentRows="skip")

    assert bodies(client, "out") == first


def test_a_file_sink_that_skips_a_batch_deletes_nothing(
    spark: SparkSession, server: RunningServer, client: Client, tmp_path: Path
) -> None:
    """A new checkpoint begins with batch 0, which the folder has from the old one."""
    out = tmp_path / "out"
    send(client, "a")
    into_files(of_queue(spark, server), out, tmp_path / "old")
    send(client, "b")

    with pytest.raises(StreamingQueryException, match="and a new output path") as refused:
        into_files(of_queue(spark, server), out, tmp_path / "new")

    assert bodies(client, "in") == lines("b")
    assert in_files(spark, out) == lines("a")
    # The remedy in the failure's text.
    found = re.search(r"spoolrack reservations release (\S+) (\d+)'", str(refused.value))
    assert found is not None
    client.reservations.release(found[1], int(found[2]))
    into_files(of_queue(spark, server), tmp_path / "other", tmp_path / "newer")
    assert in_files(spark, tmp_path / "other") == lines("b")
    assert bodies(client, "in") == Counter()


def test_a_batch_that_was_read_before_a_crash_is_deleted_after_it(
    spark: SparkSession, server: RunningServer, client: Client, tmp_path: Path
) -> None:
    """The crash comes between the file sink's log and Spark's own: the repeated batch is skipped, and
    the server that saw it read is gone, too."""
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    send(client, "a")

    def dies(frame: DataFrame, batch: int) -> None:
        frame.write.parquet(str(out / f"batch={batch}"))
        raise RuntimeError("the driver dies here")

    def has_it_already(frame: DataFrame, batch: int) -> None:
        assert (out / f"batch={batch}").exists()

    for deliver in (dies, has_it_already):
        writer = of_queue(spark, server).writeStream.foreachBatch(deliver)
        writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        query = writer.start()
        if deliver is dies:
            with pytest.raises(StreamingQueryException, match="the driver dies here"):
                query.awaitTermination(STUCK)
            server.restart()
        else:
            assert query.awaitTermination(STUCK)

    assert in_files(spark, out) == lines("a")
    assert bodies(client, "in") == Counter()


def test_a_query_may_leave_batches_unread_on_purpose(
    spark: SparkSession, server: RunningServer, client: Client, tmp_path: Path
) -> None:
    send(client, "a")

    def drop(frame: DataFrame, batch: int) -> None:
        """Read nothing."""

    for unread in ("fail", "delete"):
        frame = of_queue(spark, server, onUnreadBatch=unread)
        writer = frame.writeStream.foreachBatch(drop).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        if unread == "fail":
            with pytest.raises(StreamingQueryException, match="onUnreadBatch"):
                query.awaitTermination(STUCK)
            assert bodies(client, "in") == lines("a")
        else:
            assert query.awaitTermination(STUCK)

    assert bodies(client, "in") == Counter()


@pytest.mark.parametrize(
    "shape",
    ["limit", *(pytest.param(name, marks=SLOW) for name in ("take", "empty", "constant", "join"))],
)
def test_a_batch_that_is_read_in_part_counts_as_read(
    spark: SparkSession, server: RunningServer, client: Client, tmp_path: Path, shape: str
) -> None:
    send(client, "a")
    frame = of_queue(spark, server, numPartitions=3)
    shapes = {
        "limit": frame.limit(5),
        "take": frame,
        "empty": frame.where(F.lit(False)),
        "constant": frame.select(F.lit("x").alias("body")),
        "join": frame.join(F.broadcast(spark.createDataFrame([], "body string")), "body"),
    }

    def take(found: DataFrame, batch: int) -> None:
        assert len(found.take(1)) == (shape in ("limit", "take", "constant"))

    writer = shapes[shape].writeStream.foreachBatch(take).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    assert query.awaitTermination(STUCK)

    assert bodies(client, "in") == Counter()


def test_messages_that_a_power_cut_takes_from_the_sink_come_again_within_the_delete_delay(
    spark: SparkSession, server: RunningServer, client: Client, tmp_path: Path
) -> None:
    """Spark syncs neither its checkpoint nor a file sink on a local disk: both are as before the last
    batches after the cut."""
    disk, left = tmp_path / "disk", tmp_path / "left"
    frame = of_queue(spark, server, deleteDelaySeconds=600)
    writer = frame.writeStream.format("parquet").option("path", str(disk / "out"))
    query = writer.option("checkpointLocation", str(disk / "checkpoint")).start()
    for name in "abc":
        send(client, name)
        query.processAllAvailable()
        if name == "a":
            shutil.copytree(disk, left)
    query.stop()
    shutil.rmtree(disk)
    left.rename(disk)
    assert in_files(spark, disk / "out") == lines("a")

    into_files(of_queue(spark, server), disk / "out", disk / "checkpoint")

    assert in_files(spark, disk / "out") == lines("a") + lines("b") + lines("c")
    assert bodies(client, "in") == Counter()


def test_what_trigger_once_has_finished_is_deleted_by_a_start_after_the_hold(
    spark: SparkSession, server: RunningServer, client: Client, tmp_path: Path
) -> None:
    """Such as a daily job, whose hold is over each time: no other reader has the messages meanwhile."""
    send(client, "a")
    client.queue("in").send(b"alone")
    for _ in range(2):
        frame = of_queue(spark, server, holdSeconds=1)
        writer = frame.writeStream.format("parquet").option("path", str(tmp_path / "out"))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(once=True)
        assert writer.start().awaitTermination(STUCK)
        until(lambda: all(one.state.name == "LOST" for one in client.reservations.list()))

    assert in_files(spark, tmp_path / "out") == lines("a") + Counter([b"alone"])
    assert bodies(client, "in") == Counter()
