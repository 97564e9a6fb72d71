"""A large body that is being written into the root: a file in `new/` that is written in pieces, without
the lock.

Its name says the process that writes it. A commit renames it into `bodies/`. The next start, or a
process that finds its writer dead, unlinks files that never became a message's.
"""

from __future__ import annotations

import errno
import zlib
from collections.abc import Iterator
from typing import BinaryIO, Final

from ..model.batch_file import Damaged, Line
from ..model.disk_watermark import DiskWatermark
from ..model.errors import DiskError, DiskFull, InvalidRequest, StoreError
from ..model.operations import WrittenBody
from .disk import NO_ROOM, Disk, unlink_or_leave
from .disk_room import DiskRoom
from .root import RootDisk

_NOT_LINKABLE: Final = {
    errno.EXDEV: "must be on the file system of the root",
    errno.EINVAL: "must be a regular file",
    errno.EISDIR: "must be a regular file",
    errno.ENXIO: "must be a regular file",
    errno.ENOENT: "must be there",
    errno.ENOTDIR: "must be there",
    errno.EACCES: "must be a file that the store's user may read",
    errno.EPERM: "must be a file that the store's user owns or may write, and the file system must "
    "have links",
    errno.EMLINK: "must have fewer links",
}
_PIECE: Final = 1024 * 1024
SYNC_EVERY: Final = 16 * 1024 * 1024
"""Bytes after which a body is synced, so that a commit never waits for more."""


class BodyFile:
    """A large body that is being written. Not thread-safe. The caller ends it by `finish` or
    `discard`."""

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
        """Sync the body and return it; raise `DiskFull` or `DiskError`."""
        try:
            self._disk.sync_file(self._path)
        except OSError as error:
            raise _explained(error) from error
        return WrittenBody(path=self._path, size=self.size, crc=self._crc)

    def discard(self) -> None:
        """Unlink the file, unless it has become a message's."""
        unlink_or_leave(self._disk, self._path)

    def _require_room(self, size: int) -> None:
        DiskRoom(self._disk, self._watermark).claim(size)


def link_body(disk: RootDisk, source: str, path: str) -> WrittenBody:
    """Link a file of the root's file system as a body; raise `InvalidRequest` or `DiskError`."""
    try:
        size = disk.link_from(source, path)
    except OSError as error:
        if error.errno in _NOT_LINKABLE:
            raise InvalidRequest(
                what="the file to link", value=source, rule=f"{_NOT_LINKABLE[error.errno]}: {error}"
            ) from error
        raise _explained(error) from error
    return WrittenBody(path=path, size=size, crc=None)


def open_body(disk: Disk, path: str, size: int) -> BinaryIO:
    """Open a body in a file of its own; raise `Damaged` if it isn't there or has another size, or
    `OSError`."""
    try:
        file = disk.open(path)
    except FileNotFoundError as error:
        raise Damaged("its body is not there any more") from error
    length = file.seek(0, 2)
    if length != size:
        file.close()
        raise Damaged(f"its body has {length} bytes instead of {size}")
    file.seek(0)
    return file


def body_pieces(file: BinaryIO, line: Line, index: int = 0) -> Iterator[bytes]:
    """Yield a body of an open file in pieces; raise `Damaged` at the end if it isn't what was sent, or
    `OSError`."""
    left, crc = line.sizes[index], 0
    file.seek(line.starts[index])
    while left and (piece := file.read(min(left, _PIECE))):
        left -= len(piece)
        crc = zlib.crc32(piece, crc)
        yield piece
    if left or line.crcs[index] not in (None, crc):
        what = "the checksum of its body" if line.is_external else "its checksum"
        raise Damaged(f"{what} differs")


def _explained(error: OSError) -> StoreError:
    """Return the error of this body alone: nothing was promised about it."""
    return (DiskFull if error.errno in NO_ROOM else DiskError)(detail=str(error))
