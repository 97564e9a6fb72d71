"""The background work of a process. Several may share it: each piece of work is done once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .clock import Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundWork:
    """The background work of a process: all of it by default. Work that no process does isn't done."""

    adopts: bool = True
    """Takes in what was put into `new/` by hand."""
    brings_back: bool = True
    """Makes ready again what is due in `delay/`."""
    wait: Millis = Millis(0)
    """A file found in either folder is moved no sooner than so long after it was found."""
    unlinks: bool = True
    """Unlinks what lies in `remove/`."""
    ticks: bool = True
    """Is called whenever time has brought something about. If not, each request finds it done."""


ALL_WORK: Final = BackgroundWork()
ONLY_REAPS: Final = BackgroundWork(adopts=False, brings_back=False)
"""Of a process that is a reaper, beside servers that don't unlink."""
