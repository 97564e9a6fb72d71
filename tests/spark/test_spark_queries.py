"""Queries over queues: rows for Spark, and refusals. Every row is counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyspark import TaskContext
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from spoolrack.spark import COUNTS, register, write_batches, write_partition
from spoolrack.spark._options import write_options
from spoolrack.spark._queue_reader import CheckpointTooOld
from spoolrack.spark._row_sender import OtherRows
from spoolrack.spark._sink import QueueStreamWriter, commit_rows, write_rows

from tests.support import STUCK
from tests.support.relayed_server import RelayedServer, relayed_server
from tests.support.waiting import until

BODIES = [str(number).encode() for number in range(2_000)]


@pytest.fixture
def server() -> Iterator[RelayedServer]:
    with relayed_server("in", "out") as server:
        yield server


def place(server: RelayedServer, queue: str) -> dict[str, Any]:
    return {"endpoint": server.endpoint, "queue": queue}


def stream(spark: SparkSession, server: RelayedServer, **options: Any) -> DataFrame:
    return spark.readStream.format("spoolrack").options(**place(server, "in"), **options).load()


def start(frame: DataFrame, server: RelayedServer, checkpoint: Path, **trigger: Any) -> StreamingQuery:
    writer = frame.writeStream.format("spoolrack").options(**place(server, "out"))
    if trigger:
        writer = writer.trigger(**trigger)
    return writer.option("checkpointLocation", str(checkpoint)).start()


def drain(frame: DataFrame, server: RelayedServer, checkpoint: Path) -> StreamingQuery:
    """Run a query until what is there now is done."""
    query = start(frame, server, checkpoint, availableNow=True)
    assert query.awaitTermination(STUCK)
    return query


def write(frame: DataFrame, server: RelayedServer, **options: Any) -> None:
    given = {**place(server, "out"), **options}
    frame.write.format("spoolrack").mode("append").options(**given).save()


def numbers(spark: SparkSession, count: int = 2_000, parts: int = 4) -> DataFrame:
    return spark.range(count, numPartitions=parts).selectExpr("cast(id as string) AS body")


def test_a_session_can_be_told_of_the_source(spark: SparkSession, server: RelayedServer) -> None:
    register(spark)
    assert spark.read.format("spoolrack").options(**place(server, "in")).load().count() == 0


def test_a_batch_write_appears_whole_and_a_look_takes_nothing(
    spark: SparkSession, server: RelayedServer
) -> None:
    frame = numbers(spark).selectExpr(
        "body", "map('kind', 'number', 'half', cast(int(body) / 2 AS string)) AS attributes"
    )
    began = datetime.now(UTC)

    write(frame, server)

    seen = spark.read.format("spoolrack").options(**place(server, "out")).load()
    rows = seen.orderBy("id").collect()
    assert Counter(bytes(row.body) for row in rows) == Counter(BODIES)
    assert rows[0].attributes == {"kind": "number", "half": str(int(rows[0].body) / 2)}
    assert rows[0].receive_count == 0
    assert abs(rows[0].sent_at.astimezone(UTC) - began).total_seconds() < 3_600
    assert len({row.id for row in rows}) == len(BODIES)
    assert seen.count() == len(BODIES)
    assert not server.stages()


def test_a_query_moves_each_message_once_and_deletes_it(
    spark: SparkSession, server: RelayedServer, tmp_path: Path
) -> None:
    server.put("in", BODIES)
    query = start(
        stream(spark, server, maxMessagesPerTrigger=700, numPartitions=3).select("body"),
        server,
        tmp_path,
    )
    try:
        query.processAllAvailable()
        server.put("in", [b"late"])
        query.processAllAvailable()

        assert Counter(server.bodies("out")) == Counter([*BODIES, b"late"])
        assert server.left("in") == 0
        assert not list(server.client.reservations.list())
        assert not server.stages()
        progress = query.recentProgress
        assert [p.numInputRows for p in progress if p.numInputRows] == [700, 700, 600, 1]
        assert '"ready": 1300' in progress[0].sources[0].latestOffset
    finally:
        query.stop()


@pytest.mark.slow
def test_an_idle_query_that_may_wait_asks_seldom_and_stops_at_once(
    spark: SparkSession, server: RelayedServer, tmp_path: Path
) -> None:
    query = start(stream(spark, server, waitSeconds=1).select("body"), server, tmp_path)
    try:
        until(lambda: server.calls["Reserve"] >= 3)
        began = server.calls["Reserve"]
        query.awaitTermination(3)
        assert server.calls["Reserve"] - began <= 10
    finally:
        query.stop()
    assert not query.isActive


def test_two_queries_on_one_queue_share_its_messages(
    spark: SparkSession, server: RelayedServer, tmp_path: Path
) -> None:
    server.put("in", BODIES)
    frame = stream(spark, server, maxMessagesPerTrigger=400).select("body")
    queries = [start(frame, server, tmp_path / name) for name in ("a", "b")]
    try:
        for query in queries:
            query.processAllAvailable()
        assert Counter(server.bodies("out")) == Counter(BODIES)
        assert server.left("in") == 0
    finally:
        for query in queries:
            query.stop()


def _fails_once(folder: str) -> Any:
    def shuffle(batches: Iterator[Any]) -> Iterator[Any]:
        """Rows in another order at each attempt; the first attempts fail after they have written."""
        import pyarrow as pa
        import pyarrow.compute as pc

        context = TaskContext.get()
        rows = pa.Table.from_batches(list(batches), schema=pa.schema([("body", pa.binary())]))
        order = pc.random(rows.num_rows, initializer=1000 * context.stageId() + context.attemptNumber())
        yield from rows.take(pc.array_sort_indices(order)).to_batches(max_chunksize=100)
        mark = Path(folder) / f"{context.partitionId()}"
        if not mark.exists():
            mark.touch()
            raise RuntimeError("this attempt dies after it gave all its rows")

    return shuffle


@pytest.mark.slow
def test_a_retry_with_another_order_loses_and_doubles_nothing(
    spark: SparkSession, server: RelayedServer, tmp_path: Path
) -> None:
    """The whole batch is done again, from the same checkpoint: a local Spark doesn't repeat tasks."""
    server.put("in", BODIES)
    (tmp_path / "marks").mkdir()
    frame = (
        stream(spark, server, numPartitions=2)
        .select("body")
        .mapInArrow(_fails_once(str(tmp_path / "marks")), "body binary")
    )
    failures = 0
    for _ in range(5):
        try:
            drain(frame, server, tmp_path / "checkpoint")
            break
        except StreamingQueryException:
            failures += 1

    assert failures
    assert Counter(server.bodies("out")) == Counter(BODIES)
    assert server.left("in") == 0


def test_a_write_that_is_done_again_under_its_name_writes_nothing(
    spark: SparkSession, server: RelayedServer
) -> None:
    write(numbers(spark), server, txnId="load-2026-11-21")
    write(numbers(spark, parts=3).orderBy("body"), server, txnId="load-2026-11-21")
    assert Counter(server.bodies("out")) == Counter(BODIES)
    assert not server.stages()

    write(numbers(spark), server)
    assert len(server.bodies("out")) == 2 * len(BODIES)


def test_a_write_without_rows_under_the_name_of_one_with_rows_fails_and_the_reverse(
    spark: SparkSession, server: RelayedServer
) -> None:
    nothing = numbers(spark).where("false")
    write(numbers(spark), server, txnId="load-1")
    write(nothing, server, txnId="load-2")
    for frame, name in ((nothing, "load-1"), (numbers(spark), "load-2")):
        with pytest.raises(Exception, match="was published before, with other rows"):
            write(frame, server, txnId=name)
    write(nothing, server, txnId="load-2")
    assert Counter(server.bodies("out")) == Counter(BODIES)

    published = server.calls["Publish"]
    write(nothing, server)
    assert server.calls["Publish"] == published, "without a name nothing is repeated"


def test_a_batch_is_published_once_and_none_behind_a_later_one(server: RelayedServer) -> None:
    def batch(number: int, body: bytes, tasks: int = 1, **more: str) -> None:
        options = write_options({**place(server, "out"), "retrySeconds": "10", **more})
        rows = pyarrow.RecordBatch.from_pydict({"body": [body]})
        written = [write_rows(options, iter([rows]), "query") for _ in range(tasks)]
        commit_rows(options, [*written, None], number)

    batch(3, b"first")
    batch(3, b"first")
    assert not server.stages()
    with pytest.raises(CheckpointTooOld, match="Nothing of this batch was written"):
        batch(2, b"from an old checkpoint")
    with pytest.raises(CheckpointTooOld, match="Nothing of this batch was written"):
        batch(2, b"with any rows", onDifferentRows="skip")
    with pytest.raises(CheckpointTooOld, match=r"in the stages [^,]+, [^,]+, [^,]+ and 1 more: "):
        batch(2, b"of four tasks", tasks=4)
    with pytest.raises(CheckpointTooOld, match=r"in the stages [^,]+, [^,]+, [^, ]+: .* go on with"):
        batch(2, b"of three tasks", tasks=3)
    batch(4, b"second")

    assert server.bodies("out") == [b"first", b"second"]
    assert len(server.stages()) == 9


def test_a_batch_that_was_published_with_other_rows_fails_and_stays_staged(
    server: RelayedServer,
) -> None:
    def batch(queue: str, body: bytes, **more: str) -> None:
        options = write_options({**place(server, queue), "retrySeconds": "10", **more})
        rows = pyarrow.RecordBatch.from_pydict({"body": [body]})
        written = [write_rows(options, iter([rows]), "query")]
        try:
            commit_rows(options, written, 0)
        except OtherRows:
            # As Spark does.
            QueueStreamWriter(options).abort(written, 0)
            raise

    batch("out", b"first")
    for queue, body in (("out", b"other"), ("in", b"first")):
        before = set(server.stages())
        with pytest.raises(OtherRows, match="with other rows") as refused:
            batch(queue, body)
        (staged,) = set(server.stages()) - before
        assert staged in str(refused.value)
    assert len(server.stages()) == 2
    batch("out", b"other", onDifferentRows="skip")

    assert (server.bodies("out"), server.bodies("in")) == ([b"first"], [])
    assert len(server.stages()) == 2


def test_attempts_of_a_task_have_stages_of_their_own(server: RelayedServer) -> None:
    """The loser may have staged everything before the winner did, and neither is stopped."""
    options = write_options({**place(server, "out"), "retrySeconds": "10"})

    def attempt(*bodies: bytes) -> Any:
        rows = [pyarrow.RecordBatch.from_pydict({"body": [body]}) for body in bodies]
        return write_rows(options, iter(rows), "query")

    attempt(b"a", b"b")
    winner = attempt(b"c", b"d")
    attempt(b"a", b"b")
    commit_rows(options, [winner], 0)

    # Chunks that are staged at once may change places.
    assert sorted(server.bodies("out")) == [b"c", b"d"]


def test_a_write_that_fails_shows_nothing(spark: SparkSession, server: RelayedServer) -> None:
    frame = numbers(spark).selectExpr("if(body = '1999', raise_error('broken'), body) AS body")

    with pytest.raises(Exception, match="broken"):
        write(frame, server)

    assert server.bodies("out") == []
    assert server.calls["Publish"] == 0


def test_direct_rows_are_sent_once_by_their_ids(spark: SparkSession, server: RelayedServer) -> None:
    frame = numbers(spark).selectExpr("body", "body AS deduplication_id")
    write(frame, server, mode="direct")
    write(frame.repartition(7), server, mode="direct")

    assert Counter(server.bodies("out")) == Counter(BODIES)


def test_partitions_are_written_by_hand(spark: SparkSession, server: RelayedServer) -> None:
    numbers(spark).foreachPartition(write_partition(server.endpoint, "out"))
    assert Counter(server.bodies("out")) == Counter(BODIES)

    frame = numbers(spark).selectExpr("body", "body AS deduplication_id")
    writer = write_batches(server.endpoint, "in")
    for sent, duplicates in ((len(BODIES), 0), (0, len(BODIES))):
        counts = frame.mapInArrow(writer, COUNTS).groupBy().sum().first()
        assert tuple(counts) == (sent, duplicates)
    assert Counter(server.bodies("in")) == Counter(BODIES)


@pytest.mark.parametrize(
    ("columns", "options", "mode", "says"),
    [
        (["body", "1 AS x"], {}, "append", "columns x can't be written"),
        (["1 AS body"], {}, "append", "body is int"),
        (["body", "'a' AS attributes"], {}, "append", "map<string, string>"),
        (["body", "body AS deduplication_id"], {}, "append", "'direct'"),
        (["body"], {"mode": "direct"}, "append", "deduplication_id"),
        (["body"], {}, "overwrite", "can't be overwritten"),
        (["body"], {"queue": "a/b"}, "append", "queue's name"),
        (["body"], {"credentials": "x"}, "append", "parts NAME=VALUE"),
    ],
)
def test_a_frame_that_can_not_be_written_is_refused_before_any_row(
    spark: SparkSession,
    server: RelayedServer,
    columns: list[str],
    options: dict[str, str],
    mode: str,
    says: str,
) -> None:
    writer = numbers(spark).selectExpr(*columns).write.format("spoolrack").mode(mode)

    with pytest.raises(AnalysisException, match=says):
        writer.options(**{**place(server, "out"), **options}).save()

    assert server.calls["Stage"] == server.calls["Send"] == 0
