"""Reserve and ReadReservation: messages that are leased under a name, and read as often as asked.

A reservation whose client is gone before the response is written is undone, unless another call has
asked for the name meanwhile and found it. A read holds one page in memory, and asks the store for the
next when the transport has taken that one.
"""

# ruff: noqa: N802 - the contract names the methods

from __future__ import annotations

from spoolrack.v1 import reservation_service_pb2 as rpc
from spoolrack_store.model.errors import Draining

from ..app.memory import Budget
from ..app.reservations import Reservations
from ..wire import convert
from .authorized_calls import Context, current_caller
from .calls import CallIsOver, put, write


class ReservationService:
    """The handlers of the two. Lives in one event loop."""

    def __init__(self, reservations: Reservations, responses: Budget, root_id: str) -> None:
        self._reservations = reservations
        self._responses = responses
        self._root_id = root_id
        self._draining = False

    def drain(self) -> None:
        """End each read after its present frame."""
        self._draining = True

    async def Reserve(self, request: rpc.ReserveRequest, context: Context) -> None:
        reservation = await self._reservations.reserve(
            current_caller(),
            request.queue,
            stream=request.stream,
            sequence_number=request.sequence_number,
            max_messages=request.max_messages,
            max_bytes=request.max_bytes,
            visibility_timeout=convert.optional_span(request, "visibility_timeout", None),
            wait=convert.millis(request.wait, "wait", most=convert.MAX_WAIT),
        )
        found = None if reservation is None else convert.reservation(reservation, self._root_id)
        response = rpc.ReserveResponse(reservation=found)
        try:
            await write(context, response.SerializeToString())
        except CallIsOver:
            self._reservations.undo(reservation)
            raise

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
