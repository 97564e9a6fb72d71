"""The reservations of `memory`: leases under a name."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from spoolrack._reservation_values import CommitResult, Reservation, ReservationState
from spoolrack._runtime import Runtime
from spoolrack._values import Envelope, MessageState, Page, moment_of
from spoolrack.errors import (
    ClientClosed,
    NameTaken,
    ReservationCommitted,
    ReservationLost,
    ReservationNotFound,
)

from tests.client.memory import PAGE, Held, Memory, Reserved

PAGE_OF_A_READ = 3


class MemoryPages:
    """Pages of a reservation, each as it is when it is asked for."""

    def __init__(
        self, reserving: MemoryReserving, stream: str, sequence_number: int, begin: int, end: int
    ) -> None:
        self._reserving = reserving
        self._name = (stream, sequence_number)
        self._place = begin
        self._end = end

    async def next(self) -> Sequence[Envelope]:
        page, self._place = self._reserving.page(*self._name, self._place, self._end)
        return page

    def cancel(self) -> None:
        """Do nothing: no call is in flight between pages."""


class MemoryReserving:
    """`spoolrack._transports.Reserving` to a `Memory`."""

    def __init__(self, memory: Memory, runtime: Runtime) -> None:
        self._memory = memory
        self._runtime = runtime
        self._closed = False

    def close(self) -> None:
        """End what waits."""
        self._closed = True
        self._memory.wake()

    def _find(self, stream: str, sequence_number: int) -> Reserved | None:
        """Return a reservation that is held, or None if there never was one. With the lock held."""
        committed = self._memory.committed.get(stream, -1)
        if sequence_number <= committed:
            raise ReservationCommitted(f"The stream {stream} is committed up to {committed}.")
        found = self._memory.reserved.get((stream, sequence_number))
        if found is not None and found.due_ms <= self._memory.now_ms:
            raise ReservationLost(
                f"The hold on reservation {sequence_number} of the stream {stream} is over."
            )
        return found

    def _require(self, stream: str, sequence_number: int) -> Reserved:
        found = self._find(stream, sequence_number)
        if found is None:
            raise ReservationNotFound(
                f"There is no reservation {sequence_number} of the stream {stream}."
            )
        return found

    async def reserve(
        self,
        queue: str,
        stream: str,
        sequence_number: int,
        *,
        max_messages: int,
        max_bytes: int,
        visibility_timeout: float | None,
        wait: float,
        timeout: float,
    ) -> Reservation | None:
        memory = self._memory
        until = memory.now_ms + wait * 1_000
        while True:
            signal = self._runtime.signal()
            with memory.lock:
                memory.called("reserve")
                if self._closed:
                    raise ClientClosed
                found = self._find(stream, sequence_number)
                if found is not None and found.queue != queue:
                    raise NameTaken(f"The stream {stream} is another's.")
                found = found or self._lease(queue, max_messages, max_bytes, visibility_timeout)
                if found is not None:
                    memory.reserved[stream, sequence_number] = found
                    memory.answered("reserve")
                    return self._told(stream, sequence_number, found)
                if memory.now_ms >= until:
                    return None
                memory.waiting.add(signal)
            try:
                await signal.wait()
            finally:
                memory.waiting.discard(signal)

    def _lease(
        self, queue: str, max_messages: int, max_bytes: int, visibility_timeout: float | None
    ) -> Reserved | None:
        box = self._memory.box(queue)
        size = count = 0
        for held in box.in_order():
            if held.state is MessageState.READY:
                if count == max_messages or (count and size + held.size > max_bytes):
                    break
                size += held.size
                count += 1
        leased = self._memory.lease(queue, count, visibility_timeout)
        if not leased:
            return None
        span = box.settings.visibility_timeout if visibility_timeout is None else visibility_timeout
        return Reserved(
            queue=queue,
            tokens={each.id: each.receipt.rpartition("/")[2] for each in leased},
            size=size,
            hold_ms=round(span * 1_000),
            due_ms=self._memory.now_ms + round(span * 1_000),
        )

    def _leased(self, found: Reserved) -> list[Held | None]:
        """Return the messages in the set's order; None for one that is gone."""
        messages = self._memory.box(found.queue).messages
        held = {id: messages.get(id) for id in found.tokens}
        return [
            each if each is not None and each.token == found.tokens[id] else None
            for id, each in held.items()
        ]

    async def extend(
        self, stream: str, sequence_number: int, *, visibility_timeout: float | None, timeout: float
    ) -> Reservation:
        with self._memory.lock:
            self._memory.called("extend")
            found = self._require(stream, sequence_number)
            span = found.hold_ms if visibility_timeout is None else round(visibility_timeout * 1_000)
            found.due_ms = self._memory.now_ms + span
            for held in self._leased(found):
                if held is not None:
                    held.due_ms = found.due_ms
            return self._told(stream, sequence_number, found)

    def read(self, stream: str, sequence_number: int, *, begin: int, end: int) -> MemoryPages:
        with self._memory.lock:
            found = self._memory.reserved.get((stream, sequence_number))
            if found is not None and begin == 0:
                found.reads += 1
        return MemoryPages(self, stream, sequence_number, begin, end)

    def page(
        self, stream: str, sequence_number: int, begin: int, end: int
    ) -> tuple[list[Envelope], int]:
        """Some messages from a place on, and the place after them."""
        with self._memory.lock:
            self._memory.called("read")
            found = self._require(stream, sequence_number)
            messages = self._memory.box(found.queue).messages
            last = min(end or len(found.tokens), len(found.tokens))
            page: list[Envelope] = []
            for id, token in islice(found.tokens.items(), begin, last):
                if len(page) == PAGE_OF_A_READ:
                    break
                begin += 1
                held = messages.get(id)
                if held is not None and held.token == token:
                    page.append(held.envelope())
            return page, begin

    async def commit(self, stream: str, last_sequence_number: int, *, timeout: float) -> CommitResult:
        memory = self._memory
        with memory.lock:
            memory.called("commit")
            deleted = 0
            lost = []
            numbers = sorted(
                sequence_number
                for of, sequence_number in memory.reserved
                if of == stream and sequence_number <= last_sequence_number
            )
            for sequence_number in numbers:
                found = memory.reserved.pop((stream, sequence_number))
                if found.due_ms <= memory.now_ms:
                    lost.append(sequence_number)
                    continue
                for held in self._leased(found):
                    if held is not None:
                        del memory.box(found.queue).messages[held.id]
                        deleted += 1
            memory.committed[stream] = max(last_sequence_number, memory.committed.get(stream, -1))
            return CommitResult(deleted_count=deleted, lost_sequence_numbers=tuple(lost))

    async def release(self, stream: str, sequence_number: int, *, timeout: float) -> None:
        with self._memory.lock:
            self._memory.called("release")
            try:
                found = self._require(stream, sequence_number)
            except ReservationLost:
                return
            for held in self._leased(found):
                if held is not None:
                    self._memory.end_lease(found.queue, held)
            found.due_ms = 0
        self._memory.wake()

    async def list_reservations(
        self, *, queue: str, stream: str, token: str, timeout: float
    ) -> Page[Reservation]:
        with self._memory.lock:
            self._memory.called("list_reservations")
            of, _, sequence_number = token.partition(".")
            after = (of, int(sequence_number)) if token else ("", -1)
            found = [
                self._told(*name, each)
                for name, each in sorted(self._memory.reserved.items())
                if name > after and queue in ("", each.queue) and stream in ("", name[0])
            ]
            page = found[:PAGE]
            more = len(found) > len(page)
            return Page(
                items=page,
                next_token=f"{page[-1].stream}.{page[-1].sequence_number}" if more else "",
            )

    def _told(self, stream: str, sequence_number: int, found: Reserved) -> Reservation:
        lost = found.due_ms <= self._memory.now_ms
        return Reservation(
            queue=found.queue,
            stream=stream,
            sequence_number=sequence_number,
            message_count=len(found.tokens),
            byte_count=found.size,
            expires_at=moment_of(found.due_ms),
            state=ReservationState.LOST if lost else ReservationState.HELD,
            read_count=found.reads,
        )
