"""Files in the root's folders that are none of ours: quarantine.

A start lists all folders, and `recovery` notes what doesn't parse as a name or isn't a file. Each goes
into a folder of its own in `quarantine/`, as it is, beside a note that says why. Names change under
the lock only, so that what isn't ours then isn't another process's either. It never stops a start.
"""

from __future__ import annotations

import logging

from ..files.layout import COPY
from ..files.syncer import SyncFailed, explained
from ..model.errors import StoreError
from ..model.ids import FileIds
from .moves import Moves
from .part import Part

log = logging.getLogger(__name__)

QUARANTINE = "quarantine"


class Foreign(Part):
    """Not thread-safe."""

    def __init__(self, moves: Moves, ids: FileIds) -> None:
        self._moves = moves
        self._ids = ids

    def recover(self) -> None:
        """Put aside what a start has found."""
        self.go_on()

    @property
    def has_work(self) -> bool:
        return bool(self._moves.foreign)

    def go_on(self) -> None:
        """Put aside what was found; the next commit tries again what the disk refuses."""
        foreign = self._moves.foreign
        for path, why in list(foreign.items()):
            try:
                if path.startswith("new/") and path.endswith(COPY):
                    # Of a process that died: copies are made under the lock.
                    self._moves.unlink_file(path)
                else:
                    self.put_aside(path, why)
            except StoreError as error:
                log.warning("%a is none of ours and can't be put aside for now: %s", path, error)
                continue
            del foreign[path]

    def put_aside(self, path: str, why: str) -> None:
        """Move a file or a folder into quarantine; raise `DiskFull` or `DiskError`."""
        moves, disk = self._moves, self._moves.disk
        folder, _, name = path.rpartition("/")
        place = f"{QUARANTINE}/{self._ids.make()}"
        try:
            disk.make_folder(place)
            try:
                # Durable first: a power cut must not keep what moves into it, and not the folder.
                disk.sync_folder(QUARANTINE)
            except OSError as error:
                raise SyncFailed(str(error)) from error
            try:
                disk.rename_new(path, f"{place}/{name}")
            except OSError as error:
                disk.remove_folder(place)
                if isinstance(error, FileNotFoundError):
                    return  # A person was faster.
                raise
        except OSError as error:
            moves.refused_at = moves.clock.monotonic()
            raise explained(error) from error
        moves.syncer.folder_changed(folder)
        moves.syncer.folder_changed(QUARANTINE)
        moves.syncer.folder_changed(place)
        moves.quarantined += 1
        log.warning("quarantined %a: %s; it is kept in %s", path, why, place)
        note = f"{place}/{name[:200]}.why"
        try:
            disk.create(note, [f"{path!a}: {why}\n".encode()], sync=False)
            moves.syncer.lone_file_written(note)
        except OSError as error:
            log.warning("no note beside it: %s", error)
