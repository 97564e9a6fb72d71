"""The interface of the engine's parts.

A part has requests of its own, and work that waits for a sync, for a time, or for other processes. All
calls are made under the lock, in one thread.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from logging import Logger
from typing import Final

from ..model.clock import Millis
from ..model.errors import StoreError

DUE_NOW: Final = Millis(0)
"""A monotonic time before all others: work that is due then waits for no time."""
RETRY: Final = Millis(1_000)
"""Time after which work is tried again that the disk refused, or that failed for another reason."""


class Part:
    """A part of the engine. The default has nothing to do."""

    folders: Sequence[str] = ()
    """Where its own files are, that hold no messages: it hears of each that another process changes."""

    pending: Sequence[Collection[object]] = ()
    """The containers of what waits for a sync or a time, always the same objects. While all are empty,
    the part is asked nothing."""

    def recover(self) -> None:
        """Read its own files: at a start, when all names are known, and again when other processes
        changed more than `CHANGES` holds."""

    def path_changed(self, path: str) -> None:
        """Read a file again that another process has made, renamed or unlinked, or was changing when it
        died."""

    @property
    def has_durable(self) -> bool:
        """Whether an answered message is not yet in the place that the answer says."""
        return False

    def advance(self) -> None:
        """Continue work that waited for a sync or a time: at the beginning of a commit, if it is
        due."""

    def tick(self) -> None:
        """Do work that is due: now and then, at the beginning of a commit."""

    def next_due(self) -> Millis | None:
        """Return the monotonic time at which a commit continues its work; `DUE_NOW` if the work waits
        for a commit only, or for a sync; None: there is none."""
        return DUE_NOW if any(self.pending) else None


@contextmanager
def postponing(log: Logger, what: str, *arguments: object) -> Iterator[None]:
    """Log a refusal of the disk, and go on: later work tries again what has to wait."""
    try:
        yield
    except StoreError as error:
        log.warning(f"{what} has to wait: %s", *arguments, error)
