"""Deleted files: names in `remove/` that may be unlinked at any time, or moved to `archive/`.

An unlink needs no lock on the root: nothing else ever happens to such a name, and other processes may
unlink it, too. A thread unlinks them; on a full disk the commit that needs the room does. The next
start finds files that aren't unlinked when the process ends.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Event, Lock, Thread
from typing import Final

from .disk import Disk, free_unlinked, unlink_or_leave

log = logging.getLogger(__name__)

CLOSE_UNLINKS: Final = 1_000
"""Names that a thread still unlinks when it is stopped."""
MOMENT: Final = 0.05
"""Seconds for which the thread lets names gather."""
_AT_ONCE: Final = 100
"""Names that a commit unlinks before it looks whether that was enough."""


class RemovedFiles:
    """The names that the reaper's thread unlinks. Thread-safe."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._paths: deque[tuple[str, Sequence[str]]] = deque()
        """Names, and where each is to be kept; nowhere: it is unlinked."""
        self._unlinking = Lock()
        self.waits = Event()
        """Whether there is something to unlink."""
        self.unlinked = 0
        """Names that this process has unlinked."""
        self._counted = 0
        """How many of them `make_room` has counted."""

    def add(self, paths: Sequence[tuple[str, Sequence[str]]]) -> None:
        """Take names, and the paths of each in `archive/`; none: unlink it."""
        self._paths.extend(paths)
        if not self.waits.is_set():
            self.waits.set()

    def unlink(self, most: int | None = None) -> int:
        """Unlink up to `most` names; return the number of names that were examined."""
        done = 0
        while most is None or done < most:
            with self._unlinking:
                try:
                    path, archive_paths = self._paths.popleft()
                except IndexError:
                    break
                self.unlinked += self._archive(path, archive_paths) or unlink_or_leave(self._disk, path)
            done += 1
        return done

    def make_room(self) -> bool:
        """Unlink some names on a full disk; return whether any was unlinked since the last call."""
        self.unlink(_AT_ONCE)
        with self._unlinking:  # The thread may be about to unlink the last one.
            before, self._counted = self._counted, self.unlinked
        if self._counted == before:
            return False
        free_unlinked(self._disk)
        return True

    def _archive(self, path: str, archive_paths: Sequence[str]) -> bool:
        """Move a name to `archive/`, by links to all places but the last; return False if it is to be
        unlinked."""
        for archive_path in archive_paths[:-1]:
            self._put(self._disk.link, path, archive_path)
        return bool(archive_paths) and self._put(self._disk.rename_new, path, archive_paths[-1])

    def _put(self, make: Callable[[str, str], None], path: str, archive_path: str) -> bool:
        """Make a name in `archive/`; return False if there is none, or another one of the file."""
        try:
            while True:
                try:
                    make(path, archive_path)
                except FileNotFoundError:
                    if not self._make_folders(archive_path):
                        return False
                else:
                    return True
        except FileExistsError:
            return False  # Another name of the file is there already.
        except OSError as error:
            log.warning("%s isn't kept in the archive: %s", path, error)
            return False

    def _make_folders(self, archive_path: str) -> bool:
        """Make the folders above a path; return False if all are there.

        They are durable: a power cut that takes a folder takes what is in it."""
        has_made = False
        for at, letter in enumerate(archive_path):
            if letter == "/":
                with suppress(FileExistsError):
                    self._disk.make_folder(archive_path[:at])
                    self._disk.sync_folder(archive_path[:at].rpartition("/")[0])
                    has_made = True
        return has_made


class ReaperThread:
    """The thread that unlinks deleted files."""

    def __init__(self, removed: RemovedFiles) -> None:
        self._removed = removed
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="spoolrack-reaper", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop soon; files that aren't unlinked by then stay for the next start."""
        self._stopping.set()
        self._removed.waits.set()
        self._thread.join()

    def _run(self) -> None:
        waits = self._removed.waits
        while not self._stopping.is_set():
            waits.wait()
            # A wake-up takes the interpreter's lock from the thread that commits: one is for many.
            self._stopping.wait(MOMENT)
            waits.clear()
            while not self._stopping.is_set() and self._unlink(1):
                pass
        self._unlink(CLOSE_UNLINKS)

    def _unlink(self, most: int) -> int:
        """Unlink up to `most` names. A fault is logged, and the thread goes on with the next name: one
        that has been taken stays until the next start."""
        try:
            return self._removed.unlink(most)
        except Exception:
            log.exception("a deleted file stays until the next start")
            return 1
