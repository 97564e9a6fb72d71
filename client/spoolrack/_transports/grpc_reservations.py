"""Reservations over gRPC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .._reservation_values import CommitResult, Reservation, ReservationState
from .._values import Envelope, Page, moment_of
from ..v1 import reservation_service_pb2 as pb
from . import grpc_values as convert
from .grpc_calls import ChannelCalls, Frames

_STATES: Final = {
    pb.RESERVATION_STATE_HELD: ReservationState.HELD,
    pb.RESERVATION_STATE_LOST: ReservationState.LOST,
}


class GrpcPages:
    """The frames of a ReadReservation."""

    def __init__(self, frames: Frames) -> None:
        self._frames = frames

    async def next(self) -> Sequence[Envelope]:
        # A frame may have no messages, where all of its were deleted; here that would be the end.
        while (response := await self._frames.next_or_end()) is not None:
            if response.messages:
                return [convert.envelope(message) for message in response.messages]
        return []

    def cancel(self) -> None:
        self._frames.cancel()


class GrpcReservations:
    """`transports.ReservationTransport` over the calls of a channel."""

    def __init__(self, calls: ChannelCalls) -> None:
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
        request = pb.ReserveRequest(
            queue=queue,
            stream=stream,
            sequence_number=sequence_number,
            max_messages=max_messages,
            max_bytes=max_bytes,
            visibility_timeout=convert.optional_duration(visibility_timeout),
            wait=convert.duration(wait),
        )
        response = await self._calls.unary(self._calls.stub.Reserve, request, timeout)
        return _reservation(response.reservation) if response.HasField("reservation") else None

    async def extend(
        self,
        stream: str,
        sequence_number: int,
        *,
        queue: str,
        visibility_timeout: float | None,
        timeout: float,
    ) -> Reservation:
        request = pb.ExtendReservationRequest(
            stream=stream,
            queue=queue,
            sequence_number=sequence_number,
            visibility_timeout=convert.optional_duration(visibility_timeout),
        )
        response = await self._calls.unary(self._calls.stub.ExtendReservation, request, timeout)
        return _reservation(response.reservation)

    def read(self, stream: str, sequence_number: int, *, queue: str, begin: int, end: int) -> GrpcPages:
        request = pb.ReadReservationRequest(
            stream=stream,
            sequence_number=sequence_number,
            queue=queue,
            begin_index=begin,
            end_index=end,
        )
        return GrpcPages(self._calls.frames(self._calls.stub.ReadReservation, request))

    async def commit(
        self, stream: str, last_sequence_number: int, *, queue: str, timeout: float
    ) -> CommitResult:
        request = pb.CommitReservationsRequest(
            stream=stream, last_sequence_number=last_sequence_number, queue=queue
        )
        response = await self._calls.unary(self._calls.stub.CommitReservations, request, timeout)
        return CommitResult(
            deleted_count=response.deleted_count,
            lost_sequence_numbers=tuple(response.lost_sequence_numbers),
        )

    async def release(self, stream: str, sequence_number: int, *, queue: str, timeout: float) -> None:
        request = pb.ReleaseReservationRequest(
            stream=stream, sequence_number=sequence_number, queue=queue
        )
        await self._calls.unary(self._calls.stub.ReleaseReservation, request, timeout)

    async def get(
        self, stream: str, sequence_number: int, *, queue: str, timeout: float
    ) -> Reservation:
        request = pb.GetReservationRequest(stream=stream, sequence_number=sequence_number, queue=queue)
        response = await self._calls.unary(self._calls.stub.GetReservation, request, timeout)
        return _reservation(response.reservation)

    async def list_reservations(
        self, *, queue: str, stream: str, token: str, timeout: float
    ) -> Page[Reservation]:
        request = pb.ListReservationsRequest(queue=queue, stream=stream, page_token=token)
        response = await self._calls.unary(self._calls.stub.ListReservations, request, timeout)
        return Page(
            items=[_reservation(each) for each in response.reservations],
            next_token=response.next_page_token,
        )


def _reservation(reservation: pb.Reservation) -> Reservation:
    return Reservation(
        queue=reservation.queue,
        stream=reservation.stream,
        sequence_number=reservation.sequence_number,
        message_count=reservation.message_count,
        byte_count=reservation.byte_count,
        expires_at=moment_of(convert.millis(reservation.expire_time)),
        state=_STATES.get(reservation.state, ReservationState.HELD),
        read_count=reservation.read_count,
    )
