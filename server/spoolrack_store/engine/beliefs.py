"""What is believed of the messages that others move: where each one lies, and for how long.

It changes the index as what is heard or found demands, and keeps that an id is in one place only. What
is known already is left as it is, with the credits of our own leases.

What appears in another process's name may not be durable. Before anything of ours that builds on it is
answered, the folders that it may have come from are synced, too.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from functools import lru_cache
from typing import Final

from ..files import layout
from ..files.disk import Kind
from ..index.hidden import Hidden, QueueIndex, Unlisted
from ..index.ready import BatchFolder
from ..model.clock import Millis
from ..model.errors import StoreError
from ..model.ids import is_id
from ..model.names import (
    Batch,
    Filed,
    Item,
    NotAName,
    id_of,
    is_set_token,
    length_of,
    parse_entry,
    parse_filed,
    parse_item,
)
from ..model.settings import MAX_DELAY, MAX_VISIBILITY
from .root import Root

log = logging.getLogger(__name__)

MARGIN: Final = Millis(1_000)
"""What others have leased or delayed is brought back so long after it is due: they come first, and
their clocks may differ by as much."""


class Beliefs:
    """Not thread-safe."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._leaving: dict[str, tuple[BatchFolder, str]] = {}
        """Batch folders, by id, of which only the departure is known so far, and where they were."""
        self.staying: set[tuple[str, str]] = set()
        """Leases that are still there after what is heard, perhaps with other dues."""

    def settle(self) -> None:
        """All that was heard or found together has been told."""
        self._leaving.clear()
        self.staying.clear()

    def hidden_is(self, name: str, *, appeared: bool) -> None:
        filed = filed_as(name)
        index = None if filed is None else self._root.index.queues.get(filed.queue)
        if filed is None or filed.due is None or index is None:
            return
        if appeared:
            self._hidden(index, filed, filed.due)
            return
        hidden = self._known(index, filed.item)
        if hidden is None or (hidden.due, hidden.token) != (filed.due, filed.token):
            return
        if lease_in(name) in self.staying:
            return  # Extended, by whomever: it goes on as the same lease.
        if isinstance(hidden, Unlisted):
            index.forget_unlisted(hidden.item.id)
            return
        if isinstance(hidden.item, BatchFolder):
            path = self._root.path_of(filed.queue, hidden)
            self._leaving[hidden.item.batch.id] = hidden.item, path
        index.unhide(hidden)

    def has_left_batch(self, queue: str, id: str) -> None:
        """The entry was seen outside of its batch folder, so it isn't in it any more."""
        if not is_id(id):
            return  # Nobody's, as in `ready`.
        for leaving, path in self._leaving.values():
            there = leaving.find(id)
            if there is not None:
                leaving.remove(there)
                self._root.syncer.folder_changed(path)
        index = self._root.index.queues.get(queue)
        if index is None:
            return
        hidden = index.find_hidden(id)
        place = index.ready.find(id)
        if (hidden is not None and hidden.is_folder) or (place is not None and place[1] is not None):
            self.vacate(queue, index, id)

    def ready(self, queue: str, index: QueueIndex, name: str) -> None:
        try:
            item = parse_item(name)
        except NotAName:
            return  # A peer's own business, or nobody's: a start without peers puts it aside.
        if isinstance(item, Batch):
            self._ready_folder(queue, index, item)
            return
        if not item.is_tagged:
            return
        there = index.ready.find(item.id)
        if there == (name, None):
            return
        self.vacate(queue, index, item.id)
        index.ready.add(name)
        self._doubt(layout.queue_folder(queue))

    def _ready_folder(self, queue: str, index: QueueIndex, batch: Batch) -> None:
        there = index.ready.folder(batch.id)
        if there is not None and there.batch == batch:
            return
        if index.ready.find_unlisted(batch.id) == batch:
            return
        path = layout.ready(queue, batch)
        folder = self._vacated(queue, index, batch, path)
        if folder is None:
            # Mostly somebody else leases it before we would: then nobody here has to look.
            index.ready.add_unlisted(batch)
        else:
            index.ready.add_folder(folder)
        self._doubt(layout.queue_folder(queue))
        self._root.syncer.published(path)

    def look_into(self, queue: str, index: QueueIndex, batch: Batch) -> None:
        """Learn what is in a ready batch folder of which only the name was known."""
        index.ready.forget_unlisted(batch.id)
        folder = self._listed(queue, layout.ready(queue, batch), batch, index)
        if folder is not None:
            index.ready.add_folder(folder)

    def not_ready(self, queue: str, index: QueueIndex, name: str) -> None:
        if not is_id(id_of(name)):
            return
        there = index.ready.find(id_of(name))
        if there == (name, None):
            index.ready.remove(name, None)
            return
        unlisted = index.ready.find_unlisted(id_of(name))
        if unlisted is not None and str(unlisted) == name:
            index.ready.forget_unlisted(unlisted.id)
            return
        folder = index.ready.folder(id_of(name))
        if folder is not None and str(folder.batch) == name:
            index.ready.remove_folder(folder)
            self._leaving[folder.batch.id] = folder, layout.ready(queue, name)

    def _hidden(self, index: QueueIndex, filed: Filed, due: Millis) -> None:
        root = self._root
        most = MAX_DELAY if filed.token is None else MAX_VISIBILITY
        left = max(min(due - root.clock.wall(), most) + MARGIN, root.chores.wait)
        due_monotonic = Millis(root.clock.monotonic() + left)
        known = self._known(index, filed.item)
        if known is not None and known.token == filed.token:
            if known.due != due:
                # A lease that was extended elsewhere goes on here as the same one.
                path = root.path_of(filed.queue, known)
                root.syncer.folder_moved(path, f"{layout.DELAY}/{filed}")
                known.due, known.due_monotonic = due, due_monotonic
                root.index.reschedule(filed.queue, known)
            return
        item: str | BatchFolder | None
        if isinstance(filed.item, Batch):
            path = layout.hidden(filed.queue, filed.item, due, filed.token)
            item = self._vacated(filed.queue, index, filed.item, path)
            # It may have come through its queue before it was durably out of `new/`.
            root.syncer.folder_changed(layout.queue_folder(filed.queue))
            root.syncer.published(path)
            if item is None:
                unlisted = Unlisted(filed.item, due, due_monotonic, filed.token)
                item = self._listed_unless_leased(filed.queue, path, unlisted, index)
                if item is None:
                    return
        else:
            item = str(filed.item)
        hidden = Hidden(item, due=due, due_monotonic=due_monotonic, token=filed.token)
        self._doubt(layout.DELAY)
        whole = index.find_hidden(filed.item.id)
        if whole is not None and whole.is_folder and whole.token == filed.token:
            # One entry's lease was extended, apart from its neighbours'.
            self._doubt(root.path_of(filed.queue, whole))
            hidden.credits = whole.credits
            index.split(whole, whole.name_of(filed.item.id), hidden)
            root.index.reschedule(filed.queue, hidden)
            return
        if isinstance(item, str):
            self.vacate(filed.queue, index, filed.item.id)
        root.index.hide(filed.queue, hidden)

    def _listed_unless_leased(
        self, queue: str, path: str, batch: Unlisted, index: QueueIndex
    ) -> BatchFolder | None:
        """What is in a batch that is new here; None if there is nothing, or if that is known later."""
        if batch.token is None or is_set_token(batch.token):
            try:
                return self._listed(queue, path, batch.item, index)
            except StoreError as error:
                # It must not stand in the way of the others.
                log.warning("%s can't be looked into for now: %s", path, error)
        # A lease is mostly deleted by its holder: then nobody here has to look.
        self._doubt(layout.DELAY)
        self._root.index.add_unlisted(queue, batch)
        return None

    def look_into_lease(self, queue: str, lease: Unlisted) -> None:
        """Learn what is in a leased or delayed batch folder of which only the name was known."""
        root, index = self._root, self._root.index.queues[queue]
        folder = self._listed(queue, root.path_of(queue, lease), lease.item, index)
        index.forget_unlisted(lease.item.id)
        if folder is not None:
            due, ends = lease.due, lease.due_monotonic
            root.index.hide(queue, Hidden(folder, due=due, due_monotonic=ends, token=lease.token))

    def _known(self, index: QueueIndex, item: Item) -> Hidden | Unlisted | None:
        """The lease or delay under which this very item is believed to be."""
        if isinstance(item, Batch):
            return index.find_hidden_batch(item.id) or index.find_unlisted(item.id)
        hidden = index.find_hidden(item.id)
        return None if hidden is None or hidden.is_folder else hidden

    def vacate(self, queue: str, index: QueueIndex, id: str) -> None:
        """The entry has left the place where it was believed to be."""
        hidden = index.find_hidden(id)
        if hidden is not None:
            path = self._root.path_of(queue, hidden)
            index.unhide(hidden, [hidden.name_of(id)] if hidden.is_folder else None)
            if hidden.is_folder:
                self.has_thinned(path, hidden.names)
        place = index.ready.find(id)
        if place is not None:
            index.ready.remove(*place)
            if place[1] is not None:
                self.has_thinned(layout.ready(queue, place[1].batch), place[1].names)

    def has_thinned(self, folder: str, left: Collection[str]) -> None:
        """Something has left a batch folder, and that must be durable before the folder goes.

        When nothing is left in it, whoever saw that first removes it.
        """
        self._doubt(folder)
        if not left:
            self._root.drop_after_sync(folder)

    def _vacated(self, queue: str, index: QueueIndex, batch: Batch, path: str) -> BatchFolder | None:
        """The batch has moved to `path` from where it was believed to be, with what is left in it."""
        index.ready.forget_unlisted(batch.id)
        lease = index.forget_unlisted(batch.id)
        if lease is not None:
            self._root.syncer.folder_moved(self._root.path_of(queue, lease), path)
        folder = index.ready.folder(batch.id)
        if folder is not None:
            was_at = layout.ready(queue, folder.batch)
            index.ready.remove_folder(folder)
        elif (hidden := index.find_hidden_batch(batch.id)) is not None:
            assert isinstance(hidden.item, BatchFolder)
            folder, was_at = hidden.item, self._root.path_of(queue, hidden)
            index.unhide(hidden)
        elif batch.id in self._leaving:
            folder, was_at = self._leaving.pop(batch.id)
        else:
            return None
        self._root.syncer.folder_moved(was_at, path)
        folder.batch = batch
        if folder.names:
            return folder
        self.has_thinned(path, ())
        return None

    def _listed(self, queue: str, path: str, batch: Batch, index: QueueIndex) -> BatchFolder | None:
        names: list[str] = []
        try:
            listed = self._root.folders.scan(path)
        except StoreError:
            if self._root.folders.is_folder(path):
                raise
            log.warning("%s has the name of a batch and is no folder: it is left alone", path)
            return None
        for found in listed:
            try:
                entry = parse_entry(found.name)
            except NotAName:
                continue
            if found.kind is Kind.FILE and entry.is_tagged:
                self.vacate(queue, index, entry.id)
                names.append(found.name)
        if not names:
            # It has moved on; or it is empty, and whoever has emptied it may not live to remove it.
            if self._root.folders.is_there(path):
                self.has_thinned(path, ())
            return None
        if len(names) < batch.count:
            self._doubt(path)  # Something has left it, and who knows whether durably.
        return BatchFolder(batch, names, sum(map(length_of, names)))

    def _doubt(self, folder: str) -> None:
        """Something came to `folder` from who knows where, and may not be durable there."""
        syncer = self._root.syncer
        for dirty in (folder, layout.NEW, layout.DELAY, layout.REMOVE):
            syncer.folder_changed(dirty)


@lru_cache(maxsize=4_096)  # A name comes, mostly goes soon, and is looked at twice each time.
def filed_as(name: str) -> Filed | None:
    try:
        return parse_filed(name)
    except NotAName:
        return None


def lease_in(name: str) -> tuple[str, str]:
    """What of a name in `delay/` an extension leaves as it is: the item, and the lease's token."""
    item, _, rest = name.partition("@")
    return item, rest.rpartition("~")[2]
