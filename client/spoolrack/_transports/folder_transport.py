"""The transport to a root on this machine, with no server: the store runs in the client's process.

Other processes, and servers, may have the same root open.
"""

from __future__ import annotations

import os
import socket
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from spoolrack_store.credits import UNBOUNDED, Credits
from spoolrack_store.model.operations import (
    ChangeVisibility,
    Delivery,
    Receive,
    RejectMessages,
    ReleaseMessages,
)
from spoolrack_store.store import Store

from .._call_values import Answer, Call, ReadReservation
from .._runtime import Runtime
from .._values import (
    MAX_BATCH,
    DeleteResult,
    Envelope,
    InterruptedStream,
    LeaseExtension,
    LeaseResult,
    MessageRejection,
    MessageRelease,
    Outgoing,
    SendResult,
    Target,
)
from ..errors import ClientClosed
from . import ClientTransport
from . import folder_values as convert
from .folder_calls import FolderCalls
from .folder_files import FolderFiles
from .folder_operations import FolderOperations, FolderPages
from .folder_stores import SharedStore
from .folder_values import FolderUrl


class FolderDeliveries:
    """A stream: receives that wait in the store, one after the other, and share their credits."""

    def __init__(self, calls: FolderCalls, request: Receive) -> None:
        self._calls = calls
        self._request = request
        self._lock = threading.Lock()
        self._store: Store | None = None
        self._under_way: Future[list[Delivery]] | None = None
        self._connected = False
        self.on_connected: Callable[[], None] = lambda: None
        self._cancelled = False

    async def next(self) -> Sequence[Envelope]:
        store = self._store = await self._calls.store()
        leased = await self._calls.leased(store, self._begin(store), None)
        return convert.envelopes(leased, self._calls.root)

    def _begin(self, store: Store) -> Future[list[Delivery]]:
        with self._lock:
            if self._cancelled:
                raise ClientClosed("The stream was closed.")
            self._under_way = self._calls.begin(store, self._request)
            self._connected = True
            self.on_connected()
            return self._under_way

    def report(self, begun: int, max_in_flight: int, max_bytes_in_flight: int) -> None:
        credits = self._request.credits
        assert credits is not None
        # The receive that waits in the store passed over what it may lease now.
        may_more = (
            credits.is_silent
            or max_in_flight > credits.limit
            or max_bytes_in_flight > credits.max_bytes
        )
        credits.report(begun, max_in_flight, max_bytes_in_flight or None)
        if may_more and (store := self._store) is not None:
            store.retry_receives()

    def connected(self) -> bool:
        return self._connected

    def cancel(self) -> None:
        with self._lock:
            self._cancelled = True
            under_way = self._under_way
        if under_way is not None:
            under_way.cancel()

    stop = cancel  # A receive that can't be cancelled any more is returned.


class FolderTransport:
    """`transports.ClientTransport` over one root."""

    def __init__(self, place: FolderUrl, runtime: Runtime) -> None:
        share = SharedStore(place)
        self._consumer = f"pid {os.getpid()} on {socket.gethostname()}"
        self._calls = FolderCalls(share, runtime, place)
        self._operations = FolderOperations(self._calls)
        self.send_file = FolderFiles(self._calls).send
        # A client that was never closed must not keep the store open for ever. At the interpreter's end
        # the system does what is needed.
        weakref.finalize(self, share.leave_soon).atexit = False

    @property
    def target(self) -> str:
        return self._calls.target

    @property
    def all(self) -> Sequence[ClientTransport]:
        return (self,)

    def home(self, queue: str) -> str:
        return self.target

    async def call(self, request: Call[Answer], *, timeout: float) -> Answer:
        return await self._operations.call(request, timeout)

    def read(self, request: ReadReservation) -> FolderPages:
        return FolderPages(self._calls, request)

    async def send(
        self, queue: str, messages: Sequence[Outgoing], *, timeout: float
    ) -> list[SendResult]:
        return convert.send_results(await self._calls.submit(convert.send(queue, messages), timeout))

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
        with convert.errors():
            request = Receive(
                queue=queue,
                max_messages=max_messages,
                max_bytes=convert.RECEIVE_BYTES,
                visibility_timeout=convert.optional_millis(visibility_timeout),
                wait=convert.wait(wait),
                consumer=self._consumer,
            )
        return convert.envelopes(await self._calls.lease(request, timeout), self._calls.root)

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
    ) -> FolderDeliveries:
        request = Receive(
            queue=queue,
            max_messages=min(max_in_flight, MAX_BATCH),
            max_bytes=convert.RECEIVE_BYTES,
            visibility_timeout=convert.optional_millis(visibility_timeout),
            wait=None,
            # A receive without free credits waits in the store, which sees them come back by itself.
            credits=Credits(
                max_in_flight, lambda: None, max_bytes_in_flight or UNBOUNDED, concurrency=concurrency
            ),
            consumer=self._consumer,
        )
        return FolderDeliveries(self._calls, request)

    async def delete(
        self, queue: str, targets: Sequence[Target], *, timeout: float
    ) -> list[DeleteResult]:
        request, places = convert.delete(queue, targets)
        answers = dict(zip(places, await self._calls.submit(request, timeout), strict=True))
        return [convert.delete_result(answers[position]) for position in range(len(targets))]

    def delete_stream(self, queue: str) -> None:
        return None

    async def extend(
        self, queue: str, extensions: Sequence[LeaseExtension], *, timeout: float
    ) -> list[LeaseResult]:
        answers: dict[int, LeaseResult] = {}
        alike: dict[float, list[int]] = {}
        for position, extension in enumerate(extensions):
            alike.setdefault(extension.seconds, []).append(position)
        for seconds, positions in alike.items():
            request = ChangeVisibility(
                queue=queue,
                receipts=[extensions[position].receipt for position in positions],
                visibility_timeout=convert.millis(seconds),
                last_receives=convert.last_receives(extensions[position] for position in positions),
            )
            found = await self._calls.submit(request, timeout)
            answers.update(zip(positions, map(convert.visibility_result, found), strict=True))
        return [answers[position] for position in range(len(extensions))]

    async def release(
        self, queue: str, releases: Sequence[MessageRelease], *, timeout: float
    ) -> list[LeaseResult]:
        answers: dict[int, LeaseResult] = {}
        alike: dict[tuple[float | None, str, bool], list[int]] = {}
        for position, release in enumerate(releases):
            alike.setdefault((release.delay, release.reason, release.count), []).append(position)
        for (delay, reason, count), positions in alike.items():
            request = ReleaseMessages(
                queue=queue,
                receipts=[releases[position].receipt for position in positions],
                delay=convert.optional_millis(delay),
                reason=reason,
                uncounted=not count,
            )
            found = await self._calls.submit(request, timeout)
            answers.update(zip(positions, map(convert.lease_result, found), strict=True))
        return [answers[position] for position in range(len(releases))]

    async def reject(
        self, queue: str, rejections: Sequence[MessageRejection], *, timeout: float
    ) -> list[LeaseResult]:
        answers: dict[int, LeaseResult] = {}
        alike: dict[str, list[int]] = {}
        for position, rejection in enumerate(rejections):
            alike.setdefault(rejection.reason, []).append(position)
        for reason, positions in alike.items():
            request = RejectMessages(
                queue=queue,
                receipts=[rejections[position].receipt for position in positions],
                reason=reason,
            )
            found = await self._calls.submit(request, timeout)
            answers.update(zip(positions, map(convert.lease_result, found), strict=True))
        return [answers[position] for position in range(len(rejections))]

    async def close(self) -> None:
        await self._calls.close()
