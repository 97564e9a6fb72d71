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
from itertools import islice
from typing import Final

from ..files.disk import Facts, FileKind, SyncFailed, explained
from ..files.layout import COPY, body_owner
from ..model.background_work import BackgroundWork
from ..model.clock import Millis
from ..model.errors import StoreError
from ..model.message_ids import FileIds, is_id
from ..model.names import Name, Stem
from ..model.operations import MAX_BODY_IN_MEMORY
from ..model.transitions import State
from .catalog import Catalog
from .moves import Moves
from .part import BYTES_LIKE_A_FILE, DUE_NOW, SYNC_EFFORT, Part

log = logging.getLogger(__name__)

UNCHANGED_FOR: Final = Millis(2_000)
LOOK_EVERY: Final = Millis(2_000)
_FAILED_SYNC: Final = frozenset({errno.EIO, errno.ENOSPC, errno.EDQUOT})
"""Errors that fsync(2) itself reports, and open(2) of a file that is there doesn't."""


def adoptable(name: str) -> str | None:
    """Return the queue of a file in `new/` that was put in by hand; None for any other name."""
    queue, _, id = name.partition(":")
    return queue if is_id(id) else None


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
        self._seen_files: dict[str, tuple[Facts, Millis]] = {}
        """Files found in `new/`, and the monotonic time since which each is as it is."""
        self._unseen_files: list[str] = []
        """Files that the last listing has found, and no commit has looked at since; the first last."""
        self.pending = (self._unseen_files, self._seen_files)
        self._next_look = moves.clock.monotonic()

    def next_due(self) -> Millis | None:
        return DUE_NOW if self._unseen_files else self._next_look if self._seen_files else None

    def tick(self) -> None:
        """List `new/`, if it is time; `advance` looks at what is there."""
        now = self._moves.clock.monotonic()
        if not self._adopts or self._unseen_files or now < self._next_look:
            return
        self._next_look = Millis(now + LOOK_EVERY)
        found = self._moves.scan("new")
        self._unseen_files += [
            each.name for each in found if each.kind is FileKind.FILE and ":" in each.name
        ]
        there = {
            name: self._seen_files[name] for name in self._unseen_files if name in self._seen_files
        }
        self._unseen_files.reverse()
        self._seen_files.clear()
        self._seen_files.update(there)

    def advance(self) -> None:
        """Adopt files that have been unchanged for long enough, as many as the commit may. Raise
        `SyncFailed` if a file can't be made durable."""
        self.tick()
        effort = self._moves.effort
        left = effort.share()
        while self._unseen_files and left > 0:
            files = self._look_at(self._unseen_files.pop())
            left -= files
            effort.spend(files)

    def _look_at(self, name: str) -> int:
        """Look at a file, and adopt it if it is time; return the effort, in files."""
        path, queue, now = f"new/{name}", adoptable(name), self._moves.clock.monotonic()
        if queue is None or queue not in self._catalog.records:
            return 0
        before = self._seen_files.pop(name, None)
        try:
            facts = self._moves.disk.facts(path)
            if facts.links != 1:
                return 1  # It has a second name somewhere, through which it could be changed.
            since = before[1] if before is not None and before[0] == facts else now
            if now - since < self._unchanged_for:
                self._seen_files[name] = facts, since
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
