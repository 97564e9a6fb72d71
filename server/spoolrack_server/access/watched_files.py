"""Files that an operator changes while the server runs: loaded at the start, and reloaded when they
change.

The content is replaced as a whole, between two calls. A new version that can't be read, is damaged, has
no entries any more, or can be written by other users, is logged once, and the old one stays: a slip of
an editor must neither shut all callers out, nor let any in. It is tried again at each look, until it is
read, because the cause may have been the system's. At the start the same is an `AccessUnusable`.
"""

from __future__ import annotations

import os
import ssl
import stat
from codecs import BOM_UTF8
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from spoolrack_store.model.clock import stopwatch

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
        *,
        entries: Callable[[T], int] = lambda content: 1,
        now: Callable[[], float] = stopwatch,
    ) -> None:
        """`paths` come with what their modes must not permit; `entries` counts those of a content.

        Raises `AccessUnusable`.
        """
        self.what = what
        self._paths = paths
        self._read = read
        self._log = log
        self._entries = entries
        self._now = now
        self._stamps = self._current_stamps()
        """Those of the files that were read well."""
        self._told: object = None
        """The version that was refused last, and why."""
        try:
            self.current = self._loaded()
        except _PROBLEMS as error:
            raise AccessUnusable(f"the {what} {self._files}", _why(error)) from error
        self._seen = now()

    @property
    def age(self) -> float:
        """Seconds since what is in force was last found to be what the files say."""
        return self._now() - self._seen

    @property
    def _files(self) -> str:
        return ", ".join(path for path, _ in self._paths)

    def reload(self) -> bool:
        """Load a new version, if there is one; return whether it is in force now."""
        seen = self._now()
        stamps = self._current_stamps()
        has_changed = stamps != self._stamps
        if has_changed:
            try:
                loaded = self._loaded()
                if not self._entries(loaded) and (before := self._entries(self.current)):
                    raise UnreadableAccessFile(None, f"it has no entries, and the old one has {before}")
            except Exception as error:  # noqa: BLE001 - whatever it is, the next look tries again
                self._refuse(stamps, _why(error))
                return False
            # Only now: a version that was not read well is a new one at the next look, too.
            self._stamps, self.current = stamps, loaded
            self._log.info(f"the {self.what}: read again")
        self._told = None
        self._seen = seen
        return has_changed

    def _refuse(self, stamps: list[Stamp | None], why: str) -> None:
        """Log why a version is not taken, once for each cause."""
        if self._told != (stamps, why):
            self._told = stamps, why
            self._log.error(
                f"the {self.what}: a new version is refused, the old one stays, and the new one is "
                "tried again each second",
                files=self._files,
                why=why,
            )

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
    return str(error) or type(error).__name__


def _stamp(path: str) -> Stamp | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    # A secret of Kubernetes changes by a symbolic link: then it is another file.
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _content(path: str, forbidden: int) -> bytes:
    # Without O_NONBLOCK a FIFO would wait for a writer.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode):
            raise UnreadableAccessFile(None, f"{path} is no regular file")
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
