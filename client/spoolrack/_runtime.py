"""Threads and tasks behind one protocol, so that the client's logic is written once.

The logic is coroutines. With `Tasks` they suspend as usual. With `Threads` nothing that they await
ever suspends, it blocks: `run` takes such a coroutine from its start to its end in the calling
thread, at the cost of a function call. This module knows nothing of queues.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from ._threads import Ending, call_in_spare_thread, in_main_thread, start_thread
from .errors import WrongEventLoop

T = TypeVar("T")
Work = Coroutine[Any, Any, T]

SLICE = 0.5
"""Seconds after which a signal is seen at the latest, by a main thread that waits."""

log = logging.getLogger("spoolrack")


class Signal(Protocol):
    """A one-time event that can be awaited. `set` from any place that `Runtime.soon` may call."""

    def set(self) -> None: ...

    def is_set(self) -> bool: ...

    async def wait(self, timeout: float | None = None) -> bool:
        """Wait until the event is set; False if that took longer than `timeout` seconds."""


class Started(Protocol):
    """Work in the background."""

    async def join(self, timeout: float | None = None) -> bool:
        """Wait for the end of the work; False if that took longer than `timeout` seconds."""

    def cancel(self) -> bool:
        """Cancel the work at its next wait; return whether that is possible: a thread can't be
        cancelled."""


_ELAPSED = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def elapsed() -> float:
    """Return the seconds since an arbitrary moment, those of a suspended machine included where the
    system counts them: a lease goes on meanwhile."""
    return time.clock_gettime(_ELAPSED)


class Runtime(Protocol):
    blocks: bool
    """Whether a wait blocks its thread."""

    def monotonic(self) -> float:
        """Return the seconds since an arbitrary moment."""

    def elapsed(self) -> float:
        """Return the same with the time for which the machine was suspended."""

    async def sleep(self, seconds: float) -> None: ...

    def signal(self) -> Signal: ...

    def lock(self) -> contextlib.AbstractContextManager[Any]:
        """Return a lock that is held briefly, never across an `await`."""

    def start(self, work: Work[None], name: str) -> Started:
        """Run `work` in the background. Doesn't keep the interpreter alive."""

    def spawn(self, work: Work[None]) -> None:
        """Run `work`, which raises no exception, in a task or in a thread that is kept for more."""

    def aside(self, action: Callable[[], object]) -> None:
        """Call `action`, which raises no exception: where Ctrl-C can't interrupt it."""

    def soon(self, action: Callable[[], None]) -> None:
        """Call `action` soon, from a place where locks may be held or another thread runs: a finalizer,
        a signal handler. At the end of the program it may never be called."""


def run(work: Work[T]) -> T:
    """Return the result of a coroutine that never suspends."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    return unrun(work)


def unrun(work: Work[T]) -> T:
    """Close a coroutine that has suspended, and raise the error."""
    work.close()
    raise RuntimeError("a coroutine for threads has suspended: it was given a runtime for tasks")


class ThreadSignal:
    """Not a `threading.Event`, which may raise a RuntimeError where Ctrl-C comes at a bad moment. Here
    each waiter has a lock, released once, by the thread that takes it from the queue."""

    __slots__ = ("_is_set", "_waiter_locks")

    def __init__(self) -> None:
        self._is_set = False
        self._waiter_locks: list[threading.Lock] = []

    def set(self) -> None:
        self._is_set = True
        try:
            while self._waiter_locks:
                self._waiter_locks.pop().release()
        except IndexError:
            return  # Another thread has set it, too.

    def is_set(self) -> bool:
        return self._is_set

    async def wait(self, timeout: float | None = None) -> bool:
        lock = threading.Lock()
        lock.acquire()
        self._waiter_locks.append(lock)
        # Only now: a `set` from here on finds the lock.
        if self._is_set:
            return True
        if in_main_thread():
            is_acquired = _acquire_in_slices(lock, timeout)
        else:
            is_acquired = lock.acquire(
                timeout=-1 if timeout is None else min(max(0.0, timeout), threading.TIMEOUT_MAX)
            )
        if not is_acquired:
            with contextlib.suppress(ValueError):
                self._waiter_locks.remove(lock)
        return self._is_set


def _acquire_in_slices(lock: threading.Lock, timeout: float | None) -> bool:
    """Wait for a lock no longer than `timeout` seconds; return whether it was acquired.

    A signal that comes in the instant before the lock is waited for does not interrupt the wait, and
    its handler would run only after it: Ctrl-C would do nothing.
    """
    end = math.inf if timeout is None else time.monotonic() + timeout
    while not lock.acquire(timeout=min(SLICE, max(0.0, end - time.monotonic()))):
        if time.monotonic() >= end:
            return False
    return True


def beside(
    work: Callable[[], T],
    undo: Callable[[], None] = lambda: None,
    on_end: Callable[[T, Callable[[], None]], object] = lambda _, ended: ended(),
) -> T:
    """Return the result of `work`, which the main thread leaves to another one.

    Ctrl-C raises at any instruction of the main thread, also between two that belong together: within
    gRPC a lock is then held forever, or a call never ends, and all threads hang. Here it interrupts the
    wait only. `undo` is then called in another thread: at once, and once more after the work.

    `on_end(result, ended)` may postpone the call of `ended`, until which the main thread waits.
    """
    if not in_main_thread():
        return work()
    signal = ThreadSignal()
    results: list[T] = []
    failures: list[BaseException] = []
    is_left = False

    def run_work() -> None:
        try:
            result = work()
            results.append(result)
            on_end(result, signal.set)
        except BaseException as error:  # noqa: BLE001  # the main thread raises it
            failures.append(error)
            signal.set()
        if is_left:
            undo()

    try:
        call_in_spare_thread(run_work)
        run(signal.wait())
    except Ending:
        return work()
    except BaseException:
        is_left = True
        Threads().soon(undo)
        raise
    if failures:
        raise failures.pop()
    return results.pop()


class StartedThread:
    def __init__(self, work: Work[None], name: str) -> None:
        try:
            self._thread = start_thread(lambda: run(work), name)
        except Ending:
            work.close()
            raise

    async def join(self, timeout: float | None = None) -> bool:
        if self._thread is not threading.current_thread():
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def cancel(self) -> bool:
        return False


class Threads:
    """The runtime of threads: it blocks instead of suspending."""

    blocks = True
    monotonic = staticmethod(time.monotonic)
    elapsed = staticmethod(elapsed)
    signal = staticmethod(ThreadSignal)
    lock = staticmethod(threading.Lock)

    async def sleep(self, seconds: float) -> None:
        await ThreadSignal().wait(seconds)

    def start(self, work: Work[None], name: str) -> StartedThread:
        return StartedThread(work, name)

    def spawn(self, work: Work[None]) -> None:
        try:
            call_in_spare_thread(lambda: run(work))
        except Ending:
            work.close()
            raise

    def aside(self, action: Callable[[], object]) -> None:
        if in_main_thread():
            try:
                call_in_spare_thread(action)
            except Ending:
                action()
        else:
            action()

    def soon(self, action: Callable[[], None]) -> None:
        with contextlib.suppress(Ending):
            start_thread(action, "spoolrack-soon")


class TaskSignal:
    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        self._event.set()

    def is_set(self) -> bool:
        return self._event.is_set()

    async def wait(self, timeout: float | None = None) -> bool:
        if timeout is None or self._event.is_set():
            return await self._event.wait()
        try:
            async with asyncio.timeout(timeout):
                return await self._event.wait()
        except TimeoutError:
            return False


class StartedTask:
    def __init__(self, work: Work[None], name: str) -> None:
        self._task = asyncio.get_running_loop().create_task(work, name=name)

    async def join(self, timeout: float | None = None) -> bool:
        if self._task is asyncio.current_task():
            return False
        done, _ = await asyncio.wait([self._task], timeout=timeout)
        return bool(done)

    def cancel(self) -> bool:
        self._task.cancel()
        return True


class Tasks:
    """The runtime of tasks: it suspends. Belongs to the event loop that runs when it is made."""

    blocks = False

    def __init__(self) -> None:
        """Raise `WrongEventLoop` without a running one."""
        try:
            self.loop = asyncio.get_running_loop()
        except RuntimeError:
            raise WrongEventLoop(
                "A client of spoolrack.aio is made in a running event loop, and there is none: call "
                "aio.connect() in a coroutine, or use spoolrack.connect() for threads."
            ) from None
        self._running_tasks: set[asyncio.Task[Any]] = set()

    def monotonic(self) -> float:
        return self.loop.time()

    def elapsed(self) -> float:
        return elapsed()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def signal(self) -> TaskSignal:
        return TaskSignal()

    def lock(self) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext()

    def start(self, work: Work[None], name: str) -> StartedTask:
        return StartedTask(work, name)

    def spawn(self, work: Work[None]) -> None:
        task = self.loop.create_task(work)
        # The loop itself holds tasks weakly.
        self._running_tasks.add(task)
        task.add_done_callback(self._running_tasks.discard)

    def aside(self, action: Callable[[], object]) -> None:
        action()

    def soon(self, action: Callable[[], None]) -> None:
        try:
            self.loop.call_soon_threadsafe(action)
        except RuntimeError:
            log.debug("the event loop is closed: %r is not called", action)
