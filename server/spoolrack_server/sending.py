"""A send on its way to the store: what is valid of it, and the answer it will have.

Owns how the refusals of the edge and the results of the store become one list in the request's order,
and the window that bounds what one stream of sends may have on its way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final

from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_store.model.errors import StoreError
from spoolrack_store.model.operations import Outgoing, Send, Sent
from spoolrack_store.store import Store

from . import convert
from .answers import answer
from .status import error_of
from .workers import Workers

WINDOW_REQUESTS: Final = 32
WINDOW_BYTES: Final = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Sending:
    """A send that the store works on."""

    refused: Sequence[StoreError | None]
    """For each message, why the edge refused it; None for those that the store has."""
    future: Future[list[Sent | StoreError]]

    async def results(self) -> list[rpc.SendResult]:
        """A result for each message; raises the `StoreError` that befell them all."""
        stored = await answer(self.future)
        answers = iter(stored)
        return [_result(next(answers) if error is None else error) for error in self.refused]


def start(store: Store, queue: str, messages: Sequence[pb.OutgoingMessage]) -> Sending:
    """Hand a send to the store; raises the `StoreError` of a request that is wrong as a whole."""
    convert.queue_name(queue)
    convert.check_count(len(messages), "messages")
    refused: list[StoreError | None] = []
    valid: list[Outgoing] = []
    for message in messages:
        try:
            valid.append(convert.outgoing(message))
            refused.append(None)
        except StoreError as error:
            refused.append(error)
    # Also with none that is valid: the store knows whether there is such a queue.
    return Sending(refused, store.submit(Send(queue=queue, messages=valid)))


def _result(answer: Sent | StoreError) -> rpc.SendResult:
    if isinstance(answer, StoreError):
        return rpc.SendResult(error=error_of(answer))
    return rpc.SendResult(
        sent=rpc.SentMessage(id=answer.id, send_time=convert.timestamp(answer.sent_at))
    )


@dataclass(frozen=True, slots=True)
class Numbered:
    """One request of a stream on its way, or why it never went."""

    correlation_id: int
    size: int
    sending: Sending | StoreError

    async def response(self) -> rpc.StreamSendResponse:
        response = rpc.StreamSendResponse(correlation_id=self.correlation_id)
        try:
            if isinstance(self.sending, StoreError):
                raise self.sending
            response.results.extend(await self.sending.results())
        except StoreError as error:
            response.error.CopyFrom(error_of(error))
        return response


def start_numbered(store: Store, workers: Workers, request: rpc.StreamSendRequest) -> Numbered:
    """Hand one request of a stream to the store; the save that has begun ends with its answer."""
    size = request.ByteSize()
    try:
        sending = start(store, request.queue, request.messages)
    except StoreError as error:
        workers.end_save()
        return Numbered(request.correlation_id, size, error)
    if workers.is_bounded:
        loop = asyncio.get_running_loop()
        sending.future.add_done_callback(lambda _: loop.call_soon_threadsafe(workers.end_save))
    return Numbered(request.correlation_id, size, sending)


class Window:
    """How much of one stream may be on its way: so many requests, and no more once so many bytes are.

    One that reads, one that writes, in one event loop.
    """

    def __init__(self, requests: int = WINDOW_REQUESTS, bytes: int = WINDOW_BYTES) -> None:
        self._requests = requests
        self._bytes = bytes
        self._moved = asyncio.Event()

    async def room(self) -> None:
        """Return once another request may be read."""
        while self._requests <= 0 or self._bytes <= 0:
            self._moved.clear()
            await self._moved.wait()

    def enter(self, size: int) -> None:
        self._requests -= 1
        self._bytes -= size

    def leave(self, size: int) -> None:
        self._requests += 1
        self._bytes += size
        self._moved.set()
