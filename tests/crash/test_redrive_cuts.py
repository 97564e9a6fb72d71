"""Power cuts after a redrive, while the next commit isn't durable either."""

from __future__ import annotations

from itertools import chain, combinations

import pytest
from spoolrack_store.model.operations import Delete, Purge, Receive, Request
from spoolrack_store.model.redrive_requests import CancelRedrive, StartRedrive

from tests.support.cuts import Cut, Keep
from tests.support.dead_letter_rig import QUEUES, Rig
from tests.support.linked_disk import LinkedDisk, made
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
    redrive = rig.ask(StartRedrive(queue="dead", rate=10))
    rig.after(100)
    for _ in range(4):
        # One message is moved, and that isn't durable.
        if rig.ids("q"):
            break
        work = rig.engine.apply([])
        assert work is not None
        if not rig.ids("q") and work.commit is not None:
            work.commit.sync()
            rig.engine.finish(work)
    assert rig.ids("q") == ids[:1]
    rig.after(100 if waits else 0)
    requests: tuple[Request[object], ...] = NEXT.get(name, ())
    if name == "delete":
        requests = (Delete(queue="q", ids=ids[:1]),)
    if name.startswith("cancel"):
        requests = (CancelRedrive(id=redrive.id), *NEXT["receive" if "receive" in name else "nothing"])
    rig.engine.apply(requests)
    assert 0 < disk.pending <= MOST_PENDING
    pending = range(disk.pending)
    for kept in chain.from_iterable(combinations(pending, count) for count in range(len(pending) + 1)):
        found = disk.cut(Cut(Keep.ONLY, kept))
        assert isinstance(found, LinkedDisk)
        found.free_locks()
        _check(Rig(disk=found, clock=rig.clock, owner="p9"), ids, name)


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
