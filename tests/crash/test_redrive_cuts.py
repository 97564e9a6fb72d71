"""What a power cut leaves when a message was moved and received again, and neither is durable."""

from __future__ import annotations

from itertools import chain, combinations

import pytest
from cuts import Cut, Keep
from dead_letter_rig import RedriveRig
from power_disk import PowerDisk
from spoolrack_store.model.operations import ById, Delete, Purge, Receive, Request
from spoolrack_store.model.redriving import CancelRedrive, RedriveState, StartRedrive

NEXT = {
    "nothing": (),
    "receive": (Receive(queue="q", max_messages=9),),
    "receive-one": (Receive(queue="q", max_messages=1),),
    "purge": (Purge(queue="q"),),
    "purge-the-dead": (Purge(queue="dead"),),
}


@pytest.mark.parametrize("name", [*NEXT, "delete", "cancel", "cancel-and-receive"])
@pytest.mark.parametrize("can_sync_all", [True, False])
@pytest.mark.parametrize("rate", [0, 10])
def test_whatever_a_power_cut_leaves_of_the_next_commit_each_message_is_in_one_place(
    name: str, can_sync_all: bool, rate: int
) -> None:
    power = PowerDisk(can_sync_all=can_sync_all)
    rig = RedriveRig(power)
    rig.make_queues()
    ids = rig.bury(b"a", b"b")
    redrive = rig.start(rate=10)
    rig.clock.advance(100)
    # One message was moved, and that isn't durable.
    rig.engine.finish(rig.begin())
    assert rig.ids("q") == ids[:1]
    rig.clock.advance(100 if rate else 0)
    requests: tuple[Request[object], ...] = NEXT.get(name, ())
    if name == "delete":
        requests = (Delete(queue="q", targets=[ById(ids[0])]),)
    if name.startswith("cancel"):
        requests = (CancelRedrive(id=redrive.id), *NEXT["receive" if "receive" in name else "nothing"])
    rig.engine.apply(requests)
    pending = range(power.pending)
    for kept in chain.from_iterable(combinations(pending, count) for count in range(len(pending) + 1)):
        found = power.cut(Cut(Keep.ONLY, kept))
        found.free_locks()
        check(RedriveRig(found, seed=2, wall=rig.clock.wall()), ids, name)


@pytest.mark.parametrize("can_sync_all", [True, False])
def test_the_last_moves_are_durable_before_a_redrive_says_that_it_is_done(can_sync_all: bool) -> None:
    power = PowerDisk(can_sync_all=can_sync_all)
    rig = RedriveRig(power)
    rig.make_queues()
    ids = rig.bury(b"a", b"b")
    rig.engine.finish(rig.begin(StartRedrive(queue="dead")))
    for _ in range(10):
        # Whoever receives does so in the very commit that could end the redrive.
        work = rig.engine.apply([Receive(queue="q", max_messages=9)])
        pending = range(power.pending)
        for kept in chain.from_iterable(combinations(pending, n) for n in range(len(pending) + 1)):
            found = power.cut(Cut(Keep.ONLY, kept))
            found.free_locks()
            check(RedriveRig(found, seed=2, wall=rig.clock.wall()), ids, "receive")
        if rig.all_shown()[0].state is RedriveState.DONE:
            return
        rig.engine.sync(work)
        rig.engine.finish(work)
    raise AssertionError("it is never done")


def check(rig: RedriveRig, ids: list[str], name: str) -> None:
    rig.check()
    found = rig.ids("q") + rig.ids("dead")
    assert len(found) == len(set(found))
    if not name.startswith(("purge", "delete")):
        assert sorted(found) == ids
    for id in rig.ids("dead"):
        assert f"dead:{id}" in rig.histories()
    for id in rig.ids("q"):
        assert f"q:{id}" in rig.histories()
