"""A clock that a test moves, a kernel without inotify, and bounded ways to wait."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

from spoolrack.vsqs import Queue
from spoolrack.vsqs._watcher import Inotify

from tests.support import STUCK


class Micros:
    def __init__(self, now: int) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += round(seconds * 1_000_000)


def no_inotify() -> Inotify:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), "inotify")


class Beside:
    """Something done in a thread: `result` waits for it, or raises what it raised."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self._outcome: list[object] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._outcome.append(self._work())
        except BaseException as error:  # noqa: BLE001  # `result` raises it
            self._outcome.append(error)

    def is_done(self, within: float = 0.0) -> bool:
        self._thread.join(within)
        return not self._thread.is_alive()

    def result(self) -> object:
        assert self.is_done(STUCK), "it never ended"
        (outcome,) = self._outcome
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


def files(folder: Path) -> dict[str, bytes]:
    """Return all names in a folder with their content."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def received(queue: Queue, visibility_timeout: float = 10) -> list[str]:
    """Return the contents of all messages that are ready."""
    contents = []
    while (message := queue.receive(visibility_timeout, timeout=0))[1] is not None:
        contents.append(message[1].decode())
    return contents
