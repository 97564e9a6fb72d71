"""Clears whole queues: a purge, and what follows once a queue is deleted.

A queue is deleted when its tombstone is durable; emptying it follows, and recovery finishes it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from ..files import layout
from ..files.disk import Found, Kind
from ..files.owners import is_living
from ..index.hidden import Hidden, QueueIndex, Unlisted
from ..model.errors import StoreError
from ..model.names import Batch, Filed, NotAName, parse_filed
from ..model.transitions import Move, State
from .catalog import Catalog
from .root import Root, item_of, path_in

log = logging.getLogger(__name__)


class Clearance:
    """Not thread-safe."""

    def __init__(self, root: Root, catalog: Catalog) -> None:
        self._root = root
        self._catalog = catalog

    def purge(self, queue: str, *, knows_all: bool) -> int:
        """Delete all messages of the queue; how many there were, as far as they could be counted.

        What is ready goes with one rename, however much it is. A failure leaves the rest in place.
        Unless it `knows_all`, something lies there that could not be listed, and goes, too.
        """
        root = self._root
        index = root.index.queues[queue]
        count = len(index)
        self._remove_hidden(queue, index)
        if not knows_all:
            self._sweep(queue)
        self._remove_stranded(queue)
        is_empty = knows_all and not index.ready.count
        if not is_empty:
            self._remove_queue_folder(queue, index)
            # Durable before there is another in its place: a crash must not keep that one, and forget
            # where the old one went, with the deduplication ids in it.
            root.folders.settle(layout.QUEUES)
        root.index.queues[queue] = QueueIndex()
        try:
            if is_empty:
                root.make_again(layout.queue_folder(queue))  # Another may have died over a purge.
            else:
                root.folders.make(layout.queue_folder(queue))
        except StoreError as error:
            log.warning("the folder of %s is made with its next message: %s", queue, error)
        if root.is_shared:
            # Others may not hear of it, and move what they have promised into a folder that a crash
            # could still take.
            root.folders.settle(layout.QUEUES)
        return count

    def empty(self, queue: str) -> None:
        """Remove what is left of a doomed queue, then its tombstone. Once may not be enough."""
        root = self._root
        index = root.index.queues.get(queue)
        if index is None:
            # It is empty: only files of its settings could not be unlinked.
            root.after_sync.append(lambda: self._catalog.bury_tombstone(queue))
            return
        try:
            sent = self._remove_sent(queue)
            self._remove_hidden(queue, index)
            if queue in root.unread:
                self._sweep(queue)
            self._remove_queue_folder(queue, index)
            # Others may not have heard of the deletion. What they lease or extend while this looks, the
            # next look finds: only one that finds nothing is the last.
            if root.is_shared and (sent or self._remove_sent(queue) or self._sweep(queue)):
                return
        except StoreError as error:
            log.warning("the deleted queue %s can't be emptied yet: %s", queue, error)
            return
        del root.index.queues[queue]
        root.unread.discard(queue)
        root.after_sync.append(lambda: self._catalog.bury_tombstone(queue))

    def _remove_hidden(self, queue: str, index: QueueIndex) -> None:
        for hidden in list(index.hidden()):
            self._remove(queue, hidden, is_folder=hidden.is_folder)
            index.unhide(hidden)
        for lease in index.unlisted():
            self._remove(queue, lease, is_folder=True)
            index.forget_unlisted(lease.item.id)

    def _remove(self, queue: str, hidden: Hidden | Unlisted, *, is_folder: bool) -> None:
        source = self._root.path_of(queue, hidden)
        target = layout.removed(queue, item_of(hidden.item))
        self._root.folders.move(
            Move.DELETE, hidden.state, source, State.REMOVED, target, is_folder=is_folder
        )

    def _remove_queue_folder(self, queue: str, index: QueueIndex) -> None:
        """The queue's folder goes to `remove/` as if it were a batch."""
        grave = Batch(id=self._root.ids.make(), count=max(1, index.ready.count))
        self._root.folders.move(
            Move.DELETE,
            State.READY,
            layout.queue_folder(queue),
            State.REMOVED,
            layout.removed(queue, grave),
            is_folder=True,
        )

    def _remove_sent(self, queue: str) -> int:
        """What of the doomed queue is still in `new/`; how much there was.

        What a living process is writing it takes back itself.
        """
        count = 0
        for found, filed in self._filed_in(layout.NEW, queue):
            count += 1
            owner = filed.item.owner
            if owner not in (None, self._root.owner) and is_living(self._root.disk, owner):
                continue
            self._delete_filed(layout.NEW, found, filed, State.SENT)
        return count

    def _remove_stranded(self, queue: str) -> None:
        """Delete what the dead had sent, and nobody could move on: it can't be listed."""
        for found, filed in self._filed_in(layout.NEW, queue):
            owner = filed.item.owner
            if owner not in (None, self._root.owner) and not is_living(self._root.disk, owner):
                self._delete_filed(layout.NEW, found, filed, State.SENT)

    def _sweep(self, queue: str) -> int:
        """Delete what of the queue is in `delay/`, whoever has put it there; how much there was."""
        count = 0
        for found, filed in self._filed_in(layout.DELAY, queue):
            count += 1
            state = State.DELAYED if filed.token is None else State.LEASED
            self._delete_filed(layout.DELAY, found, filed, state)
        return count

    def _filed_in(self, folder: str, queue: str) -> Iterator[tuple[Found, Filed]]:
        for found in self._root.folders.scan(folder):
            try:
                filed = parse_filed(found.name)
            except NotAName:
                continue
            if filed.queue == queue:
                yield found, filed

    def _delete_filed(self, folder: str, found: Found, filed: Filed, state: State) -> None:
        self._root.folders.move(
            Move.DELETE,
            state,
            path_in(folder, found.name),
            State.REMOVED,
            layout.removed(filed.queue, filed.item),
            is_folder=found.kind is Kind.FOLDER,
        )
