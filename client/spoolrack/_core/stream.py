"""A stream of messages that reconnects.

A reader in the background takes the messages as the server delivers them (within the stream's credits),
so that at the end those that were not handed out can be released, which counts as no receive: it stops
the stream, and reads what is on its way. It opens
the stream again after a failure that may pass. Messages that wait here are kept leased.

The server takes a message for begun once it may be handed out: that follows from the concurrency of the
stream, and from reports of how many messages of the present connection were handed out or dropped.
Messages of an earlier connection can't be reported any more. The next connection says how many of them
have arrived, so that the server releases those that were lost with the connection.
"""

from __future__ import annotations

import logging
import math
import secrets
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from .. import _arguments as arguments
from .._runtime import Started
from .._transports import Deliveries
from .._values import MAX_BATCH, Envelope, InterruptedStream, MessageRelease, Seconds
from ..errors import ClientClosed, SpoolrackError
from . import outages
from .acks import CLOSE_TIMEOUT, LINGER, Acks
from .client_context import ClientContext
from .lease_extender import LeaseExtender
from .prefetch_buffer import PrefetchBuffer

log = logging.getLogger("spoolrack")

MOST_INTERRUPTED: Final = 100
"""Interrupted streams that a start may name: the server's bound."""
WORKER_CALLS: Final = 4
"""Deletes of a worker in flight at one time, each of all messages that were handled since the last."""


class EnvelopeStream:
    """The messages of a queue as a transport delivers them."""

    def __init__(
        self,
        context: ClientContext,
        queue: str,
        *,
        max_in_flight: int,
        max_bytes_in_flight: int,
        visibility_timeout: float | None,
        connect_timeout: float,
        concurrency: int | None = None,
        until_dropped: bool = False,
        on_arrival: Callable[[], None] | None = None,
        is_one_of_several: bool = False,
    ) -> None:
        """`max_bytes_in_flight`: 0 is no limit. `connect_timeout`: seconds of retries until the first
        connection. `concurrency`: of a worker, how many handlers
        it has; it closes `acks` itself after the last of them. `until_dropped`: extend leases until
        `drop_lease` is called, and not only until the message is handed out. `on_arrival`: called by
        the reader after messages have arrived, and after the stream's end. `is_one_of_several`: others
        share the consumer, so that the server can't infer from its `concurrency` which messages are
        begun."""
        self._context = context
        self._runtime = context.runtime
        self._queue = queue
        self._max_in_flight = max_in_flight
        self._max_bytes_in_flight = max_bytes_in_flight
        self._visibility_timeout = visibility_timeout
        self._connect_timeout = connect_timeout
        self._concurrency = concurrency
        self._until_dropped = until_dropped
        self._on_arrival = on_arrival
        self._is_one_of_several = is_one_of_several
        self.ever_connected = False
        self._lost_at: float | None = None
        """Since when there is no connection. Changed by the reader."""
        self._failed = 0
        """Tries of a connection in a row that failed."""
        self._lock = self._runtime.lock()
        self._closing = self._runtime.signal()
        self._deliveries: Deliveries | None = None
        self._reader: Started | None = None
        self._buffer: PrefetchBuffer[Envelope] = PrefetchBuffer(self._runtime)
        self._leases = LeaseExtender(context, queue, visibility_timeout, self._report_late)
        self._arrivals = 0
        """Messages of all connections. Changed by the reader."""
        self._former_arrivals = 0
        """Those before the present connection."""
        self._interrupted: deque[InterruptedStream] = deque(maxlen=MOST_INTERRUPTED)
        """Former connections that no connected one has named. Changed by the reader."""
        self._handed_out_or_dropped = 0
        """Messages that were handed out or dropped, in the order of their arrival."""
        self._reported = 0, max_in_flight, max_bytes_in_flight
        """What the present connection was told last: how many of them, and what may be in flight."""
        is_worker = concurrency is not None
        self.acks = Acks(
            context,
            queue,
            max_in_flight=max_in_flight,
            linger=0.0 if is_worker else LINGER,
            calls=WORKER_CALLS if is_worker else 1,
            on_ended=self._report_late,
        )

    async def next(self) -> Envelope | None:
        """Return the next message; None once the stream is closed. Raise the error that ended it
        otherwise."""
        found = await self._take(1, None)
        return found[0] if found else None

    async def receive(self, max_messages: int, wait: Seconds | None) -> list[Envelope]:
        """Return up to `max_messages` messages that have arrived, as soon as there is one; none once
        the stream is closed, or after `wait` seconds, if that is not None. Raise the error that ended
        it otherwise."""
        arguments.integer("max_messages", max_messages, 1)
        waits = arguments.optional_span("wait", wait)
        return await self._take(
            max_messages, None if waits is None else self._runtime.monotonic() + waits
        )

    async def _take(self, max_messages: int, deadline: float | None) -> list[Envelope]:
        self._context.check_process()
        if self._reader is None:
            self.start()
        if self.acks.pending:
            self._report_late()
        while True:
            envelopes = await self._buffer.get_many(max_messages, deadline)
            # A message whose lease was lost while it waited here is delivered again, to any consumer.
            envelopes_held = self._leases.hand_out(envelopes, keep=self._until_dropped)
            with self._lock:
                self._handed_out_or_dropped += len(envelopes)
                # A single handler begins a message once its last is deleted, as the server infers.
                if self._concurrency != 1 or len(envelopes_held) < len(envelopes):
                    self._report()
            if envelopes_held or not envelopes:
                return envelopes_held

    def _report(self) -> None:
        """Report how many messages of the present connection were handed out or dropped, and what may
        be in flight. With the lock held, so that reports don't overtake each other.

        A message whose ack is under way takes no place: else the time of a call bounds the throughput.
        """
        begun = self._handed_out_or_dropped - self._former_arrivals
        in_flight = self._max_in_flight + min(self.acks.pending, MAX_BATCH)
        in_flight = min(in_flight, max(self._max_in_flight, arguments.MAX_IN_FLIGHT))
        report = begun, in_flight, self._max_bytes_in_flight
        if self._deliveries is not None and begun > 0 and report != self._reported:
            self._reported = report
            self._deliveries.report(*report)

    def limit(self, max_in_flight: int, max_bytes_in_flight: int) -> None:
        """Change how many messages, and bytes, may be in flight, from the first message on."""
        with self._lock:
            self._max_in_flight, self._max_bytes_in_flight = max_in_flight, max_bytes_in_flight
            self._report()

    @property
    def waiting(self) -> int:
        """Messages that have arrived, and were not handed out."""
        return len(self._buffer)

    def waiting_messages(self) -> list[Envelope]:
        """Return those messages."""
        return self._buffer.items()

    @property
    def has_news(self) -> bool:
        """Whether `receive` returns or raises at once."""
        return self._buffer.has_news

    def _report_late(self) -> None:
        """Report now and then what wasn't worth a report when it was handed out."""
        with self._lock:
            self._report()

    def drop_lease(self, envelope: Envelope) -> None:
        """Stop extending the lease of a message that was delivered."""
        self._leases.drop(envelope.receipt)

    def start(self) -> None:
        """Open the stream, if it isn't open: messages arrive from now on."""
        try:
            with self._lock:
                if self._reader is not None:
                    return
                self._context.check()
                self._context.open.add(self)
                self._reader = self._runtime.start(self._read(), "spoolrack-stream")
        except KeyboardInterrupt:
            # The reader may run all the same: it finds the stream closed, and ends.
            self.abandon_now()
            raise

    async def _read(self) -> None:
        try:
            await self._read_and_close()
        finally:
            if self._on_arrival is not None:
                self._on_arrival()

    async def _read_and_close(self) -> None:
        failure: Exception | None = None
        try:
            await self._read_until_the_end()
        except Exception as error:  # noqa: BLE001  # the callers who wait raise it, defects too
            failure = error
        except BaseException:
            # A cancelled task: nothing comes any more, and the callers must not wait for it.
            self._buffer.close(ClientClosed("The stream was cancelled with its event loop."))
            raise
        if self._closing.is_set():
            if failure is not None and not isinstance(failure, SpoolrackError):
                log.error("the stream of %s has failed at its end", self._queue, exc_info=failure)
            await self._release(self._buffer.close())
        else:
            self._buffer.close(failure)

    async def _read_until_the_end(self) -> None:
        """Deliver messages, through any number of connections, until the stream is closed or retries
        end."""
        retry, random = self._context.retry, self._context.random
        self._note_lost()
        while not self._closing.is_set():
            stream_id = secrets.token_hex(16)
            deliveries = self._open(stream_id)
            try:
                while True:
                    envelopes = await deliveries.next()
                    self._note_connected()
                    await self._accept(envelopes)
            except SpoolrackError as error:
                if self._closing.is_set():
                    return
                # Also if it seems never to have been accepted: the headers may have been lost.
                arrived = self._arrivals - self._former_arrivals
                self._interrupted.append(InterruptedStream(stream_id, arrived))
                self._failed += 1
                lost = self._note_lost()
                left = math.inf if self.ever_connected else self._connect_timeout - lost
                pause = retry.pause(error, failed=self._failed, left=left, random=random)
                if pause is None:
                    raise
                outages.note_lost(self._server, self._queue, lost, pause, error)
            finally:
                # Also when this task itself is cancelled: the server must not go on leasing to it.
                deliveries.cancel()
            await self._closing.wait(pause)

    def _note_lost(self) -> float:
        """Return the seconds without a connection."""
        now = self._runtime.monotonic()
        if self._lost_at is None:
            self._lost_at = now
        return now - self._lost_at

    def _note_connected(self) -> None:
        self.ever_connected = True
        self._failed = 0
        self._interrupted.clear()
        if self._lost_at is not None:
            outages.note_connected(self._server, self._runtime.monotonic() - self._lost_at)
            self._lost_at = None

    @property
    def _server(self) -> str:
        return self._context.transport.home(self._queue)

    def _open(self, stream_id: str) -> Deliveries:
        deliveries = self._context.transport.stream(
            self._queue,
            max_in_flight=self._max_in_flight,
            max_bytes_in_flight=self._max_bytes_in_flight,
            visibility_timeout=self._visibility_timeout,
            concurrency=1 if self._is_one_of_several else self._concurrency or 1,
            stream_id=stream_id,
            interrupted=tuple(self._interrupted),
        )
        deliveries.on_connected = self._note_connected
        with self._lock:
            self._deliveries = deliveries
            self._former_arrivals = self._arrivals
            self._reported = 0, self._max_in_flight, self._max_bytes_in_flight
            closing = self._closing.is_set()
        if closing:
            deliveries.stop()
        return deliveries

    async def _accept(self, envelopes: Sequence[Envelope]) -> None:
        self._leases.add(envelopes)
        self._arrivals += len(envelopes)
        # A message that arrives while the stream is being closed is handed out to no caller.
        if self._closing.is_set() or not self._buffer.put(envelopes):
            await self._release(envelopes)
        elif self._on_arrival is not None:
            self._on_arrival()

    async def _release(self, envelopes: Sequence[Envelope]) -> None:
        """Release messages that were never handed out: they are ready again at once, and the receive
        isn't counted."""
        transport = self._context.transport
        self._leases.hand_out(envelopes, keep=False)
        for start in range(0, len(envelopes), MAX_BATCH):
            chunk = [
                MessageRelease(envelope.receipt, count=False)
                for envelope in envelopes[start : start + MAX_BATCH]
            ]
            try:
                await transport.release(self._queue, chunk, timeout=CLOSE_TIMEOUT)
            except SpoolrackError as error:
                log.warning(
                    "%d messages of %s could not be released, and stay leased until their "
                    "visibility timeout ends: %s",
                    len(chunk),
                    self._queue,
                    error,
                )

    async def close(self, timeout: float = CLOSE_TIMEOUT) -> bool:
        """End the stream, and release the messages that wait in it or are on their way; return whether
        the server has answered within `timeout` seconds. Idempotent."""
        self.abandon_now()
        has_ended = self._reader is None or await self._reader.join(timeout)
        if not has_ended and self._reader is not None:
            if self._deliveries is not None:
                self._deliveries.cancel()
            await self._reader.join(timeout)
        if self._concurrency is None:
            await self.acks.close(2 * timeout)
        self._leases.stop_when_empty()
        self._context.open.discard(self)
        return has_ended

    def stop_extending(self) -> None:
        """Stop extending all leases, also of messages that are being handled."""
        self._leases.stop()

    def abandon(self) -> None:
        """Close without waiting, from a finalizer."""
        if self._reader is not None and not self._closing.is_set() and not self._context.closed:
            self._runtime.soon(self.abandon_now)

    def abandon_now(self) -> None:
        """Close without waiting: the reader task does the rest."""
        with self._lock:
            self._closing.set()
            if self._concurrency is None:
                self.acks.end()
            deliveries = self._deliveries
        if not self._until_dropped:
            self._leases.stop()
        if deliveries is not None:
            deliveries.stop()
        if self._reader is None:
            self._buffer.close()

    @property
    def connected(self) -> bool:
        """Whether the server has accepted the present connection, if there is one."""
        return self._deliveries is not None and self._deliveries.connected()

    def describe(self) -> str:
        return f"of {self._queue}{', closed' if self._closing.is_set() else ''}"
