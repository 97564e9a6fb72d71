"""Reservations: named sets of leased messages that can be read again.

A reservation of queues without the caller's permission is a `NameTaken`, or not found.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from spoolrack_store.model.errors import InvalidRequest, ReservationNotFound
from spoolrack_store.model.reservation_requests import (
    DEFAULT_RESERVED_BYTES,
    DEFAULT_RESERVED_MESSAGES,
    MAX_RESERVED_MESSAGES,
    MAX_SEQUENCE_NUMBER,
    MAX_STREAM_NAME,
    CommitReservations,
    Committed,
    ExtendReservation,
    Release,
    Reservation,
    Reserve,
)
from spoolrack_store.model.reservation_requests import Page as MessagePage

from . import bounds
from .caller import Caller, Permission, on_some_queue
from .leases import Leases
from .pages import Page, PagedList
from .store_access import StoreAccess

OfSets = TypeVar("OfSets", ExtendReservation, CommitReservations, Release)

_LONGEST_NUMBER: Final = len(str(MAX_SEQUENCE_NUMBER))


def _stream(name: str) -> str:
    return bounds.word(name, "stream", most=MAX_STREAM_NAME)


def _read(token: str) -> tuple[str, int]:
    stream, _, number = token.partition(".")
    if not (number.isascii() and number.isdigit() and len(number) <= _LONGEST_NUMBER):
        raise InvalidRequest(what="sequence_number", value=number, rule="must be a number")
    return _stream(stream), int(number)


_LIST: Final = PagedList[Reservation, tuple[str, int]](
    method="ListReservations",
    cursor=lambda reservation: (reservation.stream, reservation.sequence_number),
    first=("", -1),
    read=_read,
    write=lambda cursor: f"{cursor[0]}.{cursor[1]}",
    queues=lambda reservation: (reservation.queue,),
)


def _allowed(caller: Caller, request: OfSets) -> OfSets:
    """Return a request about sets of the caller's queues; raise `PermissionDenied` for the queue that
    it names, if it names one."""
    caller.require_named(Permission.RECEIVE, request.queue)
    return replace(request, allowed=caller.queues_for(Permission.RECEIVE))


class Reservations:
    """The use cases of reservations. Lives in one event loop."""

    def __init__(self, access: StoreAccess, leases: Leases) -> None:
        self._access = access
        self._leases = leases

    @on_some_queue(Permission.RECEIVE)
    async def reserve(self, caller: Caller, request: Reserve) -> Reservation | None:
        """Lease messages under a name, or find it reserved already; None if nothing is ready in time. 0
        messages or bytes at most are the default.

        The caller gives one that reached no client to `undo`. When the caller is cancelled before,
        nothing stays reserved.
        """
        caller.require(Permission.RECEIVE, request.queue)
        if request.max_bytes < 0:
            rule = "must not be negative"
            raise InvalidRequest(what="max_bytes", value=request.max_bytes, rule=rule)
        return await self._leases.lease(
            replace(
                request,
                max_messages=request.max_messages or DEFAULT_RESERVED_MESSAGES,
                max_bytes=request.max_bytes or DEFAULT_RESERVED_BYTES,
                allowed=caller.queues_for(Permission.RECEIVE),
            )
        )

    def undo(self, reservation: Reservation | None) -> None:
        """Undo a reservation whose answer reached no client, unless another call has asked for the name
        meanwhile and found it."""
        self._leases.unreserve(reservation)

    @on_some_queue(Permission.RECEIVE)
    async def extend(self, caller: Caller, request: ExtendReservation) -> Reservation:
        return await self._access.submit(_allowed(caller, request))

    @on_some_queue(Permission.RECEIVE)
    async def commit(self, caller: Caller, request: CommitReservations) -> Committed:
        return await self._access.submit(_allowed(caller, request))

    @on_some_queue(Permission.RECEIVE)
    async def release(self, caller: Caller, request: Release) -> None:
        await self._access.submit(_allowed(caller, request))

    @on_some_queue(Permission.RECEIVE)
    async def read(
        self,
        caller: Caller,
        stream: str,
        sequence_number: int,
        *,
        queue: str = "",
        begin_index: int = 0,
        end_index: int = 0,
        mark_read: bool = False,
    ) -> AsyncIterator[MessagePage]:
        """Yield the messages from one index to before another by pages, one of them in memory; an
        `end_index` of 0 is the set's."""
        caller.require_named(Permission.RECEIVE, queue)
        bounds.place(begin_index, "begin_index", most=MAX_RESERVED_MESSAGES)
        bounds.place(end_index, "end_index", most=MAX_RESERVED_MESSAGES)
        if 0 < end_index < begin_index:
            rule = f"must not lie before begin_index, {begin_index}"
            raise InvalidRequest(what="end_index", value=end_index, rule=rule)
        begin_reading = partial(
            self._access.store.read_reservation,
            stream,
            sequence_number,
            begin=begin_index,
            end=end_index,
            queue=queue,
            allowed=caller.queues_for(Permission.RECEIVE),
            mark_read=mark_read,
        )
        pages = await self._access.read(begin_reading)
        while (page := await self._access.read(next, pages, None)) is not None:
            yield page

    @on_some_queue(Permission.MONITOR)
    async def get(
        self, caller: Caller, stream: str, sequence_number: int, *, queue: str = ""
    ) -> Reservation:
        caller.require_named(Permission.MONITOR, queue)
        found = await self._access.read(
            self._access.store.reservation, _stream(stream), sequence_number, queue
        )
        if not caller.may(Permission.MONITOR, found.queue):
            raise ReservationNotFound(stream=stream, sequence_number=sequence_number)
        return found

    @on_some_queue(Permission.MONITOR)
    async def list(
        self,
        caller: Caller,
        *,
        queue: str = "",
        stream: str = "",
        page_size: int = 0,
        page_token: str = "",
    ) -> Page[Reservation]:
        """Return a page of the reservations, held or lost, those of `queue` and `stream` if they are
        given, by stream and number."""
        caller.require_named(Permission.MONITOR, queue)
        listing = partial(
            self._access.store.reservations, queue=queue, stream=stream and _stream(stream)
        )
        allowed = caller.queues_for(Permission.MONITOR)
        return await self._access.read(
            _LIST.page, listing, allowed, page_size, page_token, queue, stream
        )
