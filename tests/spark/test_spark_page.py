"""docs/how-to/spark.md tells the truth: its examples run one after the other, as a reader runs them."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from pathlib import Path

import pytest
import spoolrack
from pyspark.sql import SparkSession
from spoolrack.spark import _root_reader
from spoolrack.spark._options import NAMES
from spoolrack.testing import running_server

from tests import CHECKOUT

PAGE = (CHECKOUT / "docs" / "how-to" / "spark.md").read_text()
MANY_LOOKS = 20_000
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def send(client: spoolrack.Client, bodies: list[bytes]) -> None:
    """Send orders, and return once they are ready: a query that was stopped just now may still have
    waited for them, and then gives them back."""
    client.queue("orders").send_many(bodies)
    for _ in range(MANY_LOOKS):
        if client.queue("orders").info().counts.ready_count >= len(bodies):
            return
    raise AssertionError(f"never all ready: {client.queue('orders').info().counts}")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_examples_of_the_page_run(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: dict[str, object] = {}
    with spoolrack.connect(f"file://{tmp_path}/queues") as client:
        client.create_queue("orders")
        client.queue("orders").send(b"{}")
    with running_server() as server, server.client() as client:
        for queue in ("orders", "rejects", "invoices"):
            client.create_queue(queue)
        for number, example in enumerate(EXAMPLES):
            code = example.replace("127.0.0.1:50051", server.url.removeprefix("grpc://"))
            code = code.replace("/srv/", f"{tmp_path}/")
            if "availableNow" in code:
                send(client, [b'{"id": 1, "price": ', b"\xff", b'{"id": 7, "price": 2.5}'])
            exec(compile(code, f"example {number} of docs/how-to/spark.md", "exec"), seen)
            if "lastProgress" in code:
                # All were read; the last batch is deleted with the next request, or was so just now.
                assert seen["behind"]["ready"] == 0  # type: ignore[index]
            if "COUNTS" in code:
                printed = capsys.readouterr().out.splitlines()
                sums = [line.split("|") for line in printed if "|" in line][-1]

        invoices = [json.loads(message.body) for message in client.queue("invoices").peek()]
        rejects = sorted(message.body for message in client.queue("rejects").peek())

    assert len(invoices) == sum(id * 1.5 > 1_000 for id in range(1_000))
    assert rejects == [b'{"id": 1, "price": ', b"\xff"]
    (good,) = spark.read.parquet(f"{tmp_path}/orders").collect()
    assert (good.id, good.customer, good.price) == (7, None, 2.5)
    assert [int(one) for one in sums if one.strip()] == [0, 1_000]


def test_the_statements_of_the_page_run(spark: SparkSession) -> None:
    blocks = re.findall(r"^```sql\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    statements = [one for block in blocks for one in block.split(";\n") if one.strip()]
    with running_server() as server, server.client() as client:
        orders = client.create_queue("orders")
        orders.send(b"first")
        seen = [
            [row.asDict() for row in spark.sql(one.replace("127.0.0.1:50051", server.url)).collect()]
            for one in statements
        ]
        spark.sql("DROP TABLE orders_table")
        spark.catalog.dropTempView("orders_now")
        messages = Counter((message.body, message.group) for message in orders.peek())

    looked, listed = (rows for rows in seen if rows)
    assert [row["body"] for row in looked] == ["first"]
    assert Counter(row["body"] for row in listed) == Counter(["first", '{"id": 7}'])
    assert messages == {(b"first", ""): 1, (b'{"id": 7}', "customer-3"): 1, (b'{"id": 8}', ""): 1}


def test_the_page_lists_all_options() -> None:
    (section,) = re.findall(r"^## Options\n(.*?)^## ", PAGE, re.MULTILINE | re.DOTALL)
    rows = "".join(re.findall(r"^\| (`.*?) \|", section, re.MULTILINE))
    listed = set(re.findall(r"`(\w+)`", rows))
    assert listed == set(NAMES)


def test_the_page_lists_all_options_of_a_root_and_its_columns() -> None:
    (section,) = re.findall(r"^## A root without.*?\n(.*?)^## ", PAGE, re.MULTILINE | re.DOTALL)
    listed = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", section, re.MULTILINE))))
    assert listed == {*_root_reader.NAMES, *_root_reader.COLUMNS} - {"path"}


@pytest.mark.parametrize("named", sorted(set(re.findall(r"tests/[\w/]+\.py(?:::\w+)?", PAGE))))
def test_a_test_that_the_page_names_exists(named: str) -> None:
    path, _, test = named.partition("::")
    tests = {
        node.name
        for node in ast.parse((CHECKOUT / path).read_text()).body
        if isinstance(node, ast.FunctionDef)
    }
    assert not test or test in tests
