"""`receive --to`: bodies as files in a folder, each named by its message's id."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from spoolrack import Message

from .shell_runner import kept_leased

if TYPE_CHECKING:
    from ..kit.http_bodies import HttpBodies


class BodyFolder:
    """A folder that takes bodies."""

    def __init__(self, path: str, visibility: float | None, http: Callable[[], HttpBodies]) -> None:
        """`visibility` are the seconds of a lease; None: each message tells."""
        self._folder = Path(path)
        self._visibility = visibility
        self._http = http
        self._folder.mkdir(parents=True, exist_ok=True)

    def add(self, message: Message) -> Path:
        """Write a body into a file on stable media, and return the file.

        It gets its name when it is whole, and the message stays leased until then. A body in a file of
        its own, in the root on this file system, is linked and not copied.
        """
        target = self._folder / message.id
        partial = self._folder / f".{message.id}.part"
        partial.unlink(missing_ok=True)
        try:
            if message.path is None or not _is_linked(message.path, partial):
                is_here = message.path is None and not message.is_body_left_out
                lease = nullcontext() if is_here else kept_leased(message, self._visibility)
                with lease, partial.open("xb") as file:
                    self._write(message, file)
                    file.flush()
                    os.fsync(file.fileno())
            partial.replace(target)
            partial.unlink(missing_ok=True)  # It stays if both are links of one file.
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        return target

    def sync(self) -> None:
        """Return once the names of the files are on stable media."""
        sync_folder(self._folder)

    def _write(self, message: Message, file: BinaryIO) -> None:
        if message.path is not None:
            with message.path.open("rb") as source:
                shutil.copyfileobj(source, file, 1024 * 1024)
        elif message.is_body_left_out:
            self._http().save(message.queue_name, message.id, file)
        else:
            file.write(message.body)


def sync_folder(path: str | Path) -> None:
    """Return once the names in a folder are on stable media."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _is_linked(source: Path, target: Path) -> bool:
    with suppress(OSError):  # Another file system, or one without links.
        os.link(source, target)
        return True
    return False
