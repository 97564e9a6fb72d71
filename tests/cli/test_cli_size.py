"""`spoolrack size`: its figures are those that the documentation shows."""

from __future__ import annotations

import re
from typing import Final

import pytest
from spoolrack_server.cli.operators import size_command

from tests import CHECKOUT
from tests.cli.cli_rig import Spoolrack

PAGE: Final = (CHECKOUT / "docs" / "explanation" / "performance.md").read_text()


def measured(heading: str, cell: int) -> int:
    """Return a figure of Spoolrack under a heading of the page."""
    part = PAGE.partition(f"\n### {heading}")[2].partition("\n### ")[0]
    found = re.search(r"^\| Spoolrack \|(.*)\|$", part, re.MULTILINE)
    assert found is not None
    return int(found[1].split("|")[cell].replace(",", ""))


def syncs(operation: str) -> int:
    head = re.search(r"^\| operation \|(.*)$", PAGE, re.MULTILINE)
    row = re.search(rf"^\| {operation} \|(.*)$", PAGE, re.MULTILINE)
    assert head is not None
    assert row is not None
    cells = dict(zip(head[1].split("|"), row[1].split("|"), strict=True))
    return int(cells[" syncs "])


def test_it_estimates_with_the_figures_that_the_page_of_performance_has() -> None:
    assert measured("Whole life, one by one", 5) == size_command.SHARED_US
    assert measured("Whole life, one by one", 0) == size_command.SINGLES_PER_SECOND
    assert measured("Whole life, in tens", 5) == size_command.TENS_US
    assert measured("Whole life, in tens", 0) == size_command.TENS_PER_SECOND
    assert measured("Paced at 400/s", 5) == size_command.ALONE_US
    life = sum(syncs(f"{each} 1") for each in ("send", "receive", "delete"))
    assert life == size_command.SYNCS_OF_A_LIFE


@pytest.mark.parametrize(
    ("load", "estimates"),
    [
        (("--rate", "400"), ["0.7", "622.6 MiB", "150,000", "187.7 MiB", "2,800/s"]),
        (("--rate", "9000", "--batch", "10"), ["0.8", "179.4 MiB", "15,000", "128.0 MiB", "6,300/s"]),
    ],
)
def test_a_load_that_was_measured_needs_what_was_measured(
    offline: Spoolrack, load: tuple[str, ...], estimates: list[str]
) -> None:
    done = offline("size", *load)
    assert done.code == 0
    assert re.findall(r"^\w+ +([\d.,]+(?: [KMG]iB|/s)?)  ", done.out, re.MULTILINE) == estimates
    assert "may be wrong" in done.err


def test_a_rate_that_no_process_reached_is_said_to_be_one(offline: Spoolrack) -> None:
    assert "shards" in offline("size", "--rate", "3000").err
    assert "shards" not in offline("size", "--rate", "3000", "--batch", "10").err
