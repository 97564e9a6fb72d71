"""Lines of a log to a file descriptor that may take none: a full disk, a pipe without a reader, or with
one that has stopped.

A thread writes them, so that no caller waits for a reader, and none meets an error. Lines that can't be
written are dropped and counted, and a line says so once there can be one again. Knows nothing of what a
line says.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

PATIENCE: Final = 0.02
"""Seconds that a caller waits for its line to be written, so that it is before what comes after it; not
again before all lines are written."""
MOST_BYTES: Final = 256 * 1024
"""Of lines that wait to be written. More are dropped."""
LAST: Final = 1.0
"""Seconds at the end of the process for the lines that wait then."""


class LineWriter:
    """Writes lines to a file descriptor, as a text stream does. Its methods may be called in any
    thread."""

    def __init__(self, fd: int, notice: Callable[[int], str] | None = None) -> None:
        """`notice` makes the line that says how many were dropped."""
        self._fd = fd
        self._notice = notice
        self._changed = threading.Condition()
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        """Of the lines that aren't written, with the one that is being written."""
        self._is_slow = False
        self._thread: threading.Thread | None = None
        self._untold = 0
        self._is_torn = False
        self.dropped = 0
        """Lines that were dropped, since the start."""

    def write(self, line: str) -> None:
        """Let a line, with its line feed, be written or dropped."""
        raw = line.encode(errors="backslashreplace")
        with self._changed:
            if self._bytes + len(raw) > MOST_BYTES or not self._is_started():
                self._drop()
                return
            self._lines.append(raw)
            self._bytes += len(raw)
            self._changed.notify_all()

    def flush(self) -> None:
        """Return once all lines are written or dropped, or after `PATIENCE`."""
        with self._changed:
            if not self._is_slow:
                self._is_slow = not self._changed.wait_for(self._has_written_all, PATIENCE)

    def finish(self) -> None:
        """Return once all lines are written or dropped, or after `LAST` seconds."""
        with self._changed:
            self._changed.wait_for(self._has_written_all, LAST)

    def _has_written_all(self) -> bool:
        return self._bytes == 0

    def _is_started(self) -> bool:
        """Start the thread with the first line; return whether there is one."""
        if self._thread is None:
            thread = threading.Thread(target=self._run, name=f"lines-{self._fd}", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                return False  # The system has no thread for it now.
            self._thread = thread
            atexit.register(self.finish)
        return True

    def _drop(self) -> None:
        self.dropped += 1
        self._untold += 1

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._lines)
                raw, untold = self._lines.popleft(), self._untold
            is_told = not untold or self._notice is None or self._put(self._notice(untold).encode())
            is_written = is_told and self._put(raw)
            with self._changed:
                if is_told:
                    self._untold -= untold
                if not is_written:
                    self._drop()
                self._bytes -= len(raw)
                if not self._bytes:
                    self._is_slow = False
                self._changed.notify_all()

    def _put(self, raw: bytes) -> bool:
        """Write all of `raw`; return whether that succeeded."""
        rest = memoryview(b"\n" + raw if self._is_torn else raw)
        whole = len(rest)
        try:
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError:
            # A part of a line stays in the file: the next one begins on a line of its own.
            self._is_torn = self._is_torn or len(rest) < whole
            return False
        self._is_torn = False
        return True
