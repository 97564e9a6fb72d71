"""Reservations: messages that are leased under a name, to be read again. `Queue.reserve` makes them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from .. import _arguments as arguments
from .._client_context import ClientContext
from .._message_base import MessageFacts
from .._reservation_reader import ReservationReader
from .._reservation_values import CommitResult, Reservation, ReservationPage
from .._values import Envelope, Seconds
from ._pagination import pages


class Reservations:
    """The reservations of a server; `client.reservations` is one."""

    def __init__(self, context: ClientContext) -> None:
        self._context = context

    async def extend(
        self,
        stream: str,
        sequence_number: int,
        visibility_timeout: Seconds | None = None,
        *,
        timeout: Seconds | None = None,
    ) -> Reservation:
        """Let a reservation end so long after now: see `spoolrack.Reservations.extend`."""
        _check_name(stream, sequence_number)
        span = arguments.optional_span("visibility_timeout", visibility_timeout)
        reserving = self._context.transport.reservations
        return await self._context.call(
            lambda left: reserving.extend(
                stream, sequence_number, visibility_timeout=span, timeout=left
            ),
            timeout,
        )

    def read(
        self,
        stream: str,
        sequence_number: int,
        begin_index: int = 0,
        end_index: int | None = None,
        *,
        timeout: Seconds | None = None,
    ) -> AsyncIterator[MessageFacts]:
        """Return the messages of a reservation in order: see `spoolrack.Reservations.read`."""
        return _unbound(
            self._read_envelopes(stream, sequence_number, begin_index, end_index, timeout=timeout)
        )

    def _read_envelopes(
        self,
        stream: str,
        sequence_number: int,
        begin_index: int,
        end_index: int | None,
        *,
        timeout: Seconds | None,
    ) -> AsyncGenerator[Envelope, None]:
        _check_name(stream, sequence_number)
        arguments.integer("begin_index", begin_index)
        if end_index is not None:
            arguments.integer("end_index", end_index)
        reading = ReservationReader(
            self._context,
            stream,
            sequence_number,
            begin=begin_index,
            end=end_index,
            timeout=arguments.timeout(timeout),
        )
        return reading.envelopes()

    async def commit(
        self, stream: str, last_sequence_number: int, *, timeout: Seconds | None = None
    ) -> CommitResult:
        """Delete the messages of a stream's reservations up to a number: see
        `spoolrack.Reservations.commit`."""
        arguments.text("stream", stream)
        arguments.integer("last_sequence_number", last_sequence_number)
        reserving = self._context.transport.reservations
        return await self._context.call(
            lambda left: reserving.commit(stream, last_sequence_number, timeout=left), timeout
        )

    async def release(
        self, stream: str, sequence_number: int, *, timeout: Seconds | None = None
    ) -> None:
        """End a reservation: see `spoolrack.Reservations.release`."""
        _check_name(stream, sequence_number)
        reserving = self._context.transport.reservations
        await self._context.call(
            lambda left: reserving.release(stream, sequence_number, timeout=left), timeout
        )

    def list(
        self, queue: str = "", stream: str = "", *, timeout: Seconds | None = None
    ) -> AsyncIterator[Reservation]:
        """Return the reservations of a queue, of a stream, or all, by stream and number. `timeout` is
        for each page of them."""
        return self._list(
            arguments.text("queue", queue),
            arguments.text("stream", stream),
            arguments.timeout(timeout),
        )

    async def _list(self, queue: str, stream: str, timeout: float | None) -> AsyncIterator[Reservation]:
        reserving = self._context.transport.reservations

        async def fetch(token: str, left: float) -> ReservationPage:
            return await reserving.list_reservations(
                queue=queue, stream=stream, token=token, limit=0, timeout=left
            )

        async for page in pages(self._context, fetch, timeout):
            for reservation in page.reservations:
                yield reservation


def _check_name(stream: str, sequence_number: int) -> None:
    arguments.text("stream", stream)
    arguments.integer("sequence_number", sequence_number)


async def _unbound(envelopes: AsyncGenerator[Envelope, None]) -> AsyncGenerator[MessageFacts, None]:
    async with aclosing(envelopes):
        async for envelope in envelopes:
            yield MessageFacts(envelope, "")
