"""Fills a disk to its last byte, or to its last file, as another program on it might."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

_PIECE: Final = 1 << 20
_PER_FOLDER: Final = 1_000


def fill_bytes(folder: Path) -> None:
    """Take every block that root can get, those that are kept for root alone too."""
    folder.mkdir()
    file = os.open(folder / "foreign", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        piece = _PIECE
        while piece:
            try:
                os.write(file, bytes(piece))
            except OSError as error:
                _expect_full(error)
                piece //= 2
        os.fsync(file)
    finally:
        os.close(file)


def fill_files(folder: Path) -> None:
    """Take every inode."""
    folder.mkdir()
    # XFS frees inodes of unlinked files in the background, and at once where it is asked for its space.
    os.statvfs(folder)
    number = 0
    while True:
        inside = folder / str(number // _PER_FOLDER)
        try:
            if number % _PER_FOLDER == 0:
                inside.mkdir()
            os.close(os.open(inside / str(number), os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        except OSError as error:
            _expect_full(error)
            break
        number += 1


def _expect_full(error: OSError) -> None:
    if error.errno != errno.ENOSPC:
        raise error
