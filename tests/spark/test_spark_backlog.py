"""What waits in a root, by queue and age, is read from its names by Spark's executors."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import spoolrack
from pyspark.sql import SparkSession

from benchmarks.made_root import MadeRoot
from examples.backlog import UNKNOWN, Slice, heaps, names, report

MINUTE = 60_000
NOW = 1_800_000_000_000


@pytest.fixture
def made(tmp_path: Path) -> MadeRoot:
    return MadeRoot(tmp_path / "root")


def test_every_message_is_a_row_with_its_queue_and_its_state(
    spark: SparkSession, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    with spoolrack.connect(f"file://{root}") as client:
        client.create_queue("letters")
        client.create_queue("jobs", max_receives=1, dead_letter_queue="letters")
        jobs = client.queue("jobs")
        poisonous = jobs.send(b"poisonous")
        for message in jobs.receive(1):
            message.release()
        jobs.receive(1)  # nothing: this is where it dies
        together = {sent.id for sent in jobs.send_many([b"one", b"two", b"three"])}
        leased = {message.id for message in jobs.receive(2)}
        late = jobs.send(b"later", delay=3600)
        jobs.delete_by_id(jobs.send(b"deleted"))
        own = client.queue("letters").send(b"written to the dead-letter queue itself")
        ready = together - leased
        with jobs.batch(publish=False) as batch:
            batch.send(b"not published")

        rows = names(spark, str(root), 3).collect()

    seen = {row.id: (row.queue, row.state, row.is_dead_letter, row.receives) for row in rows}
    assert len(rows) == len(seen)
    staged = {row.id for row in rows if row.state == "staged"}
    assert len(staged) == 1
    assert seen == {
        poisonous: ("letters", "ready", True, 0),
        own: ("letters", "ready", False, 0),
        late: ("jobs", "delayed", False, 0),
        **dict.fromkeys(staged, ("jobs", "staged", False, 0)),
        **dict.fromkeys(leased, ("jobs", "leased", False, 1)),
        **dict.fromkeys(ready, ("jobs", "ready", False, 0)),
    }
    assert all((row.due is None) == (row.state in ("ready", "staged")) for row in rows)
    assert Counter(row.size for row in rows) == Counter([9, 39, 5, 13, 3, 4, 4])


def test_the_report_is_the_age_of_each_queue_and_its_dead_letters(
    spark: SparkSession, made: MadeRoot
) -> None:
    made.ready("slow", NOW - 3 * MINUTE, 2)
    made.ready("slow", NOW - 30 * MINUTE, 5, receives=2)
    made.batch("slow", NOW - 2000 * MINUTE, 7)
    made.hidden("jobs", NOW - 7 * MINUTE, 3, due=NOW + MINUTE, leased=True)
    made.hidden("jobs", NOW - 7 * MINUTE, 1, due=NOW + MINUTE, leased=False)
    made.dead("letters", NOW - 100 * MINUTE, 4)
    made.ready("letters", NOW + 5 * MINUTE, 1)  # another machine's clock

    words = report(heaps(names(spark, str(made.path), 4), NOW), NOW)

    lines = [" ".join(line.split()) for line in words.splitlines()]
    assert "TOTAL 23 3 4 0 5 0 4 0 0 0 7" in lines
    assert "slow 14 2 0 0 5 0 0 0 0 0 7" in lines
    assert "jobs 4 0 4 0 0 0 0 0 0 0 0" in lines
    assert "jobs leased 3 0.0 7.0" in lines
    assert "jobs delayed 1 0.0 7.0" in lines
    assert "slow ready 14 0.0 2000.0" in lines
    dead = lines[lines.index("Dead letters") :]
    assert dead[2:] == ["TOTAL 4 0 0 0 0 0 4 0 0 0 0", "letters 4 0 0 0 0 0 4 0 0 0 0"]


def test_what_is_staged_is_told_apart_and_what_was_dropped_is_not_told(made: MadeRoot) -> None:
    made.staged(f"load@{NOW}", 0, "jobs", NOW, 3)
    made.staged(f"older@{NOW}", 0, "jobs", NOW, 4)
    made.put([f"staged/older@{NOW}~dropped"])

    rows = [row for number in range(2) for row in Slice(str(made.path), number, 2).rows()]

    assert Counter(row.state for row in rows) == {"staged": 3}
    assert {row.queue for row in rows} == {"jobs"}


def test_of_several_names_of_one_file_the_highest_version_that_lists_a_message_counts(
    made: MadeRoot,
) -> None:
    stem = made.stem(NOW, 5)
    (made.path / "queues" / "jobs").mkdir()
    made.put(
        [
            f"queues/jobs/{stem.text},v2",
            f"delay/jobs:{stem.text},v3,i0-2,r1,f{NOW}@{NOW}~0123456789abc",
            f"remove/jobs:{stem.text},v4,i0,r1,f{NOW}",
        ]
    )

    rows = [row for number in range(2) for row in Slice(str(made.path), number, 2).rows()]

    assert Counter(row.state for row in rows) == {"ready": 2, "leased": 2}
    assert sum(row.size or 0 for row in rows) == 400


def test_what_is_no_name_is_told_and_stops_nothing(made: MadeRoot) -> None:
    made.ready("jobs", NOW, 2)
    made.put(["queues/jobs/README", "delay/what is this", "new/jobs:0@soon", "staged/?"])

    rows = [*Slice(str(made.path), 0, 1).rows()]

    assert Counter(row.state for row in rows) == {"ready": 2, UNKNOWN: 4}


@pytest.mark.parametrize("slices", [1, 2, 7])
def test_each_message_is_in_one_slice(made: MadeRoot, slices: int) -> None:
    made.ready("jobs", NOW, 300)
    made.dead("letters", NOW, 300)
    made.hidden("jobs", NOW, 300, due=NOW, leased=True)
    for _ in range(30):
        made.batch("jobs", NOW, 10)

    shares = [[*Slice(str(made.path), number, slices).rows()] for number in range(slices)]

    ids = [row.id for share in shares for row in share]
    assert len(ids) == len(set(ids)) == 1200
    assert sum(row.is_dead_letter for share in shares for row in share) == 300
    assert all(len(share) > 100 for share in shares)


def test_a_folder_that_is_no_root_is_an_error_and_not_an_empty_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Slice(str(tmp_path), 0, 1)
