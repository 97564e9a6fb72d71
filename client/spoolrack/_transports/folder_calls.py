"""Requests to the store of a folder: answers are awaited by threads or tasks, and errors are translated
to the client's.

A receive whose caller is gone (timeout over, task cancelled, client closed) leases nothing more. The
messages that it had leased are released, and the receive isn't counted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Any, Final, TypeVar

from spoolrack_store.model.errors import Draining, StoreError
from spoolrack_store.model.operations import Request
from spoolrack_store.model.reservation_requests import undo_of
from spoolrack_store.read_only_root import lock_holder
from spoolrack_store.store import Store

from .._runtime import Runtime, Signal, Tasks
from .._threads import in_main_thread
from ..errors import ClientClosed, RootUnusable, SpoolrackError, Timeout, Unsupported
from . import folder_values as convert
from .folder_stores import SharedStore
from .folder_values import FolderUrl
from .thread_runner import ThreadRunner

QUICK: Final = 0.005
"""Seconds that the disk may take for a caller that does its commit itself: so long a question of
another thread waits for it."""

Answer = TypeVar("Answer")
Found = TypeVar("Found")
Shown = TypeVar("Shown")


def _nothing(*_: object) -> None:
    pass


class FolderCalls:
    """The calls of one client. Thread-safe."""

    def __init__(self, share: SharedStore, runtime: Runtime, place: FolderUrl) -> None:
        self.target: Final = place.url
        self.root: Final = place.root
        self.share: Final = share
        self._runtime = runtime
        self._suspends = isinstance(runtime, Tasks)
        self._threads = ThreadRunner(runtime)
        self._lock = threading.Lock()
        self._waiting_requests: set[Future[Any]] = set()
        """Receives and reserves that a caller waits for."""
        self._closed = False

    async def submit(self, request: Request[Answer], timeout: float, *, make: bool = False) -> Answer:
        """Return the store's answer to a request that doesn't wait in the store. `make`: see
        `SharedStore.store`."""
        self.refuse_if_read_only()
        store = await self._store(timeout, make=make)
        answered = self._at_once(store, request)
        if answered is not None:
            return answered
        future = store.submit(request)
        try:
            landed = await self._landed(future, timeout)
        except BaseException:
            future.cancel()
            raise
        if not landed:
            done = "it was not done" if future.cancel() else "it may take place all the same"
            holder = await self._lock_holder()
            raise Timeout(f"No answer from {self.target} within {timeout:.3g} s: {done}{holder}.")
        return self._result(future)

    def _at_once(self, store: Store, request: Request[Answer]) -> Answer | None:
        """Return the answer to a plain request, if this thread may block, and can do it at once."""
        if self._suspends or in_main_thread():
            return None  # A signal's handler may raise in the main thread.
        try:
            return store.try_now(request, QUICK)
        except StoreError as error:
            raise self._ours(error) from error

    async def work(
        self,
        work: Callable[[Store], Answer],
        timeout: float | None,
        *,
        undo: Callable[[Store, Answer], object] = _nothing,
        stop: Callable[[], object] = _nothing,
    ) -> Answer:
        """Return the result of work done in a thread, such as a query, which may wait for the disk;
        `undo` and `stop` as in `ThreadRunner.run`. The timeout is that of the opening."""
        store = await self._store(timeout)
        try:
            return await self._threads.run(
                lambda: work(store), undo=lambda result: undo(store, result), stop=stop
            )
        except StoreError as error:
            raise self._ours(error) from error

    async def lease(self, request: Request[Answer], timeout: float) -> Answer:
        """Receive or reserve."""
        store = await self._store(timeout)
        self.refuse_if_read_only()
        answered = self._at_once(store, request)
        if answered is not None:
            return answered
        return await self.leased(store, self.begin(store, request), timeout)

    async def store(self) -> Store:
        """Return the store, however long opening it takes."""
        return await self._store(None)

    def begin(self, store: Store, request: Request[Answer]) -> Future[Answer]:
        """Submit a request that may wait in the store; cancel it at the end, if it still waits."""
        self.refuse_if_read_only()
        with self._lock:
            if self._closed:
                raise ClientClosed()
            future = store.submit(request)
            self._waiting_requests.add(future)
        return future

    async def leased(self, store: Store, future: Future[Answer], timeout: float | None) -> Answer:
        """Return what a receive or a reserve has leased; release it if no caller gets it."""
        try:
            if not await self._landed(future, timeout):
                raise Timeout(f"No answer from {self.target} within {timeout:.3g} s.")
        except BaseException:
            if not future.cancel():
                future.add_done_callback(lambda done: _take_back(store, done))
            raise
        finally:
            with self._lock:
                self._waiting_requests.discard(future)
        return self._result(future)

    async def close(self) -> None:
        with self._lock:
            self._closed = True
            waiting = list(self._waiting_requests)
        for future in waiting:
            future.cancel()
        await self._threads.run(self.share.leave)

    def refuse_if_read_only(self) -> None:
        if self.share.is_read_only:
            raise Unsupported(
                f"{self.target} is opened to look at it: connect without read_only=true to change it."
            )

    async def _store(self, timeout: float | None, *, make: bool = False) -> Store:
        try:
            opening = self.share.store(make=make)
            if not await self._landed(opening, timeout):
                holder = await self._lock_holder()
                raise Timeout(f"{self.target} was not open within {timeout:.3g} s{holder}.")
            return opening.result()
        except StoreError as error:
            raise self._ours(error) from error
        except SpoolrackError:
            raise  # Some are OSErrors, too.
        except OSError as error:
            raise RootUnusable(f"{self.target} can't be opened: {error}") from error

    async def _lock_holder(self) -> str:
        """Return, for an error, which process holds the root's lock; "" if none does."""
        holder = await self._threads.run(lambda: lock_holder(self.root))
        return f"; {holder} holds its lock: if it is stopped, let it go on, or end it" if holder else ""

    async def _landed(self, future: Future[Any], timeout: float | None) -> bool:
        """Wait until `future` is done; False if that took longer than `timeout` seconds."""
        if future.done():
            return True
        signal = self._runtime.signal()
        future.add_done_callback(lambda _: self._set(signal))
        return await signal.wait(timeout)

    def _set(self, signal: Signal) -> None:
        """Set a signal from a thread of the store."""
        if self._suspends:
            self._runtime.soon(signal.set)
        else:
            signal.set()

    def _result(self, future: Future[Answer]) -> Answer:
        try:
            return future.result()
        except CancelledError:
            raise ClientClosed("The call was cancelled: its client or its stream was closed.") from None
        except StoreError as error:
            raise self._ours(error) from error

    def _ours(self, error: StoreError) -> SpoolrackError:
        if isinstance(error, Draining):
            # The store is closed with its last client, and with nothing else.
            return ClientClosed()
        return convert.error(error)


def _take_back(store: Store, done: Future[Any]) -> None:
    """Undo leases that no caller ever saw. If that fails, they come back when they are due, and a
    reservation is found by its name."""
    if done.cancelled() or done.exception() is not None:
        return
    undo = undo_of(done.result())
    if undo is not None:
        store.submit(undo)
