"""SIGTERM and SIGINT as a request to drain and stop."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Final

_DEFAULTS: Final[dict[signal.Signals, Any]] = {
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGINT: signal.default_int_handler,
}
"""The handlers of a program that has set none."""


@contextlib.contextmanager
def stopping_on_signals(stop: Callable[[], None], is_wanted: bool | None) -> Iterator[None]:
    """Call `stop` at the first SIGTERM or SIGINT within this context; the next one acts as before.

    `is_wanted` None: only signals for which the program has set no handler, and only where this is the
    main work of the main thread. True: both; raises `ValueError` outside of the main thread, since
    Python allows it only there.
    """
    before: dict[signal.Signals, Any] = {}

    def restore() -> None:
        while before:
            number, handler = before.popitem()
            if signal.getsignal(number) is once:  # Else the program has set one meanwhile.
                # None: a handler that was not installed by Python.
                signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def once(number: int, frame: FrameType | None) -> None:
        restore()
        stop()

    try:
        for number in _without_handlers() if is_wanted is None else _DEFAULTS if is_wanted else ():
            try:
                before[number] = signal.signal(number, once)
            except ValueError:
                if is_wanted:
                    raise
        yield
    finally:
        restore()


def _without_handlers() -> list[signal.Signals]:
    """Return the signals that act by default, if the calling code is the main work of its thread.

    asyncio's `run` sets a handler that cancels the task that it was given, which is the main work. In
    any other task a signal is for the whole program, and not for one worker.
    """
    defaults = dict(_DEFAULTS)
    with contextlib.suppress(RuntimeError):  # No event loop runs in this thread.
        task = asyncio.current_task()
        handler = signal.getsignal(signal.SIGINT)
        if task is None or getattr(handler, "keywords", {}).get("main_task") is not task:
            return []
        defaults[signal.SIGINT] = handler
    return [number for number, default in defaults.items() if signal.getsignal(number) is default]
