"""Files that were never synced, in the queue's file system: they show what a power cut took.

A thread makes them one after the other, each under a first name and then renamed, while the queue is at
work. It syncs nothing but, at random moments, one of them or the whole file system: so the journal is
committed in the middle of the queue's work, and a cut leaves another part of that work each time. If
these files all came through every cut, the power was never lost, and the test has tested nothing.
"""

from __future__ import annotations

import ctypes
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

GAPS: Final = (None, 0.5, 0.1, 0.02)
"""Seconds between two syncs, on average; None: none at all."""
_BETWEEN: Final = 0.004
"""Seconds between two files, at most."""
_CONTENT: Final = b"not synced by anybody"


@dataclass(slots=True, kw_only=True)
class Survey:
    """The fates of the files, over any number of cuts."""

    cuts: int = 0
    written: int = 0
    """Whole, and under their last name, when the power was cut."""
    gone: int = 0
    empty: int = 0
    """There, and without their content, or only with a part of it."""
    in_between: int = 0
    """Cuts that took some of the files and not all."""

    def add(self, other: Survey) -> None:
        for name in ("cuts", "written", "gone", "empty", "in_between"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def lost(self) -> int:
        return self.gone + self.empty


class Witness:
    """From its making until `end`, in a new folder; then `survey`, when the power is back."""

    def __init__(self, folder: Path, random: Random) -> None:
        """Nothing of the process is open in `folder`'s file system after `end`."""
        self._folder = folder
        self._random = random
        self._gap = random.choice(GAPS)
        self._stopping = threading.Event()
        self._written = 0
        self._failure: BaseException | None = None
        folder.mkdir()
        _sync_all(folder)
        self._thread = threading.Thread(target=self._run, name="witness", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Return once its thread has ended. Raises what ended it, if that was not the dead disk."""
        self._stopping.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def survey(self) -> Survey:
        """Return what is left of the files that were written when the power was cut."""
        gone = empty = 0
        for number in range(self._written):
            try:
                empty += (self._folder / f"{number}").read_bytes() != _CONTENT
            except FileNotFoundError:
                gone += 1
        return Survey(
            cuts=1,
            written=self._written,
            gone=gone,
            empty=empty,
            in_between=int(0 < gone + empty < self._written),
        )

    def _run(self) -> None:
        try:
            while not self._stopping.wait(self._random.uniform(0.0, _BETWEEN)):
                try:
                    self._write()
                    if self._gap is not None and self._random.random() * self._gap < _BETWEEN / 2:
                        self._sync()
                except OSError:
                    # The power was cut. If it was not, `survey` will find nothing lost.
                    return
        except BaseException as error:  # noqa: BLE001  # for the thread that waits
            self._failure = error

    def _write(self) -> None:
        path = self._folder / f"{self._written}"
        beginning = path.with_suffix(".writing")
        beginning.write_bytes(_CONTENT)
        beginning.rename(path)
        self._written += 1

    def _sync(self) -> None:
        if self._random.random() < 0.3:
            _sync_all(self._folder)
        else:
            file = os.open(self._folder / f"{self._random.randrange(self._written)}", os.O_RDONLY)
            try:
                os.fsync(file)
            finally:
                os.close(file)


def _sync_all(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if _libc.syncfs(opened) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), "syncfs")
    finally:
        os.close(opened)


_libc: Final = ctypes.CDLL(None, use_errno=True)
