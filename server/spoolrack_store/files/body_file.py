"""A large body on its way into the root: a file in `new/` that is written in pieces, without the lock.

Its name says the process that writes it. A commit renames it to a message's name. The next start, or a
process that finds its writer dead, unlinks what never became a message.
"""

from __future__ import annotations

import logging
import zlib
from typing import Final

from ..model.disk_watermark import DiskWatermark
from ..model.errors import DiskError, DiskFull, StoreError
from ..model.operations import WrittenBody
from .disk import NO_ROOM, Disk
from .reserved_room import DiskRoom

log = logging.getLogger(__name__)

SYNC_EVERY: Final = 16 * 1024 * 1024
"""Bytes after which a body is synced: what a commit has to wait for stays small."""


class BodyFile:
    """Not thread-safe. The caller ends it by `finish` or `discard`."""

    def __init__(
        self, disk: Disk, path: str, watermark: DiskWatermark, expected: int | None = None
    ) -> None:
        """Make the file; raise `DiskFull` if less is free than `expected` and the watermark."""
        self._disk = disk
        self._watermark = watermark
        self._path = path
        self._crc = 0
        self.size = 0
        self._synced = 0
        self._require_room(expected or 0)
        try:
            disk.create(path, [], sync=False)
        except OSError as error:
            raise _explained(error) from error

    def write(self, piece: bytes) -> None:
        """Write the next bytes; raise `DiskFull` or `DiskError`."""
        try:
            self._disk.write_at(self._path, self.size, piece)
            self.size += len(piece)
            self._crc = zlib.crc32(piece, self._crc)
            if self.size - self._synced >= SYNC_EVERY:
                self._disk.sync_file(self._path)
                self._synced = self.size
                self._require_room(0)
        except OSError as error:
            raise _explained(error) from error

    def finish(self) -> WrittenBody:
        """Return the body, which is on stable media; raise `DiskFull` or `DiskError`."""
        try:
            self._disk.sync_file(self._path)
        except OSError as error:
            raise _explained(error) from error
        return WrittenBody(path=self._path, size=self.size, crc=self._crc)

    def discard(self) -> None:
        """Unlink the file, unless it has become a message's."""
        try:
            self._disk.unlink(self._path)
        except FileNotFoundError:
            pass
        except OSError as error:
            log.warning("%s stays until the next start: %s", self._path, error)

    def _require_room(self, size: int) -> None:
        DiskRoom(self._disk, self._watermark).take(size)


def _explained(error: OSError) -> StoreError:
    """Return the error of this body alone: nothing was promised about it."""
    return (DiskFull if error.errno in NO_ROOM else DiskError)(detail=str(error))
