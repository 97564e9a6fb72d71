"""Tables, views and statements of Spark SQL over queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import DataFrame, SparkSession

from tests.support import STUCK
from tests.support.relayed_server import RelayedServer, relayed_server


@pytest.fixture
def server(spark: SparkSession) -> Iterator[RelayedServer]:
    with relayed_server("in", "out") as server:
        yield server
    for table in spark.catalog.listTables():
        spark.sql(f"DROP {'VIEW' if table.isTemporary else 'TABLE'} {table.name}")


def given(server: RelayedServer, queue: str) -> str:
    return f"(endpoint '{server.endpoint}', queue '{queue}')"


def texts(rows: DataFrame) -> Counter[str]:
    return Counter(row.body for row in rows.collect())


def test_a_table_with_options_is_told_that_it_has_none_and_what_works(
    spark: SparkSession, server: RelayedServer
) -> None:
    server.put("in", [b"a", b"b"])
    spark.sql(f"CREATE TABLE t USING spoolrack OPTIONS {given(server, 'in')}")
    with pytest.raises(AnalysisException) as refused:
        spark.sql("SELECT * FROM t").collect()
    assert "FROM t WITH (endpoint '...', queue '...')" in str(refused.value)
    assert ".option(...).table('t')" in str(refused.value)
    with pytest.raises(AnalysisException, match=r"INSERT INTO t WITH \(...\)"):
        spark.sql("INSERT INTO t(body) SELECT X'61'")

    # What it names.
    by_statement = spark.sql(f"SELECT CAST(body AS string) FROM t WITH {given(server, 'in')}")
    assert texts(by_statement) == Counter("ab")
    options = {"endpoint": server.endpoint, "queue": "in"}
    assert spark.read.options(**options).table("t").count() == 2
    spark.sql(f"INSERT INTO t WITH {given(server, 'out')} (body) SELECT X'61'")
    assert server.bodies("out") == [b"a"]


def test_what_is_saved_as_a_table_can_be_read_as_one(
    spark: SparkSession, server: RelayedServer
) -> None:
    options = {"endpoint": server.endpoint, "queue": "out"}
    rows = spark.range(3).selectExpr("cast(id AS string) AS body", "'k' AS `group`")
    rows.write.format("spoolrack").options(**options).saveAsTable("saved")
    rows.writeTo("saved").options(**options).append()

    assert texts(spark.read.options(**options).table("saved")) == Counter("012" * 2)
    assert spark.table("saved").columns == ["body", "group"]


def test_a_stream_of_a_table_has_its_columns_and_text_that_is_no_utf_8(
    spark: SparkSession, server: RelayedServer, tmp_path: object
) -> None:
    server.put("in", [b"a", b"\xff", b""])
    spark.sql("CREATE TABLE texts (body string, priority int) USING spoolrack")
    found = spark.readStream.options(endpoint=server.endpoint, queue="in").table("texts")
    writer = found.selectExpr("hex(body) AS body", "priority").writeStream.format("parquet")
    writer = writer.option("path", f"{tmp_path}/out").trigger(availableNow=True)
    assert writer.option("checkpointLocation", f"{tmp_path}/checkpoint").start().awaitTermination(STUCK)

    assert texts(spark.read.parquet(f"{tmp_path}/out")) == Counter(["61", "FF", ""])


def test_a_table_of_columns_that_a_queue_lacks_says_which_it_has(
    spark: SparkSession, server: RelayedServer
) -> None:
    spark.sql("CREATE TABLE wrong (body binary, priority string, delay_seconds int) USING spoolrack")
    with pytest.raises(AnalysisException, match="the columns priority, delay_seconds of the table"):
        spark.sql(f"SELECT * FROM wrong WITH {given(server, 'in')}").collect()


def test_an_insert_leaves_out_what_is_only_read_and_may_not_set_it(
    spark: SparkSession, server: RelayedServer
) -> None:
    spark.sql(f"CREATE TEMPORARY VIEW v USING spoolrack OPTIONS {given(server, 'in')}")
    spark.sql("INSERT INTO v(body) SELECT X'61'")
    spark.sql("INSERT INTO v SELECT NULL, X'62', map('k', 'v'), NULL, NULL, NULL, NULL")
    with pytest.raises(PythonException, match="The column id is only read: it must be null"):
        spark.sql("INSERT INTO v(id, body) SELECT if(id = 0, NULL, 'mine'), X'63' FROM range(2)")
    with pytest.raises(AnalysisException, match="The columns id can't be written"):
        spark.sql("INSERT INTO v(id, body) SELECT 'mine', X'63'")

    assert {row.body: row.attributes for row in spark.table("v").collect()} == {
        b"a": {},
        b"b": {"k": "v"},
    }
