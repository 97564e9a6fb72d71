"""Callers' requests, and the parking of receives and reserves that wait for a message.

The first that came is served first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import count
from typing import Any, Generic, TypeVar

from .engine.deadlines import Deadlines
from .model.clock import Millis
from .model.operations import Receive, Request, Send
from .model.reservation_requests import Reserve

Waiting = Receive | Reserve
"""Requests that may wait until something is ready, and that can be cancelled as long as they do."""


Asked = TypeVar("Asked", bound=Request[Any])


@dataclass(slots=True, eq=False)
class QueuedRequest(Generic[Asked]):
    """A caller's request, until it is answered."""

    request: Asked
    future: Future[Any]
    since: Millis
    """Monotonic."""
    has_begun: bool = False
    """Whether it can't be cancelled any more."""
    has_waited: bool = False
    """Whether it was left to the next commit once: messages were on their way back."""
    place: int | None = None
    """Its place in the parking, which it keeps after a try without a result; None: it isn't there."""

    @property
    def deadline(self: QueuedRequest[Waiting]) -> Millis | None:
        """The monotonic time at which its wait is over; None: never."""
        return None if self.request.wait is None else Millis(self.since + self.request.wait)

    @property
    def has_credit(self: QueuedRequest[Waiting]) -> bool:
        credits = self.request.credits if isinstance(self.request, Receive) else None
        return credits is None or credits.free > 0


class Parking:
    """The waiting receives and reserves. Not thread-safe.

    A look costs what has changed since the last one, however many wait on other queues.
    """

    def __init__(self, changed: dict[str, None]) -> None:
        """`changed` are the queues that may have become able to give something: the index adds them,
        and each look takes them out."""
        self._changed_queues = changed
        self._queues: dict[str, dict[int, QueuedRequest[Waiting]]] = {}
        """By queue and place; places rise."""
        self._hopeful_queues: dict[str, None] = {}
        """Queues with waiting requests that could give something at the last look."""
        self._deadlines = Deadlines[tuple[int, str]]()
        """When waits are over, by place and queue."""
        self._place = count()
        self.waiting = 0
        """How many wait."""

    def is_awaited(self, queue: str) -> bool:
        return queue in self._queues

    def park(self, waiter: QueuedRequest[Waiting]) -> int:
        """Let a request wait; return its place."""
        queue, deadline, waiter.place = waiter.request.queue, waiter.deadline, next(self._place)
        self._queues.setdefault(queue, {})[waiter.place] = waiter
        self._changed_queues[queue] = None
        self.waiting += 1
        if deadline is not None:
            self._deadlines.set((waiter.place, queue), deadline)
        return waiter.place

    def leave(self, queue: str, place: int) -> None:
        """Remove the request at a place of a queue, if it still waits there."""
        waiting = self._queues.get(queue, {})
        waiter = waiting.pop(place, None)
        if waiter is not None:
            self.waiting -= 1
            waiter.place = None
            self._deadlines.discard((place, queue))
        if not waiting:
            self._queues.pop(queue, None)
            self._hopeful_queues.pop(queue, None)

    def worth_a_try(
        self, ready: Callable[[str], int | None], asked: Iterable[Request[Any]] = ()
    ) -> list[QueuedRequest[Waiting]]:
        """Return the requests that can perhaps be answered now, in their order; they keep their places.

        `ready` says how many messages a queue could give; None if there is no such queue any more,
        which all that wait for it must be told. The same commit does the `asked` requests after them:
        for as many messages as these ask for, those that wait are tried before, and they may be given
        at once what is sent.
        """
        if not self._queues:
            self._changed_queues.clear()
            return []
        # No Counters: to make two took longer than the rest of a look in vain.
        sent: dict[str, int] = {}
        wanted: dict[str, int] = {}
        for request in asked:
            if isinstance(request, Waiting):
                wanted[request.queue] = wanted.get(request.queue, 0) + request.max_messages
            elif isinstance(request, Send):
                sent[request.queue] = sent.get(request.queue, 0) + len(request.bodies)
        # A new one for each look, and no set that is emptied by `pop`: both would be searched for the
        # room that thousands of queues once took.
        looked_at, self._hopeful_queues = self._hopeful_queues, {}
        while self._changed_queues:
            # Not an iteration: another thread may add to it.
            looked_at[self._changed_queues.popitem()[0]] = None
        chosen: list[QueuedRequest[Waiting]] = []
        for queue in [*looked_at, *(wanted.keys() | sent.keys()) - looked_at.keys()]:
            waiting = self._queues.get(queue)
            if waiting is None:
                continue
            most = ready(queue)
            if most is None or most > 0:
                self._hopeful_queues[queue] = None
            chosen += _first_of(waiting, most, sent.get(queue, 0), wanted.get(queue, 0))
        return chosen

    def next_deadline(self) -> Millis | None:
        """Return the monotonic time at which the first wait is over."""
        return self._deadlines.next()

    def pop_late(self, now: Millis) -> Iterator[QueuedRequest[Waiting]]:
        """Remove and return the requests whose wait is over."""
        while (late := self._deadlines.pop(now)) is not None:
            place, queue = late
            waiter = self._queues[queue][place]
            self.leave(queue, place)
            yield waiter

    def pop_all(self) -> list[QueuedRequest[Waiting]]:
        """Remove and return all requests."""
        waiters = [waiter for waiting in self._queues.values() for waiter in waiting.values()]
        self._queues.clear()
        self._hopeful_queues.clear()
        self._deadlines.clear()
        self.waiting = 0
        return waiters


def _first_of(
    waiting: Mapping[int, QueuedRequest[Waiting]], ready: int | None, sent: int, wanted: int
) -> Iterator[QueuedRequest[Waiting]]:
    """Yield those of one queue that can perhaps be answered: as many as there are messages `ready`;
    after them receives with room for what is `sent`, and any with room for what is `wanted`."""
    if ready is None:
        yield from waiting.values()
        return
    for waiter in waiting.values():
        if ready <= 0 and sent <= 0 and wanted <= 0:
            return
        if not waiter.has_credit:
            continue
        if ready > 0 or wanted > 0 or isinstance(waiter.request, Receive):
            yield waiter
        if ready <= 0:
            sent -= waiter.request.max_messages
            wanted -= waiter.request.max_messages
        ready -= 1
