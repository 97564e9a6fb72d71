"""Unlinks what is deleted, in the background.

It is given only what is durably in `remove/`: to unlink a message whose move isn't, a crash could
bring back its name without its content. Nobody waits for it.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from ..files import layout
from ..files.disk import Disk, Kind
from ..model.names import NotAName, id_of, parse_filed

log = logging.getLogger(__name__)

_AT_ONCE: Final = 64


class Reaper:
    """A queue of paths, and a thread that empties it once it is started; without it, `reap` does."""

    def __init__(self, disk: Disk, histories: set[str]) -> None:
        """`histories` are the names in `history/`, kept up to date by whoever writes there."""
        self._disk = disk
        self._histories = histories
        self.knows_histories = True
        """Whether nobody else writes there. If not, each message may have one."""
        self._paths: deque[str] = deque()
        self._given = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="spoolrack-reaper", daemon=True)
        self.unlinked = 0
        self.refused: set[str] = set()
        """What the system doesn't let us unlink."""

    def give(self, paths: Iterable[str]) -> None:
        """Unlink these, which are durably in `remove/`, when there is time."""
        with self._given:
            self._paths.extend(paths)
            self._given.notify_all()

    @property
    def waiting(self) -> int:
        return len(self._paths)

    def reap(self, most: int) -> int:
        """Unlink up to `most` of the given paths; how many were taken."""
        done = 0
        while done < most and self._paths:
            path = self._paths.popleft()
            done += 1
            try:
                self._unlink(path)
            except OSError as error:
                # It stays in remove/, never delivered; the next start tries again.
                self.refused.add(path)
                log.error("%s can't be unlinked before the next start: %s", path, error)
        return done

    def start(self) -> None:
        """Reap in a thread of its own from now on."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread. What was given and not unlinked yet, the next start finds."""
        with self._given:
            self._stopped = True
            self._given.notify_all()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._given:
                while not self._paths and not self._stopped:
                    self._given.wait()
                if self._stopped:
                    return
            self.reap(_AT_ONCE)

    def _unlink(self, path: str) -> None:
        """Gone already, in whole or in part, is fine: others may reap, too."""
        try:
            self._unlink_all(path)
        except FileNotFoundError:
            log.debug("%s is gone already", path)
        if self._histories or not self.knows_histories:
            self._unlink_history(path)

    def _unlink_all(self, path: str) -> None:
        try:
            self._disk.unlink(path)
        except (IsADirectoryError, PermissionError):
            # What unlink(2) says of a folder is not the same on all systems.
            if self._disk.facts(path).kind is not Kind.FOLDER:
                raise
            for found in self._disk.scan(path):
                self._unlink(f"{path}/{found.name}")
            self._disk.remove_folder(path)
        else:
            self.unlinked += 1

    def _unlink_history(self, path: str) -> None:
        """A message's history goes with it."""
        parts = path.split("/")
        try:
            queue = parse_filed(parts[1]).queue
        except NotAName:
            return
        name = f"{queue}:{id_of(parts[-1].rpartition(':')[2])}"
        if name in self._histories or not self.knows_histories:
            self._histories.discard(name)
            with suppress(FileNotFoundError):
                self._disk.unlink(f"{layout.HISTORY}/{name}")
