"""Engines on one disk in memory, with a manual clock, for the tests of reservations."""

from __future__ import annotations

import errno
from functools import partial
from random import Random
from typing import Any

from spoolrack_store.engine.engine import Engine
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import StoreError
from spoolrack_store.model.operations import Delivery, Message, Receive, Request, Send
from spoolrack_store.model.reservation_requests import Reservation, Reserve
from spoolrack_store.model.settings import QueueSettings

from tests.support.engine_story import Clock
from tests.support.engines import commit, start
from tests.support.linked_disk import LinkedDisk, Memory, made, reap
from tests.support.memory_disk import fails
from tests.support.power_disk import Model

HOLD = Millis(60_000)
SETTINGS = {
    "q": QueueSettings(),
    "other": QueueSettings(),
    "dead": QueueSettings(),
    "poor": QueueSettings(max_receives=1, dead_letter_queue="dead"),
}


class FullDisk(LinkedDisk):
    """It refuses to make what begins with `refused`, once so many of them were made."""

    refused: tuple[str, ...] = ()
    spared = 0

    def _refuse(self, path: str) -> None:
        if path.startswith(self.refused):
            self.spared -= 1
            if self.spared < 0:
                raise fails(errno.ENOSPC, path)

    def create(self, path: str, parts: Any, *, sync: bool) -> None:
        self._refuse(path)
        super().create(path, parts, sync=sync)

    def link(self, source: str, target: str) -> None:
        self._refuse(target)
        super().link(source, target)

    def rename_new(self, source: str, target: str) -> None:
        self._refuse(target)
        super().rename_new(source, target)


class SetRig:
    """One process at first; `join` adds another."""

    def __init__(self, model: Model = Model.ORDERED, *, disk: LinkedDisk | None = None) -> None:
        self.disk = disk or made(tuple(SETTINGS), can_sync_all=True, model=model)
        self.disk.__class__ = FullDisk
        self.clock = Clock()
        self.living: list[str] = []
        self.engine = self.join()

    def join(self) -> Engine:
        owner = f"p{len(self.living)}"
        self.living.append(owner)
        return start(
            self.disk,
            Memory(self.disk),
            clock=self.clock,
            owner=owner,
            random=Random(len(self.living)),
            is_living=lambda owner: owner in self.living,
            queues=SETTINGS,
        )

    def restart(self) -> None:
        """End all processes, and let another one take the root over."""
        gone, self.living = self.living, []
        self.disk.free_locks()
        self.living = [f"gone{len(gone)}"] * len(gone)
        self.engine = self.join()
        self.settle()

    def ask(self, request: Request[Any], *, engine: Engine | None = None) -> Any:
        """Return the answer, or raise the error that is it."""
        engine = engine or self.engine
        (outcome,) = commit(engine, request)
        reap(engine)
        if isinstance(outcome, StoreError):
            raise outcome
        return outcome

    def settle(self, *, engine: Engine | None = None) -> None:
        """Do what waits for a sync or a tick."""
        for _ in range(8):
            self.commit(engine=engine)

    def commit(self, *, engine: Engine | None = None) -> None:
        engine = engine or self.engine
        commit(engine, tick=True)
        reap(engine)

    def advance(self, span: int) -> None:
        self.clock.now += span
        self.settle()

    def send(self, *bodies: bytes, queue: str = "q") -> list[str]:
        ids: list[str] = self.ask(Send(queue=queue, bodies=bodies)).results
        self.settle()
        return ids

    def reserve(
        self, sequence_number: int = 0, *, engine: Engine | None = None, **what: Any
    ) -> Reservation:
        values = {
            "queue": "q",
            "stream": "s",
            "sequence_number": sequence_number,
            "visibility_timeout": HOLD,
            **what,
        }
        made = self.ask(Reserve(**values), engine=engine)
        assert isinstance(made, Reservation)
        return made

    def receive(self, queue: str = "q", *, engine: Engine | None = None) -> list[tuple[str, int]]:
        """Return the ids and receives of all that is ready."""
        request = Receive(queue=queue, max_messages=1_000)
        deliveries: list[Delivery] = self.ask(request, engine=engine)
        return [(id, delivery.receives) for delivery in deliveries for id in delivery.ids]

    def read(
        self, sequence_number: int = 0, begin: int = 0, end: int = 0, *, engine: Engine | None = None
    ) -> list[Message]:
        """Read a set page by page, and put aside what is damaged."""
        engine = engine or self.engine
        reservations, found = engine.reservations, list[Message]()
        last = engine.with_exact_index(
            partial(reservations.begin_reading, "s", sequence_number, begin, end)
        )
        assert last is not None
        while begin < last:
            page = engine.with_exact_index(
                partial(reservations.page, "s", sequence_number, begin, last)
            )
            assert page is not None
            for request in page.damaged:
                self.ask(request, engine=engine)
            found += page.messages
            begin = page.following
        return found

    def ids_in(self, sequence_number: int = 0, *, engine: Engine | None = None) -> list[str]:
        return [message.id for message in self.read(sequence_number, engine=engine)]

    def names(self) -> list[str]:
        return sorted(each.name for each in self.disk.scan("reserved"))
