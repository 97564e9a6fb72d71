"""What others have deleted and didn't unlink: those who have no reaper, or died before they came to it.

Nothing is unlinked here. What lies in `remove/` is given to whoever unlinks, once it is durably there.
"""

from __future__ import annotations

from typing import Final

from ..files import layout
from ..files.disk import Found
from ..model.clock import SECOND, Millis
from .beliefs import filed_as
from .reaper import Reaper
from .root import Root, path_in

SWEEP_EVERY: Final = Millis(60 * SECOND)


class Sweep:
    """Not thread-safe."""

    def __init__(self, root: Root, reaper: Reaper) -> None:
        self._root = root
        self._reaper = reaper
        self._next = Millis(root.clock.monotonic() + SWEEP_EVERY)

    def look(self) -> None:
        """Every now and then, list what there is for the reaper, who has nothing else to do."""
        root, now = self._root, self._root.clock.monotonic()
        if now < self._next or self._reaper.waiting or not root.is_shared:
            return
        self._next = Millis(now + SWEEP_EVERY)
        paths = removed_in(root.folders.scan(layout.REMOVE), self._reaper)
        for path in paths:
            root.folders.was_removed(path)
        if paths:
            root.everything_changed()


def removed_in(found: list[Found], reaper: Reaper) -> list[str]:
    """The paths of what was found in `remove/`, but for what isn't ours, or can't be unlinked."""
    paths = (path_in(layout.REMOVE, each.name) for each in found if filed_as(each.name) is not None)
    return [path for path in paths if path not in reaper.refused]
