"""A send on its way to the store: what is valid of it, and the answer it will have.

Owns how the refusals of the edge and the results of the store become one list in the request's order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_store.model.errors import StoreError
from spoolrack_store.model.operations import Send, Sent
from spoolrack_store.model.settings import MAX_ATTRIBUTES_SIZE
from spoolrack_store.store import Store

from . import convert
from .observing.trace_context import ROOM, TRACEPARENT
from .status import error_of
from .workers import Workers


@dataclass(frozen=True, slots=True)
class Sending:
    """A send that the store works on."""

    refused: Sequence[StoreError | None]
    """For each message, why the edge refused it; None for those that the store has."""
    future: Future[list[Sent | StoreError]]

    def results(self) -> list[rpc.SendResult]:
        """A result for each message, once the store has answered; raises the `StoreError` that befell
        them all."""
        answers = iter(self.future.result())
        return [_result(next(answers) if error is None else error) for error in self.refused]


def lend(trace: Mapping[str, str], messages: Iterable[pb.OutgoingMessage]) -> None:
    """Give the messages the trace context that came with their call, if they carry none."""
    if not trace:
        return
    for message in messages:
        held = message.attributes
        size = sum(len(name) + each.ByteSize() for name, each in held.items())
        if TRACEPARENT not in held and size + ROOM <= MAX_ATTRIBUTES_SIZE:
            for name, value in trace.items():
                held[name].string_value = value


def start(store: Store, queue: str, messages: Sequence[pb.OutgoingMessage]) -> Sending:
    """Hand a send to the store; raises the `StoreError` of a request that is wrong as a whole."""
    convert.queue_name(queue)
    convert.check_count(len(messages), "messages")
    refused, valid = convert.each(convert.outgoing, messages)
    # Also with none that is valid: the store knows whether there is such a queue.
    return Sending(refused, store.submit(Send(queue=queue, messages=valid)))


async def start_in_turn(store: Store, workers: Workers, request: rpc.StreamSendRequest) -> Sending:
    """`start` once there is a worker for it, who is free again when the store has answered."""
    await workers.begin_save()
    try:
        sending = start(store, request.queue, request.messages)
    except BaseException:
        workers.end_save()
        raise
    if workers.is_bounded:
        loop = asyncio.get_running_loop()
        sending.future.add_done_callback(lambda _: loop.call_soon_threadsafe(workers.end_save))
    return sending


def _result(answer: Sent | StoreError) -> rpc.SendResult:
    if isinstance(answer, StoreError):
        return rpc.SendResult(error=error_of(answer))
    return rpc.SendResult(
        sent=rpc.SentMessage(
            id=answer.id,
            send_time=convert.timestamp(answer.sent_at),
            duplicate=answer.is_duplicate,
        )
    )
