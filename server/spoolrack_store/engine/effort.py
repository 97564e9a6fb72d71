"""The effort of a commit: how many files its background work may touch, so that requests wait for a
bounded time.

All parts draw on one effort, in the order of their turns. Each gets half of what is left: none takes it
all, and the sum is bounded. What is left over is for the commits that follow.
"""

from __future__ import annotations

from typing import Final

FILES: Final = 300
"""A part that works alone moves half as many: a lease that ends takes 0.05 ms of processor time, a
message past the retention 0.07."""


class Effort:
    """What is left of the effort of the commit under way. Not thread-safe."""

    def __init__(self) -> None:
        self.files = FILES
        self._left = FILES

    def renew(self) -> None:
        """Begin a commit."""
        self._left = self.files

    @property
    def is_used(self) -> bool:
        """Whether background work has touched a file."""
        return self._left < self.files

    def share(self) -> int:
        """Return how many files a part may touch: one at least, so that no work stands still."""
        return max(1, self._left // 2)

    def spend(self, files: int = 1) -> None:
        """Count files that background work has touched."""
        self._left = max(0, self._left - files)
