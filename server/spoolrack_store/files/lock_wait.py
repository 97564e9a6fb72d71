"""The wait for `LOCK`, and its holder as operators are told of it. The lock is never broken."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar

from ..model.clock import Millis

log = logging.getLogger(__name__)

_Result = TypeVar("_Result")

_TRY_EVERY: Final = 0.02
"""Seconds."""
_NEVER: Final = threading.Event()

_FIRST_PAUSE: Final = 1
_LONGEST_PAUSE: Final = 50
"""Milliseconds between two tries: each twice as long as the one before."""
_LONGEST_PAUSE_OF_HOSTS: Final = 5
"""The same on a root of several hosts, where a busy process has the lock nearly always, since it syncs
under it: by pauses of 50 ms, each hundredth send of another process took 4 s."""
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


def describe_holder(pid: int, since: int) -> str:
    """Describe the process that took the lock last, and when, in Unix time; 0: it isn't known."""
    if not pid:
        return "a process of one of the hosts (owners/ lists them)"
    moment = datetime.fromtimestamp(since / 1_000, UTC).isoformat(timespec="milliseconds")
    return f"process {pid} ({_state_of(pid)}) since {moment}"


def try_for(tries: int, act: Callable[[], _Result], every: float = _TRY_EVERY) -> _Result:
    """Repeat a call under the lock until its result is true; return the last result after so many
    `tries`, one `every` so many seconds."""
    for _ in range(tries - 1):
        result = act()
        if result:
            return result
        # In true time: it is another process that this waits for.
        _NEVER.wait(every)
    return act()


def _state_of(pid: int) -> str:
    """Return a process's state as the system reports it; "unknown" of another container's process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return "unknown"
    # The program's name, in parentheses, may hold anything.
    letter = text.rpartition(")")[2].split()[0]
    return _STATES.get(letter, letter)


class LockWait:
    """The tries of a lock that another process holds. Times are monotonic."""

    def __init__(self, holder: Callable[[], tuple[int, int]], *, several_hosts: bool = False) -> None:
        """`holder` tells which process took the lock last, and when."""
        self._holder = holder
        self._longest = _LONGEST_PAUSE_OF_HOSTS if several_hosts else _LONGEST_PAUSE
        self.since: Millis | None = None
        """When the first of the tries in vain was; None: the last one succeeded. In any thread."""
        self.why = ""
        """Why this process couldn't even try; empty: another one holds the lock."""
        self._warned_at = Millis(0)
        self._pause = _FIRST_PAUSE
        self.next_try: Millis | None = None
        """None: the lock was free at the last try."""

    def in_vain(self, now: Millis) -> None:
        """Note a failed attempt; after a while, log which process holds the lock."""
        self.why = ""
        if self.since is None:
            self.since = self._warned_at = now
        elif now - self._warned_at >= _SAY_EVERY:
            self._warned_at = now
            holder = describe_holder(*self._holder())
            log.warning("nothing is committed while another process holds the lock: %s", holder)
        self.next_try = Millis(now + self._pause)
        self._pause = min(2 * self._pause, self._longest)

    def refused(self, now: Millis, why: Exception) -> None:
        """Note that this process couldn't even try, for want of descriptors or so; tell it now and
        then."""
        self.why = str(why)
        if self.since is None or now - self._warned_at >= _SAY_EVERY:
            self._warned_at = now
            log.error("nothing is committed: %s", why)
        self.since = now if self.since is None else self.since
        self.next_try = Millis(now + _LONGEST_PAUSE)

    def leave_to_others(self, now: Millis) -> None:
        """Postpone the next try until each other process has had one."""
        self.next_try = Millis(now + _LONGEST_PAUSE)

    def over(self) -> None:
        """Note that the lock was acquired."""
        self.since = self.next_try = None
        self._pause = _FIRST_PAUSE
