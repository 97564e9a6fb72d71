"""Processes that work in a root, and what they tell of it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

from tests.store.front_rig import GIVE_UP

WORKER = Path(__file__).with_name("working_process.py")


def started(*command: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        [sys.executable, *command], stdout=subprocess.PIPE, text=True, env=environment
    )


def ended(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait(GIVE_UP)
    assert process.stdout is not None
    process.stdout.close()


class Worker:
    """A working process, and what it has told so far."""

    def __init__(self, root: Path, name: str) -> None:
        self.process = started(str(WORKER), str(root), name)
        self.told: list[tuple[str, int, str]] = []
        self._more = threading.Condition()
        self._is_over = False
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith("\n"):
                word, moment, body = line.split()
                with self._more:
                    self.told.append((word, int(moment), body))
                    self._more.notify_all()
        with self._more:
            self._is_over = True
            self._more.notify_all()

    def has_told(self, more: int) -> None:
        """Return when it has told so much more."""
        with self._more:
            enough = len(self.told) + more
            assert self._more.wait_for(lambda: len(self.told) >= enough or self._is_over, GIVE_UP)
            assert not self._is_over, "it has ended by itself"

    def kill(self) -> None:
        self.process.kill()
        self._reader.join(GIVE_UP)
        ended(self.process)
