"""Files in the root's folders that are none of ours: quarantine.

A start lists all folders, and `recovery` notes what doesn't parse as a name or isn't a file. Names
change under the lock only, so that what isn't ours then isn't another process's either. It never stops
a start.
"""

from __future__ import annotations

import logging

from ..files.layout import COPY
from ..model.errors import StoreError
from .moves import Moves
from .part import Part

log = logging.getLogger(__name__)


class Foreign(Part):
    """Not thread-safe."""

    def __init__(self, moves: Moves) -> None:
        self._moves = moves

    def recover(self) -> None:
        """Put aside what a start has found."""
        self.go_on()

    @property
    def has_work(self) -> bool:
        return bool(self._moves.foreign)

    def go_on(self) -> None:
        """Put aside what was found; the next commit tries again what the disk refuses."""
        foreign = self._moves.foreign
        for path, why in list(foreign.items()):
            try:
                if path.startswith("new/") and path.endswith(COPY):
                    # Of a process that died: copies are made under the lock.
                    self._moves.unlink_file(path)
                else:
                    self._moves.put_aside(path, why)
            except StoreError as error:
                log.warning("%a is none of ours and can't be put aside for now: %s", path, error)
                continue
            del foreign[path]
