"""Adopts messages that were `mv`ed into `new/`: a regular file named `<queue>:<any uuid>`.

Such a file says neither its size nor its checksum, so it must first be left alone for two seconds: then
it is taken for complete, synced, summed, and renamed into its queue, under an id of its arrival. From
then on it is a message like any other. Only a regular file with one link is adopted.

Anything else in the root's folders that is no name of the store's goes into quarantine. Names
change under the lock only, so that it isn't another process's either. It never stops a start.
"""

from __future__ import annotations

import errno
import logging
import zlib
from collections.abc import Iterator
from itertools import islice
from typing import Final

from ..files.disk import Facts, FileKind, FolderEntry, SyncFailed, explained, explaining
from ..files.layout import COPY, NEW, body_owner
from ..model.background_work import BackgroundWork
from ..model.clock import Millis
from ..model.errors import StoreError
from ..model.message_ids import FileIds, is_id
from ..model.names import Name, Stem, is_queue_name
from ..model.operations import MAX_BODY_IN_MEMORY
from ..model.transitions import State
from .catalog import Catalog
from .effort import BYTES_LIKE_A_FILE, SYNC_EFFORT
from .moves import Moves
from .part import DUE_NOW, Part

log = logging.getLogger(__name__)

UNCHANGED_FOR: Final = Millis(2_000)
LOOK_EVERY: Final = Millis(2_000)
NAMES_LIKE_A_FILE: Final = 32
"""To list so many names takes as long as to move a file."""
_FAILED_SYNC: Final = frozenset({errno.EIO, errno.ENOSPC, errno.EDQUOT})
"""Errors that fsync(2) itself reports, and open(2) of a file that is there doesn't."""


def adoptable(name: str) -> str | None:
    """Return the queue of a file in `new/` that was put in by hand; None for any other name."""
    queue, _, id = name.partition(":")
    return queue if is_id(id) and is_queue_name(queue) else None


class Adoption(Part):
    """Adoption of files that were moved into `new/` by hand. Not thread-safe."""

    def __init__(
        self, moves: Moves, catalog: Catalog, ids: FileIds, background: BackgroundWork
    ) -> None:
        self._moves = moves
        self._catalog = catalog
        self._ids = ids
        self._adopts = background.adopts
        self._unchanged_for = max(UNCHANGED_FOR, background.wait)
        self._listings: list[Iterator[FolderEntry]] = []
        """The listing of `new/` that is under way, if there is one."""
        self._unseen_files: list[str] = []
        """Files that the listing has found, and no commit has looked at since; the first last."""
        self._seen_before: dict[str, tuple[Facts, Millis]] = {}
        """Files that the last listing found in `new/`, and this one hasn't yet; with the monotonic time
        since which each is as it is."""
        self._seen_now: dict[str, tuple[Facts, Millis]] = {}
        """Those that this listing has found."""
        self.pending = (self._listings, self._unseen_files, self._seen_before, self._seen_now)
        self._next_look = moves.clock.monotonic()

    def next_due(self) -> Millis | None:
        if self._listings or self._unseen_files:
            return DUE_NOW
        return self._next_look if any(self.pending) else None

    def tick(self) -> None:
        """Begin to list `new/`, if it is time; `advance` looks at what is there. Raise `DiskError`."""
        now = self._moves.clock.monotonic()
        if not self._adopts or self._listings or self._unseen_files or now < self._next_look:
            return
        self._next_look = Millis(now + LOOK_EVERY)
        with explaining():
            self._listings.append(self._moves.disk.listing(NEW))

    def advance(self) -> None:
        """List `new/`, and adopt files that have been unchanged for long enough, as many as the commit
        may. Raise `DiskError`, and `SyncFailed` if a file can't be made durable."""
        self.tick()
        effort = self._moves.effort
        left = effort.share()
        while left > 0 and (self._listings or self._unseen_files):
            files = self._look_at(self._unseen_files.pop()) if self._unseen_files else self._list()
            left -= files
            effort.spend(files)

    def _list(self) -> int:
        """List some more of `new/`, or, at its end, drop some files that are gone; return the effort,
        in files."""
        try:
            with explaining():
                found = list(islice(self._listings[0], NAMES_LIKE_A_FILE))
        except StoreError:
            self._listings.clear()
            raise
        if found:
            names = [each.name for each in found if each.kind is FileKind.FILE and ":" in each.name]
            self._unseen_files += reversed(names)
            return len(found) // NAMES_LIKE_A_FILE
        gone = self._seen_before
        for _ in range(min(NAMES_LIKE_A_FILE, len(gone))):
            gone.popitem()
        if not gone:
            self._listings.clear()
            self._seen_before, self._seen_now = self._seen_now, gone
        return 1 if gone else 0

    def _look_at(self, name: str) -> int:
        """Look at a file, and adopt it if it is time; return the effort, in files."""
        path, queue, now = f"{NEW}/{name}", adoptable(name), self._moves.clock.monotonic()
        if queue is None or queue not in self._catalog.records:
            return 0
        before = self._seen_before.pop(name, None)
        try:
            facts = self._moves.disk.facts(path)
            if facts.links != 1:
                return 1  # It has a second name somewhere, through which it could be changed.
            since = before[1] if before is not None and before[0] == facts else now
            if now - since < self._unchanged_for:
                self._seen_now[name] = facts, since
                return 1
            self._adopt(path, queue)
            return 1 + SYNC_EFFORT + facts.size // BYTES_LIKE_A_FILE
        except OSError as error:
            log.error("%a can't be adopted: %s", path, explained(error))
        except StoreError as error:
            log.error("%a can't be adopted: %s", path, error)
        return 1

    def _adopt(self, path: str, queue: str) -> None:
        moves = self._moves
        limit = min(self._catalog.records[queue].settings.max_message_size, MAX_BODY_IN_MEMORY)
        body = moves.disk.read(path, limit + 1)
        if len(body) > limit:
            moves.foreign_files[path] = (
                f"more than the {limit} bytes that {queue} takes from a file put in"
            )
            return
        try:
            moves.disk.sync_file(path)
        except OSError as error:
            if error.errno in _FAILED_SYNC:
                # The kernel takes it for written now: a repetition would succeed, and prove nothing.
                raise SyncFailed(str(error)) from error
            raise
        stem = Stem(id=self._ids.make(), size=len(body), crc=zlib.crc32(body))
        name = Name(stem=stem, state=State.READY, queue=queue, members=stem.full)
        moves.adopt(path, name, 0)
        log.info("adopted %s as message %s of the queue %s", path, stem.id, queue)


class Foreign(Part):
    """Foreign files, as a start has found them, which go to quarantine. Not thread-safe."""

    def __init__(self, moves: Moves) -> None:
        self._moves = moves
        self.pending = (moves.foreign_files,)

    def recover(self) -> None:
        """Quarantine the foreign files that a start has found."""
        self.advance()

    def advance(self) -> None:
        """Quarantine foreign files, as many as the commit may; later commits retry those that the disk
        refuses to move."""
        foreign, effort = self._moves.foreign_files, self._moves.effort
        # A file in the place of a queue's folder was found first, and so comes first.
        for path in list(islice(foreign, max(1, effort.share() // SYNC_EFFORT))):
            why = foreign.pop(path)
            effort.spend(SYNC_EFFORT)
            try:
                if path.startswith("new/") and (path.endswith(COPY) or body_owner(path[4:])):
                    # Of a process that died: copies are made under the lock, and a living one's bodies
                    # are not noted.
                    self._moves.unlink_file(path)
                else:
                    self._moves.quarantine(path, why)
            except StoreError as error:
                log.warning("%a is none of ours and can't be put aside for now: %s", path, error)
                foreign[path] = why
