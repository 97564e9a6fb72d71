"""Receives and reserves that found nothing and wait: first come, first served, for their time."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import count
from typing import Any

from .model.clock import Millis
from .model.operations import Delivery, GiveBack, Receive, Request, Send
from .model.reservation_requests import Reservation, Reserve, UndoReservation

Waiting = Receive | Reserve
"""Requests that may wait until something is ready, and that can be cancelled as long as they do."""


@dataclass(slots=True, eq=False)
class Parked:
    """A request that waits. It keeps its place when it is tried in vain."""

    request: Waiting
    future: Future[Any]
    deadline: Millis | None
    """Monotonic; None waits for ever."""
    place: int = 0

    @property
    def has_credit(self) -> bool:
        credits = self.request.credits if isinstance(self.request, Receive) else None
        return credits is None or credits.free > 0

    @property
    def nothing(self) -> list[Delivery] | None:
        """The answer when its time is over."""
        return [] if isinstance(self.request, Receive) else None


class Parking:
    """Not thread-safe."""

    def __init__(self) -> None:
        self._queues: dict[str, dict[int, Parked]] = {}
        """By queue and place; places rise."""
        self._deadlines: list[tuple[Millis, int, Parked]] = []
        self._place = count()

    def __bool__(self) -> bool:
        return bool(self._queues)

    def __len__(self) -> int:
        return sum(map(len, list(self._queues.values())))

    def park(self, parked: Parked) -> None:
        parked.place = next(self._place)
        self._queues.setdefault(parked.request.queue, {})[parked.place] = parked
        if parked.deadline is not None:
            heapq.heappush(self._deadlines, (parked.deadline, parked.place, parked))

    def leave(self, parked: Parked) -> None:
        """`parked` waits no more."""
        waiting = self._queues.get(parked.request.queue, {})
        waiting.pop(parked.place, None)
        if not waiting:
            self._queues.pop(parked.request.queue, None)

    def worth_a_try(
        self, ready: Callable[[str], int | None], asked: Iterable[Request[Any]] = ()
    ) -> list[Parked]:
        """Return those that might be answered now, in the order in which they came; they keep their
        places.

        `ready` says how many messages a queue could give; None if there is no such queue any more,
        which all that wait for it must be told. What is `asked` in the same commit is done after them:
        where a request asks for messages, all that could take something are tried before, and they may
        be given at once what is sent.
        """
        chosen: list[Parked] = []
        wanted: set[str] = set()
        sent: Counter[str] = Counter()
        for request in asked if self._queues else ():
            if isinstance(request, Waiting):
                wanted.add(request.queue)
            elif isinstance(request, Send):
                sent[request.queue] += len(request.bodies)
        for queue, waiting in self._queues.items():
            most, coming = ready(queue), sent[queue]
            if most is None:
                chosen.extend(waiting.values())
                continue
            for parked in waiting.values():
                if most <= 0 and coming <= 0 and queue not in wanted:
                    break
                if not parked.has_credit:
                    continue
                if most <= 0:
                    coming -= parked.request.max_messages
                if most > 0 or queue in wanted or isinstance(parked.request, Receive):
                    chosen.append(parked)
                    most -= 1
        return chosen

    def next_deadline(self) -> Millis | None:
        """Return the monotonic time at which the first of them has waited long enough."""
        while self._deadlines:
            deadline, place, parked = self._deadlines[0]
            if place in self._queues.get(parked.request.queue, {}):
                return deadline
            heapq.heappop(self._deadlines)
        return None

    def take_late(self, now: Millis) -> Iterator[Parked]:
        """Let those leave whose time is over."""
        while (deadline := self.next_deadline()) is not None and deadline <= now:
            parked = heapq.heappop(self._deadlines)[2]
            self.leave(parked)
            yield parked

    def take_all(self) -> list[Parked]:
        """Let all leave."""
        parked_all = [parked for waiting in self._queues.values() for parked in waiting.values()]
        self._queues.clear()
        self._deadlines.clear()
        return parked_all


def undo_of(
    request: Waiting, outcome: list[Delivery] | Reservation | None
) -> GiveBack | UndoReservation | None:
    """Return what takes back an answer that no caller hears; None if there is nothing to take back."""
    if not outcome:
        return None
    if isinstance(outcome, Reservation):
        # What was there before, others were told of.
        undone = UndoReservation(stream=outcome.stream, sequence_number=outcome.sequence_number)
        return undone if outcome.is_new else None
    receipts = [receipt for delivery in outcome for receipt in delivery.receipts]
    return GiveBack(queue=request.queue, receipts=receipts)
