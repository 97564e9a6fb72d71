"""The transport to one vsqs folder, which has no server. docs/how-to/from-vsqs.md lists its limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._call_values import (
    Answer,
    Call,
    CreateQueue,
    DeleteQueue,
    GetMessage,
    GetQueue,
    ListMessages,
    ListQueues,
    PurgeQueue,
    ReadReservation,
    UpdateQueue,
)
from .._runtime import Runtime
from .._values import (
    DeleteResult,
    Envelope,
    InterruptedStream,
    LeaseExtension,
    LeaseResult,
    MessageRejection,
    MessageRelease,
    Outgoing,
    Page,
    SendResult,
    Target,
)
from ..errors import ClientClosed, Unsupported
from ..vsqs._folder_index import Content
from . import ClientTransport, Pages
from .missing_features import NO_RESERVATIONS, why_missing
from .thread_runner import ThreadRunner
from .vsqs_calls import Stop, VsqsCalls
from .vsqs_values import VsqsUrl
from .whole_files import WholeFiles


class VsqsDeliveries:
    """A stream with credits: a message whose lease has ended returns its credit."""

    def __init__(
        self,
        calls: VsqsCalls,
        threads: ThreadRunner,
        queue: str,
        max_in_flight: int,
        visibility: float | None,
    ) -> None:
        self._calls = calls
        self._threads = threads
        self._queue = queue
        self._max_in_flight = max_in_flight
        self._visibility = visibility
        self._receipts: set[str] = set()
        self._stop = Stop()
        self._connected = False
        self.on_connected: Callable[[], None] = lambda: None

    def report(self, begun: int, max_in_flight: int, max_bytes_in_flight: int) -> None:
        """Do nothing: each receive counts."""

    async def next(self) -> Sequence[Envelope]:
        return await self._threads.run(self._next, undo=self._calls.give_back, stop=self.cancel)

    def _next(self) -> list[Envelope]:
        envelopes = None
        if not self._stop.is_set:  # Else a message that is released at the end would come again.
            envelopes = self._calls.lease(
                self._queue, self._room, timeout=None, visibility=self._visibility, stop=self._stop
            )
        if not envelopes:
            raise ClientClosed("The stream was closed.")
        self._receipts |= {envelope.receipt for envelope in envelopes}
        return envelopes

    def _room(self, content: Content) -> int:
        self._connected = True
        self.on_connected()
        leases = self._calls.leases
        self._receipts = {
            receipt
            for receipt in self._receipts
            if leases.name(receipt) in content and not leases.is_put_off(receipt)
        }
        return self._max_in_flight - len(self._receipts)

    def connected(self) -> bool:
        return self._connected

    def cancel(self) -> None:
        self._stop.is_set = True
        self._calls.wake()

    stop = cancel  # Messages that are leased by then are returned.


class VsqsTransport:
    """`transports.ClientTransport` over one folder."""

    def __init__(self, place: VsqsUrl, runtime: Runtime) -> None:
        self._calls = VsqsCalls(place)
        self._threads = ThreadRunner(runtime)
        self.send_file = WholeFiles(self.send, runtime).send

    @property
    def target(self) -> str:
        return self._calls.target

    @property
    def all(self) -> Sequence[ClientTransport]:
        return (self,)

    def home(self, queue: str) -> str:
        return self.target

    async def call(self, request: Call[Answer], *, timeout: float) -> Answer:
        answer: Answer = await self._threads.run(lambda: self._called(request))
        return answer

    def _called(self, call: Call[Any]) -> Any:
        folder = self._calls
        match call:
            case CreateQueue():
                return folder.create(call.name, call.settings, call.labels)
            case GetQueue():
                return folder.info(call.name)
            case ListQueues():
                queues = folder.queues(call.prefix)
                return Page(items=[info for info in queues if info.name > call.page_token])
            case UpdateQueue():
                return folder.update(call.name, call.settings, call.labels, call.version)
            case DeleteQueue():
                return folder.remove(call.name)
            case PurgeQueue():
                return folder.purge(call.name, call.sent_before, call.states)
            case GetMessage():
                return folder.get(call.queue, call.id)
            case ListMessages():
                return folder.page(
                    call.queue,
                    wanted=call.wanted,
                    token=call.page_token,
                    limit=call.page_size,
                    max_body_bytes=call.max_body_bytes,
                )
        raise Unsupported(why_missing(call))

    def read(self, request: ReadReservation) -> Pages:
        raise Unsupported(NO_RESERVATIONS)

    async def send(
        self, queue: str, messages: Sequence[Outgoing], *, timeout: float
    ) -> list[SendResult]:
        return await self._threads.run(lambda: self._calls.send(queue, messages))

    def send_stream(self, queue: str) -> None:
        return None

    async def receive(
        self,
        queue: str,
        *,
        max_messages: int,
        wait: float,
        visibility_timeout: float | None,
        timeout: float,
    ) -> Sequence[Envelope]:
        stop = Stop()

        def receive() -> list[Envelope]:
            return self._calls.lease(
                queue,
                lambda content: max_messages,
                timeout=min(wait, timeout),
                visibility=visibility_timeout,
                stop=stop,
            )

        def cancel() -> None:
            stop.is_set = True
            self._calls.wake()

        return await self._threads.run(receive, undo=self._calls.give_back, stop=cancel)

    def stream(
        self,
        queue: str,
        *,
        max_in_flight: int,
        max_bytes_in_flight: int,
        visibility_timeout: float | None,
        concurrency: int,
        stream_id: str = "",
        interrupted: Sequence[InterruptedStream] = (),
    ) -> VsqsDeliveries:
        if max_bytes_in_flight:
            raise Unsupported("A vsqs queue doesn't limit the bytes in flight.")
        return VsqsDeliveries(self._calls, self._threads, queue, max_in_flight, visibility_timeout)

    async def delete(
        self, queue: str, targets: Sequence[Target], *, timeout: float
    ) -> list[DeleteResult]:
        return await self._threads.run(lambda: self._calls.delete(queue, targets))

    def delete_stream(self, queue: str) -> None:
        return None

    async def extend(
        self, queue: str, extensions: Sequence[LeaseExtension], *, timeout: float
    ) -> list[LeaseResult]:
        return await self._threads.run(lambda: self._calls.extend(queue, extensions))

    async def release(
        self, queue: str, releases: Sequence[MessageRelease], *, timeout: float
    ) -> list[LeaseResult]:
        return await self._threads.run(lambda: self._calls.release(queue, releases))

    async def reject(
        self, queue: str, rejections: Sequence[MessageRejection], *, timeout: float
    ) -> list[LeaseResult]:
        raise Unsupported("A folder of vsqs has no dead letters: delete or release the message.")

    async def close(self) -> None:
        self._calls.close()
