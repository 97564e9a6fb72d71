"""Garbage collection of a server's process: the backlog that a start has read is left out of it.

No library code may use this: whether a process collects garbage is for its program to say.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def frozen_afterwards() -> Iterator[None]:
    """Run a start without garbage collections, and keep what it made out of all later ones.

    The names of a backlog live as long as their messages. Each collection of the oldest generation
    would look at all of them, in the event loop. For a process of its own only: garbage in cycles that
    was there before stays, too.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
