"""What is told to whoever watches a store: ages, and who has the root open. Thread-safe.

Nothing here lists a folder of messages or reads one: what is told costs the same with ten and with a
million.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

from .engine.engine import Engine
from .model.clock import Millis
from .model.errors import DiskError
from .model.overview import Ages, Owner


class Overview:
    """Of one store, as long as it is open."""

    def __init__(self, engine: Engine, changing: threading.RLock) -> None:
        self._engine = engine
        self._changing = changing

    @property
    def owner(self) -> str:
        """The name under which this process writes."""
        return self._engine.views.owner

    def names(self) -> list[str]:
        """All queues, in order."""
        with self._changing:
            return sorted(self._engine.catalog.queues)

    def ages(self, queues: Iterable[str], bounds: Sequence[Millis]) -> dict[str, Ages]:
        """Of each of `queues` that is there, its ready messages by age; `bounds` are ages and ascend.

        A million messages cost 0.2 ms, and 3 ms if they came in batches; between two queues commits
        go on.
        """
        found = {}
        for name in queues:
            with self._changing:
                ages = self._engine.views.ages(name, bounds)
            if ages is not None:
                found[name] = ages
        return found

    def buries_in(self, queue: str) -> list[str]:
        """The queues that name `queue` as their dead-letter queue, in order."""
        with self._changing:
            lives = self._engine.catalog.queues.values()
            return sorted(live.name for live in lives if live.settings.dead_letter_queue == queue)

    def dead_letter_queues(self) -> frozenset[str]:
        """The names that queues have for their dead-letter queues, whether these are there or not."""
        with self._changing:
            lives = self._engine.catalog.queues.values()
            return frozenset(live.settings.dead_letter_queue for live in lives) - {""}

    def owners(self) -> list[Owner]:
        """The processes that have the root open, this one too; raises `DiskError`."""
        try:
            return self._engine.views.owners()
        except OSError as error:
            raise DiskError(detail=f"who has the root open can't be read: {error}") from error
