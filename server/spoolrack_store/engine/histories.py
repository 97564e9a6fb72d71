"""The histories of dead letters: a file beside each message, of the queue that the message lies in.

A history goes where its message goes: it is written anew for the next queue, durable before the message
moves, and the older one is unlinked once the move is durable. So a crash leaves one too many at most.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence

from ..files import layout
from ..model.errors import StoreError
from .root import Root

log = logging.getLogger(__name__)

Chapter = dict[str, object]
"""One death."""


class DamagedHistory(ValueError):
    """There is one, and it can't be read."""


class Histories:
    """Not thread-safe."""

    def __init__(self, root: Root) -> None:
        self._root = root

    def read(self, queue: str, id: str) -> list[Chapter]:
        """The deaths of a message that lies in `queue`; none if it has no history.

        Raises `DamagedHistory`.
        """
        try:
            # What has been read is relied on, and whoever wrote it may have died over a failed sync.
            chapters = json.loads(self._root.disk.read(layout.history(queue, id), afresh=True))
        except FileNotFoundError:
            return []
        except (OSError, ValueError, RecursionError) as error:
            raise DamagedHistory(str(error)) from error
        if not isinstance(chapters, list) or not all(isinstance(each, dict) for each in chapters):
            raise DamagedHistory("it is no list of chapters")
        return chapters

    def write(self, queue: str, id: str, chapters: Sequence[Chapter]) -> None:
        """Write the history that the message will have in `queue`; durable with the next commit.

        What a crash has left there is replaced. Raises `DiskFull` or `DiskError`.
        """
        path = layout.history(queue, id)
        if self._root.may_have_history(queue, id):
            self._root.folders.drop(path)
        self._root.histories.add(layout.name_of(path))
        content = json.dumps(chapters, indent=2).encode() + b"\n"
        self._root.folders.write(path, [content], sync=False)

    def rely_on(self, queue: str, id: str) -> None:
        """Let the one that is there be durable with the next commit, whoever has written it."""
        path = layout.history(queue, id)
        self._root.histories.add(layout.name_of(path))
        self._root.syncer.lone_file_written(path)
        self._root.syncer.folder_changed(layout.HISTORY)

    def carry(self, queue: str, destination: str, id: str) -> None:
        """Give a history that can't be read to the queue in which its message lies now, durably."""
        source, target = layout.history(queue, id), layout.history(destination, id)
        try:
            if self._root.folders.rename(source, target):
                self._root.histories.add(layout.name_of(target))
        except StoreError as error:
            log.warning("the history %s stays, though its message is elsewhere: %s", source, error)
            return
        self._root.histories.discard(layout.name_of(source))

    def drop(self, queue: str, id: str, chapters: Sequence[Chapter] | None = None) -> None:
        """The message lies elsewhere, durably, or isn't to come to `queue` after all.

        With `chapters` only the history that says these: others may have brought the message back.
        """
        path = layout.history(queue, id)
        try:
            if chapters is not None and self._root.is_shared and self.read(queue, id) != chapters:
                return
            self._root.folders.drop(path)
        except (StoreError, DamagedHistory) as error:
            log.warning("the history %s stays, though its message is elsewhere: %s", path, error)
            return
        self._root.histories.discard(layout.name_of(path))
