"""The RPCs about reservations: messages that are leased under a name, and read as often as asked.

A reservation whose client is gone before the response is written is undone, unless another call has
asked for the name meanwhile and found it. A read holds one page in memory, and asks the store for the
next when the transport has taken that one.
"""

# ruff: noqa: N802 - the contract names the methods

from __future__ import annotations

from functools import partial
from typing import Final

from spoolrack.v1 import reservation_service_pb2 as rpc
from spoolrack_store.model import reservation_requests as ops
from spoolrack_store.model.errors import Draining, InvalidRequest

from . import convert
from .access.authorization import queues_for
from .access.list_filter import shown
from .access.permissions import Permission
from .frames import FrameWriter
from .lease_requests import LeaseRequests
from .page_tokens import PageTokens, page_size
from .rpc import CallIsOver, Context, write
from .store_access import StoreAccess

_FIRST_PAGE: Final = ("", -1)
_LONGEST_SEQ: Final = len(str(ops.MAX_SEQUENCE_NUMBER))


class ReservationService:
    """Those handlers. Lives in one event loop."""

    def __init__(self, access: StoreAccess, leases: LeaseRequests, frames: FrameWriter) -> None:
        self._access = access
        self._leases = leases
        self._frames = frames
        self._draining = False

    def drain(self) -> None:
        """End each read after its present frame."""
        self._draining = True

    async def Reserve(self, request: rpc.ReserveRequest, context: Context) -> None:
        made = await self._leases.lease(_operation(request))
        response = rpc.ReserveResponse(reservation=None if made is None else _reservation(made))
        try:
            await write(context, response.SerializeToString())
        except CallIsOver:
            self._leases.unreserve(made)
            raise

    async def ExtendReservation(
        self, request: rpc.ExtendReservationRequest, context: Context
    ) -> rpc.ExtendReservationResponse:
        held = await self._access.submit(
            ops.ExtendReservation(
                stream=request.stream,
                sequence_number=request.sequence_number,
                visibility_timeout=convert.optional_span(request, "visibility_timeout", None),
                allowed=queues_for(Permission.RECEIVE),
            )
        )
        return rpc.ExtendReservationResponse(reservation=_reservation(held))

    async def ReadReservation(self, request: rpc.ReadReservationRequest, context: Context) -> None:
        begin = convert.place(request.begin_index, "begin_index", most=ops.MAX_RESERVED_MESSAGES)
        end = convert.place(request.end_index, "end_index", most=ops.MAX_RESERVED_MESSAGES)
        if 0 < end < begin:
            raise InvalidRequest(
                what="end_index", value=end, rule=f"must not lie before begin_index, {begin}"
            )
        begin_reading = partial(
            self._access.store.read_reservation,
            request.stream,
            request.sequence_number,
            begin=begin,
            end=end,
            allowed=queues_for(Permission.RECEIVE),
            mark_read=request.mark_read,
        )
        pages = await self._access.read(begin_reading)
        while (page := await self._access.read(next, pages, None)) is not None:
            if self._draining:
                raise Draining
            response = rpc.ReadReservationResponse(next_index=page.following)
            if request.by_column:
                response.runs.extend(map(convert.run, page.runs))
            else:
                response.messages.extend(map(convert.message, page.messages))
            await self._frames.put(context, response)

    async def CommitReservations(
        self, request: rpc.CommitReservationsRequest, context: Context
    ) -> rpc.CommitReservationsResponse:
        committed = await self._access.submit(
            ops.CommitReservations(
                stream=request.stream,
                last_sequence_number=request.last_sequence_number,
                only_read=request.only_read,
                allowed=queues_for(Permission.RECEIVE),
            )
        )
        return rpc.CommitReservationsResponse(
            deleted_count=committed.messages, lost_sequence_numbers=committed.lost
        )

    async def ReleaseReservation(
        self, request: rpc.ReleaseReservationRequest, context: Context
    ) -> rpc.ReleaseReservationResponse:
        await self._access.submit(
            ops.Release(
                stream=request.stream,
                sequence_number=request.sequence_number,
                allowed=queues_for(Permission.RECEIVE),
            )
        )
        return rpc.ReleaseReservationResponse()

    async def ListReservations(
        self, request: rpc.ListReservationsRequest, context: Context
    ) -> rpc.ListReservationsResponse:
        size = page_size(request.page_size)
        tokens = PageTokens("ListReservations", request.queue, request.stream)
        look = partial(
            shown,
            partial(
                self._access.store.reservations,
                queue=request.queue and convert.queue_name(request.queue),
                stream=request.stream and _stream(request.stream),
            ),
            lambda reservation: (reservation.stream, reservation.sequence_number),
            lambda reservation: (reservation.queue,),
            queues_for(Permission.MONITOR),
            after=tokens.after(request.page_token, _place, _FIRST_PAGE),
            limit=size + 1,
        )
        found = await self._access.read(look)
        return rpc.ListReservationsResponse(
            reservations=[_reservation(reservation) for reservation in found[:size]],
            next_page_token=tokens.token(_name(found[size - 1])) if len(found) > size else "",
        )


# Requests.


def _stream(name: str) -> str:
    return convert.word(name, "stream", most=ops.MAX_STREAM_NAME)


def _operation(request: rpc.ReserveRequest) -> ops.Reserve:
    if request.max_bytes < 0:
        raise InvalidRequest(what="max_bytes", value=request.max_bytes, rule="must not be negative")
    return ops.Reserve(
        queue=convert.queue_name(request.queue),
        stream=request.stream,
        sequence_number=request.sequence_number,
        max_messages=request.max_messages or ops.DEFAULT_RESERVED_MESSAGES,
        max_bytes=request.max_bytes or ops.DEFAULT_RESERVED_BYTES,
        visibility_timeout=convert.optional_span(request, "visibility_timeout", None),
        wait=convert.millis(request.wait, "wait", most=convert.MAX_WAIT),
        allowed=queues_for(Permission.RECEIVE),
    )


# Answers.


def _reservation(reservation: ops.Reservation) -> rpc.Reservation:
    return rpc.Reservation(
        queue=reservation.queue,
        stream=reservation.stream,
        sequence_number=reservation.sequence_number,
        message_count=reservation.messages,
        byte_count=reservation.bytes,
        expire_time=convert.timestamp(reservation.expires_at),
        state=rpc.RESERVATION_STATE_LOST if reservation.is_lost else rpc.RESERVATION_STATE_HELD,
        read_count=reservation.reads,
    )


def _name(reservation: ops.Reservation) -> str:
    return f"{reservation.stream}.{reservation.sequence_number}"


def _place(token: str) -> tuple[str, int]:
    stream, _, sequence_number = token.partition(".")
    if not (
        sequence_number.isascii() and sequence_number.isdigit() and len(sequence_number) <= _LONGEST_SEQ
    ):
        raise InvalidRequest(what="sequence_number", value=sequence_number, rule="must be a number")
    return _stream(stream), int(sequence_number)
