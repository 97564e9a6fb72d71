"""Worker processes tell each other the consumers of a queue's oldest leases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from spoolrack_server.app.health import Health
from spoolrack_server.metrics.observer import Observer
from spoolrack_server.siblings.worker_processes import CONSUMERS, WorkerProcess
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.operations import OldLease, Queue, Receive

from tests.store.front_rig import FrontRig, opened

UNKNOWN = "unknown to this process"


class Siblings(WorkerProcess):
    """A process among others with these observers; None: one that doesn't answer."""

    def __init__(self, *observers: Observer | None) -> None:
        super().__init__(0)
        self._observers = observers
        self.asked: list[str] = []

    async def others(self, what: str) -> dict[int, Any]:
        self.asked.append(what)
        return {
            number: None if each is None else await each.answer(what)
            for number, each in enumerate(self._observers, 1)
        }


async def observing(rig: FrontRig) -> Observer:
    observer = Observer(Health(), rig.clock)
    observer.begin(rig.store.metrics, reaps=True, describe=rig.store.queue)
    return observer


def forgotten(queue: Queue) -> Queue:
    """Return the queue as a process sees it that served none of its receives."""
    leases: dict[str, OldLease] = {}
    for lease in queue.oldest_leases:
        there = leases.get(lease.message_id[:-3])
        count = lease.message_count + (0 if there is None else there.message_count)
        leases[lease.message_id[:-3]] = replace(
            there or lease, message_count=count, consumer=UNKNOWN, received_at=None
        )
    return replace(queue, oldest_leases=list(leases.values()))


def told(leases: Sequence[OldLease]) -> list[tuple[str, str, int]]:
    return [(each.message_id, each.consumer, each.message_count) for each in leases]


async def test_consumers_are_told_that_another_process_knows(tmp_path: Path) -> None:
    with opened(tmp_path) as rig:
        waiting = [
            rig.store.submit(Receive(queue="q", max_messages=2, wait=None, consumer=name))
            for name in ("alice", "bob")
        ]
        rig.in_turn()
        ids = rig.send(b"a", b"b", b"c", b"d")
        for future in waiting:
            assert future.result(60)
        queue = rig.store.queue("q")
        assert [each.message_count for each in forgotten(queue).oldest_leases] == [4]

        sibling = await observing(rig)
        here = Observer(Health(), ManualClock(), Siblings(None, sibling))
        found = await here.with_consumers(forgotten(queue))

        assert told(found.oldest_leases) == [(ids[0], "alice", 2), (ids[2], "bob", 2)]
        assert found == queue
        await sibling.end()


async def test_a_lease_that_no_process_knows_stays_unknown(tmp_path: Path) -> None:
    with opened(tmp_path) as rig:
        rig.send(b"a")
        rig.receive()
        sibling = await observing(rig)
        queue = rig.store.queue("q")
        found = await Observer(Health(), ManualClock(), Siblings(sibling)).with_consumers(queue)
        assert found == queue
        assert found.oldest_leases[0].consumer.startswith(UNKNOWN)
        assert await sibling.answer(f"{CONSUMERS}gone") == []
        await sibling.end()
        assert await sibling.answer(f"{CONSUMERS}q") == []


async def test_an_answer_about_an_earlier_lease_of_the_message_counts_for_nothing(
    tmp_path: Path,
) -> None:
    with opened(tmp_path) as rig:
        rig.send(b"a")
        rig.ask(Receive(queue="q", consumer="alice"))
        sibling = await observing(rig)
        queue = forgotten(rig.store.queue("q"))
        (lease,) = queue.oldest_leases
        later = replace(
            lease, receive_count=2, lease_expires_at=Millis(lease.lease_expires_at + 30_000)
        )
        queue = replace(queue, oldest_leases=[later])
        found = await Observer(Health(), ManualClock(), Siblings(sibling)).with_consumers(queue)
        assert found == queue
        await sibling.end()


async def test_no_process_is_asked_about_consumers_that_are_known(tmp_path: Path) -> None:
    with opened(tmp_path) as rig:
        rig.send(b"a")
        rig.ask(Receive(queue="q", consumer="alice"))
        siblings = Siblings()
        queue = rig.store.queue("q")
        assert await Observer(Health(), ManualClock(), siblings).with_consumers(queue) is queue
        assert siblings.asked == []
