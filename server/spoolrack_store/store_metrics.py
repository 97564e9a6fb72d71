"""The metrics of a store at one moment.

Where it isn't said otherwise no folder is listed and no file is read, so that it costs the same with
one message and with a million. Many queues are told in parts, between which commits go on: the numbers
of two queues may be of two moments.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from itertools import islice
from typing import Final

from .committer import Committer
from .engine.engine import Engine
from .files import layout
from .files.disk import Disk, Space
from .model.statistics import QueueMetrics, RootMetrics, Statistics

log = logging.getLogger(__name__)

AT_ONCE: Final = 100
"""Queues that are looked at while no commit may go on."""


class StoreMetrics:
    """The metrics of an open store. Thread-safe."""

    def __init__(
        self,
        engine: Engine,
        disk: Disk,
        changing: threading.RLock,
        committer: Committer,
        root_id: str,
    ) -> None:
        self._root_id = root_id
        self._engine = engine
        self._disk = disk
        self._changing = changing
        self._committer = committer

    @property
    def statistics(self) -> Statistics:
        """The counts of all work since the start, which keep growing."""
        return self._engine.moves.statistics

    def space(self) -> Space | None:
        """Return the free space of the root's file system; None if that is unknown."""
        try:
            return self._disk.space()
        except OSError as error:
            log.debug("the room on the disk can't be told: %s", error)
            return None

    def refuses_sends(self, space: Space) -> bool:
        """Return whether this process refuses sends with this free space."""
        return space.is_below(self._engine.moves.watermark)

    def root(self) -> RootMetrics:
        """Return all metrics but the queues'."""
        engine = self._engine
        self.statistics.keep_only(engine.catalog.records)
        with self._changing:
            held, lost = engine.reservations.count()
            return RootMetrics(
                id=self._root_id,
                queues=len(engine.catalog.records),
                quarantined=engine.moves.quarantined,
                unlinked=engine.moves.unlinked,
                to_be_unlinked=engine.to_be_unlinked,
                overdue=engine.views.overdue(),
                deduplication_keys=engine.deduplication.count,
                reservations_held=held,
                reservations_lost=lost,
                redrives=engine.redrives.running,
                dead_letter_queues=engine.views.dead_letter_queues(),
                stages=engine.stages.count,
                waiting=self._committer.waiting,
                failed=self._committer.failure is not None,
            )

    def _refresh(self) -> None:
        """Know what was answered and what other processes did, unless one of them holds the lock."""
        with self._changing:
            self._engine.refresh()

    def names(self, most: int | None = None) -> list[str]:
        """Return the first queues, or all, the oldest first, so that the order is stable."""
        with self._changing:
            return list(islice(self._engine.catalog.oldest_first(), most))

    def queues(self) -> Iterator[list[QueueMetrics]]:
        """Yield all queues in parts, in the same order."""
        self._refresh()
        names = iter(self.names())
        while part := list(islice(names, AT_ONCE)):
            with self._changing:
                found = [self._engine.views.metrics_of(name) for name in part]
            yield [each for each in found if each is not None]

    # Counted in folders, which takes the longer the more there is.

    def quarantined(self) -> int | None:
        """Return the number of files in `quarantine/`; None if that is unknown."""
        return self._count_in(layout.QUARANTINE)

    def removed(self) -> int | None:
        """Return the number of names in `remove/`; None if that is unknown."""
        return self._count_in(layout.REMOVE)

    def _count_in(self, folder: str) -> int | None:
        try:
            return len(self._disk.scan(folder))
        except OSError as error:
            log.debug("%s can't be listed: %s", folder, error)
            return None
