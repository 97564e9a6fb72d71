"""The transport to one vsqs folder, which has no server. docs/how-to/from-vsqs.md lists its limits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime

from .._runtime import Runtime
from .._values import (
    DeleteResult,
    Envelope,
    InterruptedStream,
    LeaseExtension,
    LeaseResult,
    MessageFilter,
    MessageRejection,
    MessageRelease,
    MessageState,
    Outgoing,
    Page,
    QueueInfo,
    SendResult,
    Target,
)
from ..errors import ClientClosed, Unsupported
from ..vsqs._folder_index import Content
from . import (
    ClientTransport,
    FileTransport,
    RedriveTransport,
    ReservationTransport,
    ScheduleTransport,
    StagingTransport,
)
from .missing_features import NO_REDRIVES, NO_RESERVATIONS, NO_SCHEDULES, NO_STAGES, missing
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
        self.staging: StagingTransport = missing(NO_STAGES)
        self.reservations: ReservationTransport = missing(NO_RESERVATIONS)
        self.redrives: RedriveTransport = missing(NO_REDRIVES)
        self.schedules: ScheduleTransport = missing(NO_SCHEDULES)
        self.files: FileTransport = WholeFiles(self.send, runtime)

    @property
    def target(self) -> str:
        return self._calls.target

    @property
    def all(self) -> Sequence[ClientTransport]:
        return (self,)

    def home(self, queue: str) -> str:
        return self.target

    async def create_queue(
        self, name: str, settings: Mapping[str, object], labels: Mapping[str, str], *, timeout: float
    ) -> QueueInfo:
        return await self._threads.run(lambda: self._calls.create(name, settings, labels))

    async def get_queue(self, name: str, *, timeout: float) -> QueueInfo:
        return await self._threads.run(lambda: self._calls.info(name))

    async def list_queues(self, *, prefix: str, token: str, timeout: float) -> Page[QueueInfo]:
        queues = await self._threads.run(lambda: self._calls.queues(prefix))
        return Page(items=[info for info in queues if info.name > token])

    async def update_queue(
        self,
        name: str,
        changes: Mapping[str, object],
        labels: Mapping[str, str | None],
        *,
        if_version: int,
        timeout: float,
    ) -> QueueInfo:
        return await self._threads.run(lambda: self._calls.update(name, changes, labels, if_version))

    async def delete_queue(self, name: str, *, if_version: int, timeout: float) -> None:
        await self._threads.run(lambda: self._calls.remove(name))

    async def purge_queue(
        self,
        name: str,
        *,
        sent_before: datetime | None,
        states: Collection[MessageState],
        timeout: float,
    ) -> int:
        return await self._threads.run(lambda: self._calls.purge(name, sent_before, states))

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

    async def get_message(self, queue: str, id: str, *, timeout: float) -> Envelope:
        return await self._threads.run(lambda: self._calls.get(queue, id))

    async def list_messages(
        self,
        queue: str,
        *,
        wanted: MessageFilter,
        token: str,
        limit: int,
        max_body_bytes: int | None,
        timeout: float,
    ) -> Page[Envelope]:
        return await self._threads.run(
            lambda: self._calls.page(
                queue, wanted=wanted, token=token, limit=limit, max_body_bytes=max_body_bytes
            )
        )

    async def close(self) -> None:
        self._calls.close()
