"""The stores that this process has open: one for each root, shared by all its clients.

A root is opened when it is first needed, in a thread of its own, because a start may have millions of
names to read; it is closed with its last client. What can fail is the opening: the next call then tries
again. A store whose disk has failed promises nothing any more: a later client gets a new one, which
reads the folders again.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from spoolrack_store.files.root import is_root, not_a_root
from spoolrack_store.model.clock import Clock, SystemClock
from spoolrack_store.read_only_root import open_read_only
from spoolrack_store.store import Store

from .._threads import Ending, start_thread
from .folder_values import FolderUrl


class _Shared:
    """The store of one root, and by how many it is used. Guarded by `_lock`."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.users = 0
        self.opening: Future[Store] | None = None

    @property
    def has_failed(self) -> bool:
        """Whether it was open, and its disk has failed it."""
        opening = self.opening
        if opening is None or not opening.done() or opening.exception() is not None:
            return False
        return opening.result().failure is not None


_lock = threading.Lock()
_shared: Final[dict[tuple[str, bool], _Shared]] = {}
"""By root, and whether it is only looked at."""


def _drop_after_fork() -> None:
    """Drop the stores in a forked child: it has none of their threads."""
    global _lock
    _lock = threading.Lock()
    _shared.clear()


os.register_at_fork(after_in_child=_drop_after_fork)


class SharedStore:
    """One client's use of the store of a root, until `leave`. Thread-safe."""

    def __init__(self, place: FolderUrl, clock: Clock | None = None) -> None:
        """`clock` counts for the first user only: the others live in its time."""
        self._place = place
        self._key = (os.path.realpath(place.root), place.read_only)
        self._pid = os.getpid()
        self._has_left = False
        with _lock:
            shared = _shared.get(self._key)
            if shared is None or shared.has_failed:
                shared = _shared[self._key] = _Shared(SystemClock() if clock is None else clock)
            shared.users += 1
        self._shared = shared

    @property
    def clock(self) -> Clock:
        return self._shared.clock

    @property
    def is_read_only(self) -> bool:
        """Whether every change is refused."""
        return self._place.read_only

    def store(self, *, make: bool = False) -> Future[Store]:
        """Return the store, once it is open. The future can't be cancelled; it fails with a
        `StoreError` or an `OSError`, and so may this call.

        Only with `make` does a folder become a root: a mistyped name must not make one.
        """
        with _lock:
            opening = self._shared.opening
            if opening is None or (opening.done() and opening.exception() is not None):
                if not make and not is_root(self._place.root):
                    raise not_a_root(self._place.root)
                opening = self._shared.opening = Future()
                opening.set_running_or_notify_cancel()
                start_thread(lambda: self._open(opening), "spoolrack-open")
            return opening

    def _open(self, opening: Future[Store]) -> None:
        place = self._place
        try:
            if place.read_only:
                store = open_read_only(place.root, clock=self.clock)
            else:
                store = Store.open(place.root, clock=self.clock, group_access=place.group_access)
        except Exception as error:  # noqa: BLE001  # a caller that waits for the store raises it
            opening.set_exception(error)
        else:
            opening.set_result(store)

    def leave(self) -> None:
        """End the use of the store. The last client closes it, after its submitted requests. May be
        repeated; a forked child has nothing to leave."""
        if self._pid != os.getpid():
            return
        with _lock:
            if self._has_left:
                return
            self._has_left = True
            self._shared.users -= 1
            if self._shared.users:
                return
            if _shared.get(self._key) is self._shared:
                del _shared[self._key]
            opening = self._shared.opening
        if opening is None:
            return
        if opening.done():
            _close(opening)
        else:
            # No caller is left, and none may wait for it.
            opening.add_done_callback(_close)

    def leave_soon(self) -> None:
        """Leave the store from a finalizer, which may run in any thread, one of the store's
        included."""
        with suppress(Ending):
            start_thread(self.leave, "spoolrack-leave")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()


def _close(opening: Future[Store]) -> None:
    if opening.exception() is None:
        opening.result().close()
