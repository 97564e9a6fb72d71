"""The comparisons with other systems: each cell has a verdict, and each verdict its source.

No test reads the sources. These tests check that a link is there, and that it leads to a page of the
makers of that system; test_site.py checks where links into the project lead.
"""

from __future__ import annotations

import re
from typing import Final

import pytest

from tests import CHECKOUT

PAGES: Final = ("docs/explanation/comparison.md", "docs/explanation/spark-comparison.md")
VERDICT: Final = re.compile(r"\*\*(has|partly|hasn't)\*\*: |no source found")
UNKNOWN: Final = "no source found"

MAKERS: Final = {
    "SQS": ("docs.aws.amazon.com/",),
    "Pub/Sub": (
        "docs.cloud.google.com/",
        "cloud.google.com/",
        "github.com/googleapis/",
        "docs.databricks.com/",
    ),
    "beanstalkd": ("github.com/beanstalkd/",),
    "RabbitMQ": ("www.rabbitmq.com/", "github.com/rabbitmq/"),
    "NATS": ("docs.nats.io/", "github.com/nats-io/", "nats-io.github.io/"),
    "Redis": ("redis.io/",),
    "pgmq": ("github.com/pgmq/", "www.postgresql.org/"),
    "Kafka": ("spark.apache.org/", "github.com/apache/spark/"),
    "Pulsar": ("github.com/streamnative/",),
}


def definitions(page: str) -> dict[str, str]:
    return dict(re.findall(r"^\[([\w-]+)\]: (\S+)$", page, re.MULTILINE))


def tables(page: str) -> list[list[list[str]]]:
    """Return the tables whose head begins with an empty cell, as rows of cells, without their heads."""
    found: list[list[list[str]]] = []
    for block in re.split(r"\n\n", page):
        lines = [line for line in block.strip().splitlines() if line.startswith("|")]
        if lines and lines[0].startswith("| | "):
            rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
            assert len({len(row) for row in rows[:1] + rows[2:]}) == 1, lines[0]
            found.append([[cell.strip(" |") for cell in row] for row in rows[2:]])
    return found


@pytest.mark.parametrize("name", PAGES)
def test_every_cell_has_a_verdict(name: str) -> None:
    found = tables((CHECKOUT / name).read_text())
    assert found
    without = [
        (row[0], cell)
        for table in found
        for row in table
        for cell in row[1:]
        if not VERDICT.match(cell)
    ]
    assert not without


@pytest.mark.parametrize("name", PAGES)
def test_every_table_has_every_system(name: str) -> None:
    found = tables((CHECKOUT / name).read_text())
    assert len({tuple(row[0] for row in table) for table in found}) == 1
    assert found[0][0][0] == "Spoolrack"


@pytest.mark.parametrize("name", PAGES)
def test_every_claim_about_another_system_links_to_its_makers(name: str) -> None:
    page = (CHECKOUT / name).read_text()
    known = definitions(page)
    wrong = []
    for table in tables(page):
        for system, *cells in table:
            for cell in cells if system != "Spoolrack" else []:
                links = re.findall(r"\]\[([\w-]+)\]", cell)
                sources = [known[link].removeprefix("https://") for link in links]
                if (not sources and cell != UNKNOWN and not cell.startswith(UNKNOWN)) or not all(
                    source.startswith(MAKERS[system]) for source in sources
                ):
                    wrong.append((system, cell))
    assert not wrong


@pytest.mark.parametrize("name", PAGES)
def test_every_claim_about_spoolrack_has_a_link(name: str) -> None:
    page = (CHECKOUT / name).read_text()
    cells = [
        cell for table in tables(page) for row in table for cell in row[1:] if row[0] == "Spoolrack"
    ]
    assert not [cell for cell in cells if "](" not in cell]


@pytest.mark.parametrize("name", PAGES)
def test_every_source_is_used(name: str) -> None:
    page = (CHECKOUT / name).read_text()
    assert set(definitions(page)) == set(re.findall(r"\]\[([\w-]+)\]", page))
