"""Reserve: room that is held back, so that messages can move on a disk that is full to its last byte.

A rename may need a block more for the folder that it leads into. On a full file system it would be
refused, and with it every receive and every delete, which make room. So a file without content takes up
some room from the start. It shrinks as moves need room, and grows again when there is some. Its loss is
no harm, and only its size counts.
"""

from __future__ import annotations

import errno
import logging
from dataclasses import replace
from typing import Final

from ..model.disk_watermark import DiskWatermark
from ..model.errors import DiskFull
from . import layout
from .disk import Disk, Space
from .syncer import SyncFailed, explained

log = logging.getLogger(__name__)

RESERVE_BYTES: Final = 4 * 1024 * 1024
"""Room for the names of more than 10,000 messages. Each delete makes more."""
BIT: Final = 256 * 1024
"""Released at a time: the program that fills the disk goes on doing so, and must not get all of it."""
_LEFT_FREE: Final = 1024 * 1024
"""Not taken for the reserve, so that it isn't filled up just to be given up again."""


class ReservedRoom:
    """The reserve of one root. Its size is read from the disk."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._is_whole = False
        self._complaint = ""
        """The last warning, so that it isn't repeated with every look."""

    def fill(self) -> None:
        """Take up what is missing, if there is room. Without it, all works but on a full disk."""
        if self._is_whole:
            return
        missing = RESERVE_BYTES - self._held()
        try:
            if missing <= 0 or self._disk.space().bytes - missing >= _LEFT_FREE:
                self._disk.set_aside(layout.RESERVE, RESERVE_BYTES)
                self._is_whole = True
        except OSError as error:
            if str(error) != self._complaint:
                self._complaint = str(error)
                log.warning("no room can be kept back for a full disk: %s", error)

    def give(self) -> bool:
        """Give up a bit, and at last the file itself, which is an inode; False if nothing is left.

        Raises `SyncFailed`: until a sync, the disk may keep what was given up to itself.
        """
        self._is_whole = False
        held = self._held()
        try:
            if held > 0:
                self._disk.set_aside(layout.RESERVE, max(0, held - BIT))
            else:
                self._disk.unlink(layout.RESERVE)
        except OSError as error:
            if error.errno != errno.ENOENT:
                log.warning("the reserve for a full disk can't be released: %s", error)
            return False
        log.warning("the disk is full: %d bytes of %s are given up", min(held, BIT), layout.RESERVE)
        try:
            if held > 0:
                self._disk.sync_file(layout.RESERVE)
            else:
                self._disk.sync_folder(".")
        except OSError as error:
            raise SyncFailed(str(error)) from error
        return True

    def _held(self) -> int:
        try:
            return self._disk.facts(layout.RESERVE).size
        except OSError:
            return 0  # Not there, or nothing that can be given.


class DiskRoom:
    """The room that the disk has left for new files, as far as one commit has looked."""

    def __init__(self, disk: Disk, watermark: DiskWatermark) -> None:
        self._disk = disk
        self._watermark = watermark
        self._left: Space | None = None

    def take(self, size: int) -> None:
        """Take the room for a file, and leave some for deletes. Raise `DiskFull`, or `DiskError`."""
        if self._left is None:
            try:
                self._left = self._disk.space()
            except OSError as error:
                raise explained(error) from error
        left = self._left
        if self._watermark.is_reached(left.bytes, left.files, size):
            raise DiskFull(detail=f"{left.bytes} bytes and {left.files} files are left")
        files = None if left.files is None else left.files - 1
        self._left = replace(left, bytes=left.bytes - size, files=files)

    def look_again(self) -> None:
        """Ask the disk with the next file."""
        self._left = None
