"""Reads message files, and says what it means when one can't be read.

A file that isn't what its name says is damaged: it costs itself and nobody else. A file that can't be
read for a reason outside it (permissions, no more handles) is left alone.
"""

from __future__ import annotations

from typing import BinaryIO, Final
from zlib import crc32

from ..model.content import Attributes, Content, NotTheContent, attributes_in, check_sums, parse
from ..model.errors import DiskError
from ..model.names import Entry
from .disk import FORBIDDEN, OUT_OF_HANDLES, Disk

_PIECE: Final = 1024 * 1024


class Damaged(Exception):
    """The file is not what its name says, or the disk can't read it.

    `torn` says that it is only too short: it was not written to its end.
    """

    def __init__(self, why: str, *, torn: bool = False) -> None:
        super().__init__(why)
        self.torn = torn


class Gone(Exception):
    """The file isn't there any more."""


class Forbidden(Exception):
    """The file may not be read: its permissions are not what we gave it."""


def read_message(disk: Disk, path: str, entry: Entry, *, afresh: bool = False) -> Content:
    """The message in the file at `path`, checked against `entry`; `afresh` as `Disk.read` says.

    Raises `Damaged`, `Gone`, `Forbidden`, or `DiskError` if nothing can be read at the moment.
    """
    try:
        return parse(entry, disk.read(path, entry.length + 1, afresh=afresh))
    except (OSError, NotTheContent) as error:
        raise _meaning(path, error) from error


def open_message(disk: Disk, path: str, entry: Entry) -> tuple[BinaryIO, Attributes]:
    """The same for a message that is too large for the memory: its open file and its attributes.

    All of it is read and checked once, in pieces. The body is the file's first `entry.size` bytes.
    The caller closes the file.
    """
    try:
        file = disk.open(path)
        try:
            return file, _check(file, entry)
        except BaseException:
            file.close()
            raise
    except (OSError, NotTheContent) as error:
        raise _meaning(path, error) from error


def _check(file: BinaryIO, entry: Entry) -> Attributes:
    size = entry.size or 0
    length, crc, trailer = 0, 0, b""
    # One byte more than there should be, so that a file that is too long is noticed.
    while piece := file.read(min(_PIECE, entry.length + 1 - length)):
        trailer += piece[max(0, size - length) :]
        length += len(piece)
        crc = crc32(piece, crc)
    check_sums(entry, length, crc)
    return attributes_in(trailer)


def _meaning(path: str, error: OSError | NotTheContent) -> Exception:
    """What it means that a file can't be read."""
    if isinstance(error, NotTheContent):
        return Damaged(str(error), torn=error.torn)
    if isinstance(error, FileNotFoundError):
        return Gone(path)
    if error.errno in OUT_OF_HANDLES:
        return DiskError(detail=str(error))
    if error.errno in FORBIDDEN:
        return Forbidden(str(error))
    return Damaged(str(error))
