"""The client's threads, and their end before the interpreter's.

All threads are daemons: a stream or a worker that was left open does not keep the program alive.
CPython frees the state of every daemon thread when it finalizes, and a thread that was created and
has not begun yet then crashes the process (SIGSEGV, seen with CPython 3.11.2). `Thread.start` waits
for the beginning, but Ctrl-C interrupts that wait. So each thread is registered before it is
created. At exit, after the open clients were closed, no thread may be started any more, and all
that were started have begun; those that have nothing left to do have ended.
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import os
import queue
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


# Before gRPC connects. Each fork beside a connection, of a subprocess or of a shell in Jupyter as well,
# else prints "skipping fork() handlers". No client survives a fork, so that none of them matters here.
# Turning gRPC's support for forks off would let a child that connects hang.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

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
        """Held until the thread has begun, or couldn't be created."""
        self._refusal: Exception | None = None
        self.begun.acquire()

    def start_from_main(self) -> None:
        """Start the thread. Ctrl-C leaves `Thread.start` with a lock that the new thread waits for,
        or becomes a RuntimeError there: another thread calls it."""
        _thread.start_new_thread(self._start, ())
        with self.begun:
            if self._refusal is not None:
                raise self._refusal

    def _start(self) -> None:
        try:
            self.start()
        except Exception as error:  # noqa: BLE001  # the main thread raises it
            self._refusal = error
            self.begun.release()

    def run(self) -> None:
        self.begun.release()
        action = self._action
        # The thread outlives its action by an instant, and its starter may keep it for long.
        del self._action
        # Work that another thread is needed for is cut off with the interpreter.
        with contextlib.suppress(Ending):
            action()


class _OpenThreads:
    """The threads of one process."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        """Reentrant: a signal's handler and a finalizer may start a thread, too."""
        self._all: WeakSet[_Thread] = WeakSet()
        self._is_ending = False
        self._idle: list[queue.SimpleQueue[Callable[[], object] | None]] = []
        """Of each spare thread that is idle, the actions for it."""

    def add(self, thread: _Thread) -> None:
        with self._lock:
            if self._is_ending or sys.is_finalizing():
                raise Ending
            self._all.add(thread)

    def call_in_spare(self, action: Callable[[], object]) -> None:
        try:
            actions = self._idle.pop()
        except IndexError:
            actions = queue.SimpleQueue()
            start_thread(lambda: self._call_each(actions), "spoolrack-spare")
        actions.put(action)

    def _call_each(self, actions: queue.SimpleQueue[Callable[[], object] | None]) -> None:
        while (action := actions.get()) is not None:
            action()
            del action
            self._idle.append(actions)
            if self._is_ending:
                return

    def end(self) -> None:
        with self._lock:
            self._is_ending = True
            threads = list(self._all)
        while self._idle:
            self._idle.pop().put(None)
        begin = time.monotonic() + BEGIN
        begun_threads = []
        for thread in threads:
            if thread.begun.acquire(timeout=max(0.0, begin - time.monotonic())):
                thread.begun.release()
                begun_threads.append(thread)
        end = time.monotonic() + END
        for thread in begun_threads:
            if thread.ident is not None:
                thread.join(max(0.0, end - time.monotonic()))


_threads = _OpenThreads()


def _drop_after_fork() -> None:
    """Drop the threads in a forked child: it has none of its parent's."""
    global _threads, _main_ident
    _threads = _OpenThreads()
    _main_ident = threading.get_ident()


os.register_at_fork(after_in_child=_drop_after_fork)


@atexit.register
def _end() -> None:
    # Exit handlers run in reverse order: this one runs after those of all modules that import this one.
    _threads.end()


_main_ident = threading.main_thread().ident


def in_main_thread() -> bool:
    """Return whether a signal's handler may raise here, at any instruction."""
    return threading.get_ident() == _main_ident


def start_thread(action: Callable[[], object], name: str) -> threading.Thread:
    """Run `action` in a daemon thread; raises `Ending` while the interpreter shuts down.

    Interrupted by a signal's handler, the thread may run all the same: `action` must then find out by
    itself that nothing is left to do.
    """
    thread = _Thread(action, name)
    _threads.add(thread)
    if in_main_thread():
        thread.start_from_main()
    else:
        thread.start()
    return thread


def call_in_spare_thread(action: Callable[[], object]) -> None:
    """Call `action` in a thread that is kept for the next one; raises `Ending` as `start_thread` does.

    A thread for each call would cost 0.1 ms. `action` raises no exception.
    """
    _threads.call_in_spare(action)
