"""The RPCs about reservations: messages that are leased under a name, and read as often as asked.

A reservation whose client is gone before the response is written is undone, unless another call has
asked for the name meanwhile and found it. A read holds one page in memory, and asks the store for the
next when the transport has taken that one.
"""

# ruff: noqa: N802 - the contract names the methods

from __future__ import annotations

from spoolrack.v1 import reservation_service_pb2 as rpc
from spoolrack_store.model.errors import Draining
from spoolrack_store.model.reservation_requests import Reservation

from ..app.memory import Budget
from ..app.reservations import Reservations
from ..wire import convert
from .authorized_calls import Context, current_caller
from .calls import CallIsOver, put, write


class ReservationService:
    """Those handlers. Lives in one event loop."""

    def __init__(self, reservations: Reservations, responses: Budget, root_id: str) -> None:
        self._reservations = reservations
        self._responses = responses
        self._root_id = root_id
        self._draining = False

    def drain(self) -> None:
        """End each read after its present frame."""
        self._draining = True

    async def Reserve(self, request: rpc.ReserveRequest, context: Context) -> None:
        made = await self._reservations.reserve(
            current_caller(),
            request.queue,
            stream=request.stream,
            sequence_number=request.sequence_number,
            max_messages=request.max_messages,
            max_bytes=request.max_bytes,
            visibility_timeout=convert.optional_span(request, "visibility_timeout", None),
            wait=convert.millis(request.wait, "wait", most=convert.MAX_WAIT),
        )
        response = rpc.ReserveResponse(reservation=None if made is None else self._told(made))
        try:
            await write(context, response.SerializeToString())
        except CallIsOver:
            self._reservations.undo(made)
            raise

    async def ExtendReservation(
        self, request: rpc.ExtendReservationRequest, context: Context
    ) -> rpc.ExtendReservationResponse:
        extended = await self._reservations.extend(
            current_caller(),
            request.stream,
            request.sequence_number,
            queue=request.queue,
            visibility_timeout=convert.optional_span(request, "visibility_timeout", None),
        )
        return rpc.ExtendReservationResponse(reservation=self._told(extended))

    async def ReadReservation(self, request: rpc.ReadReservationRequest, context: Context) -> None:
        pages = self._reservations.read(
            current_caller(),
            request.stream,
            request.sequence_number,
            queue=request.queue,
            begin=request.begin_index,
            end=request.end_index,
            mark_read=request.mark_read,
        )
        async for page in pages:
            if self._draining:
                raise Draining
            response = rpc.ReadReservationResponse(next_index=page.following)
            if request.by_column:
                response.runs.extend(map(convert.run, page.runs))
            else:
                response.messages.extend(map(convert.message, page.messages))
            async with self._responses.awaited_share(context.peer(), response.ByteSize()):
                await put(context, response.SerializeToString())

    async def CommitReservations(
        self, request: rpc.CommitReservationsRequest, context: Context
    ) -> rpc.CommitReservationsResponse:
        committed = await self._reservations.commit(
            current_caller(),
            request.stream,
            request.last_sequence_number,
            queue=request.queue,
            only_read=request.only_read,
        )
        return rpc.CommitReservationsResponse(
            deleted_count=committed.messages, lost_sequence_numbers=committed.lost
        )

    async def ReleaseReservation(
        self, request: rpc.ReleaseReservationRequest, context: Context
    ) -> rpc.ReleaseReservationResponse:
        await self._reservations.release(
            current_caller(), request.stream, request.sequence_number, queue=request.queue
        )
        return rpc.ReleaseReservationResponse()

    async def GetReservation(
        self, request: rpc.GetReservationRequest, context: Context
    ) -> rpc.GetReservationResponse:
        found = await self._reservations.get(
            current_caller(), request.stream, request.sequence_number, queue=request.queue
        )
        return rpc.GetReservationResponse(reservation=self._told(found))

    async def ListReservations(
        self, request: rpc.ListReservationsRequest, context: Context
    ) -> rpc.ListReservationsResponse:
        page = await self._reservations.list(
            current_caller(),
            queue=request.queue,
            stream=request.stream,
            page_size=request.page_size,
            page_token=request.page_token,
        )
        return rpc.ListReservationsResponse(
            reservations=map(self._told, page.items), next_page_token=page.next_token
        )

    def _told(self, reservation: Reservation) -> rpc.Reservation:
        return convert.reservation(reservation, self._root_id)
