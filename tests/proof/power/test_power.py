"""The power fails under a real server on real file systems: acknowledged operations hold afterwards.

SPOOLRACK_TEST_CUTS=200 cuts more often on each file system, SPOOLRACK_TEST_SEED=... repeats a run, as
far as processes and a kernel can be repeated. `campaign.py` goes on for as long as it is told to.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from random import randrange
from typing import Final

import pytest
import spoolrack
from spoolrack import SpoolrackError

from tests.proof.power.outages import await_not_serving, run
from tests.support.loop_disk import KINDS, LoopDisk, why_not
from tests.support.run_processes import Crew, Served

CUTS: Final = int(os.environ.get("SPOOLRACK_TEST_CUTS", "10"))
"""On each file system."""
CUTS_TO_FIND_OUT: Final = 3
RUNS_TO_FIND_OUT: Final = 24
"""At most: two of five find out the folders of ext4, and the first one that does ends the test."""

pytestmark = pytest.mark.usefixtures("can_mount")


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def can_mount(kind: str) -> None:
    reason = why_not(kind)
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture
def seed() -> int:
    seed = int(os.environ.get("SPOOLRACK_TEST_SEED") or randrange(1 << 32))
    print(f"SPOOLRACK_TEST_SEED={seed}")
    return seed


@pytest.mark.timeout(120 + 30 * CUTS)
def test_nothing_acknowledged_is_undone_by_power_cuts(kind: str, tmp_path: Path, seed: int) -> None:
    report = run(kind, tmp_path, seed, cuts=CUTS)
    print(report.verdict, report.survey, sep="\n")
    assert not report.broken
    assert report.survey.cuts == CUTS
    assert report.survey.lost, "a cut that takes nothing proves nothing"
    assert report.verdict.delivered


@pytest.mark.parametrize("bug", ["everything", pytest.param("folders", marks=pytest.mark.slow)])
@pytest.mark.timeout(120 * RUNS_TO_FIND_OUT)
def test_a_server_that_forgets_to_sync_is_found_out(
    kind: str, tmp_path: Path, seed: int, bug: str
) -> None:
    # An fsync of any other program makes the file system write its journal, and so may hide the bug.
    for at in range(RUNS_TO_FIND_OUT):
        folder = tmp_path / f"{at}"
        folder.mkdir()
        report = run(kind, folder, seed + at, cuts=CUTS_TO_FIND_OUT, bug=bug)
        print(report.verdict, report.survey, sep="\n")
        if report.verdict.faults:
            return
    raise AssertionError(f"not found out by {RUNS_TO_FIND_OUT * CUTS_TO_FIND_OUT} cuts")


def send(queue: spoolrack.Queue) -> object:
    return queue.send(b"to a dead disk")


def send_many(queue: spoolrack.Queue) -> object:
    return [result.id for result in queue.send_many([b"to a dead disk"] * 20) if result.ok]


def receive(queue: spoolrack.Queue) -> object:
    return queue.receive(10)


@pytest.mark.parametrize("call", [send, send_many, receive])
def test_a_server_whose_disk_dies_while_nothing_is_unsynced_acknowledges_nothing_and_says_so(
    kind: str, tmp_path: Path, call: Callable[[spoolrack.Queue], object]
) -> None:
    crew = Crew(tmp_path)
    with LoopDisk(kind, tmp_path / "disk") as disk:
        try:
            served = Served(crew, disk.mount_point / "root")
            impatient = spoolrack.RetryPolicy(attempts=1)
            with spoolrack.connect(served.address, retry=impatient) as client:
                client.create_queue("jobs", visibility_timeout=600)
                queue = client.queue("jobs")
                kept = [result.id for result in queue.send_many([b"kept"] * 3)]
                (leased,) = queue.receive()
                # Memory that a process has mapped is written back, too: its next write needs the disk.
                os.sync()
                disk.cut_power()
                try:
                    assert not call(queue)
                except SpoolrackError as error:
                    print(error)
                await_not_serving(served)
                with pytest.raises(SpoolrackError):
                    leased.delete()
            served.kill()
            disk.unmount()
            disk.mount()
            served.restart()
            with spoolrack.connect(served.address) as client:
                queue = client.queue("jobs")
                assert [message.id for message in queue.peek()] == kept
                assert [message.id for message in queue.peek(["leased"])] == [leased.id]
        finally:
            crew.end()
