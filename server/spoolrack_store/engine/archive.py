"""The archive: files of messages that have left their queue, kept for the queue's `archive_retention`.

    archive/<queue>/<day>/<stem>

The reaper moves a file there in place of its last unlink, once all messages of the file are deleted;
the day is that of the move, in UTC. A day is unlinked when it has been over for the retention.
Nothing in `archive/` is a message of a queue, and anything may be removed from it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Final

from ..files.disk import Disk, FileKind, explained
from ..files.layout import ARCHIVE, BODY
from ..model.background_work import BackgroundWork
from ..model.clock import HOUR, Millis, day_of, end_of_day
from .catalog import Catalog
from .entries import Entry
from .moves import Moves
from .part import Part

log = logging.getLogger(__name__)

LOOK_EVERY: Final = Millis(HOUR)


def archived_files(disk: Disk, ids: Collection[str]) -> dict[str, str]:
    """Return an archived file of each of the messages that has one, by id; raise `DiskError`."""
    found: dict[str, str] = {}
    try:
        for queue in disk.scan(ARCHIVE):
            for day in disk.scan(f"{ARCHIVE}/{queue.name}") if queue.kind is FileKind.FOLDER else ():
                folder = f"{ARCHIVE}/{queue.name}/{day.name}"
                for file in disk.scan(folder) if day.kind is FileKind.FOLDER else ():
                    if file.name[:36] in ids and not file.name.endswith(BODY):
                        found[file.name[:36]] = f"{folder}/{file.name}"
    except OSError as error:
        raise explained(error) from error
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
        self._names: list[str] | None = None
        """The names in the last of them that are still there; None: it isn't listed yet."""
        self.pending = (self._days,)

    def path_of(self, entry: Entry) -> str:
        """Return the path in the archive for the file of a name that may be unlinked; "": it isn't
        archived."""
        record = self._catalog.records.get(entry.name.queue)
        if record is None or not record.settings.archive_retention:
            return ""
        day = day_of(self._moves.clock.wall())
        return f"{ARCHIVE}/{entry.name.queue}/{day}/{entry.batch.stem.text}"

    def tick(self) -> None:
        now = self._moves.clock.monotonic()
        if not self._background.unlinks or now < self._next_look or self._days:
            return
        try:
            self._days += self._days_over()
        except OSError as error:
            raise explained(error) from error
        self._next_look = Millis(now + LOOK_EVERY)

    def advance(self) -> None:
        """Unlink files of days that are over, as many as the commit may."""
        left = self._moves.effort.share()
        while self._days and left > 0:
            folder = self._days[-1]
            try:
                left -= self._unlink(folder, left)
                if self._names:
                    continue
                self._moves.disk.remove_folder(folder)
                left -= 1
            except FileNotFoundError:
                pass  # Another process was faster.
            except OSError as error:
                log.warning("%s stays in the archive for now: %s", folder, error)
            self._days.pop()
            self._names = None

    def _days_over(self) -> Iterator[str]:
        """Yield the folders of days that are kept no longer."""
        disk, wall = self._moves.disk, self._moves.clock.wall()
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
        """Unlink up to `most` files of a day; return how many."""
        disk = self._moves.disk
        if self._names is None:
            self._names = [each.name for each in disk.scan(folder)]
        count = min(most, len(self._names))
        for _ in range(count):
            with suppress(FileNotFoundError):  # Another process was faster.
                disk.unlink(f"{folder}/{self._names.pop()}")
            self._moves.effort.spend()
        return count
