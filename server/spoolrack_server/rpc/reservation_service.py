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
from ..wire.contract_calls import ContractCalls
from .authorized_calls import Context, current_caller
from .calls import CallIsOver, put, write


class ReservationService:
    """The handlers of the two. Lives in one event loop."""

    def __init__(self, calls: ContractCalls, reservations: Reservations, responses: Budget) -> None:
        self._calls = calls
        self._reservations = reservations
        self._responses = responses
        self._draining = False

    def drain(self) -> None:
        """End each read after its present frame."""
        self._draining = True

    async def Reserve(self, request: rpc.ReserveRequest, context: Context) -> None:
        reservation = await self._calls.reserve(current_caller(), request)
        response = rpc.ReserveResponse(
            reservation=None if reservation is None else self._calls.reservation(reservation)
        )
        try:
            await write(context, response.SerializeToString())
        except CallIsOver:
            self._reservations.undo(reservation)
            raise

    async def ReadReservation(self, request: rpc.ReadReservationRequest, context: Context) -> None:
        async for page in self._calls.reserved_pages(current_caller(), request):
            if self._draining:
                raise Draining
            response = rpc.ReadReservationResponse(next_index=page.following)
            if request.by_column:
                response.runs.extend(map(convert.run, page.runs))
            else:
                response.messages.extend(map(convert.message, page.messages))
            async with self._responses.awaited_share(context.peer(), response.ByteSize()):
                await put(context, response.SerializeToString())
