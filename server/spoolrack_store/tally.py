"""What a store knows of itself at one moment, for whoever watches it.

Where it isn't said otherwise no folder is listed and no body is read: it is what the index and the
counters say, so that it costs the same with one message and with a million. With many queues it is told
in parts, and between two parts commits go on; so the numbers of two queues may be of two moments.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from itertools import islice
from typing import Final

from .committer import Committer
from .engine.engine import Engine
from .engine.live import Live
from .files import layout
from .files.disk import Disk
from .files.space import Space
from .model.figures import QueueFigures, RootFigures, Statistics

log = logging.getLogger(__name__)

AT_ONCE: Final = 100
"""Queues that are looked at while no commit may go on: a millisecond or two."""


class Tally:
    """Thread-safe."""

    def __init__(
        self, engine: Engine, disk: Disk, changing: threading.RLock, committer: Committer
    ) -> None:
        self._engine = engine
        self._disk = disk
        self._changing = changing
        self._committer = committer

    @property
    def statistics(self) -> Statistics:
        """What was done since the start; it goes on counting."""
        return self._engine.statistics

    def space(self) -> Space | None:
        """What room the root's file system has; None if it doesn't say."""
        try:
            return self._disk.space()
        except OSError as error:
            log.debug("the room on the disk can't be told: %s", error)
            return None

    def root(self) -> RootFigures:
        """All but the queues."""
        engine = self._engine
        with self._changing:
            held, lost = engine.reservations.count()
            lives = list(engine.catalog.queues.values())
            engine.statistics.forget_all_but([live.name for live in lives])
            return RootFigures(
                queues=len(lives),
                lost_races=engine.lost_races,
                quarantined=engine.quarantined,
                unlinked=engine.reaper.unlinked,
                to_be_unlinked=engine.reaper.waiting,
                overdue=engine.views.overdue(),
                deduplication_keys=len(engine.deduplication.known),
                reservations_held=held,
                reservations_lost=lost,
                redrives=engine.redriving.running,
                dead_letter_queues=frozenset(live.settings.dead_letter_queue for live in lives) - {""},
                stages=engine.staging.count(),
                waiting=self._committer.waiting,
                failed=self._committer.failure is not None,
            )

    def names(self) -> list[str]:
        """Of all queues, the oldest first, so that what stands first stays there."""
        with self._changing:
            lives = list(self._engine.catalog.queues.values())
        return [live.name for live in sorted(lives, key=_age)]

    def queues(self) -> Iterator[list[QueueFigures]]:
        """All queues in parts, in the same order."""
        names = iter(self.names())
        while part := list(islice(names, AT_ONCE)):
            with self._changing:
                found = [self._engine.views.figures(name) for name in part]
            yield [each for each in found if each is not None]

    # What only a folder says. Not for every look: it takes the longer the more there is.

    def quarantined(self) -> int | None:
        """How many things lie in `quarantine/`; None if that can't be told."""
        return self._lying_in(layout.QUARANTINE)

    def removed(self) -> int | None:
        """How much lies in `remove/`, whoever shall unlink it; None if that can't be told."""
        return self._lying_in(layout.REMOVE)

    def _lying_in(self, folder: str) -> int | None:
        try:
            return len(self._disk.scan(folder))
        except OSError as error:
            log.debug("%s can't be listed: %s", folder, error)
            return None


def _age(live: Live) -> tuple[int, str]:
    return live.created_at, live.name
