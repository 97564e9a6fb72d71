"""Callers who travelled together and come back as soon as they are answered are waited for a moment.

Otherwise a few callers in a loop split into those who were answered a moment ago and those who come a
moment later, with a call for each. It is found out by trying: those who do not come back in time are
waited for ever less often. Pure: it is told the time.
"""

from __future__ import annotations

from typing import Final

SMALL: Final = 16
"""So many callers at most are waited for: the calls of a larger crowd are full anyway."""
LONGEST: Final = 0.002
"""Seconds that anybody is waited for, ..."""
SHARE: Final = 0.25
"""... and what part of the time that the last call took."""
RAREST: Final = 64
"""Calls at most between two tries."""


class Company:
    """The callers of one kind of call. Not thread-safe."""

    def __init__(self) -> None:
        self.until = 0.0
        """When those who are waited for are late."""
        self.keeps_together = False
        """Whether they came back in time when they were last waited for, and are few: then one call
        carries all."""
        self._expected = 0
        self._rest = 0
        self._pause = 1

    def landed(self, travelled: int, waiting: int, now: float, took: float) -> None:
        """A call for so many is answered, after `took` seconds; others wait for the next one."""
        self._expected = 0
        callers = travelled + waiting
        if callers > SMALL:
            self.keeps_together = False
        if self._rest:
            self._rest -= 1
        elif 2 <= callers <= SMALL:
            self._expected = callers
            self.until = now + min(LONGEST, SHARE * took)

    def is_missing(self, gathered: int, now: float) -> bool:
        """Whether it is worth while to wait for more than these."""
        return gathered < self._expected and now < self.until

    def sets_off(self, gathered: int) -> None:
        """A call for so many callers begins."""
        if not self._expected:
            return
        self.keeps_together = 2 * gathered > self._expected
        if self.keeps_together:
            self._pause = 1
        else:
            self._rest = self._pause
            self._pause = min(RAREST, 2 * self._pause)
        self._expected = 0
