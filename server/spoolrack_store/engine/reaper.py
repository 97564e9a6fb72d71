"""The reaper: unlinks names in `remove/`.

Nothing leaves `remove/` but by an unlink. So once it is durable that all names of a batch are there or
in quarantine, the index forgets them, and they are unlinked without the lock (`files.removed`). No
other process is told: each has its own index forget them, and an unlink finds what another one was
faster with.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import islice

from ..files.layout import BODY
from ..model.errors import StoreError
from ..model.names import body_path
from .archive import Archive
from .deduplication import Deduplication
from .entries import Entry
from .moves import Moves
from .reader import Reader

log = logging.getLogger(__name__)


class Reaper:
    """The decision which names may be unlinked. Not thread-safe."""

    def __init__(
        self,
        moves: Moves,
        reader: Reader,
        deduplication: Deduplication,
        archive: Archive,
        *,
        unlinks: bool = True,
    ) -> None:
        """Without `unlinks` it is left to other processes."""
        self._moves = moves
        self._reader = reader
        self._deduplication = deduplication
        self._archive = archive
        self._unlinks = unlinks

    def hand_over(self) -> bool:
        """Hand the names that may be unlinked to the reaper's thread; return whether there were any."""
        index, synced = self._moves.index, self._moves.synced
        reapable: list[Entry] = []
        for batch in list(islice(index.deleted_files, self._moves.effort.files)):
            del index.deleted_files[batch]
            entries = batch.reapable(synced)
            reapable += entries
            if batch.is_over and (entries or batch.changed > synced):
                index.deleted_files[batch] = None  # It is looked at again, after the others.
        reapable = self._without_sent_by_others(reapable)
        paths: list[tuple[str, Sequence[str]]] = []
        for path, commit in list(
            islice(index.unused_dead_letter_files.items(), self._moves.effort.files)
        ):
            if commit <= synced:
                del index.unused_dead_letter_files[path]
                paths.append((path, ()))
        unlinkable = list(self._deduplication.may_unlink(reapable)) if self._unlinks else reapable
        paths_by_entry = self._archive.paths_of(unlinkable)
        for entry in unlinkable:
            if self._unlinks:
                self._moves.unlinked += entry.members.bit_count()
            index.disappear(entry, self._moves.commit)
            archive_paths = paths_by_entry.get(entry, ())
            if self._moves.is_body_left(entry):
                # First: a death in between leaves a name in remove/, and no body without one.
                bodies = [path + BODY for path in archive_paths]
                paths.append((body_path(entry.batch.stem.id), bodies))
            paths.append((entry.name.path, archive_paths))
            if not entry.batch.entries:
                self._reader.evict(entry.batch)
        if paths and self._unlinks:
            self._moves.removed_files.add(paths)
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
            log.warning("deleted messages stay in remove/ for now: %s", error)
            self._moves.refused_at = self._moves.clock.monotonic()
            return []
        for entry in reapable:
            if entry.batch.stem.text in sent:
                index.deleted_files.pop(entry.batch, None)
        return [entry for entry in reapable if entry.batch.stem.text not in sent]
