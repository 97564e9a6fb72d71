"""The archive: files of messages that have left their queue, kept for the queue's `archive_retention`.

    archive/<queue>/<day>/<stem>[,<members>]

The reaper gives a file a name there for each queue that messages of it have left, dead letters too,
once all messages of the file are deleted; the day is that of the move, in UTC. A day is unlinked when
it has been over for the retention.
Nothing in `archive/` is a message of a queue, and anything may be removed from it.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final

from ..files.disk import Disk, FileKind, FolderEntry, explaining
from ..files.layout import ARCHIVE, BODY
from ..model.background_work import BackgroundWork
from ..model.clock import HOUR, Millis, day_of, end_of_day
from ..model.dead_letter_records import DeadLetterRecord, NotAHistory
from ..model.errors import DiskError
from ..model.names import Name, archived_name
from .catalog import Catalog
from .entries import BatchFile, Entry
from .moves import Moves
from .part import Part
from .reader import read_records

log = logging.getLogger(__name__)

LOOK_EVERY: Final = Millis(HOUR)


def archived_files(disk: Disk, ids: Collection[str]) -> dict[str, list[str]]:
    """Return the archived files of each of the messages that has any, by id; raise `DiskError`."""
    found: dict[str, list[str]] = {}
    with explaining():
        for queue in disk.scan(ARCHIVE):
            for day in disk.scan(f"{ARCHIVE}/{queue.name}") if queue.kind is FileKind.FOLDER else ():
                folder = f"{ARCHIVE}/{queue.name}/{day.name}"
                for file in disk.scan(folder) if day.kind is FileKind.FOLDER else ():
                    if file.name[:36] in ids and not file.name.endswith(BODY):
                        found.setdefault(file.name[:36], []).append(f"{folder}/{file.name}")
    return found


class Archive(Part):
    """The archive of one root. Not thread-safe."""

    def __init__(self, moves: Moves, catalog: Catalog, background: BackgroundWork) -> None:
        self._moves = moves
        self._catalog = catalog
        self._background = background
        self._next_look = moves.clock.monotonic()
        self._days: list[str] = []
        """Folders of days that are kept no longer."""
        self._names: Iterator[FolderEntry] | None = None
        """The listing of the last of them; None: it hasn't begun."""
        self._unlinked = 0
        """Files that it has named."""
        self.pending = (self._days,)

    def paths_of(self, entries: Iterable[Entry]) -> dict[Entry, list[str]]:
        """Return the paths in the archive of names that may be unlinked: one for each file and queue
        that is archived, which lists all messages of the file that have left the queue."""
        left: dict[tuple[BatchFile, str], tuple[Entry, int]] = {}
        for entry in entries:
            for queue in self._archived_queues(entry.name) if entry.members else ():
                first, members = left.get((entry.batch, queue), (entry, 0))
                left[entry.batch, queue] = first, members | entry.members
        found: dict[Entry, list[str]] = {}
        day = day_of(self._moves.clock.wall()) if left else ""
        for (batch, queue), (entry, members) in left.items():
            path = f"{ARCHIVE}/{queue}/{day}/{archived_name(batch.stem, members)}"
            found.setdefault(entry, []).append(path)
        return found

    def _archived_queues(self, name: Name) -> Iterator[str]:
        """Yield the queues with an archive that the messages of a name were in: the last one, and those
        that they died in."""
        queues = [name.queue]
        if name.death is not None:
            queues += [each.source_queue for each in self._records(name)]
        for queue in dict.fromkeys(queues):
            record = self._catalog.records.get(queue)
            if record is not None and record.settings.archive_retention:
                yield queue

    def _records(self, name: Name) -> Sequence[DeadLetterRecord]:
        """Return how messages became dead letters; nothing of what another process has archived."""
        try:
            return read_records(self._moves.disk, name)
        except (NotAHistory, DiskError) as why:
            if not self._moves.may_be_unlinked_by_others(name):
                log.warning("the history of the messages of %s can't be told: %s", name.path, why)
            return ()

    def tick(self) -> None:
        now = self._moves.clock.monotonic()
        if not self._background.unlinks or now < self._next_look or self._days:
            return
        with explaining():
            self._days += self._days_over()
        self._next_look = Millis(now + LOOK_EVERY)

    def advance(self) -> None:
        """Unlink files of days that are over, as many as the commit may."""
        left = self._moves.effort.share()
        while self._days and left > 0:
            folder = self._days[-1]
            try:
                left -= self._unlink(folder, left)
                if left <= 0:
                    return
                self._moves.disk.remove_folder(folder)
                left -= 1
            except FileNotFoundError:
                pass  # Another process was faster.
            except OSError as error:
                if error.errno == errno.ENOTEMPTY and self._unlinked:
                    self._names = None  # The listing has passed names over, beside the unlinks.
                    continue
                log.warning("%s stays in the archive for now: %s", folder, error)
            self._names = None
            self._days.pop()

    def _days_over(self) -> Iterator[str]:
        """Yield the folders of days that are kept no longer."""
        disk, wall = self._moves.disk, self._moves.clock.proven_wall()
        for queue in disk.scan(ARCHIVE):
            if queue.kind is not FileKind.FOLDER:
                continue
            record = self._catalog.records.get(queue.name)
            retention = record.settings.archive_retention if record else 0
            for day in disk.scan(f"{ARCHIVE}/{queue.name}"):
                end = end_of_day(day.name)
                if day.kind is FileKind.FOLDER and end is not None and end + retention <= wall:
                    yield f"{ARCHIVE}/{queue.name}/{day.name}"

    def _unlink(self, folder: str, most: int) -> int:
        """Unlink up to `most` files of a day; return how many. It lists no more: a day may have
        millions."""
        disk = self._moves.disk
        if self._names is None:
            self._names, self._unlinked = disk.listing(folder), 0
        count = 0
        for each in islice(self._names, most):
            with suppress(FileNotFoundError):  # Another process was faster.
                disk.unlink(f"{folder}/{each.name}")
            self._moves.effort.spend()
            count += 1
        self._unlinked += count
        return count
