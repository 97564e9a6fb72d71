"""A server of the contract without a disk: queues, stages and reservations as lists in memory.

It shows what a client costs when the store costs nothing, and is what the client's tests count rows
with. It keeps the contract's promises as long as it lives, and none beyond: no delays, no dead letters,
no limits. What can fail: nothing but the calls that a `Fault` is planted for.

    python -m benchmarks.null_server --port 50051 jobs done

serves the named queues until it is ended.
"""

# ruff: noqa: N802 - the contract names the methods

from __future__ import annotations

import argparse
import itertools
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import grpc
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack.v1 import reservation_service_pb2 as reserved
from spoolrack.v1 import staging_service_pb2 as staged
from spoolrack.v1.queue_service_pb2_grpc import QueueServiceServicer, add_QueueServiceServicer_to_server
from spoolrack.v1.reservation_service_pb2_grpc import (
    ReservationServiceServicer,
    add_ReservationServiceServicer_to_server,
)
from spoolrack.v1.staging_service_pb2_grpc import (
    StagingServiceServicer,
    add_StagingServiceServicer_to_server,
)

from .null_state import (
    Fault,
    Hold,
    StoredMessage,
    StoredStage,
    message_of,
    messages_of,
    refuse,
    reservation_of,
    runs_of,
    seconds,
)

FRAME: Final = 1_000
"""Messages in one frame of a read."""
PAGE: Final = 1_000
DEFAULT_HOLD: Final = 30.0


class NullServer(QueueServiceServicer, StagingServiceServicer, ReservationServiceServicer):
    """The servicer, and what it holds. `start` and `stop` are for tests: the same port again."""

    def __init__(self, queues: Sequence[str] = (), *, now: Callable[[], float] = time.time) -> None:
        self.ready: dict[str, deque[StoredMessage]] = {name: deque() for name in queues}
        self.stages: dict[str, StoredStage] = {}
        self.published: dict[str, int] = {}
        """The last epoch of each writer, ..."""
        self.digests: dict[str, str] = {}
        """... and its digest."""
        self.holds: dict[tuple[str, int], Hold] = {}
        self.committed: dict[str, int] = {}
        self.deleted: Counter[str] = Counter()
        """How many messages of each queue were deleted."""
        self.keys: dict[tuple[str, str], str] = {}
        self.calls: Counter[str] = Counter()
        self.waits: list[float] = []
        """How long each `Reserve` may wait for a message, in seconds."""
        self.faults: list[Fault] = []
        self._now = now
        self._changed = threading.Condition()
        self._numbers = itertools.count()
        self._server: grpc.Server | None = None
        self.port = 0

    # Its life.

    def start(self, port: int = 0) -> None:
        options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        self._server = grpc.server(ThreadPoolExecutor(32), options=[*options, ("grpc.so_reuseport", 0)])
        add_QueueServiceServicer_to_server(self, self._server)
        add_StagingServiceServicer_to_server(self, self._server)
        add_ReservationServiceServicer_to_server(self, self._server)
        self.port = self._server.add_insecure_port(f"127.0.0.1:{port or self.port}")
        self._server.start()

    def stop(self, grace: float | None = None) -> None:
        if self._server is not None:
            self._server.stop(grace).wait()
            self._server = None

    def wait(self) -> None:
        assert self._server is not None
        self._server.wait_for_termination()

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.port}"

    # Calls of tests.

    def put(self, queue: str, bodies: Sequence[bytes]) -> None:
        """Send without a call."""
        with self._changed:
            self._append(queue, [pb.OutgoingMessage(body=body) for body in bodies])

    def bodies(self, queue: str) -> list[bytes]:
        """Return the bodies of all messages that are ready."""
        with self._changed:
            self._expire()
            return [held.body.body for held in self.ready[queue]]

    def release(self, stream: str, sequence_number: int) -> None:
        with self._changed:
            self._lose(self.holds[stream, sequence_number])

    def wait_until(self, holds: Callable[[], bool], timeout: float = 60.0) -> bool:
        """Wait until something is so, while calls or time change it; False if it never is."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while not holds():
                if time.monotonic() >= deadline:
                    return False
                self._changed.wait(0.1)
                self._expire()
        return True

    # The calls.

    def Send(self, request: rpc.SendRequest, context: grpc.ServicerContext) -> rpc.SendResponse:
        with self._call("Send", context):
            self._queue(request.queue, context)
            results = []
            for message in request.messages:
                key = (request.queue, message.deduplication_id)
                id = self.keys.get(key) if message.deduplication_id else None
                if id is None:
                    (held,) = self._append(request.queue, [message])
                    id = held.id
                    if message.deduplication_id:
                        self.keys[key] = id
                    results.append(rpc.SendResult(sent=rpc.SentMessage(id=id)))
                else:
                    results.append(rpc.SendResult(sent=rpc.SentMessage(id=id, duplicate=True)))
            return rpc.SendResponse(results=results)

    def GetQueue(self, request: rpc.GetQueueRequest, context: grpc.ServicerContext) -> Any:
        with self._call("GetQueue", context):
            ready = self._queue(request.name, context)
            leased = sum(
                len(hold.messages)
                for hold in self.holds.values()
                if hold.queue == request.name and not hold.is_lost
            )
            counts = pb.QueueCounts(ready_count=len(ready), leased_count=leased)
            return rpc.GetQueueResponse(queue=pb.Queue(name=request.name, counts=counts))

    def CreateQueue(self, request: rpc.CreateQueueRequest, context: grpc.ServicerContext) -> Any:
        with self._call("CreateQueue", context):
            self.ready.setdefault(request.queue.name, deque())
            return rpc.CreateQueueResponse(queue=pb.Queue(name=request.queue.name))

    def ListMessages(self, request: rpc.ListMessagesRequest, context: grpc.ServicerContext) -> Any:
        with self._call("ListMessages", context):
            ready = self._queue(request.queue, context)
            begin = int(request.page_token or 0)
            size = min(request.page_size or 100, PAGE)
            page = list(itertools.islice(ready, begin, begin + size))
            more = str(begin + size) if begin + size < len(ready) else ""
            return rpc.ListMessagesResponse(
                messages=[message_of(held) for held in page], next_page_token=more
            )

    def Stage(self, request: staged.StageRequest, context: grpc.ServicerContext) -> Any:
        with self._call("Stage", context):
            self._queue(request.queue, context)
            stage = self.stages.setdefault(request.stage, StoredStage())
            duplicate = request.chunk_number in stage.chunks
            if not duplicate:
                stage.chunks[request.chunk_number] = (request.queue, messages_of(request))
            (_, messages) = stage.chunks[request.chunk_number]
            return staged.StageResponse(message_count=len(messages), duplicate=duplicate)

    def Publish(self, request: staged.PublishRequest, context: grpc.ServicerContext) -> Any:
        with self._call("Publish", context):
            last = self.published.get(request.writer, -1)
            if request.epoch <= last:
                digest = self.digests[request.writer] if request.epoch == last else ""
                if digest and request.digest and digest != request.digest:
                    text = f"Epoch {last} of {request.writer} differs."
                    refuse(context, grpc.StatusCode.FAILED_PRECONDITION, "EPOCH_DIFFERS", text)
                if request.epoch < last and request.digest:
                    text = f"Epoch {request.epoch} of {request.writer} is below {last}."
                    refuse(context, grpc.StatusCode.FAILED_PRECONDITION, "EPOCH_PASSED", text)
                return staged.PublishResponse(duplicate=True, last_epoch=last)
            for name in request.stages:
                if name not in self.stages:
                    refuse(context, grpc.StatusCode.NOT_FOUND, "STAGE_NOT_FOUND", f"no stage {name}")
            count = 0
            for name in request.stages:
                for _, (queue, messages) in sorted(self.stages.pop(name).chunks.items()):
                    count += len(self._append(queue, messages))
            self.published[request.writer] = request.epoch
            self.digests[request.writer] = request.digest
            return staged.PublishResponse(message_count=count, last_epoch=request.epoch)

    def AbortStage(self, request: staged.AbortStageRequest, context: grpc.ServicerContext) -> Any:
        with self._call("AbortStage", context):
            stage = self.stages.pop(request.stage, StoredStage())
            count = sum(len(held) for _, held in stage.chunks.values())
            return staged.AbortStageResponse(message_count=count)

    def Reserve(self, request: reserved.ReserveRequest, context: grpc.ServicerContext) -> Any:
        with self._call("Reserve", context):
            ready = self._queue(request.queue, context)
            name = (request.stream, request.sequence_number)
            self._refuse_committed(name, context)
            if name in self.holds:
                return reserved.ReserveResponse(
                    reservation=reservation_of(name, self._hold(name, context))
                )
            self.waits.append(seconds(request.wait))
            deadline = time.monotonic() + seconds(request.wait)
            while not ready:
                left = deadline - time.monotonic()
                if left <= 0 or not context.is_active():
                    return reserved.ReserveResponse()
                self._changed.wait(min(left, 0.5))
                self._expire()
            span = seconds(request.visibility_timeout) or DEFAULT_HOLD
            messages: list[StoredMessage] = []
            size = 0
            while ready and len(messages) < (request.max_messages or 1_000):
                size += len(ready[0].body.body)
                if messages and size > (request.max_bytes or 1 << 26):
                    size -= len(ready[0].body.body)
                    break
                messages.append(ready.popleft())
                messages[-1].receives += 1
            hold = Hold(
                queue=request.queue,
                messages=messages,
                receives=[held.receives for held in messages],
                size=size,
                span=span,
                due=self._now() + span,
            )
            self.holds[name] = hold
            return reserved.ReserveResponse(reservation=reservation_of(name, hold))

    def ExtendReservation(
        self, request: reserved.ExtendReservationRequest, context: grpc.ServicerContext
    ) -> Any:
        with self._call("ExtendReservation", context):
            name = (request.stream, request.sequence_number)
            hold = self._hold(name, context)
            hold.span = seconds(request.visibility_timeout) or hold.span
            hold.due = self._now() + hold.span
            self._changed.notify_all()
            return reserved.ExtendReservationResponse(reservation=reservation_of(name, hold))

    def ReadReservation(
        self, request: reserved.ReadReservationRequest, context: grpc.ServicerContext
    ) -> Iterator[reserved.ReadReservationResponse]:
        with self._call("ReadReservation", context):
            hold = self._hold((request.stream, request.sequence_number), context)
            hold.reads += request.begin_index == 0
            hold.is_read |= request.mark_read
            end = min(request.end_index or len(hold.messages), len(hold.messages))
            messages = hold.messages[request.begin_index : end]
        for begin in range(0, len(messages), FRAME):
            page = messages[begin : begin + FRAME]
            following = request.begin_index + begin + len(page)
            if request.by_column:
                yield reserved.ReadReservationResponse(runs=runs_of(page), next_index=following)
            else:
                frame = map(message_of, page)
                yield reserved.ReadReservationResponse(messages=frame, next_index=following)
            with self._call("frame", context):
                pass

    def CommitReservations(
        self, request: reserved.CommitReservationsRequest, context: grpc.ServicerContext
    ) -> reserved.CommitReservationsResponse:
        with self._call("CommitReservations", context):
            last = self.committed.get(request.stream, -1)
            answer = reserved.CommitReservationsResponse()
            if request.last_sequence_number <= last:
                return answer
            stream, last_sequence_number = request.stream, request.last_sequence_number
            self._find((stream, last_sequence_number), context)
            names = [
                name
                for name in sorted(self.holds)
                if name[0] == stream and name[1] <= last_sequence_number
            ]
            for name in names:
                hold = self.holds[name]
                if request.only_read and not hold.is_read and not hold.is_lost:
                    text = f"Reservation {name[1]} of the stream {name[0]} was never read."
                    refuse(context, grpc.StatusCode.FAILED_PRECONDITION, "RESERVATION_UNREAD", text)
            for name in names:
                hold = self.holds.pop(name)
                count = len(hold.messages)
                if hold.is_lost:
                    count = self._take_back(hold)
                    if count < len(hold.messages):
                        answer.lost_sequence_numbers.append(name[1])
                answer.deleted_count += count
                self.deleted[hold.queue] += count
            self.committed[request.stream] = request.last_sequence_number
            return answer

    def ReleaseReservation(
        self, request: reserved.ReleaseReservationRequest, context: grpc.ServicerContext
    ) -> reserved.ReleaseReservationResponse:
        with self._call("ReleaseReservation", context):
            hold = self.holds.get((request.stream, request.sequence_number))
            if hold is not None:
                self._lose(hold)
                hold.is_read = False
            return reserved.ReleaseReservationResponse()

    def ListReservations(
        self, request: reserved.ListReservationsRequest, context: grpc.ServicerContext
    ) -> reserved.ListReservationsResponse:
        with self._call("ListReservations", context):
            reservations = [
                reservation_of(name, hold)
                for name, hold in sorted(self.holds.items())
                if request.queue in ("", hold.queue) and request.stream in ("", name[0])
            ]
            return reserved.ListReservationsResponse(reservations=reservations)

    # Inside: all of it under the lock.

    def _call(self, method: str, context: grpc.ServicerContext) -> _Call:
        return _Call(self, method, context)

    def _append(self, queue: str, messages: Sequence[pb.OutgoingMessage]) -> list[StoredMessage]:
        now = self._now()
        # As with the store: ids rise in the order of the sends.
        base = f"{int(now * 1000):012x}"
        held = [
            StoredMessage(
                body=message, sent_at=now, id=f"{base[:8]}-{base[8:]}-7000-8000-{number:012x}"
            )
            for message, number in zip(messages, self._numbers, strict=False)
        ]
        self.ready.setdefault(queue, deque()).extend(held)
        self._changed.notify_all()
        return held

    def _queue(self, name: str, context: grpc.ServicerContext) -> deque[StoredMessage]:
        if name not in self.ready:
            refuse(context, grpc.StatusCode.NOT_FOUND, "QUEUE_NOT_FOUND", f"There is no queue {name}.")
        return self.ready[name]

    def _refuse_committed(self, name: tuple[str, int], context: grpc.ServicerContext) -> None:
        last = self.committed.get(name[0], -1)
        if name[1] <= last:
            text = f"The stream {name[0]} is committed up to {last}."
            refuse(context, grpc.StatusCode.FAILED_PRECONDITION, "RESERVATION_COMMITTED", text)

    def _find(self, name: tuple[str, int], context: grpc.ServicerContext) -> Hold:
        if name not in self.holds:
            text = f"There is no reservation {name[1]} of the stream {name[0]}."
            refuse(context, grpc.StatusCode.NOT_FOUND, "RESERVATION_NOT_FOUND", text)
        return self.holds[name]

    def _hold(self, name: tuple[str, int], context: grpc.ServicerContext) -> Hold:
        self._refuse_committed(name, context)
        hold = self._find(name, context)
        if hold.is_lost:
            text = f"The hold on reservation {name[1]} of the stream {name[0]} is over."
            refuse(context, grpc.StatusCode.FAILED_PRECONDITION, "RESERVATION_LOST", text)
        return hold

    def _expire(self) -> None:
        now = self._now()
        for hold in self.holds.values():
            if hold.due <= now:
                self._lose(hold)

    def _take_back(self, hold: Hold) -> int:
        """Delete the messages of a set that was read, and lost, that no one has leased since."""
        if not hold.is_read:
            return 0
        receives = {id(held): count for held, count in zip(hold.messages, hold.receives, strict=True)}
        ready = self.ready[hold.queue]
        left = [held for held in ready if receives.get(id(held)) != held.receives]
        count = len(ready) - len(left)
        ready.clear()
        ready.extend(left)
        return count

    def _lose(self, hold: Hold) -> None:
        if not hold.is_lost:
            hold.is_lost = True
            self.ready[hold.queue].extendleft(reversed(hold.messages))
            self._changed.notify_all()


class _Call:
    """One call: alone with the state, counted, and failing where a fault was planted."""

    def __init__(self, server: NullServer, method: str, context: grpc.ServicerContext) -> None:
        self._server = server
        self._method = method
        self._context = context

    def __enter__(self) -> None:
        self._server._changed.acquire()
        self._server.calls[self._method] += 1
        try:
            self._server._expire()
            self._fail(is_after=False)
        except BaseException:
            self._server._changed.release()
            raise

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self._fail(is_after=True)
        finally:
            self._server._changed.release()

    def _fail(self, *, is_after: bool) -> None:
        for fault in self._server.faults:
            if fault.method != self._method or fault.is_after != is_after or fault.times <= 0:
                continue
            if fault.skip > 0:
                fault.skip -= 1
                continue
            fault.times -= 1
            if fault.action is not None:
                fault.action(self._context)
            self._context.abort(fault.code, "planted")


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve queues from memory, until it is ended.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("queues", nargs="*")
    arguments = parser.parse_args()
    # The methods that it lacks answer UNIMPLEMENTED.
    server = NullServer(arguments.queues)  # type: ignore[abstract]
    server.start(arguments.port)
    print(server.endpoint, flush=True)
    server.wait()


if __name__ == "__main__":
    main()
