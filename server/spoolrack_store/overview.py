"""The overview of a store for a dashboard: ages, dead-letter queues, and the owners of the root.

Nothing here lists a folder of messages or reads one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

from .engine.engine import Engine
from .files.disk import Disk
from .files.layout import owner as owner_file
from .files.root import owners_of
from .model.clock import Millis
from .model.errors import DiskError
from .model.overview_values import Ages, Owner


class Overview:
    """The overview of one open store. Thread-safe."""

    def __init__(self, engine: Engine, disk: Disk, changing: threading.RLock) -> None:
        self._engine = engine
        self._disk = disk
        self._changing = changing

    @property
    def owner(self) -> str:
        """The name under which this process writes."""
        return self._engine.moves.owner

    def names(self) -> list[str]:
        """Return all queues, in order."""
        with self._changing:
            return list(self._engine.catalog.names)

    def ages(self, queues: Iterable[str], bounds: Sequence[Millis]) -> dict[str, Ages]:
        """Return the ready messages by age of each of `queues` that exists; `bounds` are ages, and
        ascend. Commits continue between two queues."""
        with self._changing:
            self._engine.refresh()
        found: dict[str, Ages] = {}
        for name in queues:
            with self._changing:
                ages = self._engine.views.ages(name, bounds)
            if ages is not None:
                found[name] = ages
        return found

    def dead_letter_sources(self, queue: str) -> list[str]:
        """Return the queues that name `queue` as their dead-letter queue, in order."""
        with self._changing:
            return sorted(self._engine.catalog.sources.get(queue, ()))

    def dead_letter_queues(self) -> frozenset[str]:
        """Return the names of all dead-letter queues in settings, whether they exist or not."""
        with self._changing:
            return self._engine.views.dead_letter_queues()

    def unknown_consumer(self) -> str:
        """Describe a consumer that this process doesn't know; raise `DiskError`."""
        others = [each.about.partition(" boot ")[0] for each in self.owners() if not each.is_me]
        if not others:
            return "unknown to this process; no other has the root open"
        return f"unknown to this process; the root is also open in {', '.join(others)}"

    def owners(self) -> list[Owner]:
        """Return the processes that have the root open, this one too; raise `DiskError`."""
        found: list[Owner] = []
        try:
            for name in sorted(owners_of(self._disk)):
                try:
                    about = self._disk.read(owner_file(name), 200)
                except FileNotFoundError:
                    continue  # It has just left.
                text = about.decode(errors="replace").strip()
                found.append(Owner(name=name, about=text, is_me=name == self.owner))
        except OSError as error:
            raise DiskError(detail=f"the processes that have the root open: {error}") from error
        return found
