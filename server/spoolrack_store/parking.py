"""The receives and reserves that wait for a message: first come, first served."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from .model.clock import Millis
from .model.operations import Delivery, Receive, Request, Send
from .model.reservation_requests import Reserve

Waiting = Receive | Reserve
"""Requests that may wait until something is ready, and that can be cancelled as long as they do."""


@dataclass(slots=True, eq=False)
class Parked:
    """A request that waits. It keeps its place after a try without a result."""

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
        """The answer when its wait is over."""
        return [] if isinstance(self.request, Receive) else None


class Parking:
    """The waiting receives and reserves. Not thread-safe.

    A look costs what has changed since the last one, however many wait on other queues.
    """

    def __init__(self, changed: set[str]) -> None:
        """`changed` are the queues that may have become able to give something: the index adds them,
        and each look takes them out."""
        self._changed = changed
        self._queues: dict[str, dict[int, Parked]] = {}
        """By queue and place; places rise."""
        self._hopeful: dict[str, None] = {}
        """Queues with waiting requests that could give something at the last look."""
        self._deadlines: list[tuple[Millis, int, str]] = []
        """A heap of deadlines, places and queues; some of those wait no more."""
        self._place = count()
        self.waiting = 0
        """How many wait."""

    def is_awaited(self, queue: str) -> bool:
        return queue in self._queues

    def park(self, parked: Parked) -> None:
        queue = parked.request.queue
        parked.place = next(self._place)
        self._queues.setdefault(queue, {})[parked.place] = parked
        self._changed.add(queue)
        self.waiting += 1
        if parked.deadline is not None:
            heapq.heappush(self._deadlines, (parked.deadline, parked.place, queue))
            if len(self._deadlines) > 2 * self.waiting + _FEW:
                self._deadlines = [each for each in self._deadlines if self._waits(*each)]
                heapq.heapify(self._deadlines)

    def leave(self, parked: Parked) -> None:
        """Remove `parked` from the waiting receives."""
        queue = parked.request.queue
        waiting = self._queues.get(queue, {})
        if waiting.pop(parked.place, None) is not None:
            self.waiting -= 1
        if not waiting:
            self._queues.pop(queue, None)
            self._hopeful.pop(queue, None)

    def worth_a_try(
        self, ready: Callable[[str], int | None], asked: Iterable[Request[Any]] = ()
    ) -> list[Parked]:
        """Return the requests that can perhaps be answered now, in their order; they keep their places.

        `ready` says how many messages a queue could give; None if there is no such queue any more,
        which all that wait for it must be told. The same commit does the `asked` requests after them:
        for as many messages as these ask for, those that wait are tried before, and they may be given
        at once what is sent.
        """
        if not self._queues:
            self._changed.clear()
            return []
        # No Counters: to make two took longer than the rest of a look in vain.
        sent: dict[str, int] = {}
        wanted: dict[str, int] = {}
        for request in asked:
            if isinstance(request, Waiting):
                wanted[request.queue] = wanted.get(request.queue, 0) + request.max_messages
            elif isinstance(request, Send):
                sent[request.queue] = sent.get(request.queue, 0) + len(request.bodies)
        while self._changed:
            # Not an iteration: another thread may add to it.
            self._hopeful[self._changed.pop()] = None
        chosen: list[Parked] = []
        for queue in [*self._hopeful, *(wanted.keys() | sent.keys()) - self._hopeful.keys()]:
            waiting = self._queues.get(queue)
            most = None if waiting is None else ready(queue)
            if waiting is None or (most is not None and most <= 0):
                self._hopeful.pop(queue, None)
            if waiting is not None:
                chosen += _first_of(waiting, most, sent.get(queue, 0), wanted.get(queue, 0))
        return chosen

    def next_deadline(self) -> Millis | None:
        """Return the monotonic time at which the first wait is over."""
        while self._deadlines:
            if self._waits(*self._deadlines[0]):
                return self._deadlines[0][0]
            heapq.heappop(self._deadlines)
        return None

    def _waits(self, _: Millis, place: int, queue: str) -> bool:
        return place in self._queues.get(queue, ())

    def pop_late(self, now: Millis) -> Iterator[Parked]:
        """Remove and return the requests whose wait is over."""
        while (deadline := self.next_deadline()) is not None and deadline <= now:
            _, place, queue = heapq.heappop(self._deadlines)
            parked = self._queues[queue][place]
            self.leave(parked)
            yield parked

    def pop_all(self) -> list[Parked]:
        """Remove and return all requests."""
        parked_all = [parked for waiting in self._queues.values() for parked in waiting.values()]
        self._queues.clear()
        self._hopeful.clear()
        self._deadlines.clear()
        self.waiting = 0
        return parked_all


_FEW: Final = 64


def _first_of(
    waiting: Mapping[int, Parked], ready: int | None, sent: int, wanted: int
) -> Iterator[Parked]:
    """Yield those of one queue that can perhaps be answered: as many as there are messages `ready`;
    after them receives with room for what is `sent`, and any with room for what is `wanted`."""
    if ready is None:
        yield from waiting.values()
        return
    for parked in waiting.values():
        if ready <= 0 and sent <= 0 and wanted <= 0:
            return
        if not parked.has_credit:
            continue
        if ready > 0 or wanted > 0 or isinstance(parked.request, Receive):
            yield parked
        if ready <= 0:
            sent -= parked.request.max_messages
            wanted -= parked.request.max_messages
        ready -= 1
