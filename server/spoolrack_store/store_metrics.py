"""The metrics of a store at one moment: counts, ages, dead-letter queues, and the owners of the root.

Where it isn't said otherwise no folder is listed, no file is read, and no commit waits: the counts of
each queue are those of the last commit. While other processes have the root open, a look first takes in
what they did, as a commit does. The numbers of two queues may be of two moments.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

from .committer import Committer, Stall
from .engine.engine import Engine
from .files import layout
from .files.disk import Disk, Space
from .files.root import owners_of
from .model.clock import MINUTE, Millis
from .model.errors import DiskError
from .model.shards import Shard
from .model.statistics import Ages, Owner, QueueMetrics, RootMetrics, Statistics
from .questions import Questions

log = logging.getLogger(__name__)


class StoreMetrics:
    """The metrics of an open store. Thread-safe."""

    def __init__(
        self,
        engine: Engine,
        disk: Disk,
        questions: Questions,
        committer: Committer,
        root_id: str,
        shard: Shard | None,
    ) -> None:
        self._shard = shard
        self._root_id = root_id
        self._engine = engine
        self._disk = disk
        self._questions = questions
        self._committer = committer

    @property
    def statistics(self) -> Statistics:
        """The counts of all work since the start, which keep growing."""
        return self._engine.moves.statistics

    @property
    def owner(self) -> str:
        """The name under which this process writes."""
        return self._engine.moves.owner

    @property
    def quarantined_count(self) -> int:
        """The number of messages and files put into quarantine since the start."""
        return self._engine.moves.quarantined

    def space(self) -> Space | None:
        """Return the free space of the root's file system; None if that is unknown."""
        try:
            return self._disk.space()
        except OSError as error:
            log.debug("the room on the disk can't be told: %s", error)
            return None

    def refuses_sends(self, space: Space) -> bool:
        """Return whether this process refuses sends with this free space, or a quota has refused one
        within the last minute."""
        moves = self._engine.moves
        full_at = moves.full_at
        is_refused = full_at is not None and moves.clock.monotonic() - full_at < MINUTE
        return is_refused or space.is_below(moves.watermark)

    def stall(self) -> Stall | None:
        """Return for how long commits have stood still, and why: another process holds the lock, or
        the disk doesn't answer; None: they go on. No commit waits, and it waits for none."""
        return self._committer.stall()

    def root(self) -> RootMetrics:
        """Return all metrics but the queues'."""
        engine = self._engine
        self.statistics.keep_only(engine.catalog.records)
        reserved, lost = engine.reservations.count()
        return RootMetrics(
            id=self._root_id,
            shard=self._shard,
            queues=len(engine.catalog.records),
            quarantined=engine.moves.quarantined,
            unlinked=engine.moves.unlinked,
            to_be_unlinked=engine.to_be_unlinked,
            overdue=self._questions.overdue(),
            clock_jump=engine.moves.clock.jump,
            deduplication_keys=engine.deduplication.count,
            reservations_held=reserved,
            reservations_lost=lost,
            redrives=engine.redrives.running,
            dead_letter_queues=self.dead_letter_queues(),
            stages=engine.stages.count,
            waiting=self._committer.waiting,
            failed=self._committer.failure is not None,
        )

    # Queues.

    def names(self) -> list[str]:
        """Return all queues, in order."""
        return [record.name for record in self._engine.catalog.listing()]

    def oldest(self, most: int | None = None) -> list[str]:
        """Return the first queues, or all, the oldest first, so that the order is stable."""
        records = sorted(self._engine.catalog.listing(), key=attrgetter("created_at"))
        return [record.name for record in records[:most]]

    def dead_letter_queues(self) -> frozenset[str]:
        """Return the names of all dead-letter queues in settings, whether they exist or not."""
        return frozenset(self._engine.catalog.sources)

    def dead_letter_sources(self, queue: str) -> list[str]:
        """Return the queues that name `queue` as their dead-letter queue, in order."""
        return sorted(self._engine.catalog.sources.get(queue, ()))

    def queues(self) -> Iterator[QueueMetrics]:
        """Return all queues, the oldest first."""
        self._questions.refresh()
        return map(self._engine.views.metrics, self.oldest())

    def ages(self, queues: Iterable[str], bounds: Sequence[Millis]) -> dict[str, Ages]:
        """Return the ready messages by age of each of `queues` that exists; `bounds` are ages, and
        ascend. Commits continue between two queues."""
        ages_of: dict[str, Ages] = {}
        for name in queues:
            ages = self._questions.up_to_date(self._engine.views.ages, name, bounds)
            if ages is not None:
                ages_of[name] = ages
        return ages_of

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
