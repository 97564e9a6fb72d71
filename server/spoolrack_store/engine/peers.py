"""The others: processes that have the same root open, and move the same files.

Nobody owns the index alone. What others do is heard from a watch, or found by listing, and only changes
what this process believes; who gets a message is decided by the rename alone. All that is heard is
applied in order, our own renames too: the last one that names an entry says where it is, so that the
belief is true again as soon as all has been heard. What is believed, and what follows from it for the
index, is in `beliefs`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from typing import Final, Protocol

from ..files import layout
from ..files.disk import Kind
from ..files.watcher import Change
from ..index.ready import BatchFolder
from ..model.errors import DiskError, StoreError
from ..model.names import Batch, id_of, is_of_batch
from .beliefs import Beliefs, filed_as, lease_in
from .catalog import Catalog
from .contents import Contents
from .root import Root

log = logging.getLogger(__name__)
_LOOKS: Final = 2
"""So many listings must miss a message before it is believed to be gone: one may miss what moves."""


_COARSEST_NS: Final = 2_000_000_000
"""File systems tell the time of a change at least as exactly as this."""

_SHARED: Final = (layout.CONFIG, layout.QUEUES, layout.DELAY, layout.REMOVE)
"""The folders in which the others are heard, besides those of the queues."""


class Watch(Protocol):
    """What must be told of folders under the root; `Watcher` does it for a real one."""

    @property
    def hears_all(self) -> bool: ...

    def watch(self, folder: str) -> None: ...

    def unwatch(self, folder: str) -> None: ...

    def changes(self) -> list[Change] | None: ...


class Peers:
    """Not thread-safe."""

    def __init__(self, root: Root, catalog: Catalog, watch: Watch | None) -> None:
        """Without a `watch` there are no others."""
        self._root = root
        self._catalog = catalog
        self._watch = watch
        self._beliefs = Beliefs(root)
        self.contents = Contents(root, self._beliefs)
        self._has_missed = False
        """Whether something was heard that could not be taken in."""
        self.has_news = False
        """Whether somebody has come or gone since this was last set to False."""
        self._owners_seen_ns = 0
        """When `owners/` had last changed, where nobody tells of it."""
        if watch is not None:
            watch.watch(layout.OWNERS)
            self._owners_have_changed()

    def attach(self) -> None:
        """Others have the root open: listen from now on, and look at everything once."""
        assert self._watch is not None
        self._root.is_shared = self._root.folders.is_contended = True
        # Listening comes first: what happens during the look is heard afterwards.
        for folder in _SHARED:
            self._watch.watch(folder)
        self.look()

    def look_later(self) -> None:
        """Something could not be taken in: look at everything, and for everybody, next time."""
        self._has_missed = self.has_news = True

    def detach(self) -> None:
        """Nobody else is there any more: what they have done last is heard, and then nothing."""
        if self._watch is None or not self._root.is_shared:
            return
        self.listen()
        if not self._watch.hears_all:
            self.look()
        if self._has_missed:
            self.has_news = True  # Once more, when that was taken in.
            return
        for queue in self._root.index.queues:
            self.contents.look_into(queue)
        if any(map(self.contents.has_unread, self._root.index.queues)):
            return  # Who is alone takes what he doesn't know of for deleted. A tick tries again.
        self._root.is_shared = self._root.folders.is_contended = False
        self._root.unread.clear()
        for folder in _SHARED:
            self._watch.unwatch(folder)
        for queue in self._root.index.queues:
            self._watch.unwatch(layout.queue_folder(queue))

    def listen(self) -> None:
        """Take in what was done since the last call."""
        if self._watch is None:
            return
        changes = self._watch.changes()
        if changes is None or self._has_missed:
            changes, self._has_missed = None, False
        if self._is_about_owners(changes):
            self.has_news = True
        if not self._root.is_shared:
            return
        try:
            if changes is None:
                self.look()
            else:
                self._take_in(changes)
                if self._catalog.unread:
                    self._catalog.refresh()
                self._look_at_what_was_made()
        except StoreError as error:
            # What was believed is as good as before: a claim is decided by its rename.
            log.warning("what others do can't be seen for now: %s", error)
            self._has_missed = True

    def _is_about_owners(self, changes: Collection[Change] | None) -> bool:
        assert self._watch is not None
        if changes is not None and any(change.folder == layout.OWNERS for change in changes):
            return True
        if self._watch.hears_all or self._root.is_shared:
            return changes is None
        # Nobody tells of it, and who is alone has nothing else to look for.
        return self._owners_have_changed()

    def _owners_have_changed(self) -> bool:
        """Whether anybody may have come or gone since this was last asked."""
        try:
            changed_ns = self._root.disk.facts(layout.OWNERS).changed_ns
        except OSError as error:
            log.warning("who else has the root open can't be told for now: %s", error)
            return False
        is_fresh = self._root.clock.wall() * 1_000_000 - changed_ns < _COARSEST_NS
        has_changed, self._owners_seen_ns = changed_ns != self._owners_seen_ns, changed_ns
        # Two changes within one tick of the file system's clock look like one.
        return has_changed or is_fresh

    def _take_in(self, changes: Collection[Change]) -> None:
        """Believe what is true after all of `changes`, of which many are our own.

        Only the last one for each name counts: an older one would for a moment undo what we did since.
        """
        # What leaves `remove/` has been unlinked, and was nobody's any more.
        told = [c for c in changes if c.appeared or c.folder != layout.REMOVE]
        last: dict[tuple[str, str], bool] = {}
        for change in told:
            if change.folder == layout.QUEUES and not change.appeared:
                # What had come to it before has left with it.
                gone = layout.queue_folder(change.name)
                last = {key: appeared for key, appeared in last.items() if key[0] != gone}
            last[change.folder, change.name] = change.appeared
        self._beliefs.staying = {
            lease_in(name)
            for (folder, name), appeared in last.items()
            if appeared and folder == layout.DELAY
        }
        for (folder, name), appeared in last.items():
            if not appeared:
                self._hear(folder, name, appeared=False)
        for change in told:
            if change.appeared:
                self._hear_alone(change.folder, change.name)
        for (folder, name), appeared in last.items():
            if appeared:
                self._hear(folder, name, appeared=True)
        self._beliefs.settle()

    def _hear_alone(self, folder: str, name: str) -> None:
        """What was seen outside of its batch folder, even for a moment, isn't in it any more."""
        if folder in (layout.DELAY, layout.REMOVE):
            filed = filed_as(name)
            if filed is not None and not isinstance(filed.item, Batch):
                self._beliefs.has_left_batch(filed.queue, filed.item.id)
        elif folder.startswith(f"{layout.QUEUES}/"):
            self._beliefs.has_left_batch(layout.name_of(folder), id_of(name))

    def look(self) -> None:
        """List everything, and believe what is there."""
        assert self._watch is not None
        self._look_at_config()
        for folder in _SHARED:
            self._watch.watch(folder)  # One may have been removed and made again.
        for queue in self._root.index.queues:
            self._watch.watch(layout.queue_folder(queue))
        self._look_at(list(self._root.index.queues))
        # What moved while this looked is heard now.
        self._take_in(self._watch.changes() or ())

    # What is heard.

    def _hear(self, folder: str, name: str, *, appeared: bool) -> None:
        if folder == layout.DELAY:
            self._beliefs.hidden_is(name, appeared=appeared)
        elif folder == layout.REMOVE:
            if appeared:
                self._hear_removed(name)
        elif folder == layout.OWNERS:
            pass  # `has_news` says so.
        elif folder == layout.CONFIG:
            self._look_at_config()
        elif folder == layout.QUEUES:
            self._hear_queue_folder(name, appeared=appeared)
        else:
            queue = layout.name_of(folder)
            index = self._root.index.queues.get(queue)
            if index is None:
                return
            if not name:
                self._look_at([queue])
            elif appeared:
                self._beliefs.ready(queue, index, name)
            else:
                self._beliefs.not_ready(queue, index, name)

    def _hear_queue_folder(self, queue: str, *, appeared: bool) -> None:
        """A purge takes a queue's folder away and makes another."""
        if queue not in self._root.index.queues or self._watch is None:
            return
        if appeared:
            self._watch.watch(layout.queue_folder(queue))
        self._look_at([queue])

    def _hear_removed(self, name: str) -> None:
        """A single entry has left whatever it lay in: for a folder, its own departure is heard."""
        filed = filed_as(name)
        index = None if filed is None else self._root.index.queues.get(filed.queue)
        if filed is not None and index is not None and not isinstance(filed.item, Batch):
            self._beliefs.vacate(filed.queue, index, filed.item.id)

    # What is found.

    def _look_at_config(self) -> None:
        self._catalog.refresh()
        self._look_at_what_was_made()

    def _look_at_what_was_made(self) -> None:
        assert self._watch is not None
        made = self._catalog.take_made()
        for queue in made:
            self._watch.watch(layout.queue_folder(queue))
        if made:
            self._look_at(made)

    def _look_for_leases(self, queue: str) -> None:
        """Believe what `delay/` shows of one queue."""
        prefix = f"{queue}:"
        hidden = {name for name in self._names_in(layout.DELAY) if name.startswith(prefix)}
        self._forget_hidden(queue, hidden)
        for name in hidden:
            self._beliefs.hidden_is(name, appeared=True)
        self._beliefs.settle()

    def _look_at(self, queues: Collection[str]) -> None:
        """Believe what the folders show of `queues`: first forget what isn't there, then learn."""
        # Whoever made their folders, again after a purge, may not have made that durable.
        self._root.syncer.folder_changed(layout.QUEUES)
        hidden: dict[str, set[str]] = {queue: set() for queue in queues}
        for name in self._names_in(layout.DELAY):
            queue = name.partition(":")[0]
            if queue in hidden:
                hidden[queue].add(name)
        ready = {queue: set(self._names_in(layout.queue_folder(queue))) for queue in queues}
        for queue in queues:
            self._forget_hidden(queue, hidden[queue])
            self._forget_ready(queue, ready[queue])
        for queue in queues:
            index = self._root.index.queues[queue]
            for name in hidden[queue]:
                self._beliefs.hidden_is(name, appeared=True)
            for name in ready[queue]:
                self._beliefs.ready(queue, index, name)
        self._beliefs.settle()

    def _names_in(self, folder: str) -> Iterator[str]:
        """All names in a folder, but for what has the name of a batch and is no folder."""
        for found in self._root.folders.scan(folder):
            if found.kind is Kind.FOLDER or not is_of_batch(found.name):
                yield found.name

    def _forget_ready(self, queue: str, there: set[str]) -> None:
        """Forget what isn't in the queue's folder; what is known already leaves `there`."""
        index = self._root.index.queues[queue]
        for name in list(index.ready.singles()):
            if name in there:
                there.discard(name)
            else:
                index.ready.remove(name, None)
        for batch in index.ready.unlisted():
            if str(batch) not in there:
                index.ready.forget_unlisted(batch.id)
        for folder in list(index.ready.folders()):
            path = layout.ready(queue, folder.batch)
            index.ready.remove_folder(folder)
            if layout.name_of(path) not in there:
                continue
            left = self.contents.left_in(path, folder.names)
            if not left.issubset(folder.names):
                continue  # It was forgotten in part, and is learned anew.
            gone = [name for name in folder.names if name not in left]
            for name in gone:
                folder.remove(name)
            if gone:
                self._beliefs.has_thinned(path, folder.names)
            if folder.names:
                index.ready.add_folder(folder)
                there.discard(layout.name_of(path))

    def _forget_hidden(self, queue: str, there: set[str]) -> None:
        """Forget what isn't in `delay/`; what is known already leaves `there`.

        A lease that was extended in the meantime stays under its new name.
        """
        index = self._root.index.queues[queue]
        names = {lease_in(name): name for name in there}
        for hidden in list(index.hidden()):
            name = layout.name_of(self._root.path_of(queue, hidden))
            now = names.get(lease_in(name))
            if now is None:
                index.unhide(hidden)
            elif isinstance(hidden.item, BatchFolder):
                path = f"{layout.DELAY}/{now}"
                left = self.contents.left_in(path, hidden.names)
                if not left.issubset(hidden.names):
                    index.unhide(hidden)  # It was forgotten in part, and is learned anew.
                    continue
                gone = [inside for inside in hidden.names if inside not in left]
                index.unhide(hidden, gone)
                if gone:
                    self._beliefs.has_thinned(path, hidden.names)
            there.discard(name)
        for lease in index.unlisted():
            name = layout.name_of(self._root.path_of(queue, lease))
            if lease_in(name) not in names:
                index.forget_unlisted(lease.item.id)

    # What is asked again.

    def look_through(self, queue: str) -> None:
        """Know all that is in the queue at this moment."""
        if self._watch is not None and self._root.is_shared and not self._watch.hears_all:
            self._look_at([queue])
        self.contents.look_into(queue)

    def require_leases(self, queue: str, token: str) -> None:
        """Know by name all that is leased with `token`; raises `StoreError` if that can't be told."""
        self.contents.require_read(queue)
        if self._has_missed:
            raise DiskError(detail=f"what others have leased of {queue} can't be told for now")
        for lease in self._root.index.queues[queue].unlisted():
            if lease.token == token:
                self._beliefs.look_into_lease(queue, lease)

    def seek(self, queue: str, id: str) -> None:
        """Look for a message that is not where it was believed to be, or nowhere: listen, then list.

        Afterwards the index knows where it was at this moment, if it was anywhere. Raises `StoreError`
        if that can't be told.
        """
        if self._watch is None or not self._root.is_shared:
            self.contents.require_read(queue)
            return
        self.listen()
        self.contents.retry()
        for look in range(_LOOKS + 1):
            index = self._root.index.queues.get(queue)
            if index is None:
                return
            self.contents.look_into(queue)
            is_known = index.find_hidden(id) is not None or index.ready.find(id) is not None
            # Where not all is heard, what is known may be long over.
            if is_known and (look or self._watch.hears_all):
                return
            if look == _LOOKS:
                break
            if self._watch.hears_all:
                self._look_for_leases(queue)
            else:
                self._look_at([queue])
        if self._has_missed or self.contents.has_unread(queue):
            raise DiskError(detail=f"not all that is in {queue} can be looked at, nor {id} be found")
