"""A folder's content, kept up to date by the kernel's events, for many threads that read it or wait for
a change.

Where the kernel reports every change, the folder is listed once, and events do the rest: an operation
sees all changes that were made before it, by any process. Where it doesn't, each look is a listing, as
in vsqs itself.

Of the threads that wait, one listens to the kernel; the others wait for that one.
"""

from __future__ import annotations

import math
import os
import threading
import weakref
from types import TracebackType
from typing import Final

from spoolrack_store.model.clock import Millis

from ._folder_index import Content
from ._watcher import Watcher

HERE: Final = "."
SLICE: Final = 0.5
"""Seconds after which a main thread sees a signal at the latest: one that comes in the instant before
the system is called does not interrupt it."""


class Watched:
    """A folder's content and a lock, as a context: all calls but `close` and `wake` need the lock."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.content = Content()
        self.closed = False
        self._start_anew()
        _all.add(self)

    def _start_anew(self) -> None:
        self._condition = threading.Condition(threading.Lock())
        self._watcher: Watcher | None = None
        self._is_listed = False
        self._has_listener = False

    def after_fork(self) -> None:
        """Close the inherited watch in a forked child: it would take events from the parent."""
        if self._watcher is not None:
            self._watcher.close()
        self._start_anew()

    def __enter__(self) -> Content:
        self._condition.acquire()
        return self.content

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._condition.release()

    @property
    def reports_all(self) -> bool:
        """Whether the content is exact. A listing may miss a file that is renamed at that moment."""
        return self._watcher is not None and self._watcher.reports_all

    def refresh(self) -> None:
        """Update `content` to the folder's. Raises `FileNotFoundError` without a folder."""
        if self._watcher is None and not self.closed:
            self._watcher = Watcher(self._path)
        changes = self._watcher.changes() if self._watcher is not None else None
        if changes is None or not self._is_listed or not self.reports_all:
            self._list()
            return
        for change in changes:
            if change.appeared:
                self.content.add(change.name)
            else:
                self.content.remove(change.name)
        if changes:
            self.announce()

    def _list(self) -> None:
        self._is_listed = False
        if self._watcher is not None:
            # Before the listing, so that changes made meanwhile are reported afterwards.
            self._watcher.watch(HERE)
        with os.scandir(self._path) as entries:
            news = self.content.replace(
                entry.name for entry in entries if entry.is_file(follow_symlinks=False)
            )
        self._is_listed = self._watcher is not None and self._watcher.is_watched(HERE)
        if news:
            self.announce()

    def announce(self) -> None:
        """Wake all waiters."""
        self._condition.notify_all()
        if self._has_listener and self._watcher is not None:
            self._watcher.wake()

    def wait(self, seconds: float | None) -> None:
        """Return once the content may have changed, or after a time. The lock is free meanwhile."""
        if self.closed:
            return
        if threading.current_thread() is threading.main_thread():
            seconds = SLICE if seconds is None else min(seconds, SLICE)
        if self._has_listener or self._watcher is None:
            self._condition.wait(seconds)
            return
        watcher = self._watcher
        self._has_listener = True
        self._condition.release()
        try:
            watcher.wait(None if seconds is None else Millis(math.ceil(seconds * 1_000)))
        finally:
            self._condition.acquire()
            self._stop_listening(watcher)

    def _stop_listening(self, watcher: Watcher) -> None:
        self._has_listener = False
        # Another waiting thread must listen from now on, if this one doesn't come back.
        self._condition.notify_all()
        if self.closed:
            watcher.close()

    def wake(self) -> None:
        """Call `announce` with the lock."""
        with self._condition:
            self.announce()

    def close(self) -> None:
        """Close the watch, and end all waits. The content is still updated, by listing."""
        with self._condition:
            if self.closed:
                return
            self.closed = True
            self.announce()
            if self._watcher is not None and not self._has_listener:
                self._watcher.close()
            self._watcher = None


_all: Final[weakref.WeakSet[Watched]] = weakref.WeakSet()


def _after_fork() -> None:
    for watched in list(_all):
        watched.after_fork()


os.register_at_fork(after_in_child=_after_fork)
