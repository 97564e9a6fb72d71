"""Receive streams: messages as they become ready, and their consumer's deletes and lease changes.

The first request says what to receive. A stream has a task that leases and writes frames of messages,
and one that answers the requests that follow; both write to one call, which takes one response at a
time. Requests may also report how many messages the client has begun, and stop the task that leases:
the response comes after the last frame. Memory is bounded by call: a stream holds two frames at most,
one that the transport takes and the next.

A stream whose first request is a receive is another way of unary receives, at half their cost: each
request is answered before the next one is read.

A frame that the transport took may never arrive: a connection can be dead for the whole keepalive
timeout. The client counts what arrives. When it comes back, it names its interrupted stream and the
count, and the leases beyond are undone. Leases of messages that have arrived are the client's.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_store.model.clock import Clock, Millis
from spoolrack_store.model.errors import Draining, InvalidRequest, StoreError
from spoolrack_store.model.operations import Receive

from ..app.bounds import MAX_COUNT, MAX_WAIT, number, queue_name
from ..app.flow_control import FlowControl
from ..app.leases import Leases
from ..app.receives import LeasedMessages, Receives
from ..app.store_access import FRAME_BYTES, Submitted
from ..wire import convert, encoding, lease_requests
from ..wire.encoding import ResponseTags
from ..wire.status import INTERNAL, failure_of
from .authorized_calls import Context, current_caller, current_consumer
from .calls import CallIsOver, Requests, outlast, put, write
from .streams import StreamOperation, Streams

NAME: Final = "StreamReceive"

CLAIM_TIMEOUT: Final = 600.0
"""Seconds after the end of a stream in which its client may come back and say what has arrived."""
ENDED_STREAMS: Final = 1_000
"""Ended streams that are known."""
MOST_NAMED: Final = 100
"""Interrupted streams that a first request may name."""
LONGEST_ID: Final = 64
"""Characters of a stream's id."""

_REFUSED: Final = ResponseTags(b"\x18", b"", b"\x22")
_TAGS: Final = {
    name: ResponseTags(b"\x18", response, b"\x22")
    for name, response in (
        ("delete", b"\x2a"),
        ("extend", b"\x32"),
        ("release", b"\x3a"),
        ("reject", b"\x42"),
        ("stop", b"\x52"),
    )
}
"""By the frame of a request, the tags of the fields of its `StreamReceiveResponse`."""
_RECEIVED: Final = ResponseTags(b"\x18", b"\x4a", b"\x22")
_CALLS: Final = frozenset(_TAGS) - {"stop"}
"""Frames that are requests of unary calls."""


@dataclass(frozen=True, slots=True)
class _Start:
    """The first request of a stream, checked."""

    queue: str
    visibility: Millis | None
    flow_control: FlowControl
    stream_id: str
    interrupted: Sequence[tuple[str, int]]
    """Ids of former streams, with the number of messages that have arrived."""


@dataclass(slots=True)
class _Answers:
    """Those of a stream of receives."""

    is_writing: bool = False
    """Whether messages are being handed over."""
    are_over: bool = False


class _DeliveredMessages:
    """The last messages of one stream, as many as may be in flight: those that may not have arrived."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        self.receiving: asyncio.Task[None] | None = None
        """The task that leases."""
        self._receipts: deque[str] = deque()
        self._count = 0

    def add(self, receipts: Sequence[str], in_flight: int) -> None:
        """Add messages in the order of their delivery; keep the last `in_flight`."""
        self._count += len(receipts)
        self._receipts.extend(receipts)
        while len(self._receipts) > max(in_flight, len(receipts)):
            self._receipts.popleft()

    def after(self, arrived: int) -> list[str]:
        """Return the receipts behind the first `arrived` messages."""
        first = self._count - len(self._receipts)
        return list(islice(self._receipts, max(0, arrived - first), None))


class ReceiveStreams:
    """The receive streams of one server. Lives in one event loop."""

    def __init__(
        self,
        leases: Leases,
        receives: Receives,
        streams: Streams,
        clock: Clock,
    ) -> None:
        self._leases = leases
        self._receives = receives
        self._clock = clock
        self._streams = streams
        self._draining = False
        self._flow_controls: set[FlowControl] = set()
        self._answering: set[Requests] = set()
        """Those of the streams of receives."""
        self._claimable: dict[str, _DeliveredMessages] = {}
        """By stream id: the streams that are served, and those that have ended."""
        self._ended: dict[str, asyncio.TimerHandle] = {}
        """By stream id, the timer that drops an ended stream; the oldest first."""

    def credits(self) -> tuple[int, int]:
        """Return the number of messages that all streams may hold, and that they hold."""
        held = [flow_control.credits for flow_control in self._flow_controls]
        return sum(each.limit for each in held), sum(each.in_flight for each in held)

    def drain(self) -> None:
        """Lease nothing more, and end each stream once all its requests are answered."""
        self._draining = True
        for flow_control in self._flow_controls:
            flow_control.stop()
        for requests in self._answering:
            requests.refuse(Draining())  # Those that wait for a message end once it is answered.

    async def serve(self, requests: Requests, context: Context) -> None:
        """Serve a stream until its client disconnects, its queue is deleted or the server drains."""
        first = await requests.first()
        if first is None:
            return
        if first.HasField("receive"):
            await self._serve_receives(first, requests, context)
            return
        start = _start_of(first)
        self._undo_unseen(start)
        writes = asyncio.Lock()
        delivered = _DeliveredMessages(start.queue) if start.stream_id else None
        receiving = asyncio.create_task(self._deliver(start, context, writes, delivered))
        if delivered is not None:
            delivered.receiving = receiving
            self._claimable[start.stream_id] = delivered
        answering = asyncio.create_task(
            self._streams.serve(requests, context, self._operation(start, writes, receiving))
        )
        tasks = receiving, answering
        try:
            # A client may end its side and go on receiving.
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            if not answering.done() and isinstance(error := receiving.exception(), StoreError):
                requests.refuse(error)
                await asyncio.wait({answering})
            for task in tasks:
                if task.done() and not task.cancelled():
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            # A write that is cancelled couldn't give its leases back.
            try:
                await outlast(tasks)
            finally:
                if delivered is not None:
                    self._end(start.stream_id, delivered)

    async def _serve_receives(
        self, first: rpc.StreamReceiveRequest, requests: Requests, context: Context
    ) -> None:
        """Serve a stream of receives, in a task that isn't cancelled while it writes: what became of
        the messages is known then."""
        answers = _Answers()
        answering = asyncio.create_task(self._answer(first, requests, context, answers))
        answering.add_done_callback(_retrieve)
        self._answering.add(requests)
        try:
            await asyncio.shield(answering)
        finally:
            self._answering.discard(requests)
            answers.are_over = True
            # A read ends with the call: cancelled, it would never free the received part of a request.
            if not requests.is_reading:
                if not answers.is_writing:
                    answering.cancel()
                await outlast((answering,))

    async def _answer(
        self,
        request: rpc.StreamReceiveRequest | None,
        requests: Requests,
        context: Context,
        answers: _Answers,
    ) -> None:
        """Answer the requests of a stream of receives, one after the other."""
        caller, consumer, peer = current_caller(), current_consumer(context), context.peer()
        while request is not None and not answers.are_over:
            correlation_id, asked = request.correlation_id, request.receive
            if not request.HasField("receive"):
                name = request.WhichOneof("frame") or "none"
                rule = "must be receive in a stream that began with one"
                raise InvalidRequest(what="the frame", value=name, rule=rule)
            observed = self._streams.begin(NAME, asked, id(requests))
            try:
                leased = await self._receives.receive(caller, receive_of(asked, consumer), peer)
            except StoreError as error:
                failure = failure_of(error) or INTERNAL
                observed.end_refused(failure.number, failure.reason, failure.message)
                await put(context, encoding.failed(correlation_id, failure.status(), _RECEIVED))
            else:
                observed.end()
                answers.is_writing = True
                await hand_over(leased, context, self._clock.wall(), correlation_id=correlation_id)
                answers.is_writing = False
                del leased
            if self._draining:
                raise Draining
            request = await requests.next()

    def _undo_unseen(self, start: _Start) -> None:
        """Undo the leases of interrupted streams that have not arrived at the client."""
        for stream_id, arrived in start.interrupted:
            delivered = self._claimable.get(stream_id)
            if delivered is None or delivered.queue != start.queue:
                continue
            del self._claimable[stream_id]
            if (timer := self._ended.pop(stream_id, None)) is not None:
                timer.cancel()
            elif delivered.receiving is not None:
                # Its connection is dead, and the keepalive has not found it out yet.
                delivered.receiving.cancel()
            receipts = delivered.after(arrived)
            for begin in range(0, len(receipts), MAX_COUNT):
                self._leases.give_back(start.queue, receipts[begin : begin + MAX_COUNT])

    def _end(self, stream_id: str, delivered: _DeliveredMessages) -> None:
        """Note the end of a stream: drop what is known of it after a while, or for newer ones."""
        if self._claimable.get(stream_id) is not delivered:
            return  # The client has come back already.
        delivered.receiving = None
        loop = asyncio.get_running_loop()
        self._ended[stream_id] = loop.call_later(CLAIM_TIMEOUT, self._drop_ended, stream_id)
        if len(self._ended) > ENDED_STREAMS:
            self._drop_ended(next(iter(self._ended)))

    def _drop_ended(self, stream_id: str) -> None:
        self._claimable.pop(stream_id, None)
        self._ended.pop(stream_id).cancel()

    async def _deliver(
        self,
        start: _Start,
        context: Context,
        writes: asyncio.Lock,
        delivered: _DeliveredMessages | None,
    ) -> None:
        """Lease messages and write them, as long as the flow control has credits."""
        flow_control = start.flow_control
        credits = flow_control.credits
        caller, consumer, peer = current_caller(), current_consumer(context), context.peer()
        self._flow_controls.add(flow_control)
        writing: deque[asyncio.Task[None]] = deque()
        try:
            # Shows a client of an empty queue that it is connected.
            await context.send_initial_metadata(())
            while True:
                if len(writing) > 1:
                    await asyncio.shield(writing[0])
                    writing.popleft()
                await flow_control.wait()
                if self._draining:
                    raise Draining
                leased = await self._receives.stream(
                    caller,
                    Receive(
                        queue=start.queue,
                        max_messages=min(credits.free, MAX_COUNT),
                        max_bytes=FRAME_BYTES,
                        visibility_timeout=start.visibility,
                        wait=None,
                        credits=credits,
                        consumer=consumer,
                    ),
                    peer,
                )
                if leased is not None:
                    if delivered is not None:
                        delivered.add(leased.receipts, credits.limit)
                    # While it is written, the next receive waits in the store, where the next commit
                    # finds it, and can lease messages that it sends.
                    writing.append(
                        asyncio.create_task(hand_over(leased, context, self._clock.wall(), writes))
                    )
                    # Nothing of it is held while the next is awaited.
                    del leased
        finally:
            try:
                await outlast(writing)
            finally:
                # The leases live on until they are due.
                self._flow_controls.discard(flow_control)
                flow_control.close()

    def _operation(
        self, start: _Start, writes: asyncio.Lock, receiving: asyncio.Task[None]
    ) -> StreamOperation:
        """Return the operation of the requests that follow the first."""
        queue, credits = start.queue, start.flow_control.credits
        caller = current_caller()

        def note(request: rpc.StreamReceiveRequest) -> bool:
            report = request.report
            if report.begun < 1 or report.max_bytes_in_flight < 0:
                return False
            was_silent = credits.is_silent
            credits.report(report.begun, _limit_of(report), report.max_bytes_in_flight or None)
            if was_silent:
                # The receive that waits in the store passed over what has become ready meanwhile.
                self._leases.retry_receives()
            return True

        def content_of(request: rpc.StreamReceiveRequest) -> Any:
            name = request.WhichOneof("frame")
            if name not in _CALLS:
                return request
            content = getattr(request, name)
            content.queue = content.queue or queue
            return content

        async def begin(content: Any) -> Submitted[bytes]:
            if isinstance(content, rpc.StreamReceiveRequest):
                name = content.WhichOneof("frame")
                if name == "stop":
                    return _stop(receiving)
                rule = (
                    "must be one that follows the first: delete, extend, release, reject, stop, or "
                    "a report from begun 1 on, without negative numbers"
                )
                raise InvalidRequest(what="the frame", value=name or "none", rule=rule)
            if content.queue != queue:
                rule = f"must be empty, or the stream's: {queue}"
                raise InvalidRequest(what="queue", value=content.queue, rule=rule)
            return lease_requests.submit(self._leases, caller, content)

        async def write_alone(context: Context, response: bytes) -> None:
            async with writes:
                await put(context, response)

        return StreamOperation(
            NAME,
            begin,
            content_of,
            lambda request: _TAGS.get(request.WhichOneof("frame"), _REFUSED),
            write_alone,
            note,
            joins=False,
        )


def receive_of(request: rpc.ReceiveRequest, consumer: str) -> Receive:
    """Return what a single receive asks of the store; raise the `StoreError` of an invalid one."""
    if request.max_bytes < 0:
        raise InvalidRequest(what="max_bytes", value=request.max_bytes, rule="must not be negative")
    return Receive(
        queue=queue_name(request.queue),
        max_messages=number(request.max_messages, "max_messages", default=1, most=MAX_COUNT),
        # More than fits into a response is never wanted.
        max_bytes=min(request.max_bytes or convert.DEFAULT_RECEIVE_BYTES, convert.MAX_RECEIVE_BYTES),
        visibility_timeout=convert.visibility(request),
        wait=convert.millis(request.wait, "wait", most=MAX_WAIT),
        consumer=consumer,
    )


async def hand_over(
    leased: LeasedMessages,
    context: Context,
    wall: Millis,
    writes: asyncio.Lock | None = None,
    *,
    correlation_id: int | None = None,
) -> None:
    """Write messages in one response; return the leases that the transport didn't take.

    Of a stream, which takes one response at a time, `writes` is held meanwhile. `correlation_id`: that
    of the request in a stream of receives. For both the task that hands over must be no call's, which
    is cancelled.
    """
    response = encoding.deliveries(leased.deliveries, wall, in_stream=writes is not None)
    if correlation_id is not None:
        response = encoding.correlated(correlation_id, response, _RECEIVED)
    # The bodies are in the response now.
    leased.deliveries = []
    try:
        if writes is not None:
            async with writes:
                await put(context, response)
        elif leased.receipts and correlation_id is None:
            await write(context, response)
        else:
            await put(context, response)
    except CallIsOver:
        leased.give_back()
        raise
    finally:
        leased.free()


def _retrieve(answering: asyncio.Task[None]) -> None:
    """Take an error that is told elsewhere: else asyncio logs it as never retrieved."""
    if not answering.cancelled():
        answering.exception()


def _stop(receiving: asyncio.Task[None]) -> Submitted[bytes]:
    """Lease nothing more; the answer comes once all that was leased is written, or given back."""
    receiving.cancel()
    ended: Future[None] = Future()
    receiving.add_done_callback(lambda _: ended.set_result(None))
    return Submitted([ended], bytes)


def _limit_of(report: rpc.ReceiveReport) -> int | None:
    """Return how many messages may be in flight from now on; None: as many as before."""
    return min(report.max_in_flight, convert.MAX_IN_FLIGHT) if report.max_in_flight > 0 else None


def _start_of(request: rpc.StreamReceiveRequest) -> _Start:
    """Validate a first request; raise the `StoreError` for a wrong one."""
    if not request.HasField("start"):
        rule = (
            "must be start in a stream's first request; clients up to 1.0.0-beta.1 send none: update it"
        )
        name = request.WhichOneof("frame") or "none"
        raise InvalidRequest(what="the frame", value=name, rule=rule)
    start = request.start
    limit = number(
        start.max_in_flight,
        "max_in_flight",
        default=convert.DEFAULT_IN_FLIGHT,
        most=convert.MAX_IN_FLIGHT,
    )
    max_bytes = start.max_bytes_in_flight
    if max_bytes < 0:
        raise InvalidRequest(what="max_bytes_in_flight", value=max_bytes, rule="must not be negative")
    return _Start(
        queue=queue_name(start.queue),
        visibility=convert.visibility(start),
        flow_control=FlowControl(
            limit,
            max_bytes=max_bytes,
            concurrency=number(start.concurrency, "concurrency", default=0, most=convert.MAX_IN_FLIGHT),
        ),
        stream_id=_stream_id(start.stream_id),
        interrupted=_interrupted_of(start.interrupted),
    )


def _stream_id(value: str) -> str:
    if len(value) > LONGEST_ID:
        rule = f"must have at most {LONGEST_ID} characters"
        raise InvalidRequest(what="stream_id", value=value[:LONGEST_ID], rule=rule)
    return value


def _interrupted_of(named: Iterable[rpc.InterruptedStream]) -> list[tuple[str, int]]:
    streams = [(_stream_id(each.stream_id), each.arrived) for each in named]
    if len(streams) > MOST_NAMED:
        rule = f"must be at most {MOST_NAMED} streams"
        raise InvalidRequest(what="interrupted", value=len(streams), rule=rule)
    for _, arrived in streams:
        if arrived < 0:
            raise InvalidRequest(what="arrived", value=arrived, rule="must not be negative")
    return streams
