"""An answer waits for one sync where each sync costs the way to another host; on a local disk, whose
journal makes the further ones free, a commit starts no thread.

The disk is an argument: each sync takes as long as the test says, and syncs at once as long as the
longest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest
from spoolrack_store.files.syncer import AT_ONCE, OFTEN

from tests.store.trouble_rig import Rig
from tests.support.linked_disk import LinkedDisk, made
from tests.support.power_disk import Model

SYNC = 0.010
"""Seconds that a sync takes on a disk far away."""


class TimedDisk(LinkedDisk):
    """A disk whose syncs take time, in a time of its own."""

    now = 0.0
    first = further = SYNC
    """Seconds that the first sync of a commit takes, and each further one."""
    has_synced = False
    """Whether the commit has synced."""
    at_once = 0
    """How often syncs ran at once."""

    def sync_file(self, path: str) -> None:
        self._wait()
        super().sync_file(path)

    def sync_folder(self, path: str) -> None:
        self._wait()
        super().sync_folder(path)

    def sync_all(self) -> None:
        self._wait()
        super().sync_all()

    def run_at_once(self, syncs: Sequence[Callable[[], None]]) -> None:
        self.at_once += 1
        began, longest = self.now, 0.0
        for sync in syncs:
            sync()
            longest, self.now = max(longest, self.now - began), began
        self.now += longest

    def _wait(self) -> None:
        self.now += self.further if self.has_synced else self.first
        self.has_synced = True


class TimedRig(Rig):
    """Knows how long each commit has waited for the disk, in whole syncs."""

    def __init__(self) -> None:
        disk = made(["q"], can_sync_all=True, model=Model.ANY_SUBSET, kind=TimedDisk)
        self.timed = cast(TimedDisk, disk)
        super().__init__(self.timed)
        self.engine.moves.statistics.watch = lambda: self.timed.now
        self.rows: list[int] = []

    def commit(self, *requests: Any, **how: Any) -> list[Any]:
        began, self.timed.has_synced = self.timed.now, False
        outcomes = super().commit(*requests, **how)
        self.rows.append(round((self.timed.now - began) / SYNC))
        return outcomes

    def live(self) -> dict[str, int]:
        """Send, receive and delete a message; return how many syncs in a row each has waited for."""
        waited = {}
        self.rows.clear()
        self.send(b"x")
        waited["send"] = sum(self.rows)
        self.rows.clear()
        ((receipt, _),) = self.receive().values()
        waited["receive"] = sum(self.rows)
        self.rows.clear()
        assert self.delete(receipt) == [None]
        self.commit()
        waited["delete"] = sum(self.rows)
        return waited


@pytest.fixture
def rig() -> TimedRig:
    return TimedRig()


def test_each_answer_of_a_life_waits_for_one_sync_on_a_disk_far_away(rig: TimedRig) -> None:
    for _ in range(OFTEN):
        rig.live()

    assert rig.live() == {"send": 1, "receive": 1, "delete": 1}


def test_a_send_right_after_another_waits_for_one_sync_on_a_disk_far_away(rig: TimedRig) -> None:
    for _ in range(OFTEN):
        rig.live()
    rig.send(b"x")
    rig.rows.clear()

    rig.send(b"x")  # Its commit also syncs the folders that the publication of the first has changed.

    assert rig.rows == [1]


def test_a_local_disk_whose_further_syncs_are_free_syncs_one_after_the_other(rig: TimedRig) -> None:
    rig.timed.further = 0.000_02
    for _ in range(OFTEN * 3):
        rig.live()

    assert rig.timed.at_once == 0


def test_a_quick_disk_whose_syncs_all_cost_less_than_a_thread_starts_none(rig: TimedRig) -> None:
    rig.timed.first = rig.timed.further = 0.000_1
    for _ in range(OFTEN * 3):
        rig.live()

    assert rig.timed.at_once == 0


def test_a_busy_machine_that_delays_every_second_commit_starts_no_thread(rig: TimedRig) -> None:
    rig.timed.first = 0.000_5
    for further in [SYNC, 0.000_02] * OFTEN * 3:
        rig.timed.further = further
        rig.send(b"x")

    assert rig.timed.at_once == 0


def test_folders_are_synced_at_once_where_most_commits_write_the_journal_again(rig: TimedRig) -> None:
    """Other writes beside a commit make its further syncs dear, and those with a new file no less at
    once."""
    for further in [SYNC, SYNC, 0.000_02] * OFTEN:
        rig.timed.further = further / 4
        rig.live()

    rig.timed.at_once = 0
    rig.send(b"x")
    assert rig.timed.at_once == 0
    rig.receive()
    assert rig.timed.at_once == 1


def test_a_disk_that_has_become_quick_is_synced_one_after_the_other_again(rig: TimedRig) -> None:
    for _ in range(OFTEN):
        rig.live()
    rig.timed.further = 0.000_02
    for _ in range(AT_ONCE):
        rig.live()
    before = rig.timed.at_once

    rig.live()

    assert rig.timed.at_once == before
