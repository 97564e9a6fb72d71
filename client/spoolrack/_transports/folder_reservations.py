"""Reservations in a root on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from spoolrack_store.model import operations
from spoolrack_store.model import reservation_requests as ops
from spoolrack_store.store import Store

from .._reservation_values import CommitResult, Reservation, ReservationState
from .._values import Envelope, Page, moment_of
from . import folder_values as convert
from .folder_calls import FolderCalls

_FIRST_PAGE = ("", -1)


class FolderPages:
    """The store's pages of a reservation. Each is read when it is asked for."""

    def __init__(
        self, calls: FolderCalls, stream: str, sequence_number: int, queue: str, begin: int, end: int
    ) -> None:
        self._calls = calls
        self._stream, self._seq, self._begin, self._end = stream, sequence_number, begin, end
        self._queue = queue
        self._pages: Iterator[ops.Page] | None = None
        self._cancelled = False

    async def next(self) -> Sequence[Envelope]:
        page = [] if self._cancelled else await self._calls.work(self._next, None)
        return [convert.envelope(message, self._calls.root) for message in page]

    def _next(self, store: Store) -> Sequence[operations.Message]:
        if self._pages is None:
            self._pages = store.read_reservation(
                self._stream, self._seq, begin=self._begin, end=self._end, queue=self._queue
            )
        page = next(self._pages, None)
        return [] if page is None else page.messages

    def cancel(self) -> None:
        self._cancelled = True


class FolderReservations:
    """`transports.ReservationTransport` over the calls of a root."""

    def __init__(self, calls: FolderCalls) -> None:
        self._calls = calls

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
        with convert.errors():
            request = ops.Reserve(
                queue=queue,
                stream=stream,
                sequence_number=sequence_number,
                max_messages=max_messages or ops.DEFAULT_RESERVED_MESSAGES,
                max_bytes=max_bytes or ops.DEFAULT_RESERVED_BYTES,
                visibility_timeout=convert.optional_millis(visibility_timeout),
                wait=convert.wait(wait),
            )
        made = await self._calls.lease(request, timeout)
        return None if made is None else _reservation(made)

    async def extend(
        self,
        stream: str,
        sequence_number: int,
        *,
        queue: str,
        visibility_timeout: float | None,
        timeout: float,
    ) -> Reservation:
        request = ops.ExtendReservation(
            stream=stream,
            sequence_number=sequence_number,
            queue=queue,
            visibility_timeout=convert.optional_millis(visibility_timeout),
        )
        return _reservation(await self._calls.submit(request, timeout))

    def read(
        self, stream: str, sequence_number: int, *, queue: str, begin: int, end: int
    ) -> FolderPages:
        return FolderPages(self._calls, stream, sequence_number, queue, begin, end)

    async def commit(
        self, stream: str, last_sequence_number: int, *, queue: str, timeout: float
    ) -> CommitResult:
        request = ops.CommitReservations(
            stream=stream, last_sequence_number=last_sequence_number, queue=queue
        )
        committed = await self._calls.submit(request, timeout)
        return CommitResult(
            deleted_count=committed.deleted_count,
            lost_sequence_numbers=tuple(committed.lost_sequence_numbers),
        )

    async def release(self, stream: str, sequence_number: int, *, queue: str, timeout: float) -> None:
        await self._calls.submit(
            ops.Release(stream=stream, sequence_number=sequence_number, queue=queue), timeout
        )

    async def get(
        self, stream: str, sequence_number: int, *, queue: str, timeout: float
    ) -> Reservation:
        return _reservation(
            await self._calls.work(
                lambda store: store.reservation(stream, sequence_number, queue), timeout
            )
        )

    async def list_reservations(
        self, *, queue: str, stream: str, token: str, timeout: float
    ) -> Page[Reservation]:
        return await self._calls.page(
            partial(Store.reservations, queue=queue, stream=stream, after=_after(token)),
            _reservation,
            _token,
            timeout,
        )


def _token(reservation: ops.Reservation) -> str:
    return f"{reservation.stream}.{reservation.sequence_number}"


def _after(token: str) -> tuple[str, int]:
    stream, _, sequence_number = token.partition(".")
    return (stream, int(sequence_number)) if token else _FIRST_PAGE


def _reservation(reservation: ops.Reservation) -> Reservation:
    return Reservation(
        queue=reservation.queue,
        stream=reservation.stream,
        sequence_number=reservation.sequence_number,
        message_count=reservation.message_count,
        byte_count=reservation.byte_count,
        expires_at=moment_of(reservation.expires_at),
        state=ReservationState(reservation.state.value),
        read_count=reservation.read_count,
    )
