"""A batch of `spoolrack.spark.writer` appears once, however often Spark repeats it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from spoolrack.spark import writer
from spoolrack.spark._options import InvalidOption
from spoolrack.spark._partition import Writer
from spoolrack.spark._row_sender import OtherRows
from spoolrack.testing import RunningServer, running_server

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 40
PARTS = 4


@pytest.fixture
def server() -> Iterator[RunningServer]:
    with running_server() as server:
        with server.client() as client:
            client.create_queue("jobs")
        yield server


@pytest.fixture
def orders(server: RunningServer) -> Writer:
    return writer(server.url, "jobs", query="orders")


def rows(spark: SparkSession, *, first: int = 0) -> DataFrame:
    return spark.range(first, first + ROWS, numPartitions=PARTS).selectExpr(
        "cast(id AS string) AS body"
    )


def bodies(server: RunningServer, queue: str = "jobs") -> list[int]:
    with server.client() as client:
        found = client.queue(queue).receive(1_000)
    return sorted(int(message.text) for message in found)


def stages(server: RunningServer) -> int:
    with server.client() as client:
        return len(list(client.staging.list()))


def test_a_repeated_batch_appears_once(
    spark: SparkSession, server: RunningServer, orders: Writer
) -> None:
    for epoch in (0, 0, 1, 1):
        orders(rows(spark, first=epoch * ROWS), epoch)
    assert bodies(server) == list(range(2 * ROWS))
    assert not stages(server)


def test_a_repeated_batch_with_other_rows_is_refused(
    spark: SparkSession, server: RunningServer, orders: Writer
) -> None:
    orders(rows(spark), 0)
    with pytest.raises(OtherRows):
        orders(rows(spark, first=1), 0)


def test_a_repeated_partition_appears_once(
    spark: SparkSession, server: RunningServer, orders: Writer
) -> None:
    for _ in range(2):
        rows(spark).foreachPartition(orders.partition(7))
    assert bodies(server) == list(range(ROWS))
    assert not stages(server)


def test_a_partition_that_has_no_rows_now_is_another_one(
    spark: SparkSession, server: RunningServer, orders: Writer
) -> None:
    rows(spark).foreachPartition(orders.partition(7))
    with pytest.raises(Exception, match="was published before, with other rows"):
        rows(spark).where("cast(body AS int) >= 10").foreachPartition(orders.partition(7))
    assert bodies(server) == list(range(ROWS))


def test_a_query_s_batches_and_the_partitions_of_another_share_no_name(
    spark: SparkSession, server: RunningServer, orders: Writer
) -> None:
    rows(spark).foreachPartition(orders.partition(0))
    for number in range(PARTS):
        other = writer(server.url, "jobs", query=f"orders-{number}")
        other(rows(spark, first=(number + 1) * ROWS), 0)
    assert bodies(server) == list(range((PARTS + 1) * ROWS))


def test_queries_of_one_name_write_to_several_queues(
    spark: SparkSession, server: RunningServer, orders: Writer
) -> None:
    with server.client() as client:
        client.create_queue("rejects")
    rejects = writer(server.url, "rejects", query="orders")
    for number, one in ((1, orders), (0, rejects), (0, rejects)):
        one(rows(spark), number)
        rows(spark).foreachPartition(one.partition(number))
    assert bodies(server) == bodies(server, "rejects") == sorted([*range(ROWS)] * 2)


def test_of_a_batch_that_fails_in_its_midst_nothing_appears(
    spark: SparkSession, server: RunningServer, orders: Writer
) -> None:
    failing = rows(spark).selectExpr("if(body = '39', raise_error('bad'), body) AS body")
    with pytest.raises(Exception, match="bad"):
        orders(failing, 0)
    orders(rows(spark), 0)
    assert bodies(server) == list(range(ROWS))


def test_a_streaming_query_writes_by_foreach_batch(
    spark: SparkSession, server: RunningServer, orders: Writer, tmp_path: Path
) -> None:
    source = tmp_path / "in"
    rows(spark).write.text(str(source))
    lines = spark.readStream.schema("body string").text(str(source))
    query = (
        lines.writeStream.foreachBatch(orders)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert bodies(server) == list(range(ROWS))


@pytest.mark.parametrize("query", ["", "a b", "x" * 71, "a/b"])
def test_an_impossible_name_of_a_query_is_refused(query: str) -> None:
    with pytest.raises(InvalidOption, match="query"):
        writer("localhost:1", "jobs", query=query)
