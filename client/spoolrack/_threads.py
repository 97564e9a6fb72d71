"""The client's threads, and their end before the interpreter's.

All threads are daemons: a stream or a worker that was left open does not keep the program alive.
CPython frees the state of every daemon thread when it finalizes, and a thread that was created and
has not begun yet then crashes the process (SIGSEGV, seen with CPython 3.11.2). `Thread.start` waits
for the beginning, but Ctrl-C interrupts that wait. So each thread is registered before it is
created. At exit, after the open clients were closed, no thread may be started any more, and all
that were started have begun; those that have nothing left to do have ended.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Final
from weakref import WeakSet

BEGIN: Final = 5.0
"""Seconds at exit for threads to begin. Only one that was never created takes so long."""
END: Final = 1.0
"""Seconds at exit for threads to end. A handler that still runs then is cut off."""


no_fork: Final = threading.RLock()
"""Held while a fork would leave a child that hangs: it would wait forever for a lock of OpenSSL or gRPC
that another thread held, or for a module that another thread was importing."""
os.register_at_fork(
    before=no_fork.acquire, after_in_parent=no_fork.release, after_in_child=no_fork.release
)


class Ending(RuntimeError):
    """The interpreter is shutting down: no thread is started any more."""

    def __init__(self) -> None:
        super().__init__("the interpreter ends: no thread can be started any more")


class _Thread(threading.Thread):
    def __init__(self, action: Callable[[], object], name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._action = action
        self.begun = threading.Lock()
        """Held until the thread has begun."""
        self.begun.acquire()

    def run(self) -> None:
        self.begun.release()
        action = self._action
        # The thread outlives its action by an instant, and its starter may keep it for long.
        del self._action
        action()


class _OpenThreads:
    """The threads of one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: WeakSet[_Thread] = WeakSet()
        self._is_ending = False

    def add(self, thread: _Thread) -> None:
        with self._lock:
            if self._is_ending or sys.is_finalizing():
                raise Ending
            self._all.add(thread)

    def end(self) -> None:
        with self._lock:
            self._is_ending = True
            threads = list(self._all)
        begin = time.monotonic() + BEGIN
        for thread in threads:
            if thread.begun.acquire(timeout=max(0.0, begin - time.monotonic())):
                thread.begun.release()
        end = time.monotonic() + END
        for thread in threads:
            if thread.ident is not None:
                thread.join(max(0.0, end - time.monotonic()))


_threads = _OpenThreads()


def _drop_after_fork() -> None:
    """Drop the threads in a forked child: it has none of its parent's."""
    global _threads
    _threads = _OpenThreads()


os.register_at_fork(after_in_child=_drop_after_fork)


@atexit.register
def _end() -> None:
    # Exit handlers run in reverse order: this one runs after those of all modules that import this one.
    _threads.end()


def start_thread(action: Callable[[], object], name: str) -> threading.Thread:
    """Run `action` in a daemon thread; raises `Ending` while the interpreter shuts down.

    Interrupted by a signal's handler, the thread may run all the same: `action` must then find out by
    itself that nothing is left to do.
    """
    thread = _Thread(action, name)
    _threads.add(thread)
    thread.start()
    return thread
