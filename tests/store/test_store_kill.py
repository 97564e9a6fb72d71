"""kill -9 before every single change of the disk, in every kind of commit, and what a restart finds.

Each message must be as it was before the commit or as the commit would have left it. Nothing that was
acknowledged before is lost, nothing comes in two, nothing that nobody sent appears, and a call's
messages appear all together or not at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from engine_rig import EngineRig, Lying
from faulty_disk import CHANGES, FaultyDisk, Killed
from memory_disk import MemoryDisk
from spoolrack_store.files.disk import Found
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.operations import (
    ById,
    ByReceipt,
    ChangeVisibility,
    CreateQueue,
    Delete,
    DeleteQueue,
    GiveBack,
    Outgoing,
    Purge,
    Receive,
    Request,
    Send,
    UpdateQueue,
    VisibilityChange,
)
from spoolrack_store.model.settings import QueueSettings

Requests = list[Request[object]]


def scene(can_sync_all: bool) -> tuple[EngineRig, FaultyDisk, Callable[[str], str]]:
    """A root with some of everything in it."""
    disk = FaultyDisk(MemoryDisk(can_sync_all=can_sync_all))
    rig = EngineRig(disk)
    rig.create("dead")
    rig.create("q", visibility_timeout=30_000, max_receives=2, dead_letter_queue="dead")
    rig.create("other")
    rig.send(b"single")
    rig.send(*[b"one batch"] * 4)
    rig.send(*[b"another"] * 4)
    rig.send(b"delayed", delay=5_000)
    rig.send(b"delayed", b"together", delay=5_000)
    rig.send(b"elsewhere", queue="other")
    leased = rig.receive(6, visibility=5_000)
    rig.engine.reaper.reap(100)
    return rig, disk, lambda which: leased[int(which)].receipt or ""


@dataclass(frozen=True)
class Act:
    requests: Callable[[EngineRig, Callable[[str], str]], Requests]
    later: int = 0
    tick: bool = False
    has_steps: bool = False
    """Whether one message goes through several states, each of which may be what is found."""


def ids_of(rig: EngineRig) -> list[str]:
    return [sight.entry.id for sight in rig.sights()]


def some_receipts(receipt: Callable[[str], str], *which: int) -> list[str]:
    return [receipt(str(each)) for each in which]


ACTS = {
    "send one": Act(lambda rig, r: [Send(queue="q", messages=[Outgoing(body=b"new")])]),
    "send many": Act(lambda rig, r: [Send(queue="q", messages=[Outgoing(body=b"new")] * 5)]),
    "send later": Act(
        lambda rig, r: [Send(queue="q", messages=[Outgoing(body=b"new", delay=Millis(9_000))] * 3)]
    ),
    "receive one": Act(lambda rig, r: [Receive(queue="q")]),
    "receive all": Act(lambda rig, r: [Receive(queue="q", max_messages=50)]),
    "delete a folder": Act(
        lambda rig, r: [
            Delete(queue="q", targets=[ByReceipt(each) for each in some_receipts(r, 1, 2, 3, 4)])
        ]
    ),
    "delete out of a folder": Act(
        lambda rig, r: [
            Delete(queue="q", targets=[ByReceipt(each) for each in some_receipts(r, 0, 1, 3)])
        ]
    ),
    "delete by id in any state": Act(
        lambda rig, r: [Delete(queue="q", targets=[ById(id) for id in ids_of(rig)[::2]])]
    ),
    "delete all": Act(lambda rig, r: [Delete(queue="q", targets=[ById(id) for id in ids_of(rig)])]),
    "release some": Act(
        lambda rig, r: [
            ChangeVisibility(
                queue="q",
                changes=[VisibilityChange(each, Millis(0)) for each in some_receipts(r, 0, 2)],
            )
        ]
    ),
    "extend some": Act(
        lambda rig, r: [
            ChangeVisibility(
                queue="q",
                changes=[VisibilityChange(each, Millis(70_000)) for each in some_receipts(r, 1, 2, 5)],
            )
        ]
    ),
    "give back": Act(lambda rig, r: [GiveBack(queue="q", receipts=some_receipts(r, 1, 2, 3, 4, 5))]),
    "what is due": Act(lambda rig, r: [], later=6_000, tick=True),
    "dead letters": Act(
        lambda rig, r: [Receive(queue="q", max_messages=50, visibility=Millis(1))], later=6_000
    ),
    "purge": Act(lambda rig, r: [Purge(queue="q")]),
    "create a queue": Act(lambda rig, r: [CreateQueue(name="fresh", settings=QueueSettings())]),
    "update a queue": Act(lambda rig, r: [UpdateQueue(name="q", changes={"max_message_size": 77})]),
    "delete a queue": Act(lambda rig, r: [DeleteQueue(name="q")]),
    "much at once": Act(
        lambda rig, r: [
            Send(queue="q", messages=[Outgoing(body=b"new")] * 3),
            Delete(queue="q", targets=[ByReceipt(each) for each in some_receipts(r, 1, 2)]),
            ChangeVisibility(queue="q", changes=[VisibilityChange(r("3"), Millis(0))]),
            Receive(queue="q", max_messages=4),
        ],
        has_steps=True,
    ),
}


def play(act: Act, rig: EngineRig, receipt: Callable[[str], str]) -> None:
    requests = act.requests(rig, receipt)
    rig.clock.advance(act.later)
    if act.tick:
        rig.engine.tick()
    rig.commit(*requests)
    if act.later:
        # What came back once more may be a dead letter now.
        rig.clock.advance(1)
        rig.commit()
    rig.engine.reaper.reap(1_000)


def by_id(known: list[Lying]) -> dict[str, set[Lying]]:
    found: dict[str, set[Lying]] = {}
    for each in known:
        found.setdefault(each.id, set()).add(each)
    return found


@pytest.mark.parametrize("can_sync_all", [True, False])
@pytest.mark.parametrize("torn", [False, True])
@pytest.mark.parametrize("name", ACTS)
def test_a_kill_at_any_change_leaves_each_message_as_before_or_as_after(
    name: str, torn: bool, can_sync_all: bool
) -> None:
    act = ACTS[name]
    rig, disk, receipt = scene(can_sync_all)
    before = rig.known()
    disk.forget()
    play(act, rig, receipt)
    changes = len([call for call in disk.calls if call.name in CHANGES])
    rig.check()
    states = [by_id(before), by_id(rig.known())]
    # What would come back, or be buried, by itself after a restart at that moment.
    rig.restart()
    states.append(by_id(rig.known()))
    assert changes
    for dies_after in range(changes):
        rig, disk, receipt = scene(can_sync_all)
        disk.die_after(dies_after, torn=torn)
        with pytest.raises(Killed):
            play(act, rig, receipt)
        disk.die_after(None)
        rig.restart()
        rig.check()
        # Settings that were half written may be put aside, and nothing else.
        put_aside = [each.name for each in _quarantined(rig) if not each.name.endswith(".why")]
        assert all(torn and name.endswith(".json") for name in put_aside), put_aside
        _compare(by_id(rig.known()), states, act, f"killed before change {dies_after}")
        _leftovers(rig)


def _quarantined(rig: EngineRig) -> list[Found]:
    folders = rig.disk.scan("quarantine")
    return [each for folder in folders for each in rig.disk.scan(f"quarantine/{folder.name}")]


def _compare(
    found: dict[str, set[Lying]], states: list[dict[str, set[Lying]]], act: Act, when: str
) -> None:
    ids = set().union(*states, found)
    for id in ids:
        now = {_shape(each, act) for each in found.get(id, set())}
        allowed = [{_shape(each, act) for each in state.get(id, set())} for state in states]
        assert now in allowed, f"{when}: {now} is none of {allowed}"
    sent = states[1].keys() - states[0].keys()
    assert not sent & found.keys() or sent <= found.keys(), f"{when}: only some of a call are there"


def _shape(each: Lying, act: Act) -> tuple[object, ...]:
    """Where time went by, it is no difference what a restart brings back by itself."""
    if act.later or act.has_steps:
        return (each.id,)
    return (each.queue, each.id, each.state, each.receives, each.first_receive, each.due)


def _leftovers(rig: EngineRig) -> None:
    """Nothing is left that no later start would look at."""
    assert rig.disk.scan("new") == []
    assert {each.name for each in rig.disk.scan("queues")} == set(rig.engine.catalog.queues)
    rig.engine.reaper.reap(10_000)
    assert rig.disk.scan("remove") == []


def test_a_kill_at_any_change_of_a_first_start_leaves_a_folder_that_opens() -> None:
    disk = FaultyDisk(MemoryDisk())
    EngineRig(disk)
    changes = len([call for call in disk.calls if call.name in CHANGES])
    for torn in (False, True):
        for dies_after in range(changes):
            disk = FaultyDisk(MemoryDisk())
            disk.die_after(dies_after, torn=torn)
            with pytest.raises(Killed):
                EngineRig(disk)
            # The process is dead, and its locks are free.
            again = MemoryDisk()
            again.root = disk.disk.root  # type: ignore[attr-defined]
            again.free_locks()
            EngineRig(again).check()


@pytest.mark.parametrize("name", ["send many", "dead letters", "delete a queue", "much at once"])
def test_a_recovery_that_is_killed_itself_is_finished_by_the_next(name: str) -> None:
    act = ACTS[name]
    rig, disk, receipt = scene(True)
    disk.forget()
    play(act, rig, receipt)
    changes = len([call for call in disk.calls if call.name in CHANGES])
    for first in range(0, changes, 3):
        for second in range(8):
            rig, disk, receipt = scene(True)
            disk.die_after(first)
            with pytest.raises(Killed):
                play(act, rig, receipt)
            disk.die_after(second)
            try:
                rig.restart()
            except Killed:
                disk.die_after(None)
                disk.disk.free_locks()  # type: ignore[attr-defined]
                rig.engine = rig._start()
            disk.die_after(None)
            rig.check()
            assert rig.engine.quarantined == 0
