"""Access of the use cases to the store.

Nothing waits for a disk in the event loop: changes are submitted and awaited, and reads run in a few
threads of their own, so that they don't wait behind a commit.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar
from weakref import WeakKeyDictionary, ref

from spoolrack_store.model.operations import OpenMessage, Request
from spoolrack_store.store import Store

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

FRAME_BYTES: Final = 2 * 1024 * 1024
"""Of bodies and attributes in one frame of a stream or one page of a list, but always one message. Half
of a gRPC client's default limit."""
READERS: Final = 4
QUICK: Final = 0.0001
"""Seconds for which the event loop may wait for the disk: a hand-over to another thread and back takes
as long for a lone message. On a slower disk requests share a sync."""
QUICK_ALONE: Final = 0.001
"""The same for a stream that is alone: no other request could share the sync. Where others of its kind
bring requests, all share commits."""
ALONE: Final = 8
"""Lone requests in a row, without another stream of the kind between, after which a stream is alone."""


@dataclass(frozen=True, slots=True)
class Submitted(Generic[T_co]):
    """A request that the store has."""

    futures: Sequence[Future[Any]]
    """None: it is answered."""
    result: Callable[[], T_co]
    """Returns the result, once the store has answered; raises the `StoreError` of the whole request."""

    async def answered(self) -> T_co:
        """Return the result, once the store has answered; raise the `StoreError` of the whole
        request."""
        for future in self.futures:
            await answer(future)
        return self.result()


class ConcurrencyLimit:
    """softlayer/mq's workers: a bound on concurrent receives, and one on concurrent sends.

    They are no threads. A call that finds all workers busy waits, first come, first served; a receive
    that waits for messages keeps no worker busy. Nothing is bounded by default: the store batches
    waiting requests in one commit, and does more the more there are. Lives in one event loop.
    """

    def __init__(self, pairs: int | None) -> None:
        """None: as many as there is work for."""
        self.fetching = None if pairs is None else asyncio.Semaphore(pairs)
        """Taken while a receive is with the store."""
        self.saving = None if pairs is None else asyncio.Semaphore(pairs)
        """Taken while a send is with the store."""


class StoreAccess:
    """The store as one front's use cases call it. Lives in one event loop."""

    def __init__(self, store: Store, workers: ConcurrencyLimit | None = None) -> None:
        self.store = store
        self.workers = workers or ConcurrencyLimit(None)
        self._arrived = 0
        """Requests that a stream has brought, and that are begun next."""
        self._within = QUICK
        """Seconds that these may wait for the disk in the event loop."""
        self._in_a_row: dict[str, tuple[int, int]] = {}
        """By the kind of a stream, the last one that brought a request, and how many in a row."""
        self._readers = ThreadPoolExecutor(READERS, "spoolrack-read")

    async def submit(self, request: Request[T]) -> T:
        """Return the store's answer; raise its `StoreError`."""
        return await answer(self.store.submit(request))

    def arrive(self, requests: int, kind: str, stream: int) -> None:
        """Note that a stream of a kind brings requests, so many, before they are begun. They share a
        commit; a lone one of a stream that is alone has its own."""
        last, in_a_row = self._in_a_row.get(kind, (stream, 0))
        in_a_row = in_a_row + 1 if stream == last and requests == 1 else 0
        self._in_a_row[kind] = stream, in_a_row
        self._arrived = requests
        self._within = QUICK_ALONE if in_a_row >= ALONE else 0.0

    def begin(self, request: Request[T]) -> Submitted[T]:
        """Have a request done, at once if it is plain, nothing else is at work and the disk is
        quick."""
        within = QUICK
        if self._arrived:
            self._arrived -= 1
            within = self._within
        if within:
            answered = self.store.try_now(request, within)
            if answered is not None:
                return Submitted((), lambda: answered)
        future = self.store.submit(request)
        return Submitted((future,), future.result)

    async def save(self, request: Request[T]) -> Future[T]:
        """Submit a request that brings messages, once the concurrency limit allows it."""
        saving = self.workers.saving
        if saving is None:
            return self.store.submit(request)
        await saving.acquire()
        try:
            future = self.store.submit(request)
        except BaseException:
            saving.release()
            raise
        loop = asyncio.get_running_loop()
        future.add_done_callback(lambda _: loop.call_soon_threadsafe(saving.release))
        return future

    async def read(self, read: Callable[..., T], *of: Any) -> T:
        """Return the result of `read` in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, read, *of)

    async def open(self, queue: str, id: str) -> OpenMessage:
        """Open a message's file, which the caller gives to `close_message`."""
        opening = self._readers.submit(self.store.open_message, queue, id)
        try:
            return await answer(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_close_opened)
            raise

    def close_message(self, message: OpenMessage) -> None:
        """Close a message's file. Returns at once: closing the last handle of a removed file waits for
        the disk."""
        self._readers.submit(message.file.close)

    def close(self) -> None:
        """Close: no call may follow."""
        self._readers.shutdown(wait=False)


def _close_opened(opening: Future[OpenMessage]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().file.close()


# Answers: `asyncio.wrap_future` wakes the loop for each, which took a third of the committer's time.
# Here it is woken once for all answers of a commit.


async def answer(future: Future[T]) -> T:
    """Return the result of `future`; cancel it with the caller, if it hasn't begun."""
    waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake() -> None:
        if not waiting.done():
            waiting.set_result(None)

    on_answer(future, wake)
    try:
        await waiting
    except asyncio.CancelledError:
        future.cancel()
        raise
    return future.result()


def on_answer(future: Future[T], wake: Callable[[], None]) -> None:
    """Call `wake` in the loop that runs now, once `future` is done."""
    loop = asyncio.get_running_loop()
    waker = _wakers.get(loop)
    if waker is None:
        waker = _wakers[loop] = _LoopWaker(loop)
    future.add_done_callback(lambda _: waker.schedule(wake))


class _LoopWaker:
    """Of the event loop of the thread that makes it. `schedule` may be called from any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # Weak, as it is the value to a weak key that is this very loop.
        self._loop = ref(loop)
        self._callbacks: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()
        self._thread = threading.get_ident()
        self._is_scheduled = False

    def schedule(self, wake: Callable[[], None]) -> None:
        if threading.get_ident() == self._thread:
            wake()
            return
        self._callbacks.append(wake)
        loop = self._loop()
        with self._lock:
            if self._is_scheduled or loop is None or loop.is_closed():
                return  # No task waits in a loop that is closed.
            self._is_scheduled = True
        loop.call_soon_threadsafe(self._run)

    def _run(self) -> None:
        with self._lock:
            self._is_scheduled = False
        while self._callbacks:
            self._callbacks.popleft()()


_wakers: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopWaker] = WeakKeyDictionary()
