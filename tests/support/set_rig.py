"""Engines on one disk in memory, with a manual clock, for the tests of reservations."""

from __future__ import annotations

import errno
from functools import partial
from typing import Any

from spoolrack_store.engine.engine import Engine
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.operations import Delivery, Message, Receive, Send
from spoolrack_store.model.reservation_requests import Reservation, Reserve
from spoolrack_store.model.settings import QueueSettings

from tests.support.engine_rig import EngineRig
from tests.support.linked_disk import RefusingDisk
from tests.support.power_disk import Model

HOLD = Millis(60_000)
SETTINGS = {
    "q": QueueSettings(),
    "other": QueueSettings(),
    "dead": QueueSettings(),
    "poor": QueueSettings(max_receives=1, dead_letter_queue="dead"),
}


class SetRig(EngineRig):
    def __init__(self, model: Model = Model.ORDERED, *, disk: RefusingDisk | None = None) -> None:
        super().__init__(SETTINGS, disk=disk, model=model)

    def advance(self, span: int) -> None:
        self.clock.now += span
        self.settle()

    def fill_disk(self, *places: str, spared: int = 0) -> None:
        """Leave room for `spared` names in these folders, until `disk.refused` is empty again."""
        self.disk.code = errno.ENOSPC
        self.disk.refused, self.disk.spared = [f"make {place}" for place in places], spared

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
        return [(id, delivery.receive_count) for delivery in deliveries for id in delivery.ids]

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
            begin = page.next_index
        return found

    def ids_in(self, sequence_number: int = 0, *, engine: Engine | None = None) -> list[str]:
        return [message.id for message in self.read(sequence_number, engine=engine)]
