"""A process answers by what a host that died had done only once that is durable."""

from __future__ import annotations

from random import Random

import pytest
from spoolrack_store.engine import sharing
from spoolrack_store.engine.engine import Engine
from spoolrack_store.engine.moves import Moves
from spoolrack_store.files.syncer import Barrier
from spoolrack_store.model.operations import Delete, Receive, Send
from spoolrack_store.model.settings import QueueSettings

from tests.proof.crash.test_hosts_crashes import SharedDisk
from tests.support.cuts import Cut, Keep
from tests.support.engine_story import Clock
from tests.support.engines import commit, start
from tests.support.linked_disk import Died, LinkedDisk, Memory, made
from tests.support.power_disk import Model


class DyingDisk(SharedDisk):
    """A host dies as it begins to sync."""

    dies = False

    def sync_folder(self, path: str) -> None:
        if self.dies:
            self.steps_left = 0  # It does nothing more.
            raise Died
        super().sync_folder(path)


def _is_back_after_a_retried_delete() -> bool:
    """Delete a message at a host that dies before its sync, and again at the next one, which answers;
    cut the power, and return whether the message is there."""
    disk = made(["q"], can_sync_all=False, model=Model.ANY_SUBSET, kind=DyingDisk)
    assert isinstance(disk, DyingDisk)
    living, clock = {"p1", "p2"}, Clock()
    one, other = (
        start(
            disk,
            Memory(disk),
            clock=clock,
            owner=owner,
            is_living=living.__contains__,
            queues={"q": QueueSettings()},
        )
        for owner in ("p1", "p2")
    )
    commit(one, Send(queue="q", bodies=[b"hello"]))
    commit(one)
    (got,) = commit(other, Receive(queue="q", max_messages=1, max_bytes=100))
    delete = Delete(queue="q", receipts=list(got[0].receipts))
    disk.dies = True
    with pytest.raises(Died):
        one.apply([delete])
    living.remove("p1")
    disk.free_locks()
    disk.dies, disk.steps_left = False, None
    assert commit(other, delete) == [[None]]
    found = disk.cut(Cut(Keep.NONE))
    assert isinstance(found, LinkedDisk)
    after = start(found, Memory(found), clock=clock, owner="p3", random=Random(1))
    return _count(after) > 0


def _count(engine: Engine) -> int:
    return sum(engine.index.queue("q").counts.values())


def test_a_delete_that_a_dead_host_did_is_durable_before_another_one_confirms_it() -> None:
    assert not _is_back_after_a_retried_delete()


def test_the_folders_of_an_unfinished_commit_are_synced_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "all_folders_changed", lambda moves: None)
    assert _is_back_after_a_retried_delete()


def test_a_commit_is_marked_as_finished_after_its_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    begin_sync = Moves.begin_sync

    def marked_first(self: Moves) -> tuple[int, Barrier]:
        assert self.changes is not None
        self.changes.finish()
        return begin_sync(self)

    monkeypatch.setattr(Moves, "begin_sync", marked_first)
    assert _is_back_after_a_retried_delete()
