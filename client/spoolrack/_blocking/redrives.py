"""Redrives, for threads: dead letters that are moved back in the background."""

from __future__ import annotations

from collections.abc import Iterator

from .._redrive_values import Redrive
from .._runtime import run
from .._values import Seconds
from ..aio import _redrives as aio_redrives
from .iteration import blocking_iterator


class Redrives:
    """The redrives of a server; `client.redrives` is one."""

    def __init__(self, core: aio_redrives.Redrives) -> None:
        self._core = core

    def get(self, id: str, *, timeout: Seconds | None = None) -> Redrive:
        """Return a redrive with its progress; raises `RedriveNotFound`."""
        return run(self._core.get(id, timeout=timeout))

    def cancel(self, id: str, *, timeout: Seconds | None = None) -> Redrive:
        """End a redrive; returns it as it ended. Messages that were moved stay moved, and one that had
        ended before stays as it ended. May be repeated. Raises `RedriveNotFound`."""
        return run(self._core.cancel(id, timeout=timeout))

    def list(self, queue: str = "", *, timeout: Seconds | None = None) -> Iterator[Redrive]:
        """Return the redrives of a dead-letter queue, or all, the oldest first: running ones, and those
        that ended within the last 30 days. `timeout` is for each page of them."""
        return blocking_iterator(self._core.list(queue, timeout=timeout))
