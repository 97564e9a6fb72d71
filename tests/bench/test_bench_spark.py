"""The page's rates of Spark are the measured ones, round by round."""

from __future__ import annotations

from benchmarks.marked_parts import put_between
from benchmarks.spark_page import BEGIN, END, SparkResults, SparkRound, text_of
from tests import CHECKOUT

PAGE = CHECKOUT / "docs" / "how-to" / "spark.md"


def found_by_a_run() -> SparkResults:
    found = SparkResults(began="today", cores=4, middle=1_000, body=256, disk="a disk")
    seconds = {
        ("sink", "server"): 1.0,
        ("sends", "server"): 2.0,
        ("store_sends", "store"): 0.25,
        ("source", "server"): 4.0,
        ("arrow_writer", "server"): 1.0,
        ("one_by_one", "server"): 50.0,
    }
    for (what, over), each in seconds.items():
        found.rounds += [
            # A machine that is twice as fast in the second round changes no ratio.
            SparkRound(
                what=what, over=over, cores=1, rows=1_000, round=round, seconds=each / (1 + round)
            )
            for round in range(2)
        ]
    found.rounds.append(
        SparkRound(what="batch_read", over="server", cores=1, rows=1, round=0, seconds=0.25)
    )
    return found


def test_the_tables_hold_rates_and_the_ratios_of_each_round() -> None:
    text = text_of(found_by_a_run())

    assert "| 1 | 1,500 | 2.00 | 0.25 | 375 | ? | ? |" in text
    assert "| 1,000 | 1,500 | 375 |" in text
    assert "| `write_batches` | 1,500 | 50.00 |" in text
    assert "| from a queue into nothing | 250 |" in text
    assert text.startswith(BEGIN)
    assert text.endswith(f"{END}\n")


def test_the_page_has_a_place_for_them() -> None:
    page = PAGE.read_text()

    assert page.count(BEGIN) == page.count(END) == 1
    assert "A source is measured" in put_between(BEGIN, END, text_of(found_by_a_run()), page)
