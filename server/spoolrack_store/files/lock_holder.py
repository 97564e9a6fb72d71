"""The holder of `LOCK`, for operators. The lock is never broken."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar

from ..model.clock import Millis

log = logging.getLogger(__name__)

_Found = TypeVar("_Found")

_TRY_EVERY: Final = 0.02
"""Seconds."""
_NEVER: Final = threading.Event()

_FIRST_PAUSE: Final = 1
_LONGEST_PAUSE: Final = 50
"""Milliseconds between two tries: each twice as long as the one before."""
_SAY_EVERY: Final = 1_000
"""Milliseconds. Time after which the holder of the lock is logged, and then again."""
_STATES: Final = {
    "R": "running",
    "S": "sleeping",
    "D": "waiting for a disk",
    "T": "stopped",
    "t": "stopped by a debugger",
    "Z": "dead",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LockHolder:
    """A process that lets others wait."""

    pid: int
    state: str
    """Its state as the system reports it; "unknown" of another container's process."""
    since: Millis
    """Unix time at which it took the lock."""

    def __str__(self) -> str:
        since = datetime.fromtimestamp(self.since / 1_000, UTC).isoformat(timespec="milliseconds")
        return f"process {self.pid} ({self.state}) since {since}"


def look_at(pid: int, since: int) -> LockHolder:
    """Return what there is to say of the process that took the lock last."""
    return LockHolder(pid=pid, state=_state_of(pid), since=Millis(since))


def try_for(tries: int, act: Callable[[], _Found]) -> _Found:
    """Do what needs the lock until its result is true; return the last one after so many `tries`."""
    for _ in range(tries - 1):
        found = act()
        if found:
            return found
        # In true time: it is another process that this waits for.
        _NEVER.wait(_TRY_EVERY)
    return act()


def _state_of(pid: int) -> str:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return "unknown"
    # The program's name, in parentheses, may hold anything.
    letter = text.rpartition(")")[2].split()[0]
    return _STATES.get(letter, letter)


class LockWait:
    """The tries of a lock that another process holds. Times are monotonic."""

    def __init__(self, holder: Callable[[], tuple[int, int]]) -> None:
        """`holder` tells which process took the lock last, and when."""
        self._holder = holder
        self._since: Millis | None = None
        self._said = Millis(0)
        self._pause = _FIRST_PAUSE
        self.next_try: Millis | None = None
        """None: the lock was free at the last try."""

    def in_vain(self, now: Millis) -> None:
        """Note a failed attempt; after a while, log which process holds the lock."""
        if self._since is None:
            self._since = self._said = now
        elif now - self._said >= _SAY_EVERY:
            self._said = now
            holder = look_at(*self._holder())
            log.warning("nothing is committed while another process holds the lock: %s", holder)
        self.next_try = Millis(now + self._pause)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)

    def over(self) -> None:
        """Note that the lock was free."""
        self._since = self.next_try = None
        self._pause = _FIRST_PAUSE

    def holder(self, now: Millis) -> LockHolder | None:
        """Return the process that is waited for, if it takes a second or more."""
        if self._since is None or now - self._since < _SAY_EVERY:
            return None
        return look_at(*self._holder())
