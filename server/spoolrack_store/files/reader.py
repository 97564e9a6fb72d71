"""Reads message files, and says what it means when one can't be read.

A file that isn't what its name says is damaged: it costs itself and nobody else. A file that can't be
read for a reason outside it (permissions, no more handles) is left alone.
"""

from __future__ import annotations

from ..model.content import Content, NotTheContent, parse
from ..model.errors import DiskError
from ..model.names import Entry
from .disk import FORBIDDEN, OUT_OF_HANDLES, Disk


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


def read_message(disk: Disk, path: str, entry: Entry) -> Content:
    """The message in the file at `path`, checked against `entry`.

    Raises `Damaged`, `Gone`, `Forbidden`, or `DiskError` if nothing can be read at the moment.
    """
    try:
        return parse(entry, disk.read(path, entry.length + 1))
    except FileNotFoundError as error:
        raise Gone(path) from error
    except NotTheContent as error:
        raise Damaged(str(error), torn=error.torn) from error
    except OSError as error:
        if error.errno in OUT_OF_HANDLES:
            raise DiskError(detail=str(error)) from error
        if error.errno in FORBIDDEN:
            raise Forbidden(str(error)) from error
        raise Damaged(str(error)) from error
