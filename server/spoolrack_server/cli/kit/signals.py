"""Ctrl-C and SIGTERM: raised where a command waits, and deferred where it must not be interrupted.

A second signal is never deferred: it ends the process now. Signals belong to the process, and so does
the state here; all of it is used by the main thread alone.
"""

from __future__ import annotations

import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_pending: KeyboardInterrupt | None = None
"""The signal that came first, raised or put off."""
_deferring = 0


class Terminated(KeyboardInterrupt):
    """SIGTERM, with the same cleanup as Ctrl-C."""


def install() -> None:
    """Install the signal handlers."""
    global _pending, _deferring
    _pending, _deferring = None, 0
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _on_signal)
        signal.signal(signal.SIGTERM, _on_signal)
    # A signal between the making of a coroutine and its first step is no fault.
    warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)


@contextmanager
def deferred() -> Iterator[None]:
    """Defer the first signal until the end of this block, which should be short."""
    global _deferring
    was_pending = _pending
    _deferring += 1
    try:
        yield
    finally:
        _deferring -= 1
    if not _deferring and _pending is not was_pending:
        check()


def check() -> None:
    """Raise the signal that was received, if it was deferred or lost in an exception handler.

    An exception that is raised inside a finalizer goes no further: a loop without an end should ask.
    """
    if _pending is not None:
        raise _pending


def _on_signal(number: int, frame: FrameType | None) -> None:
    global _pending
    is_first = _pending is None
    if is_first:
        _pending = Terminated() if number == signal.SIGTERM else KeyboardInterrupt()
    if _deferring and is_first:
        return
    raise _pending or KeyboardInterrupt()
