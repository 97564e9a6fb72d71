"""What happens at a start: the folders are read, and what a crash left is finished or undone.

Nothing but names is read, except in `new/`, where size and checksum tell a message that was written
whole from one that was not. A message in `new/` that is whole may have been acknowledged, so it is
delivered; one that is not whole never was. Where a crash left one id in two places, the later state
is the true one. What isn't ours is put into quarantine and never stops a start.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from itertools import pairwise
from typing import Final

from ..files import layout
from ..files.disk import Found, Kind
from ..index.hidden import Hidden, QueueIndex
from ..index.ready import BatchFolder
from ..model.clock import Millis
from ..model.errors import StoreError
from ..model.names import (
    Batch,
    Filed,
    Item,
    NotAName,
    id_of,
    is_queue_name,
    is_unsent,
    length_of,
    length_of_plain,
    parse_entry,
    parse_filed,
    parse_item,
)
from ..model.settings import MAX_DELAY, MAX_VISIBILITY
from .catalog import Catalog
from .heir import Heir
from .live import Live
from .root import Root, is_entry, is_entry_or_batch, path_in
from .sender import Sender

log = logging.getLogger(__name__)

_NOT_OURS: Final = "its name is not one of ours"


class Recovery:
    """Fills an empty index from the folders. The engine syncs when it is done."""

    def __init__(self, root: Root, catalog: Catalog, sender: Sender) -> None:
        self._root = root
        self._catalog = catalog
        self._removed: set[str] = set()
        """The ids in `remove/`."""
        self.removed_keys: list[tuple[str, str]] = []
        """Of what is there: the queues and names that carry deduplication keys."""
        self._batches: set[str] = set()
        """The batches found so far, in later states."""
        self._sent: set[str] = set()
        """The ids found in `new/` so far."""
        self._superseded: dict[str, int] = {}
        """How many entries were dropped, by folder, because they are in a later state elsewhere."""
        self._heir = Heir(root, sender)

    @property
    def delivered(self) -> int:
        """Messages found whole in `new/`."""
        return self._heir.delivered

    @property
    def undone(self) -> int:
        """Files and folders in `new/` that were never written whole."""
        return self._heir.undone

    def run(self) -> None:
        """Read every folder, the later states first."""
        self._catalog.load()
        self._root.histories.update(found.name for found in self._scan(layout.HISTORY) or ())
        for name in self._catalog.doomed:
            self._root.index.queues[name] = QueueIndex()
        self._read_removed()
        self._read_hidden()
        self._read_ready()
        self._read_sent()

    def left_of(self, path: str, queue: str, batch: Batch) -> BatchFolder | None:
        """What counts of a batch that was on its way to its queue; None if nothing of it does.

        What is in a later state elsewhere is dropped, and the folder that it leaves empty, too.
        """
        index = self._root.index.queues[queue]
        self._root.ids.rise_above(batch.id)
        return self._batch_folder(path, batch, index, also_ready=True)

    # What is deleted.

    def _read_removed(self) -> None:
        for found in self._root.disk.scan(layout.REMOVE):
            path = path_in(layout.REMOVE, found.name)
            filed = self._filed(found, path)
            if filed is None:
                continue
            self._root.ids.rise_above(filed.item.id)
            self._removed.add(filed.item.id)
            if found.kind is not Kind.FOLDER:
                self._note_keys(filed, [found.name])
            else:
                try:
                    names = list(self._root.folders.names_inside(path))
                    self._removed.update(map(id_of, names))
                    self._note_keys(filed, names)
                except StoreError as error:
                    log.error("%a can't be read, and stays for now: %s", path, error)
            self._root.folders.was_removed(path)

    def _note_keys(self, filed: Filed, names: Iterable[str]) -> None:
        if not is_unsent(filed.item):
            self.removed_keys += [(filed.queue, name) for name in names if ",k" in name]

    # What is leased or delayed.

    def _read_hidden(self) -> None:
        parsed = []
        for found in self._root.disk.scan(layout.DELAY):
            path = path_in(layout.DELAY, found.name)
            filed = self._filed(found, path)
            if filed is not None and filed.due is None:
                self._quarantine(path, "it has no due time")
            elif filed is not None:
                parsed.append((found, path, filed))
        # Where one message is found under two leases, the later one is the true one.
        parsed.sort(key=lambda each: (each[2].item.receives, each[2].due), reverse=True)
        for found, path, filed in parsed:
            queue = filed.queue
            if queue not in self._root.index.queues and self._is_message(found, path, filed.item):
                self._catalog.use_defaults(queue)
            index = self._index_of(queue, path)
            item = None if index is None else self._item(found, path, filed.item, index)
            if item is not None:
                self._hide(filed, item)

    def _hide(self, filed: Filed, item: str | BatchFolder) -> None:
        assert filed.due is not None
        clock = self._root.clock
        # A clock that was wrong when this was written must not hide the message for ever.
        most = MAX_DELAY if filed.token is None else MAX_VISIBILITY
        left = max(min(filed.due - clock.wall(), most), self._root.chores.wait)
        hidden = Hidden(
            item,
            due=filed.due,
            due_monotonic=Millis(clock.monotonic() + left),
            token=filed.token,
        )
        self._root.index.hide(filed.queue, hidden)

    # What is ready.

    def _read_ready(self) -> None:
        for found in self._root.disk.scan(layout.QUEUES):
            path = path_in(layout.QUEUES, found.name)
            if found.kind is not Kind.FOLDER:
                self._quarantine(path, "not a queue's folder")
                continue
            if found.name not in self._root.index.queues:
                listed = self._scan(path)
                if listed == []:
                    self._root.drop_after_sync(path)  # A creation that came no further.
                if not listed:
                    continue
                if is_queue_name(found.name) and any(map(is_entry_or_batch, listed)):
                    self._catalog.use_defaults(found.name)
            index = self._index_of(found.name, path)
            if index is not None:
                self._read_queue(path, index)
        for live in self._catalog.queues.values():
            if live.settings.dead_letter_queue:
                self._drop_buried(live)

    def _read_queue(self, folder: str, index: QueueIndex) -> None:
        singles: list[str] = []
        batches: list[BatchFolder] = []
        for found in self._scan(folder) or ():
            path = path_in(folder, found.name)
            if found.kind is Kind.FILE and length_of_plain(found.name) is not None:
                id = id_of(found.name)
                self._root.ids.rise_above(id)
                if self._is_latest(path, id, index, also_ready=False):
                    singles.append(found.name)
                continue
            try:
                item = parse_item(found.name)
            except NotAName:
                self._quarantine(path, _NOT_OURS)
                continue
            read = self._item(found, path, item, index)
            if isinstance(read, BatchFolder):
                batches.append(read)
            elif read is not None:
                singles.append(read)
        singles = self._without_doubles(folder, singles)
        self._part(folder, batches)
        if singles and batches:
            # What has left its batch folder was there before it was here.
            alone = {id_of(name) for name in singles}
            for batch in batches:
                for name in [name for name in batch.names if id_of(name) in alone]:
                    self._drop(path_in(path_in(folder, str(batch.batch)), name))
                    batch.remove(name)
        index.ready.add_many(singles, sum(map(length_of, singles)))
        for batch in batches:
            if batch.names:
                index.ready.add_folder(batch)
            else:
                self._root.drop_after_sync(path_in(folder, str(batch.batch)))

    def _without_doubles(self, folder: str, names: list[str]) -> list[str]:
        """One name for each id: the one with the most receives is the latest."""
        names.sort()
        if all(id_of(one) != id_of(next) for one, next in pairwise(names)):
            return names
        latest: dict[str, str] = {}
        for name in names:
            there = latest.setdefault(id_of(name), name)
            if there != name:
                older, newer = sorted((there, name), key=lambda n: parse_entry(n).receives)
                latest[id_of(name)] = newer
                self._drop(path_in(folder, older))
        return sorted(latest.values())

    def _part(self, folder: str, batches: list[BatchFolder]) -> None:
        """Let no batch hold what another holds, too: somebody copied a folder."""
        batches.sort(key=lambda batch: batch.first)
        if all(one.last < next.first for one, next in pairwise(batches)):
            return
        seen: set[str] = set()
        for batch in batches:
            for name in [name for name in batch.names if id_of(name) in seen]:
                self._drop(path_in(path_in(folder, str(batch.batch)), name))
                batch.remove(name)
            seen.update(map(id_of, batch.names))

    def _drop_buried(self, live: Live) -> None:
        """What is in the dead-letter queue already is no longer here."""
        target = self._root.index.queues.get(live.settings.dead_letter_queue)
        ready = self._root.index.queues[live.name].ready
        if target is None:
            return
        used_up = [
            name
            for name, folder in ready.since("")
            if folder is None and parse_entry(name).receives >= live.settings.max_receives
        ]
        for name in used_up:
            if target.find_hidden(id_of(name)) or target.ready.find(id_of(name)):
                ready.remove(name, None)
                self._drop(layout.ready(live.name, name))

    # What was sent.

    def _read_sent(self) -> None:
        for found in self._root.disk.scan(layout.NEW):
            path = path_in(layout.NEW, found.name)
            filed = self._filed(found, path)
            if filed is None or filed.queue in self._catalog.doomed:
                continue  # A doomed queue is emptied by whoever finishes its deletion.
            bare = str(filed.item) == filed.item.id and filed.due is None
            if bare and found.kind is Kind.FILE:
                continue  # Put there by hand: the mover adopts it.
            index = self._index_of(filed.queue, path)
            if index is None:
                continue
            item = self._item(found, path, filed.item, index, also_ready=True)
            if item is not None:
                self._heir.take_over(path, filed, item, superseded=self._superseded.get(path, 0))

    # What all of them need.

    def _filed(self, found: Found, path: str) -> Filed | None:
        try:
            return parse_filed(found.name)
        except NotAName:
            self._quarantine(path, _NOT_OURS)
            return None

    def _is_message(self, found: Found, path: str, item: Item) -> bool:
        """Whether this is a message, or a batch with one, as far as names say."""
        if not isinstance(item, Batch):
            return found.kind is Kind.FILE and item.is_tagged
        return found.kind is Kind.FOLDER and any(map(is_entry, self._scan(path) or ()))

    def _index_of(self, queue: str, path: str) -> QueueIndex | None:
        index = self._root.index.queues.get(queue)
        if index is None:
            self._quarantine(path, f"there are no settings of a queue {queue!a}")
        return index

    def _item(
        self,
        found: Found,
        path: str,
        item: Item,
        index: QueueIndex,
        *,
        also_ready: bool = False,
    ) -> str | BatchFolder | None:
        """The entry's name, or the folder with what is in it; None if nothing of it counts."""
        self._root.ids.rise_above(item.id)
        expected = Kind.FOLDER if isinstance(item, Batch) else Kind.FILE
        if found.kind is not expected:
            self._quarantine(path, f"its name is a {expected.value}'s, and it is none")
            return None
        if isinstance(item, Batch):
            return self._batch_folder(path, item, index, also_ready=also_ready)
        if not item.is_tagged:
            self._quarantine(path, "its name doesn't say both size and checksum")
            return None
        return str(item) if self._is_latest(path, item.id, index, also_ready=also_ready) else None

    def _is_latest(self, path: str, id: str, index: QueueIndex, *, also_ready: bool) -> bool:
        """Whether the entry counts; if it is in a later state elsewhere, it is dropped."""
        if (
            id in self._removed
            or index.find_hidden(id) is not None
            or (also_ready and (id in self._sent or index.ready.find(id) is not None))
        ):
            self._drop(path)
            folder = layout.folder_of(path)
            self._superseded[folder] = self._superseded.get(folder, 0) + 1
            return False
        if also_ready:
            self._sent.add(id)
        return True

    def _batch_folder(
        self, path: str, batch: Batch, index: QueueIndex, *, also_ready: bool
    ) -> BatchFolder | None:
        if batch.id in self._batches:
            self._quarantine(path, "the same batch is in a later state elsewhere")
            return None
        self._batches.add(batch.id)
        if not self._root.disk.can_sync_all:
            # A move out of it, of a process that died, may not be durable yet.
            self._root.syncer.folder_changed(path)
        listed = self._scan(path)
        if listed is None:
            return None
        names: list[str] = []
        bytes = 0
        for found in listed:
            inside = path_in(path, found.name)
            length = length_of_plain(found.name) if found.kind is Kind.FILE else None
            if length is not None:
                # There may be millions of these.
                id = id_of(found.name)
                self._root.ids.rise_above(id)
                if self._is_latest(inside, id, index, also_ready=also_ready):
                    names.append(found.name)
                    bytes += length
                continue
            try:
                entry = parse_entry(found.name)
            except NotAName:
                self._quarantine(inside, _NOT_OURS)
                continue
            read = self._item(found, inside, entry, index, also_ready=also_ready)
            if isinstance(read, str):
                names.append(read)
                bytes += entry.length
        if not names:
            self._root.drop_after_sync(path)
            return None
        return BatchFolder(batch, names, bytes)

    def _scan(self, path: str) -> list[Found] | None:
        """The names in a folder; None of one that can't be read: it is left alone and stops nothing."""
        try:
            return self._root.disk.scan(path)
        except OSError as error:
            log.error("%a can't be read, and nothing in it is served: %s", path, error)
            self._root.unread.add(layout.queue_of(path))
            return None

    def _quarantine(self, path: str, why: str) -> None:
        try:
            self._root.folders.quarantine(path, why)
        except StoreError as error:
            log.error("%a is not served (%s), and can't be put aside: %s", path, why, error)

    def _drop(self, path: str) -> None:
        """Unlink what is in a later state elsewhere."""
        try:
            self._root.folders.drop(path)
        except StoreError as error:
            log.error("%a is a leftover, and can't be unlinked: %s", path, error)
