"""Unlinks what is deleted, in the background.

It is given only what is durably in `remove/`: to unlink a message whose move isn't, a crash could
bring back its name without its content. A deduplication key that is still asked for is written to a
segment, durably, before the name that carries it goes. Nobody waits for it.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from ..files import layout
from ..files.disk import Disk, Kind
from ..files.reserve import NO_ROOM
from ..files.segments import Segments
from ..model.keys import Line, id_number, key_in, moment_of
from ..model.names import NotAName, id_of, is_unsent, parse_filed, parse_item

log = logging.getLogger(__name__)

_AT_ONCE: Final = 64


class Reaper:
    """A queue of paths, and a thread that empties it once it is started; without it, `reap` does."""

    def __init__(
        self, disk: Disk, histories: set[str], segments: Segments, asked_since: Callable[[str], int]
    ) -> None:
        """`histories` are the names in `history/`, kept up to date by whoever writes there. Keys of
        messages in a queue are kept that were sent since the Unix time that `asked_since` says; it is
        called in the reaper's thread."""
        self._disk = disk
        self._histories = histories
        self._segments = segments
        self._asked_since = asked_since
        self._postponed: list[str] = []
        """Whose keys could not be written, because the disk is full."""
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
        paths = [self._paths.popleft() for _ in range(min(most, len(self._paths)))]
        keyed = [path for path in paths if ",k" in path]
        unkept: frozenset[str] = frozenset()
        try:
            # Those of batch folders are written when what is in them is known.
            self._keep_keys(_queue_of(path) for path in keyed)
        except OSError as error:
            unkept = frozenset(keyed)
            for path in keyed:
                self._refuse(path, error)
        for path in paths:
            try:
                if path not in unkept:
                    self._unlink(path)
            except OSError as error:
                self._refuse(path, error)
        return len(paths)

    def retry(self) -> None:
        """Unlink what had to wait for room on the disk."""
        postponed, self._postponed = self._postponed, []
        if postponed:
            self.give(postponed)

    def _refuse(self, path: str, error: OSError) -> None:
        """It stays in `remove/`, never delivered."""
        if error.errno in NO_ROOM:
            self._postponed.append(path)
            log.warning("%s can't be unlinked while the disk is full: %s", path, error)
            return
        self.refused.add(path)
        log.error("%s can't be unlinked before the next start: %s", path, error)

    def _keep_keys(self, found: Iterable[tuple[str, str]]) -> None:
        """Make the keys in these names, of these queues, durable elsewhere. Raises `OSError`."""
        lines = []
        since: dict[str, int] = {}
        for queue, name in found:
            key, id = key_in(name), id_number(name)
            if queue not in since:
                since[queue] = self._asked_since(queue)
            if key is not None and moment_of(id) >= since[queue]:
                lines.append(Line(queue, id, key, is_news=False))
        if lines:
            self._segments.write(lines, sync=True)

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
            inside = self._disk.scan(path)
            queue, name = _queue_of(path)
            if not _is_unsent(name):
                self._keep_keys((queue, found.name) for found in inside if ",k" in found.name)
            for found in inside:
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


def _queue_of(path: str) -> tuple[str, str]:
    """The queue of what lies in `remove/`, or in a folder there, and the item's name."""
    _, first, *inside = path.split("/")
    queue, _, name = first.partition(":")
    return queue, inside[-1] if inside else name


def _is_unsent(name: str) -> bool:
    try:
        return is_unsent(parse_item(name))
    except NotAName:
        return False
