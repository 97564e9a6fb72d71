"""A folder's content, kept up to date by the kernel's events, for many threads that read it or wait for
a change.

Where the kernel reports every change, the folder is listed once, and events do the rest: an operation
sees all changes that were made before it, by any process. Where it doesn't, each look is a listing, as
in vsqs itself.

Of the threads that wait, one listens to the kernel; the others wait for that one.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Final

from .._runtime import SLICE, ThreadSignal, run
from .._threads import in_main_thread
from ._folder_index import Content
from ._watcher import Watcher


class Watched:
    """A folder's content, and a lock that all calls but `close` and `wake` need."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.content = Content()
        self.closed = False
        self._start_anew()
        _all.add(self)

    def _start_anew(self) -> None:
        self.lock = threading.Lock()
        self._changed = ThreadSignal()
        """Set by the next `announce`."""
        self._watcher: Watcher | None = None
        self._is_listed = False
        self._has_listener = False

    def after_fork(self) -> None:
        """Close the inherited watch in a forked child: it would take events from the parent."""
        if self._watcher is not None:
            self._watcher.close()
        self._start_anew()

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
            self._watcher.watch()
        with os.scandir(self._path) as entries:
            news = self.content.replace(
                entry.name for entry in entries if entry.is_file(follow_symlinks=False)
            )
        self._is_listed = True
        if news:
            self.announce()

    def announce(self) -> None:
        """Wake all waiters."""
        changed, self._changed = self._changed, ThreadSignal()
        changed.set()
        if self._has_listener and self._watcher is not None:
            self._watcher.wake()

    def wait(self, seconds: float | None) -> None:
        """Return once the content may have changed, or after a time. The lock is free meanwhile."""
        if self.closed:
            return
        if in_main_thread():
            # A signal in the instant before the system is called does not interrupt it.
            seconds = SLICE if seconds is None else min(seconds, SLICE)
        changed, watcher = self._changed, self._watcher
        listens = watcher is not None and not self._has_listener
        self._has_listener |= listens
        self.lock.release()
        try:
            if listens and watcher is not None:
                watcher.wait(seconds)
            else:
                run(changed.wait(seconds))
        finally:
            self.lock.acquire()
            if listens and watcher is not None:
                self._stop_listening(watcher)

    def _stop_listening(self, watcher: Watcher) -> None:
        self._has_listener = False
        # Another waiting thread must listen from now on, if this one doesn't come back.
        self.announce()
        if self.closed:
            watcher.close()

    def wake(self) -> None:
        """Call `announce` with the lock."""
        with self.lock:
            self.announce()

    def close(self) -> None:
        """Close the watch, and end all waits. The content is still updated, by listing."""
        with self.lock:
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
