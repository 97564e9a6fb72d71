"""SIGTERM and SIGINT as a request to drain and stop."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextlib.contextmanager
def stopping_on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at the first SIGTERM or SIGINT within this context; the next one acts as before.

    Raises `ValueError` outside of the main thread: Python allows it only there.
    """
    before: dict[signal.Signals, Any] = {}

    def restore() -> None:
        while before:
            number, former = before.popitem()
            # None: a handler that was not installed by Python.
            signal.signal(number, signal.SIG_DFL if former is None else former)

    def once(number: int, frame: FrameType | None) -> None:
        restore()
        stop()

    try:
        for number in SIGNALS:
            before[number] = signal.signal(number, once)
        yield
    finally:
        restore()
