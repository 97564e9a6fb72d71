"""A process dies between any two steps of one request: each message is as before it, or as after it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.members import indexes
from spoolrack_store.model.operations import (
    ChangeVisibility,
    CreateQueue,
    Delete,
    DeleteQueue,
    GiveBack,
    Purge,
    Receive,
    Request,
    Send,
    UpdateQueue,
)
from spoolrack_store.model.settings import QueueSettings

from tests.support.dead_letter_rig import LEASE, Rig
from tests.support.linked_disk import Died, reap

MOST_STEPS = 120
HOLD = Millis(60_000)
State = tuple[object, ...]


@dataclass
class Scene:
    """Messages in all states, alone and in batches, and a request about them."""

    beside: bool
    """Whether another process has the root open, and goes on."""
    rig: Rig = field(default_factory=Rig)
    receipts: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        rig = self.rig
        self.other = rig.join("p2") if self.beside else None
        self.ids += rig.send(b"alone")
        self.ids += rig.send(*(b"batch %d" % number for number in range(6)))
        later = rig.ask(Send(queue="q", bodies=[b"later"] * 2, delays={0: HOLD, 1: HOLD}))
        self.ids += later.results
        rig.settle()
        for most in (1, 3):
            for delivery in rig.ask(Receive(queue="q", max_messages=most, visibility=HOLD)):
                self.receipts += delivery.receipts
        rig.settle()

    def states(self) -> dict[str, State]:
        index = self.rig.engine.index
        return {
            entry.batch.stem.message_id(place): (
                entry.name.state,
                entry.name.queue,
                entry.name.receives,
                entry.name.due,
            )
            for queue in index.queues.values()
            for entry in queue.entries
            for place in indexes(entry.held)
        }

    def settings(self) -> dict[str, QueueSettings]:
        return {name: each.settings for name, each in self.rig.engine.catalog.records.items()}

    def die(self) -> None:
        """Let the other process go on, or the next one start."""
        self.rig.disk.free_locks()
        if self.other is not None:
            self.rig.living.discard("p1")
            self.rig = self.other
        else:
            self.rig.queues = {}  # Queues without a file in config/ are not made again.
            self.rig = self.rig.restart()
        self.settle()

    def settle(self) -> None:
        for _ in range(6):
            self.rig.ask(tick=True)
            reap(self.rig.engine)


ACTS: dict[str, Callable[[Scene], Request[object]]] = {
    "send one": lambda scene: Send(queue="q", bodies=[b"new"]),
    "send many": lambda scene: Send(queue="q", bodies=[b"new"] * 5),
    "send later": lambda scene: Send(
        queue="q", bodies=[b"new"] * 3, delays=dict.fromkeys(range(3), HOLD)
    ),
    "receive one": lambda scene: Receive(queue="q", visibility=LEASE),
    "receive all": lambda scene: Receive(queue="q", max_messages=50, visibility=LEASE),
    "delete a lease": lambda scene: Delete(queue="q", receipts=scene.receipts[1:]),
    "delete out of leases": lambda scene: Delete(queue="q", receipts=scene.receipts[::2]),
    "delete in any state": lambda scene: Delete(queue="q", ids=scene.ids[::2]),
    "delete all": lambda scene: Delete(queue="q", ids=scene.ids),
    "extend": lambda scene: ChangeVisibility(
        queue="q", receipts=scene.receipts[1:3], visibility=Millis(2 * HOLD)
    ),
    "give back": lambda scene: GiveBack(queue="q", receipts=scene.receipts),
    "purge": lambda scene: Purge(queue="q"),
    "create a queue": lambda scene: CreateQueue(name="fresh", settings=QueueSettings()),
    "update a queue": lambda scene: UpdateQueue(name="q", changes={"max_message_size": 77}),
    "delete a queue": lambda scene: DeleteQueue(name="q"),
}


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside another process"])
@pytest.mark.parametrize("act", ACTS)
def test_a_death_at_any_step_leaves_each_message_as_before_or_as_after(act: str, beside: bool) -> None:
    before, after = Scene(beside), Scene(beside)
    before.die()
    after.rig.ask(ACTS[act](after))
    after.settle()
    after.die()
    found, wanted = before.states(), after.states()
    seen = set()
    for steps in range(MOST_STEPS):
        scene = Scene(beside)
        scene.rig.disk.steps_left = steps
        try:
            scene.rig.ask(ACTS[act](scene))
            scene.settle()
            has_died = False
        except Died:
            has_died = True
        scene.rig.disk.steps_left = None
        scene.die()
        now = scene.states()
        for id in found.keys() | wanted.keys() | now.keys():
            assert now.get(id) in (found.get(id), wanted.get(id)), id
        assert scene.settings() in (before.settings(), after.settings())
        if act.startswith("send"):
            assert now.keys() in (found.keys(), wanted.keys()), "a part of a send is there"
        seen.add((frozenset(now.items()), *map(str, scene.settings().values())))
        if not has_died:
            break
    else:
        raise AssertionError("it never came to its end")
    assert len(seen) > 1, "the request has changed nothing"
