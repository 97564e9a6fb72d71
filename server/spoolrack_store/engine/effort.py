"""The effort of a commit: the files that its background work may touch."""

from __future__ import annotations

from typing import Final

FILES: Final = 150
"""The effort of a commit, in files. A part that works alone moves half as many: a lease that ends takes
0.05 ms of processor time, a message past the retention 0.07."""
SYNC_EFFORT: Final = 14
"""Of a file or folder that is synced under the lock, in files that are only moved."""
BYTES_LIKE_A_FILE: Final = 64 * 1024
"""To read so many bytes takes as long as to move a file."""


class Effort:
    """The files that the background work of a commit may touch: requests wait for a bounded time.

    All parts draw on one effort, in the order of their turns. Each gets half of the rest: none takes it
    all, and the sum is bounded. Later commits do more. Not thread-safe.
    """

    def __init__(self) -> None:
        self.files = FILES
        self.left = FILES
        """A commit begins with all `files`."""

    @property
    def is_used(self) -> bool:
        """Whether background work has touched a file."""
        return self.left < self.files

    def share(self) -> int:
        """Return how many files a part may touch: one at least, so that no work stands still."""
        return max(1, self.left // 2)

    def spend(self, files: int = 1) -> None:
        """Count files that background work has touched."""
        self.left = max(0, self.left - files)
