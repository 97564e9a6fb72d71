"""Messages of several queues, or of all whose names match a pattern, as one stream.

Each queue has a stream of its own, on its shard. Credits: all of them share one budget of messages in
flight, and one of bytes. A queue without messages has one credit, so that its first message can come;
the others share the rest evenly, and get what is free. What can fail: a stream. One that is away is
opened again, and the others go on. A queue of a pattern that is deleted is left out.
"""

from __future__ import annotations

import contextlib
import copy
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from .. import _arguments as arguments
from .._call_values import ListQueues
from .._message_base import MessageFacts
from .._runtime import Signal, Started
from .._shards import QueuePattern
from .._values import Envelope, Seconds, StreamOptions
from ..errors import (
    ClientClosed,
    InvalidRequest,
    QueueBeingDeleted,
    QueueNotFound,
    SpoolrackError,
    Timeout,
    Unreachable,
)
from .acks import Ack
from .pagination import pages
from .stream import EnvelopeStream

log = logging.getLogger("spoolrack")

LOOK_EVERY: Final = 5.0
"""Seconds between two looks for queues that match a pattern."""
LOOK_TIMEOUT: Final = 5.0
"""Seconds that such a look waits for an answer."""
IDLE_AFTER: Final = 1.0
"""Seconds without messages after which a queue's share of the credits is for others."""
SHARE_EVERY: Final = 0.01
"""Seconds between two looks at what all queues hold."""
LONGEST_LEASE: Final = 43_200.0
Order = Literal["fair", "strict"]


@dataclass(eq=False, slots=True)
class _Member:
    """A queue with its stream, and the messages of it that were handed out and have not ended."""

    rank: tuple[int, str]
    """Its place in the order."""
    queue: Any
    """Its handle."""
    stream: EnvelopeStream
    limit: tuple[int, int]
    """Messages and bytes that it may hold; 0 bytes are no limit."""
    busy_until: float = 0.0
    """It keeps its share so long without messages: else a fast consumer lowers it with each one."""
    handed_out: dict[str, tuple[MessageFacts, float]] = field(default_factory=dict)
    """By receipt, with the moment at which the lease is over if it isn't extended."""

    def message_count(self) -> int:
        return self.stream.waiting + len(self.handed_out)

    def byte_count(self) -> int:
        handed_out = [message._envelope for message, _ in self.handed_out.values()]
        return sum(map(_size_of, [*self.stream.waiting_messages(), *handed_out]))


class SeveralQueues:
    """Several queues of a stream or a worker, in place of one."""

    def __init__(
        self,
        handle_of: Callable[[str], Any],
        context: Any,
        queues: Any,
        order: Order,
    ) -> None:
        if order not in ("fair", "strict"):
            raise InvalidRequest(f"order can't be {order!r}: it must be 'fair' or 'strict'.")
        one = isinstance(queues, str) or hasattr(queues, "_lease_batches")
        several: Any = [queues] if one else queues
        self.names = [
            arguments.queue_name(each) for each in arguments.some("queues", several, "names or queues")
        ]
        if not self.names:
            raise InvalidRequest("queues can't be empty: name a queue, or a pattern.")
        self.patterns = [
            QueuePattern(each) if QueuePattern.SIGNS.search(each) else None for each in self.names
        ]
        self.name = ", ".join(self.names)
        self.is_strict = order == "strict"
        self.handle_of = handle_of
        self._context = context
        self._core: SeveralStreams | None = None

    def _envelopes(self, **options: Any) -> SeveralStreams:
        self._core = SeveralStreams(self, self._context, **options)
        return self._core

    def _message_type(self, envelope: Envelope, *_: object) -> Any:
        """Return the message that the stream has made of an envelope."""
        assert self._core is not None
        return self._core.message_of(envelope)


class SeveralStreams:
    """`EnvelopeStream` over several queues."""

    def __init__(
        self,
        queues: SeveralQueues,
        context: Any,
        *,
        max_in_flight: int = 100,
        max_bytes_in_flight: int | None = None,
        visibility_timeout: Seconds | None = None,
        timeout: Seconds | None = None,
        concurrency: int | None = None,
        until_dropped: bool = False,
        **unknown: object,
    ) -> None:
        arguments.check_options(unknown, StreamOptions)
        self._queues = queues
        self._context = context
        self._runtime = context.runtime
        most = arguments.MAX_IN_FLIGHT
        self._max_in_flight = arguments.integer("max_in_flight", max_in_flight, 1, most)
        self._max_bytes = (
            0
            if max_bytes_in_flight is None
            else arguments.integer("max_bytes_in_flight", max_bytes_in_flight, 1)
        )
        self._timeout = context.timeout_of(timeout)
        self._until_dropped = until_dropped
        self._options: dict[str, Any] = {
            "visibility_timeout": arguments.optional_span(
                "visibility_timeout", visibility_timeout, is_positive=True
            ),
            "timeout": timeout,
            "max_bytes_in_flight": max_bytes_in_flight,
            "concurrency": concurrency,
            "until_dropped": until_dropped,
            "on_arrival": self._wake,
        }
        self._lock = self._runtime.lock()
        self._members: list[_Member] = []
        """In their order. Replaced, never changed."""
        self._former_members: list[_Member] = []
        """Those whose streams have ended, and of which messages may still be with the program."""
        self._owners: dict[str, _Member] = {}
        """By receipt, of messages that were handed out."""
        self._turn: tuple[int, str] | None = None
        """Of fair order: the queue that had its turn last."""
        self._waiters: list[Signal] = []
        self._closing: Signal = self._runtime.signal()
        self._failure: SpoolrackError | None = None
        self._is_started = False
        self._watchers: list[Started] = []
        """One for each shard."""
        self._ranks_by_shard: list[set[tuple[int, str]]] = []
        """The queues of patterns that were listed last."""
        self._failed_looks = 0
        """Shards whose first list has failed."""
        self._shared = -SHARE_EVERY
        """When credits were shared last."""
        self.acks = _AcksOfOwners(self)

    async def next(self) -> Envelope | None:
        """Return the next message; None once the stream is closed."""
        found = await self.receive(1, None)
        return found[0] if found else None

    async def receive(self, max_messages: int, wait: Seconds | None) -> list[Envelope]:
        """Return messages that have arrived, as `EnvelopeStream.receive`: of one queue at a time."""
        arguments.integer("max_messages", max_messages, 1)
        waits = arguments.optional_span("wait", wait)
        until = None if waits is None else self._runtime.monotonic() + waits
        self._context.check_process()
        self._start()
        while not self._closing.is_set():
            signal = self._runtime.signal()
            with self._lock:
                # Before the look: an arrival after it is not missed.
                self._waiters.append(signal)
            try:
                found = await self._take(max_messages)
                if found:
                    return found
                if self._failure is not None:
                    raise copy.copy(self._failure)
                now = self._runtime.monotonic()
                if until is not None and until <= now:
                    break
                # Messages have ended since.
                due = self._share_credits(now)
                ends = [each for each in (until, due) if each is not None]
                await signal.wait(min(ends) - now if ends else None)
            finally:
                with self._lock, contextlib.suppress(ValueError):
                    self._waiters.remove(signal)
        return []

    async def _take(self, most: int) -> list[Envelope]:
        for member in self._in_turn():
            if not member.stream.has_news:
                continue
            try:
                envelopes = await member.stream.receive(most, 0)
            except SpoolrackError as error:
                self._replace(member, error)
                continue
            if envelopes:
                self._turn = member.rank
                self._hand_out(member, envelopes)
                return envelopes
        return []

    def _in_turn(self) -> Sequence[_Member]:
        members = self._members
        if self._queues.is_strict or self._turn is None:
            return members
        later = [member for member in members if member.rank > self._turn]
        return [*later, *members[: len(members) - len(later)]]

    def _hand_out(self, member: _Member, envelopes: Sequence[Envelope]) -> None:
        now = self._runtime.monotonic()
        lease = self._options["visibility_timeout"]
        for envelope in envelopes:
            until = now + (lease or envelope.visibility_timeout or LONGEST_LEASE)
            message = member.queue._message_type(envelope, member.queue, member.stream.acks)
            with self._lock:
                self._owners[envelope.receipt] = member
                member.handed_out[envelope.receipt] = (message, until)
        member.busy_until = now + IDLE_AFTER
        self._share_credits(now, is_new=member.limit[0] == 1)
        # Now that a message has begun it can be told, also if it was decided before.
        member.stream.limit(*member.limit)

    def message_of(self, envelope: Envelope) -> MessageFacts:
        return self._owners[envelope.receipt].handed_out[envelope.receipt][0]

    def owner_of(self, receipt: str) -> _Member | None:
        return self._owners.get(receipt)

    def drop_lease(self, envelope: Envelope) -> None:
        """Stop extending the lease of a message that was delivered."""
        with self._lock:
            member = self._owners.pop(envelope.receipt, None)
            if member is not None:
                member.handed_out.pop(envelope.receipt, None)
        if member is not None:
            member.stream.drop_lease(envelope)

    def _share_credits(self, now: float, *, is_new: bool = False) -> float | None:
        """Tell each stream what it may hold, by what each holds now; return when to do it again, if no
        message comes before. Within `SHARE_EVERY` do nothing, unless `is_new`."""
        with self._lock:
            due = self._shared + SHARE_EVERY
            if now < due and not is_new:
                return due
            self._shared = now
            members = self._members
            for member in (*members, *self._former_members):
                for receipt, (message, until) in list(member.handed_out.items()):
                    if message._finished or (until <= now and not self._until_dropped):
                        del member.handed_out[receipt]
                        self._owners.pop(receipt, None)
            counts = [member.message_count() for member in members]
            busy = [
                count > 0 or member.busy_until > now
                for member, count in zip(members, counts, strict=True)
            ]
            limits = shares(self._max_in_flight, counts, busy)
            byte_limits = [0] * len(members)
            if self._max_bytes:
                sizes = [member.byte_count() for member in members]
                byte_limits = shares(self._max_bytes, sizes, busy)
            ends = [
                member.busy_until
                for member, count in zip(members, counts, strict=True)
                if not count and member.busy_until > now
            ]
            changed = []
            for member, limit in zip(members, zip(limits, byte_limits, strict=True), strict=True):
                if member.limit != limit:
                    member.limit = limit
                    changed.append(member)
        # Those that get less first, so that all together are not more for long.
        for member in sorted(changed, key=lambda member: member.limit):
            member.stream.limit(*member.limit)
        return min(ends, default=None)

    def _start(self) -> None:
        with self._lock:
            if self._is_started:
                return
            self._context.check()
            self._is_started = True
            self._context.open.add(self)
        shards = self._context.transport.all if any(self._queues.patterns) else ()
        self._ranks_by_shard = [set() for _ in shards]
        self._set_members()
        for shard, transport in enumerate(shards):
            self._watchers.append(
                self._runtime.start(self._watch(shard, transport), "spoolrack-patterns")
            )

    def _set_members(self) -> None:
        """Have the queues that are named or listed, and no others; a name counts where it is first."""
        with self._lock:
            if self._closing.is_set():
                return
            named = enumerate(self._queues.names)
            ranks = {rank for rank in named if self._queues.patterns[rank[0]] is None}
            rank_by_name: dict[str, tuple[int, str]] = {}
            for rank in sorted(ranks.union(*self._ranks_by_shard)):
                rank_by_name.setdefault(rank[1], rank)
            member_by_rank = {member.rank: member for member in self._members}
            members = [
                member_by_rank.get(rank) or self._member(rank) for rank in sorted(rank_by_name.values())
            ]
            former_members = [each for each in self._members if each not in members]
            self._members = members
            self._former_members = [
                each for each in self._former_members if each.handed_out or each.stream.acks.pending
            ]
            self._former_members += former_members
        for member in members:
            member.stream.start()
        for member in former_members:
            member.stream.abandon_now()
        self._share_credits(self._runtime.monotonic(), is_new=True)

    def _member(self, rank: tuple[int, str]) -> _Member:
        queue = self._queues.handle_of(rank[1])
        stream = queue._envelopes(max_in_flight=1, is_one_of_several=True, **self._options)
        return _Member(rank, queue, stream, limit=(1, self._max_bytes))

    def _replace(self, member: _Member, error: SpoolrackError) -> None:
        """Open the stream of a queue again that has failed; or leave the queue out, or fail."""
        is_of_pattern = self._queues.patterns[member.rank[0]] is not None
        with self._lock:
            others = [each for each in self._members if each is not member]
            if len(others) == len(self._members):
                return  # Another caller was here.
            if isinstance(error, ClientClosed) or self._closing.is_set():
                return
            if is_of_pattern and isinstance(error, QueueNotFound | QueueBeingDeleted):
                self._members = others
                self._former_members.append(member)
                return
            goes_on = is_of_pattern or any(each.stream.ever_connected for each in others)
            if not isinstance(error, Timeout | Unreachable) or not goes_on:
                self._failure = error
                return
            log.warning("the stream of %s is opened again: %s", member.queue.name, error)
            again = self._member(member.rank)
            self._former_members.append(member)
            self._members = [again if each is member else each for each in self._members]
        again.stream.start()

    async def _watch(self, shard: int, transport: Any) -> None:
        """Look for queues of a shard that match, until the stream is closed."""
        is_first, was_whole = True, True
        while not self._closing.is_set():
            try:
                self._ranks_by_shard[shard] = await self._look(shard, transport)
            except SpoolrackError as error:
                if is_first and self._ends_with(error):
                    self._failure = error
                    self._wake()
                    return
                if was_whole:
                    log.warning("queues that match %s may be missing: %s", self._queues.name, error)
                was_whole = False
            except Exception:
                log.exception("queues that match %s are looked for no more", self._queues.name)
                raise
            else:
                was_whole = True
            self._set_members()
            self._wake()
            is_first = False
            await self._closing.wait(LOOK_EVERY)

    def _ends_with(self, error: SpoolrackError) -> bool:
        """Return whether the failure of a shard's first list is that of the stream: not if the shard is
        away, and another one isn't."""
        if isinstance(error, ClientClosed):
            return False
        with self._lock:
            self._failed_looks += 1
            is_any_left = self._failed_looks < len(self._ranks_by_shard)
        return not (is_any_left and isinstance(error, Timeout | Unreachable))

    async def _look(self, shard: int, transport: Any) -> set[tuple[int, str]]:
        """Return the queues of a shard that match."""
        ranks: set[tuple[int, str]] = set()
        for number, pattern in enumerate(self._queues.patterns):
            if pattern is None:
                continue
            request, span = ListQueues(prefix=pattern.prefix), min(self._timeout, LOOK_TIMEOUT)
            async for page in pages(self._context, request, span, transport):
                ranks |= {(number, queue.name) for queue in page.items if pattern.matches(queue.name)}
        return ranks

    def _wake(self) -> None:
        """Wake all waiting callers. From any thread."""
        with self._lock:
            waiting, self._waiters = self._waiters, []
        for signal in waiting:
            signal.set()

    async def close(self) -> None:
        """End all streams, and release the messages that wait in them. Idempotent."""
        self.abandon_now()
        for member in (*self._members, *self._former_members):
            await member.stream.close()
        self._context.open.discard(self)

    async def close_acks(self) -> None:
        for member in (*self._members, *self._former_members):
            await member.stream.acks.close()

    def stop_extending(self) -> None:
        """Stop extending all leases."""
        for member in (*self._members, *self._former_members):
            member.stream.stop_extending()

    def abandon(self) -> None:
        """Close without waiting, from a finalizer."""
        if self._is_started and not self._closing.is_set() and not self._context.closed:
            self._runtime.soon(self.abandon_now)

    def abandon_now(self) -> None:
        """Close without waiting."""
        with self._lock:
            self._closing.set()
        for member in self._members:
            member.stream.abandon_now()
        self._wake()

    def describe(self) -> str:
        return f"of {self._queues.name}{', closed' if self._closing.is_set() else ''}"


class _AcksOfOwners:
    """The acks of several streams: each goes to the stream of its message."""

    def __init__(self, streams: SeveralStreams) -> None:
        self._streams = streams

    def add(self, ack: Ack) -> None:
        member = self._streams.owner_of(ack.receipt)
        if member is None:
            raise InvalidRequest("The stream has no such message: delete it by its queue.")
        member.stream.acks.add(ack)

    async def close(self) -> None:
        await self._streams.close_acks()


def _size_of(envelope: Envelope) -> int:
    """Return the bytes of body and attributes; for text outside ASCII a little less."""
    return envelope.body_size + sum(len(name) + len(each) for name, each in envelope.attributes.items())


def shares(budget: int, amounts: Sequence[int], busy: Sequence[bool]) -> list[int]:
    """Return the credits of each queue, by what each holds, and whether it is busy: of messages, or of
    bytes.

    One is for each idle queue. The rest is shared evenly by the busy ones; one that holds less than its
    share gets as much more as is free.
    """
    held = [max(1, amount) for amount in amounts]  # One without any gets one, too.
    busy_count = sum(busy)
    spare = max(0, budget - sum(held))
    share = max(1, (budget - (len(amounts) - busy_count)) // max(1, busy_count))
    credits = []
    for amount, is_busy in zip(held, busy, strict=True):
        more = min(max(0, share - amount), spare) if is_busy else 0
        spare -= more
        credits.append(min(amount, share) + more if is_busy else 1)
    return credits
