"""Room on the disk: what is held back for moves, and what sends may take.

`HeldRoom` is held back, so that messages can move on a disk that is full to its last byte. A rename
may need a block more for the folder that it leads into. On a full file system it would be refused, and
with it every receive and every delete, which make room. So a file without content takes up some room
from the start. It shrinks as moves need room, and grows again when there is some. Its loss is no harm,
and only its size counts.
"""

from __future__ import annotations

import errno
import logging
from typing import Final

from ..model.disk_watermark import DiskWatermark
from ..model.errors import DiskFull
from . import layout
from .disk import Disk, Space, SyncFailed, explained, free_unlinked

log = logging.getLogger(__name__)

RESERVE_BYTES: Final = 4 * 1024 * 1024
"""Room for the names of more than 10,000 messages. Each delete makes more."""
STEP_BYTES: Final = 256 * 1024
"""Released at a time: the program that fills the disk goes on doing so, and must not get all of it."""
_LEFT_FREE: Final = 1024 * 1024
"""Not taken for the reserve, so that it isn't filled up just to be given up again."""


class HeldRoom:
    """The reserve of one root. Its size is read from the disk."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._is_whole = False
        self._complaint = ""
        """The last warning, so that it isn't repeated with every look."""

    def fill(self) -> None:
        """Allocate the missing part of the reserve, if there is space. Without it everything works, but
        not on a full disk."""
        if self._is_whole:
            return
        missing = RESERVE_BYTES - self._size()
        try:
            if missing <= 0 or self._disk.space().bytes - missing >= _LEFT_FREE:
                self._disk.set_aside(layout.RESERVE, RESERVE_BYTES)
                self._is_whole = True
        except OSError as error:
            if str(error) != self._complaint:
                self._complaint = str(error)
                log.warning("no room can be kept back for a full disk: %s", error)

    def give(self) -> bool:
        """Release a part of the reserve, and at last the file itself, which is an inode; False if
        nothing is left.

        Raises `SyncFailed`: until a sync, the disk may keep what was given up to itself.
        """
        self._is_whole = False
        size = self._size()
        try:
            if size > 0:
                self._disk.set_aside(layout.RESERVE, max(0, size - STEP_BYTES))
            else:
                self._disk.unlink(layout.RESERVE)
        except OSError as error:
            if error.errno != errno.ENOENT:
                log.warning("the reserve for a full disk can't be released: %s", error)
            return False
        log.warning(
            "the disk is full: %d bytes of %s are given up", min(size, STEP_BYTES), layout.RESERVE
        )
        try:
            if size > 0:
                self._disk.sync_file(layout.RESERVE)
            else:
                self._disk.sync_folder(".")
                free_unlinked(self._disk)
        except OSError as error:
            raise SyncFailed(str(error)) from error
        return True

    def _size(self) -> int:
        try:
            return self._disk.facts(layout.RESERVE).size
        except OSError:
            return 0  # Not there, or nothing that can be given.


class DiskRoom:
    """The disk's free space for new files, as one commit knows it."""

    def __init__(self, disk: Disk, watermark: DiskWatermark) -> None:
        self._disk = disk
        self._watermark = watermark
        self._space: Space | None = None

    def claim(self, size: int) -> None:
        """Claim the space for a file, and leave some for deletes. Raise `DiskFull`, or
        `DiskError`."""
        if self._space is None:
            try:
                self._space = self._disk.space()
            except OSError as error:
                raise explained(error) from error
        free, watermark = self._space, self._watermark
        if free.is_below(watermark, size):
            raise DiskFull(
                detail=f"{free.bytes} bytes and {free.files} files are left, and sends need "
                f"{watermark.bytes} and {watermark.files}"
            )
        files = None if free.files is None else free.files - 1
        self._space = Space(bytes=free.bytes - size, files=files)

    def refresh(self) -> None:
        """Query the disk again with the next file."""
        self._space = None
