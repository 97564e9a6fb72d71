"""What is in the batch folders of others: looked into only once somebody needs it, and if it can be.

What another process has sent or leased, it mostly leases or deletes itself soon. To list a folder for
each would cost more than all else that is heard.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from ..files import layout
from ..index.hidden import QueueIndex, Unlisted
from ..model.errors import DiskError, StoreError
from ..model.names import Batch
from .beliefs import Beliefs
from .requeuer import RETRY_AFTER
from .root import Root

log = logging.getLogger(__name__)


class Contents:
    """Not thread-safe."""

    def __init__(self, root: Root, beliefs: Beliefs) -> None:
        self._root = root
        self._beliefs = beliefs
        self._unread: list[tuple[str, Batch]] = []
        """Ready batch folders, with their queues, that could not be looked into."""

    def look_ahead(self, queue: str) -> None:
        """Know by name what a receive may choose from."""
        index = self._root.index.queues[queue]
        while (batch := index.ready.unlisted_among(self._root.choice)) is not None:
            self._look_into_batch(queue, index, batch)

    def look_into(self, queue: str) -> None:
        """Know all messages of a queue by name."""
        index = self._root.index.queues[queue]
        for batch in index.ready.unlisted():
            self._look_into_batch(queue, index, batch)
        for lease in index.unlisted():
            self.look_into_lease(queue, lease)

    def look_into_lease(self, queue: str, lease: Unlisted) -> None:
        """Know by name what somebody else has leased. If it can't be read it stays as it was; if it is
        due, for another second."""
        try:
            self._beliefs.look_into_lease(queue, lease)
        except StoreError as error:
            log.warning("%s can't be looked into for now: %s", self._root.path_of(queue, lease), error)
            _, later = self._root.due_after(RETRY_AFTER)
            if lease.due_monotonic < later:
                lease.due_monotonic = later
                self._root.index.reschedule(queue, lease)

    def _look_into_batch(self, queue: str, index: QueueIndex, batch: Batch) -> None:
        try:
            self._beliefs.look_into(queue, index, batch)
        except StoreError as error:
            # It must not stand in the way of the others.
            log.warning("%s can't be looked into for now: %s", layout.ready(queue, batch), error)
            self._unread.append((queue, batch))

    def left_in(self, path: str, names: Collection[str]) -> set[str]:
        """What is in a batch folder now; if that can't be told, `names`, which were believed to be."""
        try:
            return {found.name for found in self._root.folders.scan(path)}
        except StoreError as error:
            # It must not stand in the way of the others; and a claim is decided by its rename.
            log.warning("%s can't be looked into for now: %s", path, error)
            return set(names)

    def require_read(self, queue: str) -> None:
        """Raises `DiskError` if what isn't known of the queue may be where the start could not read."""
        if queue in self._root.unread:
            detail = f"the start could not read all of {queue}: see the log, mend it, and restart"
            raise DiskError(detail=detail)

    def has_unread(self, queue: str) -> bool:
        """Whether something of the queue can't be looked into; asked after `look_into`."""
        index = self._root.index.queues[queue]
        return bool(index.unlisted()) or any(unread == queue for unread, _ in self._unread)

    def retry(self) -> None:
        """What could not be looked into, unless it has been heard of since, is worth another look."""
        unread, self._unread = self._unread, []
        for queue, batch in unread:
            index = self._root.index.queues.get(queue)
            if index is not None and not index.knows_batch(batch.id):
                index.ready.add_unlisted(batch)
