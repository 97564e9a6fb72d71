"""Common to the libraries: no server; every client process works on the files itself."""

from __future__ import annotations

import shutil
import time
from importlib.metadata import version
from pathlib import Path
from typing import ClassVar

from ..workloads import NAMES
from .base import WAIT, Driver, Received, System

PAUSE = 0.005
"""Seconds between two polls, where no event announces a message."""


class Library(System):
    """A queue is a folder of its own. Measured in one round, and without a backlog."""

    distribution: ClassVar[str]
    only = frozenset(NAMES)
    most_rounds = 1

    def version(self) -> str:
        return version(self.distribution)

    def create_queue(self, queue: str) -> None:
        (self.folder / queue).mkdir()

    def delete_queue(self, queue: str) -> None:
        shutil.rmtree(self.folder / queue)


class LibraryDriver(Driver):
    """Looks for messages one by one."""

    @property
    def folder(self) -> Path:
        return Path(self.address) / self.queue

    def take(self) -> Received | None:
        """Return the next message, if there is one."""
        raise NotImplementedError

    def receive(self, count: int) -> list[Received]:
        messages: list[Received] = []
        end = time.monotonic() + WAIT
        while len(messages) < count:
            message = self.take()
            if message is not None:
                messages.append(message)
            elif messages or time.monotonic() > end:
                break
            else:
                time.sleep(PAUSE)
        return messages
