"""The backlog of a root, by queue and age, is read from its names by Spark's executors."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from benchmarks.made_root import MadeRoot
from examples.backlog import heaps, names, report

MINUTE = 60_000
NOW = 1_800_000_000_000


@pytest.fixture
def made(tmp_path: Path) -> MadeRoot:
    return MadeRoot(tmp_path / "root")


def test_the_report_is_the_age_of_each_queue_and_its_dead_letters(
    spark: SparkSession, made: MadeRoot
) -> None:
    made.ready("slow", NOW - 3 * MINUTE, 2)
    made.ready("slow", NOW - 30 * MINUTE, 5, receives=2)
    made.batch("slow", NOW - 2000 * MINUTE, 7)
    made.hidden("jobs", NOW - 7 * MINUTE, 3, due=NOW + MINUTE, leased=True)
    made.hidden("jobs", NOW - 7 * MINUTE, 1, due=NOW + MINUTE, leased=False)
    made.dead("dead.jobs", NOW - 100 * MINUTE, 4)
    made.ready("dead.jobs", NOW + 5 * MINUTE, 1)  # another machine's clock

    words = report(heaps(names(spark, str(made.path), 4), NOW), NOW)

    lines = [" ".join(line.split()) for line in words.splitlines()]
    assert "TOTAL 23 3 4 0 5 0 4 0 0 0 7" in lines
    assert "slow 14 2 0 0 5 0 0 0 0 0 7" in lines
    assert "jobs 4 0 4 0 0 0 0 0 0 0 0" in lines
    assert "jobs leased 3 0.0 7.0" in lines
    assert "jobs delayed 1 0.0 7.0" in lines
    assert "slow ready 14 0.0 2000.0" in lines
    dead = lines[lines.index("Dead letters") :]
    assert dead[2:] == ["TOTAL 4 0 0 0 0 0 4 0 0 0 0", "dead.jobs 4 0 0 0 0 0 4 0 0 0 0"]
