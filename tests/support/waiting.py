"""Bounded ways to wait for what another thread or process does."""

from __future__ import annotations

import threading
from collections.abc import Callable

LOOKS = 10_000


def comes_about(what: Callable[[], bool], pause: float = 0.001) -> bool:
    """Return whether `what` becomes true, in so many looks."""
    waiting = threading.Event()
    for _ in range(LOOKS):
        if what():
            return True
        waiting.wait(pause)
    return False


def until(what: Callable[[], bool]) -> None:
    """Return once another thread or process has brought `what` about; fail after 50 s or so."""
    assert comes_about(what, 0.005), "it never came about"
