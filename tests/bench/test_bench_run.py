"""A tiny run of the comparison, with Spoolrack and the limit alone; and runs that lose and double."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import spoolrack

from benchmarks import backlog
from benchmarks.client_processes import perform
from benchmarks.systems.base import SLOW, Received, Shape
from benchmarks.systems.spoolrack import Spoolrack, SpoolrackDriver, SpoolrackSlow
from benchmarks.workloads import WORKLOADS, Round, jobs_for, measure, new_queue
from tests import CHECKOUT
from tests.support.serving import output_of

pytestmark = pytest.mark.slow


class Loser(SpoolrackDriver):
    """Loses the last of each ten, and says nothing."""

    def send_many(self, bodies: Sequence[bytes]) -> None:
        super().send_many(bodies[:-1])


class Doubler(SpoolrackDriver):
    """Delivers the first of each ten twice."""

    def receive(self, count: int) -> list[Received]:
        found = super().receive(count)
        return found[:1] + found


@pytest.fixture
def system(tmp_path: Path) -> Iterator[Spoolrack]:
    system = Spoolrack(tmp_path / "spoolrack")
    system.start()
    yield system
    system.stop()


def test_each_workload_is_measured_and_nothing_is_lost(system: Spoolrack) -> None:
    for workload in WORKLOADS:
        measured = measure(system, workload, 0, pace=0.1)
        assert measured.faults == [], workload.name
        assert measured.messages > 0
        assert measured.rate > 0
        assert measured.p50 <= measured.p99
        assert measured.p50 > 0 or workload.waiting
        assert measured.server_processor >= 0


@pytest.mark.parametrize("is_one_caller", [False, True], ids=["consumer", "life"])
@pytest.mark.parametrize(("driver", "words"), [(Loser, "lost"), (Doubler, "more than once")])
def test_lost_and_doubled_messages_are_reported(
    system: Spoolrack,
    driver: type[SpoolrackDriver],
    words: str,
    is_one_caller: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if driver is Loser:
        monkeypatch.setattr("benchmarks.client_processes.SILENCE", 1.0)
    queue, run = new_queue("planted")
    system.create_queue(queue)
    consumers = (0, 0) if is_one_caller else (1, 1)
    shape = Shape(senders=(1, 1), consumers=consumers, batch=10, driver=driver, lives=is_one_caller)
    outcome = perform(jobs_for(system, queue, run, shape, seconds=60, most=20))
    assert any(words in fault for fault in outcome.faults), outcome.faults


def test_a_message_leased_by_another_consumer_is_told_apart_from_a_lost_one(
    system: Spoolrack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.client_processes.SILENCE", 1.0)
    queue = backlog.BacklogQueue(system, is_patient=True)
    queue.fill(100)
    with spoolrack.connect(system.address) as client:
        assert len(client.queue(queue.name).receive(30, visibility_timeout=600)) == 30

        queue.empty()

        faults = queue.faults(all_of_it=True)
    assert any("30 lost" in fault for fault in faults), faults
    assert any("still counts all 30 that are missing" in fault for fault in faults), faults


def test_the_program_writes_what_it_found_and_leaves_nothing(tmp_path: Path) -> None:
    folder, found = tmp_path / "here", tmp_path / "found.json"
    folder.mkdir()
    printed = output_of(
        *(sys.executable, "-m", "benchmarks.compare", "--systems", "limit,spoolrack"),
        *("--workloads", "hundreds", "--rounds", "1", "--pace", "0.05", "--no-own-disk"),
        *("--folder", folder, "--json", found),
        folder=CHECKOUT,
    )
    assert "durable sends in hundreds" in printed
    rounds = json.loads(found.read_text())["rounds"]
    assert {each["system"] for each in rounds} == {"limit", "spoolrack"}
    for each in rounds:
        assert each["workload"] == "hundreds"
        # The messages are those of the round, and the slowest call can't be quicker than the median.
        assert each["messages"] >= 100
        assert each["rate"] > 0
        assert 0 < each["p50"] <= each["p99"]
        assert each["client_processor"] > 0
        assert each["faults"] == []
    by_server = {each["system"]: each["server_processor"] for each in rounds}
    assert by_server["limit"] == 0  # It has no server.
    assert by_server["spoolrack"] > 0
    assert not any(folder.iterdir())


@pytest.mark.skipif(SpoolrackSlow.why_not() is not None, reason="needs strace")
def test_the_rows_of_one_caller_and_of_a_backlog_are_measured_at_the_systems_they_are_for(
    tmp_path: Path,
) -> None:
    found = tmp_path / "found.json"
    output_of(
        *(sys.executable, "-m", "benchmarks.compare"),
        *("--systems", "spoolrack,spoolrack-file,spoolrack-slow"),
        *("--workloads", "one,life,slow,slow-life,drain", "--rounds", "1", "--pace", "0.2"),
        *("--no-own-disk", "--folder", tmp_path, "--json", found),
        folder=CHECKOUT,
    )
    results = json.loads(found.read_text())
    assert results["failures"] == []
    by_row = {(each["workload"], each["system"]): Round(**each) for each in results["rounds"]}
    assert set(by_row) == {
        *(("one", "spoolrack"), ("one", "spoolrack-file")),
        *(("life", "spoolrack"), ("life", "spoolrack-file")),
        *(("slow", "spoolrack-slow"), ("slow-life", "spoolrack-slow")),
        ("drain", "spoolrack"),
    }
    assert all(each.messages > 0 and each.faults == [] for each in by_row.values())
    assert by_row["life", "spoolrack-file"].server_processor == 0  # There is none.
    # Milliseconds: each of a life's three answers is behind a delayed sync.
    assert by_row["slow", "spoolrack-slow"].p50 >= SLOW
    assert by_row["slow-life", "spoolrack-slow"].p50 >= 3 * SLOW
    assert by_row["drain", "spoolrack"].messages == 100_000 * 0.2
