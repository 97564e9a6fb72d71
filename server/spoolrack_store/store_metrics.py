"""The metrics of a store at one moment: counts, ages, dead-letter queues, and the owners of the root.

Where it isn't said otherwise no folder is listed and no file is read, so that it costs the same with
one message and with a million. Many queues are told in parts, between which commits go on: the numbers
of two queues may be of two moments.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from .committer import Committer
from .engine.engine import Engine
from .files import layout
from .files.disk import Disk, Space
from .files.root import owners_of
from .model.clock import Millis
from .model.errors import DiskError
from .model.statistics import Ages, Owner, QueueMetrics, RootMetrics, Statistics

log = logging.getLogger(__name__)

AT_ONCE: Final = 100
"""Queues that are looked at while no commit may go on."""


class StoreMetrics:
    """The metrics of an open store. Thread-safe."""

    def __init__(
        self, engine: Engine, disk: Disk, changing: threading.RLock, committer: Committer, root_id: str
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

    @property
    def owner(self) -> str:
        """The name under which this process writes."""
        return self._engine.moves.owner

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
            reserved, lost = engine.reservations.count()
            due = engine.index.next_due()
            return RootMetrics(
                id=self._root_id,
                queues=len(engine.catalog.records),
                quarantined=engine.moves.quarantined,
                unlinked=engine.moves.unlinked,
                to_be_unlinked=engine.to_be_unlinked,
                overdue=Millis(0 if due is None else max(0, engine.moves.clock.monotonic() - due)),
                deduplication_keys=engine.deduplication.count,
                reservations_held=reserved,
                reservations_lost=lost,
                redrives=engine.redrives.running,
                dead_letter_queues=frozenset(engine.catalog.sources),
                stages=engine.stages.count,
                waiting=self._committer.waiting,
                failed=self._committer.failure is not None,
            )

    # Queues.

    def names(self) -> list[str]:
        """Return all queues, in order."""
        with self._changing:
            return list(self._engine.catalog.names)

    def oldest(self, most: int | None = None) -> list[str]:
        """Return the first queues, or all, the oldest first, so that the order is stable."""
        with self._changing:
            return list(islice(self._engine.catalog.oldest_first(), most))

    def dead_letter_queues(self) -> frozenset[str]:
        """Return the names of all dead-letter queues in settings, whether they exist or not."""
        with self._changing:
            return frozenset(self._engine.catalog.sources)

    def dead_letter_sources(self, queue: str) -> list[str]:
        """Return the queues that name `queue` as their dead-letter queue, in order."""
        with self._changing:
            return sorted(self._engine.catalog.sources.get(queue, ()))

    def queues(self) -> Iterator[list[QueueMetrics]]:
        """Yield all queues in parts, the oldest first."""
        self._refresh()
        names = iter(self.oldest())
        while part := list(islice(names, AT_ONCE)):
            with self._changing:
                found = [self._engine.views.metrics_of(name) for name in part]
            yield [each for each in found if each is not None]

    def ages(self, queues: Iterable[str], bounds: Sequence[Millis]) -> dict[str, Ages]:
        """Return the ready messages by age of each of `queues` that exists; `bounds` are ages, and
        ascend. Commits continue between two queues."""
        self._refresh()
        ages_of: dict[str, Ages] = {}
        for name in queues:
            with self._changing:
                ages = self._engine.views.ages(name, bounds)
            if ages is not None:
                ages_of[name] = ages
        return ages_of

    def _refresh(self) -> None:
        """Know what was answered and what other processes did, unless one of them holds the lock."""
        with self._changing:
            self._engine.refresh()

    # Read from the disk.

    def owners(self) -> list[Owner]:
        """Return the processes that have the root open, this one too; raise `DiskError`."""
        owners: list[Owner] = []
        try:
            for name in sorted(owners_of(self._disk)):
                try:
                    about = self._disk.read(layout.owner(name), 200)
                except FileNotFoundError:
                    continue  # It has just left.
                text = about.decode(errors="replace").strip()
                owners.append(Owner(name=name, about=text, is_me=name == self.owner))
        except OSError as error:
            raise DiskError(detail=f"the processes that have the root open: {error}") from error
        return owners

    def unknown_consumer(self) -> str:
        """Describe a consumer that this process doesn't know; raise `DiskError`."""
        others = [each.about.partition(" boot ")[0] for each in self.owners() if not each.is_me]
        if not others:
            return "unknown to this process; no other has the root open"
        return f"unknown to this process; the root is also open in {', '.join(others)}"

    def quarantined(self) -> int | None:
        """Return the number of files in `quarantine/`, which is listed; None if that is unknown."""
        return self._count_in(layout.QUARANTINE)

    def removed(self) -> int | None:
        """Return the number of names in `remove/`, which is listed; None if that is unknown."""
        return self._count_in(layout.REMOVE)

    def _count_in(self, folder: str) -> int | None:
        try:
            return len(self._disk.scan(folder))
        except OSError as error:
            log.debug("%s can't be listed: %s", folder, error)
            return None
