"""Power cuts after a redrive or a death, while the next commit isn't durable either."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations

import pytest
from spoolrack_store.engine import dead_letters
from spoolrack_store.engine.index import Index
from spoolrack_store.engine.moves import Moves
from spoolrack_store.model.dead_letter_records import NotAHistory
from spoolrack_store.model.operations import (
    Delete,
    DeleteQueue,
    Purge,
    Receive,
    RejectMessages,
    Request,
    Send,
)
from spoolrack_store.model.redrive_requests import CancelRedrive, StartRedrive

from tests.support.cuts import Bytes, Cut, Keep
from tests.support.dead_letter_rig import LEASE, QUEUES, Rig
from tests.support.linked_disk import LinkedDisk, made, reap
from tests.support.power_disk import Model

NEXT = {
    "nothing": (),
    "receive": (Receive(queue="q", max_messages=9),),
    "receive-one": (Receive(queue="q", max_messages=1),),
    "purge": (Purge(queue="q"),),
    "purge-the-dead": (Purge(queue="dead"),),
}
MOST_PENDING = 12
"""Of so many changes every subset is tried."""


@pytest.mark.parametrize("name", [*NEXT, "delete", "cancel", "cancel-and-receive"])
@pytest.mark.parametrize("can_sync_all", [True, False], ids=["syncfs", "fsync"])
@pytest.mark.parametrize("waits", [False, True])
def test_each_message_is_in_one_place_after_any_power_cut_in_the_next_commit(
    name: str, can_sync_all: bool, waits: bool
) -> None:
    disk = made(tuple(QUEUES), can_sync_all=can_sync_all, model=Model.ANY_SUBSET)
    rig = Rig(disk=disk)
    ids = rig.bury(b"a", b"b")
    redrive = rig.ask(StartRedrive(queue="dead", max_messages_per_second=10))
    rig.after(100)
    for _ in range(4):
        # One message is moved, and that isn't durable.
        if rig.ids("q"):
            break
        work = rig.engine.apply([])
        assert work is not None
        if not rig.ids("q") and work.barrier is not None:
            work.barrier.sync()
            rig.engine.finish(work)
    assert rig.ids("q") == ids[:1]
    rig.after(100 if waits else 0)
    requests: tuple[Request[object], ...] = NEXT.get(name, ())
    if name == "delete":
        requests = (Delete(queue="q", ids=ids[:1]),)
    if name.startswith("cancel"):
        requests = (CancelRedrive(id=redrive.id), *NEXT["receive" if "receive" in name else "nothing"])
    rig.engine.apply(requests)
    for _, after in _every_cut(rig):
        _check(after, ids, name)


def _every_cut(rig: Rig, content: Bytes = Bytes.WHOLE) -> Iterator[tuple[tuple[int, ...], Rig]]:
    """Yield which unsynced changes each power cut leaves, and what starts on that."""
    disk = rig.disk
    assert 0 < disk.pending <= MOST_PENDING
    for count in range(disk.pending + 1):
        for kept in combinations(range(disk.pending), count):
            found = disk.cut(Cut(Keep.ONLY, kept, (content,)))
            assert isinstance(found, LinkedDisk)
            found.free_locks()
            yield kept, Rig(disk=found, clock=rig.clock, owner="p9")


def _check(rig: Rig, ids: list[str], name: str) -> None:
    rig.ask()
    there = {
        queue: [
            id
            for id in ids
            if (holder := rig.engine.index.holder(id)) is not None
            and holder[0] in rig.engine.index.queue(queue).entries
        ]
        for queue in ("q", "dead")
    }
    found = there["q"] + there["dead"]
    assert len(found) == len(set(found))
    if not name.startswith(("purge", "delete")):
        assert sorted(found) == ids
    for id in found:
        assert [death.source_queue for death in rig.deaths(id)] == ["q"]


def _die_again(can_sync_all: bool) -> tuple[Rig, str]:
    """Let a message die for the third time, and commit once more, without a sync."""
    disk = made(tuple(QUEUES), can_sync_all=can_sync_all, model=Model.ANY_SUBSET)
    rig = Rig(disk=disk)
    (id,) = rig.bury(b"a")
    rig.redrive()
    rig.fail_all()
    rig.redrive()
    (lease,) = rig.receive()
    reject = RejectMessages(queue="q", receipts=lease.receipts, reason="why")
    for requests in ([reject], [], []):
        rig.engine.apply(requests)
        reap(rig.engine)
    return rig, id


def _require_told(rig: Rig, id: str) -> None:
    """Raise `AssertionError` unless any power cut leaves each death that was answered."""
    for kept, after in _every_cut(rig, Bytes.HALF):
        try:
            told = [death.explanation for death in after.deaths(id)]
        except NotAHistory as why:
            raise AssertionError(f"{kept} leaves no history: {why}") from why
        assert told in (["", ""], ["", "", "why"])


@pytest.mark.parametrize("can_sync_all", [True, False], ids=["syncfs", "fsync"])
def test_how_a_message_died_survives_any_power_cut_in_its_next_death(can_sync_all: bool) -> None:
    _require_told(*_die_again(can_sync_all))


def _goes_at_once(patched: pytest.MonkeyPatch) -> None:
    """Unlink a dead-letter file before it is durable that no name refers to it."""
    honest = Index._leave_untold
    patched.setattr(Index, "_leave_untold", lambda self, batch, file, _: honest(self, batch, file, 0))


def _is_not_synced(patched: pytest.MonkeyPatch) -> None:
    """Refer to a dead-letter file whose content isn't durable."""
    patched.setattr(
        Moves, "sync_now", lambda self, _, folders: list(map(self.disk.sync_folder, folders))
    )


def _has_no_durable_name(patched: pytest.MonkeyPatch) -> None:
    """Refer to a dead-letter file whose name isn't durable."""

    def write_ahead(self: Moves, files: Mapping[str, bytes]) -> None:
        for path, content in files.items():
            self.disk.create(path, [content], sync=False)
            self.disk.sync_file(path)

    patched.setattr(Moves, "write_ahead", write_ahead)


def _forgets(patched: pytest.MonkeyPatch) -> None:
    """Tell the last death only."""
    patched.setattr(dead_letters, "read_records", lambda disk, name: ())


@pytest.mark.parametrize("plant", [_goes_at_once, _is_not_synced, _has_no_durable_name, _forgets])
def test_each_condition_of_a_history_is_needed(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    rig, id = _die_again(can_sync_all=False)
    with pytest.raises(AssertionError):
        _require_told(rig, id)


# Purges and deletions of either queue in the commit in which messages die.


def _dying(*bodies: bytes) -> tuple[Rig, list[str]]:
    """Return a rig in which messages die as the next commit begins, and their ids."""
    rig = Rig(disk=made(tuple(QUEUES), can_sync_all=True, model=Model.ANY_SUBSET))
    ids = rig.send(*bodies)
    rig.receive()
    rig.after(LEASE)
    return rig, ids


def _received(rig: Rig, *queues: str) -> list[str]:
    for _ in range(3):
        rig.ask(tick=True)
    return [id for queue in queues for each in rig.receive(queue) for id in each.ids]


def test_a_purged_dead_letter_stays_purged_whatever_a_power_cut_leaves() -> None:
    rig, _ = _dying(b"x")
    rig.ask(Purge(queue="dead"))
    rig.engine.apply([Send(queue="third", bodies=[b"next"])])
    reap(rig.engine)  # What was deleted is unlinked, and that isn't durable either.
    for _, after in _every_cut(rig):
        assert _received(after, "q", "dead") == []


def test_a_purge_of_the_queue_that_a_message_dies_in_leaves_its_dead_letter() -> None:
    rig, ids = _dying(b"x")
    assert rig.engine.apply([Purge(queue="q")]) is not None  # It isn't durable.
    for _, after in _every_cut(rig):
        assert _received(after, "dead") == ids


def test_a_message_that_dies_in_the_commit_that_deletes_its_dead_letter_queue_is_deleted_with_it() -> (
    None
):
    rig, ids = _dying(b"1", b"2")
    assert rig.engine.apply([DeleteQueue(name="dead")]) is not None  # It isn't durable.
    for _, after in _every_cut(rig):
        after.ask()
        queues = {"q", "dead"} & after.engine.catalog.records.keys()
        assert _received(after, *queues) in ([], ids)
