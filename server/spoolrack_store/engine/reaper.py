"""The reaper: unlinks names in `remove/`.

Nothing leaves `remove/` but by an unlink. So once it is durable that all names of a batch are there or
in quarantine, the index forgets them, and a thread unlinks them without the lock. No other process is
told: each has its own index forget them, and an unlink finds what another one was faster with. Names
that are not unlinked when the process ends are found by the next start.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from queue import SimpleQueue
from threading import Event, Thread
from typing import Final

from ..files.disk import Disk
from ..model.batch import Entry
from ..model.errors import StoreError
from .deduplication import Deduplication
from .moves import Moves
from .reader import Reader

log = logging.getLogger(__name__)

SLICE: Final = 1_000
"""Batches that one commit looks at: requests wait for it."""
CLOSE_UNLINKS: Final = 1_000
"""Names that a thread still unlinks when it is stopped."""
MOMENT: Final = 0.05
"""Seconds for which the thread lets names gather."""


class Reaper:
    """Decides what may be unlinked. Not thread-safe."""

    def __init__(
        self, moves: Moves, reader: Reader, deduplication: Deduplication, *, unlinks: bool = True
    ) -> None:
        """Without `unlinks` it is left to other processes."""
        self._moves = moves
        self._reader = reader
        self._deduplication = deduplication
        self._unlinks = unlinks
        self.removed: deque[str] = deque()
        """What may be unlinked at any time, if no thread takes it."""
        self.give: Callable[[Sequence[str]], None] = self.removed.extend
        """Takes paths that may be unlinked at any time."""

    @property
    def has_work(self) -> bool:
        return bool(self._moves.index.over)

    def hand_over(self) -> bool:
        """Forget what may be unlinked by now, and give it away; return whether there was something."""
        index, synced = self._moves.index, self._moves.synced
        # Without a dead letter's own file the message would be where it was, until that is durably
        # deleted.
        elsewhere = {source.stem.message_id(place) for source, place in index.superseded}
        reapable: list[Entry] = []
        for batch in list(islice(index.over, SLICE)):
            del index.over[batch]
            entries = batch.reapable(synced)
            if entries and not (batch.stem.deaths and batch.stem.id in elsewhere):
                reapable += entries
            if batch.is_over and (entries or batch.changed > synced):
                index.over[batch] = None  # It is looked at again, after the others.
        reapable = self._without_sent_by_others(reapable)
        paths: list[str] = []
        forgotten = self._deduplication.may_unlink(reapable) if self._unlinks else reapable
        for entry in forgotten:
            if self._unlinks:
                self._moves.unlinked += entry.held.bit_count()
            index.disappear(entry, self._moves.commit)
            paths.append(entry.name.path)
            if not entry.batch.entries:
                self._reader.forget(entry.batch)
        if paths and self._unlinks:
            self.give(paths)
        return bool(paths)

    def _without_sent_by_others(self, reapable: list[Entry]) -> list[Entry]:
        """Keep back each batch that has a name in `new/` of another process: it lists what is deleted,
        too. The batch is looked at again when that name is gone."""
        if not reapable:
            return []
        index = self._moves.index
        try:
            sent = {name.stem.text for name in self._moves.names_sent_by_others()}
        except StoreError as error:
            log.warning("what is deleted stays in remove/ for now: %s", error)
            self._moves.refused_at = self._moves.clock.monotonic()
            return []
        for entry in reapable:
            if entry.batch.stem.text in sent:
                index.over.pop(entry.batch, None)
        return [entry for entry in reapable if entry.batch.stem.text not in sent]


class ReaperThread:
    """Unlinks what it is given. Thread-safe."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._given: SimpleQueue[Sequence[str] | None] = SimpleQueue()
        self._stopping = Event()
        self.unlinked = 0
        """Names that this process has unlinked in `remove/`."""
        self._thread = Thread(target=self._run, name="spoolrack-reaper", daemon=True)
        self._thread.start()

    def give(self, paths: Sequence[str]) -> None:
        self._given.put(paths)

    def stop(self) -> None:
        """Return soon; what isn't unlinked by then stays for the next start."""
        self._stopping.set()
        self._given.put(None)
        self._thread.join()

    def _run(self) -> None:
        left = CLOSE_UNLINKS
        while (paths := self._given.get()) is not None:
            # A wake-up takes the interpreter's lock from the thread that commits: one is for many.
            self._stopping.wait(MOMENT)
            for path in (*paths, *self._gathered()):
                is_stopping = self._stopping.is_set()
                if is_stopping and not left:
                    return
                left -= is_stopping
                self.unlinked += unlink(self._disk, path)

    def _gathered(self) -> Iterator[str]:
        """Yield what was given meanwhile."""
        for _ in range(self._given.qsize()):
            more = self._given.get()
            if more is None:
                self._given.put(None)
                return
            yield from more


def unlink(disk: Disk, path: str) -> bool:
    """Unlink a name in `remove/`; return False if another process was faster, or it has to stay."""
    try:
        disk.unlink(path)
    except FileNotFoundError:
        return False
    except OSError as error:
        log.warning("%s stays until the next start: %s", path, error)
        return False
    return True
