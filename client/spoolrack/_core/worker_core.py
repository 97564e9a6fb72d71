"""Worker: calls a handler with each message of a queue, and deletes, releases or rejects the message.

Owns the lanes (as many handlers run at once) and their orderly end. Leases are extended by the stream
for as long as a handler runs. What can fail: a handler (its message is released with a delay), a delete
(reported like a handler's error; the message comes back), the stream for good (then `run` raises).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any, TypedDict

from .. import _arguments as arguments
from .. import tracing
from .._retry import Backoff, Reject, Retry
from .._runtime import Started
from .._values import Seconds
from ..errors import ClientClosed, SpoolrackError
from .acks import CLOSE_TIMEOUT, Ack
from .bound_message import BoundMessage, finish_message
from .queue_base import QueueBase
from .several_queues import SeveralQueues, SeveralStreams
from .stop_signals import stopping_on_signals
from .stream import EnvelopeStream

log = logging.getLogger("spoolrack")


class WorkerOptions(TypedDict, total=False):
    """Options of a worker, as keyword arguments: see `spoolrack.Queue.worker`."""

    concurrency: int
    """Handlers that run at one time; 8 by default."""
    prefetch: int | None
    """Messages that wait in the worker; by default as many as `concurrency`."""
    visibility_timeout: Seconds | None
    """Length of the leases, which are extended; by default the queue's."""
    retry: Backoff | None
    """The delay after a failure; by default the queue's back-off."""
    grace: Seconds
    """How long the handlers may go on after a stop; 30 seconds by default."""


class WorkerCore:
    """A worker for threads or tasks; runs once."""

    def __init__(
        self,
        queue: QueueBase | SeveralQueues,
        handler: Callable[[Any], Awaitable[object]],
        on_error: Callable[[Any, Exception], object] | None,
        *,
        concurrency: int = 8,
        prefetch: int | None = None,
        visibility_timeout: Seconds | None = None,
        retry: Backoff | None = None,
        grace: Seconds = 30.0,
        **unknown: object,
    ) -> None:
        arguments.check_options(unknown, WorkerOptions)
        arguments.function("handler", handler, is_awaited=True)
        if on_error is not None:
            arguments.function("on_error", on_error)
        most = arguments.MAX_IN_FLIGHT
        arguments.integer("concurrency", concurrency, 1, most if prefetch is not None else most // 2)
        ahead = concurrency if prefetch is None else prefetch
        arguments.integer("prefetch", ahead, 0, most - concurrency)
        self._queue = queue
        self._runtime = queue._context.runtime
        self._handler = handler
        self._on_error = on_error
        self._concurrency = concurrency
        self._stream: EnvelopeStream | SeveralStreams = queue._envelopes(
            max_in_flight=concurrency + ahead,
            visibility_timeout=visibility_timeout,
            concurrency=concurrency,
            until_dropped=True,
        )
        if retry is not None and not isinstance(retry, Backoff):
            raise arguments.refusal("retry", retry, "a Backoff")
        self._backoff = retry
        self._grace = arguments.span("grace", grace)
        self._stopping = self._runtime.signal()
        self._started = False
        self._failure: BaseException | None = None

    def stop(self) -> None:
        self._stopping.set()

    async def run(self, *, stop_on_signals: bool | None) -> None:
        if self._started:
            raise RuntimeError("this worker has run already: make another one with queue.worker()")
        self._started = True
        self._queue._context.check()
        # A signal comes in the middle of anything, a lock included: `soon` gets it out of there.
        with stopping_on_signals(lambda: self._runtime.soon(self._stop_by_signal), stop_on_signals):
            await self._run()

    def _stop_by_signal(self) -> None:
        log.info(
            "the worker of %s stops: its handlers have %g s to end. Another signal acts at once",
            *(self._queue.name, self._grace),
        )
        self.stop()

    async def _run(self) -> None:
        lanes: list[Started] = []
        try:
            for number in range(self._concurrency):
                lanes.append(self._runtime.start(self._lane(), f"spoolrack-worker-{number}"))
            await self._stopping.wait()
        finally:
            await self._end(lanes)
        if self._failure is not None:
            raise self._failure

    async def _end(self, lanes: list[Started]) -> None:
        try:
            await self._stream.close()
            until = self._runtime.monotonic() + self._grace
            running = [
                lane
                for lane in lanes
                if not await lane.join(max(0.0, until - self._runtime.monotonic()))
            ]
            # A cancelled handler's message is released, which may take a call. All are cancelled before
            # the first is awaited.
            cancelled = {lane for lane in running if lane.cancel()}
            until = self._runtime.monotonic() + CLOSE_TIMEOUT
            running = [
                lane
                for lane in running
                if lane not in cancelled
                or not await lane.join(max(0.0, until - self._runtime.monotonic()))
            ]
            if running:
                log.warning(
                    "%d handlers of %s still run after %g s: their messages come back when their "
                    "leases end",
                    len(running),
                    self._queue.name,
                    self._grace,
                )
            await self._stream.acks.close()
        finally:
            self._stream.stop_extending()

    async def _lane(self) -> None:
        try:
            while not self._stopping.is_set():
                envelope = await self._stream.next()
                if envelope is None:
                    # The client was closed, which is a way to stop as well.
                    self._stopping.set()
                    return
                message = self._queue._message_type(envelope, self._queue, self._stream.acks)
                is_done = False
                try:
                    is_done = await self._work_on(message)
                finally:
                    if not is_done:
                        self._stream.drop_lease(envelope)
                if is_done:
                    await self._delete(message)
        except BaseException as error:  # noqa: BLE001  # `run` raises it, in the thread that must know
            # The stream has failed, or the handler wants the program to end. After a stop it is only
            # a handler that was cancelled because it outlasted the grace.
            if not self._stopping.is_set():
                self._failure = error
                self._stopping.set()

    async def _work_on(self, message: BoundMessage) -> bool:
        """Call the handler; return whether the message is to be deleted."""
        try:
            with tracing.working_on(message, self._queue._context.transport):
                result = self._handler(message)
                if not isawaitable(result):
                    raise TypeError(f"the handler returned {result!r}: define it with `async def`")
                await result
        except (Retry, Reject) as wish:
            refusal = await self._finish(message, wish)
            if refusal is not None:
                self._report(message, refusal)
            else:
                what = "asks for a retry" if isinstance(wish, Retry) else "rejects it"
                log.info("message %s of %s: the handler %s", message.id, message.queue_name, what)
        except Exception as error:  # noqa: BLE001  # reported, so that the worker goes on
            await self._finish(message, error)
            self._report(message, error)
        except BaseException as error:
            await self._finish(message, error)
            raise
        else:
            return not message._finished
        return False

    async def _delete(self, message: BoundMessage) -> None:
        """Delete a message that was handled. With other handlers beside it, its lane doesn't wait.

        A single lane does: so a message that kills its consumer is the only one that was begun.
        """
        try:
            if self._concurrency > 1:
                (message._acks or self._stream.acks).add(
                    Ack(message.receipt, ended=lambda error: self._note_deleted(message, error))
                )
                return
            await self._finish(message, None)
        except SpoolrackError as error:
            self._note_deleted(message, error)
        else:
            self._note_deleted(message, None)

    def _note_deleted(self, message: BoundMessage, error: SpoolrackError | None) -> None:
        """Extend the lease no more; tell of a failed delete: the message comes back as after an expired
        lease."""
        self._stream.drop_lease(message._envelope)
        if isinstance(error, ClientClosed):
            # A close is a way to stop, and no fault of the handler's.
            text = "message %s of %s was worked on, and comes back when its lease ends: %s"
            log.warning(text, message.id, message.queue_name, error)
        elif error is not None:
            self._report(message, error)

    async def _finish(
        self, message: BoundMessage, error: BaseException | None
    ) -> SpoolrackError | None:
        return await finish_message(message, error, self._backoff)

    def _report(self, message: BoundMessage, error: Exception) -> None:
        if self._on_error is None:
            log.error(
                "message %s of %s: the handler failed", message.id, message.queue_name, exc_info=error
            )
            return
        try:
            self._on_error(message, error)
        except Exception:
            log.exception("message %s of %s: on_error failed", message.id, message.queue_name)

    def describe(self) -> str:
        state = "stopping" if self._stopping.is_set() else "running" if self._started else "not yet run"
        return f"of {self._queue.name}, {self._concurrency} at once, {state}"


class BackgroundWorker:
    """A worker that runs beside the program: the client's close stops it, and waits for it."""

    def __init__(self, core: WorkerCore, wait: Callable[[float], Awaitable[object]]) -> None:
        """`wait(seconds)` returns at the worker's end, and after so many seconds."""
        self._core = core
        self._wait = wait
        core._queue._context.open.add(self)

    async def close(self) -> None:
        self._core.stop()
        await self._wait(self._core._grace + 2 * CLOSE_TIMEOUT)


class WorkerBase:
    """A worker, for threads or tasks."""

    _background: BackgroundWorker | None = None

    def __init__(self, core: WorkerCore) -> None:
        self._core = core

    def stop(self) -> None:
        """Make `run` drain and return. Returns at once; from any thread of a client for threads."""
        self._core.stop()

    def __repr__(self) -> str:
        return f"<{type(self).__module__.rpartition('._')[0]}.Worker {self._core.describe()}>"
