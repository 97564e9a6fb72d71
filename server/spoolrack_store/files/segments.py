"""Segments: files in `keys/` that remember deduplication ids, a line each, for people to read.

A message carries its key in its name, so that both are durable together. Before its file is unlinked,
the key is written here, durably, if it may still be asked for. What others who share the root must know
at once is written here too, as news. A segment is appended to by one process, which holds a lock on it;
after an error it is not appended to any more, so that a torn line never takes the next one along. It is
unlinked when all that it holds is over. A line that is damaged costs itself only.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterable
from typing import Final

from ..model.keys import Line, lines_in, moment_of
from . import layout
from .disk import Disk, Kind, Lock

log = logging.getLogger(__name__)

SEGMENT_BYTES: Final = 4 * 1024 * 1024
"""A segment gets no longer than this and one group of lines."""
SEGMENT_NAME: Final = re.compile(r"[a-z0-9]{1,16}\.[1-9][0-9]{0,8}")

IsOver = Callable[[str, int], bool]
"""Whether nobody asks any more for a key of this queue's whose message was sent at this time."""


class Segments:
    """Those of one root, and one process's own. Thread-safe."""

    def __init__(self, disk: Disk, writer: str) -> None:
        """`writer` is a name that no other process has had."""
        self._disk = disk
        self._writer = writer
        self._number = 0
        self._path = ""
        """Of the segment that is appended to; empty if the next line begins another."""
        self._size = 0
        self._is_named = False
        """Whether its name is durable."""
        self._lock: Lock | None = None
        self._latest: dict[str, dict[str, int]] = {}
        """By path and queue, the time of the last message of which it holds a key."""
        self._changing = threading.Lock()

    def write(self, lines: Iterable[Line], *, sync: bool) -> None:
        """Append `lines`; with `sync` they, and all before them, are durable at return.

        Raises `OSError`, and then it isn't known what of them is there.
        """
        lines = list(lines)
        content = "".join(map(str, lines)).encode()
        with self._changing:
            try:
                self._append(content, sync)
            except OSError:
                # A torn line at its end must not run into the next one.
                self._end()
                raise
            latest = self._latest.setdefault(self._path, {})
            for line in lines:
                latest[line.queue] = max(latest.get(line.queue, 0), moment_of(line.id))

    def _append(self, content: bytes, sync: bool) -> None:
        disk = self._disk
        if self._size >= SEGMENT_BYTES:
            self._end()
        if not self._path:
            self._number += 1
            path = layout.segment(self._writer, self._number)
            self._size, self._is_named = 0, False
            disk.create(path, [content], sync=sync)
            self._path = path
            self._lock = disk.lock(path)
        else:
            disk.append(self._path, content, sync=sync)
        self._size += len(content)
        if sync and not self._is_named:
            disk.sync_folder(layout.KEYS)
            self._is_named = True

    def _end(self) -> None:
        """Append no more to the present one."""
        self._path = ""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def close(self) -> None:
        """Give up the lock on the present segment."""
        with self._changing:
            self._end()

    # What is there.

    def paths(self) -> list[str]:
        """All segments, whoever writes them. Raises `OSError`."""
        return [
            f"{layout.KEYS}/{found.name}"
            for found in self._disk.scan(layout.KEYS)
            if found.kind is Kind.FILE and SEGMENT_NAME.fullmatch(found.name)
        ]

    def is_own(self, path: str) -> bool:
        return layout.name_of(path).partition(".")[0] == self._writer

    def read(self, path: str, begin: int = 0) -> tuple[list[Line], int]:
        """The lines of a segment from the byte `begin` on, and where the last whole one ends.

        There are none if it is gone. Raises `OSError`.
        """
        try:
            if begin and self._disk.facts(path).size <= begin:
                return [], begin
            content = self._disk.read(path)
        except FileNotFoundError:
            return [], begin
        lines = list(lines_in(content[begin:]))
        return lines, content.rfind(b"\n") + 1

    def load(self, path: str) -> tuple[list[Line], int]:
        """The same of a whole segment, which from now on is unlinked when it is over."""
        lines, end = self.read(path)
        with self._changing:
            self._note(path, lines)
        return lines, end

    def _note(self, path: str, lines: Iterable[Line]) -> None:
        last: dict[str, int] = {}
        for queue, id, _, _ in lines:
            if id > last.get(queue, 0):
                last[queue] = id
        self._latest[path] = {queue: moment_of(id) for queue, id in last.items()}

    # Its end.

    def unlink_over(self, is_over: IsOver, *, look: bool) -> None:
        """Unlink the segments of which nothing is asked for any more, unless somebody writes them.

        With `look` also those that others have left. Raises `OSError`.
        """
        with self._changing:
            known = dict(self._latest)
            if look:
                for path in self.paths():
                    if path not in known and not self.is_own(path):
                        # Not in the same look: it may have just been made, and be empty yet.
                        self._note(path, self.read(path)[0])
            for path, latest in known.items():
                if all(is_over(queue, last) for queue, last in latest.items()):
                    self._unlink(path, is_over)

    def _unlink(self, path: str, is_over: IsOver) -> None:
        if path == self._path:
            self._end()
        try:
            lock = self._disk.lock(path)
            if lock is None:
                return
            try:
                lines, _ = self.read(path)
                self._note(path, lines)
                if all(is_over(queue, last) for queue, last in self._latest[path].items()):
                    self._disk.unlink(path)
                    del self._latest[path]
            finally:
                lock.release()
        except FileNotFoundError:
            self._latest.pop(path, None)
