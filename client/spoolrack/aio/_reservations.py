"""Reservations: named sets of leased messages that can be read again; `Queue.reserve` makes them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any

from .. import _arguments as arguments
from .._call_values import (
    CommitReservations,
    ExtendReservation,
    GetReservation,
    ListReservations,
    ReadReservation,
    ReleaseReservation,
)
from .._core.client_context import ClientContext
from .._core.pagination import items
from .._core.resource import Resource
from .._message_base import MessageFacts
from .._reservation_values import CommitResult, Reservation
from .._transports import Pages
from .._values import Envelope, Seconds
from ..errors import SpoolrackError


class ReservationHandle(Reservation):
    """A reservation as it was at the time of the call, with its operations."""

    __slots__ = ("_resource",)
    _resource: Any

    async def extend(
        self, visibility_timeout: Seconds | None = None, *, timeout: Seconds | None = None
    ) -> ReservationHandle:
        """Extend the reservation's lease: see `Reservations.extend`."""
        return await Reservations.extend(
            self._resource,
            self.stream,
            self.sequence_number,
            visibility_timeout,
            queue=self.queue,
            timeout=timeout,
        )

    def read(
        self,
        begin_index: int = 0,
        end_index: int | None = None,
        *,
        timeout: Seconds | None = None,
    ) -> AsyncGenerator[MessageFacts, None]:
        """Return the reservation's messages in order; may be repeated: see `Reservations.read`."""
        return Reservations.read(
            self._resource,
            self.stream,
            self.sequence_number,
            begin_index,
            end_index,
            queue=self.queue,
            timeout=timeout,
        )

    async def commit(self, *, timeout: Seconds | None = None) -> CommitResult:
        """Delete the messages of the stream up to this reservation: see `Reservations.commit`."""
        return await Reservations.commit(
            self._resource, self.stream, self.sequence_number, queue=self.queue, timeout=timeout
        )

    async def release(self, *, timeout: Seconds | None = None) -> None:
        """Release the reservation: its messages are ready again. See `Reservations.release`."""
        await Reservations.release(
            self._resource, self.stream, self.sequence_number, queue=self.queue, timeout=timeout
        )


class Reservations(Resource[Reservation]):
    """The reservations of a server; `client.reservations` is one.

    `queue`, that of the reservation, tells a client of several shards which one it is on; without it
    the client asks all of them.
    """

    _handle_type = ReservationHandle

    async def extend(
        self,
        stream: str,
        sequence_number: int,
        visibility_timeout: Seconds | None = None,
        *,
        queue: str = "",
        timeout: Seconds | None = None,
    ) -> ReservationHandle:
        """Extend a reservation to `visibility_timeout` from now, by default that of its start. Raises
        `ReservationLost` if it has ended."""
        _check_name(stream, sequence_number, queue)
        span = arguments.optional_span("visibility_timeout", visibility_timeout)
        request = ExtendReservation(
            stream=stream, sequence_number=sequence_number, queue=queue, visibility_timeout=span
        )
        extended = await self._context.ask(request, timeout)
        handle: ReservationHandle = self._handle(extended)
        return handle

    def read(
        self,
        stream: str,
        sequence_number: int,
        begin_index: int = 0,
        end_index: int | None = None,
        *,
        queue: str = "",
        timeout: Seconds | None = None,
    ) -> AsyncGenerator[MessageFacts, None]:
        """Return the messages of a reservation in order: all, or those from `begin_index` to before
        `end_index`. May be repeated.

        They have no receipts and no queue. Messages that were deleted since the reservation are left
        out. A read goes on by itself after broken connections; `timeout` is for each part of it.
        Raises `ReservationLost`, `ReservationCommitted` or `ReservationNotFound`, also in the middle.
        """
        _check_name(stream, sequence_number, queue)
        arguments.integer("begin_index", begin_index)
        if end_index is not None:
            arguments.integer("end_index", end_index)
        span = arguments.timeout(timeout)
        return _read(self._context, stream, sequence_number, queue, begin_index, end_index, span)

    async def commit(
        self, stream: str, last_sequence_number: int, *, queue: str = "", timeout: Seconds | None = None
    ) -> CommitResult:
        """Delete the messages of all reservations of a stream up to a number, for good.

        The answer names the reservations that were lost before: of those nothing was deleted. May be
        repeated.
        """
        _check_name(stream, 0, queue)
        arguments.integer("last_sequence_number", last_sequence_number)
        request = CommitReservations(
            stream=stream, last_sequence_number=last_sequence_number, queue=queue
        )
        return await self._context.ask(request, timeout)

    async def release(
        self, stream: str, sequence_number: int, *, queue: str = "", timeout: Seconds | None = None
    ) -> None:
        """End a reservation: its messages are ready again, and later calls for it raise
        `ReservationLost`. May be repeated."""
        _check_name(stream, sequence_number, queue)
        request = ReleaseReservation(stream=stream, sequence_number=sequence_number, queue=queue)
        await self._context.ask(request, timeout)

    async def get(
        self, stream: str, sequence_number: int, *, queue: str = "", timeout: Seconds | None = None
    ) -> ReservationHandle:
        """Return a reservation, held or lost; raises `ReservationNotFound`, of one that is committed
        too."""
        _check_name(stream, sequence_number, queue)
        request = GetReservation(stream=stream, sequence_number=sequence_number, queue=queue)
        found = await self._context.ask(request, timeout)
        handle: ReservationHandle = self._handle(found)
        return handle

    def list(
        self, queue: str = "", stream: str = "", *, timeout: Seconds | None = None
    ) -> AsyncIterator[ReservationHandle]:
        """Return the reservations of a queue, of a stream, or all, by stream and number. `timeout` is
        for each page of them."""
        arguments.text("queue", queue)
        arguments.text("stream", stream)
        request, span = ListReservations(queue=queue, stream=stream), arguments.timeout(timeout)
        return self._handles(items(self._context, request, span))


def _check_name(stream: str, sequence_number: int, queue: str) -> None:
    arguments.text("stream", stream)
    arguments.text("queue", queue)
    arguments.integer("sequence_number", sequence_number)


async def _read(
    context: ClientContext,
    stream: str,
    sequence_number: int,
    queue: str,
    begin: int,
    end: int | None,
    timeout: float | None,
) -> AsyncGenerator[MessageFacts, None]:
    """Read a reservation, through broken connections and restarts of the server.

    A read that is resumed begins after as many messages as were read. Messages deleted meanwhile are
    left out and not counted, so it may begin too early: messages already returned are recognised by id,
    and skipped.
    """
    read_ids: set[str] = set()
    reading: Pages | None = None

    async def following(*, timeout: float) -> Sequence[Envelope]:
        nonlocal reading
        if reading is None:
            request = ReadReservation(
                stream=stream,
                sequence_number=sequence_number,
                queue=queue,
                begin_index=begin + len(read_ids),
                end_index=end or 0,
            )
            reading = context.transport.read(request)
        try:
            return await reading.next()
        except SpoolrackError:
            reading = None
            raise

    try:
        while end is None or begin + len(read_ids) < end:
            page = await context.call(following, timeout)
            if not page:
                return
            for envelope in page:
                if envelope.id not in read_ids:
                    read_ids.add(envelope.id)
                    yield MessageFacts(envelope, "")
    finally:
        if reading is not None:
            reading.cancel()
