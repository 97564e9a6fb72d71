"""A process of its own that uses a root with no server, and does what a test tells it, line by line.

Run as a program it evaluates each line of its standard input, with `client` and `jobs` at hand, and
prints the answer's repr, or the name of the error.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from spoolrack_store.files.changes import LOCK
from spoolrack_store.files.local_disk import LocalDisk


class Actor:
    """Ended with the context, by SIGKILL."""

    def __init__(self, url: str, *, uid: int = 0, gid: int = 0) -> None:
        """With a `uid`, as that user, with a umask that gives nothing to others."""
        self._process = subprocess.Popen(
            [sys.executable, __file__, url, str(uid), str(gid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def begin(self, code: str) -> None:
        """Tell it what to do, and don't wait."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{code}\n")
        self._process.stdin.flush()

    def answer(self) -> str:
        """Return what the first thing that is not answered yet came to."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().rstrip("\n")

    def does(self, code: str) -> str:
        self.begin(code)
        return self.answer()

    def stop(self, root: Path) -> None:
        """Let it do nothing any more: a child that it has forked off goes on with what is told."""
        disk, lock = LocalDisk(root), None
        while lock is None:
            # A commit that is answered may not have left the lock yet.
            self._process.send_signal(signal.SIGCONT)
            self._process.send_signal(signal.SIGSTOP)
            os.waitpid(self._process.pid, os.WUNTRACED)
            lock = disk.lock(LOCK)
        lock.release()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


def act(url: str, uid: int, gid: int) -> None:
    import spoolrack
    import spoolrack._transports.folder_transport  # before its files may be out of reach

    if uid:
        os.umask(0o077)
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    client = spoolrack.connect(url)
    at_hand: dict[str, Any] = {
        "client": client,
        "jobs": client.queue("jobs"),
        "spoolrack": spoolrack,
        "os": os,
        "filled": filled,
        "staged": staged,
        "act": lambda: obey(at_hand),
    }
    obey(at_hand)


def filled(batch: Any, messages: int) -> None:
    """Begin a batch, and leave it open."""
    batch.__enter__()
    for number in range(messages):
        batch.send(str(number))


def staged(batch: Any, messages: int) -> str:
    """Return the stage of a batch that is staged and not published."""
    with batch:
        for number in range(messages):
            batch.send(str(number))
    return str(batch.stage)


def obey(at_hand: dict[str, Any]) -> None:
    for line in sys.stdin:
        try:
            answer = repr(eval(line, at_hand))
        except Exception as error:  # noqa: BLE001  # the test knows what to expect
            answer = type(error).__name__
        print(answer, flush=True)


if __name__ == "__main__":
    act(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
