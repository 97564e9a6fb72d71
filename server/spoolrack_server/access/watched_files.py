"""Files that an operator changes while the server runs: loaded at the start, and reloaded when they
change.

The content is replaced as a whole, between two calls. A new version that can't be read, is damaged, or
can be written by other users, is logged once, and the old one stays: a slip of an editor must neither
shut all callers out, nor let any in. At the start the same is an `AccessUnusable`.
"""

from __future__ import annotations

import os
import ssl
import stat
from codecs import BOM_UTF8
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from ..system.logs import Log
from .file_format import UnreadableAccessFile

T = TypeVar("T")

LARGEST: Final = 16 * 1024 * 1024
"""Bytes."""
SECRET: Final = stat.S_IWGRP | stat.S_IRWXO
"""Mode bits that a file with secrets must not have. Its group may read it, as in Kubernetes."""
FIXED: Final = stat.S_IWGRP | stat.S_IWOTH
"""Mode bits that a permissions file must not have."""
PUBLIC: Final = 0
"""For files that are public, and prove themselves."""

Stamp = tuple[int, ...]


class AccessUnusable(Exception):
    """A file of tokens, permissions or certificates is invalid, and so the server doesn't start."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what} can't be used: {why}")


class WatchedFiles(Generic[T]):
    """The parsed content of files. Any thread may read `current`; one thread calls `look`."""

    def __init__(
        self,
        what: str,
        paths: Sequence[tuple[str, int]],
        read: Callable[[Sequence[bytes]], T],
        log: Log,
    ) -> None:
        """`paths` come with what their modes must not permit. Raises `AccessUnusable`."""
        self._what = what
        self._paths = paths
        self._read = read
        self._log = log
        self._stamps = self._current_stamps()
        try:
            self.current = self._loaded()
        except _PROBLEMS as error:
            raise AccessUnusable(self._name, _why(error)) from error

    @property
    def _name(self) -> str:
        return f"{self._what} {self._files}"

    @property
    def _files(self) -> str:
        return ", ".join(path for path, _ in self._paths)

    def reload(self) -> bool:
        """Load a new version, if there is one; return whether there was."""
        stamps = self._current_stamps()
        if stamps == self._stamps:
            return False
        # Also for a version that is refused: it is said once.
        self._stamps = stamps
        try:
            self.current = self._loaded()
        except _PROBLEMS as error:
            self._log.error(
                f"{self._what}: a new version is refused, the old one stays",
                files=self._files,
                why=_why(error),
            )
            return False
        self._log.info(f"{self._what}: read again")
        return True

    def _current_stamps(self) -> list[Stamp | None]:
        return [_stamp(path) for path, _ in self._paths]

    def _loaded(self) -> T:
        return self._read([_content(path, forbidden) for path, forbidden in self._paths])


_PROBLEMS: Final = (OSError, ValueError, UnreadableAccessFile, ssl.SSLError)


def _why(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "it is no text in UTF-8"
    if isinstance(error, OSError) and error.strerror and not isinstance(error, ssl.SSLError):
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return str(error)


def _stamp(path: str) -> Stamp | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    # A secret of Kubernetes changes by a symbolic link: then it is another file.
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _content(path: str, forbidden: int) -> bytes:
    with open(path, "rb") as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode):
            raise UnreadableAccessFile(None, f"{path} is no file")
        if facts.st_mode & forbidden:
            mode = stat.S_IMODE(facts.st_mode)
            raise UnreadableAccessFile(
                None,
                f"{path} has mode {mode:04o}, so that others may {_verbs(mode & forbidden)} it: "
                f"chmod {mode & ~forbidden:04o} it",
            )
        if facts.st_size > LARGEST:
            raise UnreadableAccessFile(None, f"{path} has more than {LARGEST} bytes")
        # Editors of Windows write one, and no reader but some of text passes over it.
        return file.read(LARGEST + 1).removeprefix(BOM_UTF8)


def _verbs(bits: int) -> str:
    writes = bits & (stat.S_IWGRP | stat.S_IWOTH)
    return "change" if writes else "read"
