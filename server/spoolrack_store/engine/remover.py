"""Deletes: a message is deleted when its move to `remove/` is durable; the reaper unlinks it later.

A queue is deleted when its tombstone is durable; emptying it follows, and recovery finishes it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ..files import layout
from ..files.disk import Found, Kind
from ..files.owners import is_living
from ..index.hidden import Hidden, QueueIndex
from ..index.ready import BatchFolder
from ..model.errors import InvalidRequest, MessageNotFound, StaleReceipt, StoreError
from ..model.ids import is_id, sent_at
from ..model.names import Batch, Filed, NotAName, id_of, parse_filed, parse_receipt
from ..model.operations import ByReceipt, Delete, Target
from ..model.transitions import Move, State
from . import receipts
from .catalog import Catalog, Live
from .letters import Letters
from .root import Root, item_of, path_in, place_of_ready

log = logging.getLogger(__name__)

Results = list[StoreError | None]
Container = Hidden | BatchFolder | None
"""What an entry lies in: a lease or delay, a ready batch folder, or nothing but its queue."""
Seek = Callable[[str, str], None]
_LOOKS: Final = 3
"""A message that others move while it is deleted is looked for so often."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """One target of a delete, and where its result goes."""

    live: Live
    target: Target
    results: Results
    at: int

    def fail(self, error: StoreError) -> None:
        self.results[self.at] = error


_Names = dict[str, list[_Asked]]


class _Removals:
    """The deletes of one commit by what the entries lie in: a folder that they empty moves whole."""

    def __init__(self) -> None:
        self.by_container: dict[tuple[str, Container], _Names] = {}

    def add(self, asked: _Asked, container: Container, name: str) -> None:
        names = self.by_container.setdefault((asked.live.name, container), {})
        names.setdefault(name, []).append(asked)


class Remover:
    """Not thread-safe."""

    def __init__(self, root: Root, catalog: Catalog, letters: Letters, seek: Seek) -> None:
        """`seek` looks for a message, by queue and id, that others may have moved."""
        self._root = root
        self._catalog = catalog
        self._letters = letters
        self._seek = seek

    # Messages.

    def delete(self, requests: Sequence[Delete]) -> list[Results | StoreError]:
        outcomes: list[Results | StoreError] = []
        asked: list[_Asked] = []
        for request in requests:
            try:
                live = self._catalog.require(request.queue)
            except StoreError as error:
                outcomes.append(error)
                continue
            results: Results = [None] * len(request.targets)
            outcomes.append(results)
            asked.extend(_Asked(live, target, results, at) for at, target in enumerate(request.targets))
        for _ in range(_LOOKS):
            if asked:
                asked = self._delete(asked)
        for one in asked:
            one.fail(StaleReceipt(id=_id_of(one.target)))
        return outcomes

    def _delete(self, asked: Sequence[_Asked]) -> list[_Asked]:
        """Delete what can be found; what turned out to be elsewhere is to be asked again."""
        if self._root.is_shared:
            # All of it before anything is found for good: looking changes what is known.
            for one in asked:
                self._look_for(one)
        removals = _Removals()
        unknown: list[_Asked] = []
        for one in asked:
            try:
                place = self._find(one.live, one.target)
            except StoreError as error:
                one.fail(error)
                continue
            if place is not None:
                removals.add(one, *place)
            elif not isinstance(one.target, ByReceipt):
                unknown.append(one)
        self._look_in_remove(unknown)
        missed: list[_Asked] = []
        for (queue, container), names in removals.by_container.items():
            missed += self._remove(queue, container, names)
        return missed

    def _look_for(self, asked: _Asked) -> None:
        """Find out where the target is, if others may have moved it from where it is believed to be."""
        try:
            if self._find(asked.live, asked.target) is not None:
                return
        except StaleReceipt as error:
            log.debug("%s: looked for", error)
        except StoreError:
            return  # No receipt, or no id: it is told so later.
        self._seek(asked.live.name, _id_of(asked.target))

    def _find(self, live: Live, target: Target) -> tuple[Container, str] | None:
        """Where the target lies; None if it isn't in the queue."""
        index = self._root.index.queues[live.name]
        if isinstance(target, ByReceipt):
            receipt = receipts.parse(live.name, target.receipt)
            if index.find_hidden(receipt.id) is not None:
                return receipts.find_lease(index, receipt)
            if index.ready.find(receipt.id) is not None or self._is_buried(live, receipt.id):
                raise StaleReceipt(id=receipt.id)
            return None  # Gone already: what a repeated delete wants to hear.
        if not is_id(target.id):
            raise InvalidRequest(what="id", value=target.id, rule="must be a UUID in lower case")
        hidden = index.find_hidden(target.id)
        if hidden is not None:
            return hidden, hidden.name_of(target.id)
        found = index.ready.find(target.id)
        return None if found is None else (found[1], found[0])

    def _is_buried(self, live: Live, id: str) -> bool:
        """Whether the message lives on as a dead letter, so that it isn't gone at all."""
        if self._letters.is_moving(id):
            return True
        seen = {live.name}
        name = live.settings.dead_letter_queue
        while name and name not in seen:
            seen.add(name)
            index = self._root.index.queues.get(name)
            if index is not None and (index.find_hidden(id) or index.ready.find(id)):
                return True
            target = self._catalog.queues.get(name)
            name = target.settings.dead_letter_queue if target is not None else ""
        return False

    def _look_in_remove(self, unknown: Sequence[_Asked]) -> None:
        """To delete what is deleted already succeeds, as long as it can be seen."""
        if not unknown:
            return
        try:
            removed = self._removed_ids()
        except StoreError as error:
            for one in unknown:
                one.fail(error)
            return
        for one in unknown:
            id = _id_of(one.target)
            if id not in removed:
                one.fail(MessageNotFound(queue=one.live.name, id=id))

    def _removed_ids(self) -> set[str]:
        ids = set()
        for found in self._root.folders.scan(layout.REMOVE):
            try:
                item = parse_filed(found.name).item
            except NotAName:
                continue
            ids.add(item.id)
            if found.kind is Kind.FOLDER:
                ids.update(self._root.folders.ids_inside(path_in(layout.REMOVE, found.name)))
        return ids

    def _remove(self, queue: str, container: Container, names: _Names) -> list[_Asked]:
        """Move `names` to `remove/`, with the folder they lie in if nothing else is left there.

        Answers with those that aren't there any more, and may be elsewhere.
        """
        folder = container.item if isinstance(container, Hidden) else container
        missed: list[_Asked] = []
        if isinstance(folder, BatchFolder) and len(names) == len(folder):
            everybody = [one for asked in names.values() for one in asked]
            try:
                if not self._remove_folder(queue, container, folder):
                    missed += everybody
            except StoreError as error:
                for one in everybody:
                    one.fail(error)
        else:
            for name, asked in names.items():
                try:
                    if not self._remove_single(queue, container, name):
                        missed += asked
                except StoreError as error:
                    for one in asked:
                        one.fail(error)
        # With nobody else there, somebody has taken the file away by hand: that is as good as deleted.
        return missed if self._root.is_shared else []

    def _remove_folder(self, queue: str, container: Container, folder: BatchFolder) -> bool:
        root, index = self._root, self._root.index.queues[queue]
        if isinstance(container, Hidden):
            source, state = root.path_of(queue, container), container.state
        else:
            source, state = layout.ready(queue, folder.batch), State.READY
        target = layout.removed(queue, folder.batch)
        moved = root.folders.move(Move.DELETE, state, source, State.REMOVED, target, is_folder=True)
        if not moved:
            log.info("%s was taken away by somebody else", source)
        if isinstance(container, Hidden):
            index.unhide(container)
        else:
            index.ready.remove_folder(folder)
        return moved

    def _remove_single(self, queue: str, container: Container, name: str) -> bool:
        root, index = self._root, self._root.index.queues[queue]
        if isinstance(container, Hidden):
            source, state = root.path_of(queue, container), container.state
            if container.is_folder:
                source = path_in(source, name)
        else:
            source, state = place_of_ready(queue, name, container), State.READY
        target = layout.removed(queue, name)
        moved = root.folders.move(Move.DELETE, state, source, State.REMOVED, target)
        if not moved:
            log.info("%s was taken away by somebody else", source)
        if isinstance(container, Hidden):
            index.unhide(container, [name] if container.is_folder else None)
        else:
            index.ready.remove(name, container)
        return moved

    # Messages that are too old.

    def is_expired(self, live: Live, id: str) -> bool:
        retention = live.settings.retention
        return bool(retention) and sent_at(id) + retention <= self._root.clock.wall()

    def expire(self, queue: str, name: str, folder: BatchFolder | None) -> None:
        """Remove the ready entry `name`, which is too old; its folder if it is all that is left."""
        if folder is not None and len(folder) == 1:
            self._remove_folder(queue, folder, folder)
        else:
            self._remove_single(queue, folder, name)

    def expire_head(self, live: Live, most: int) -> None:
        """Remove up to `most` messages from the head of the queue that are too old."""
        ready = self._root.index.queues[live.name].ready
        for _ in range(most):
            head = ready.head()
            if head is None or not self.is_expired(live, id_of(head[0])):
                return
            try:
                self.expire(live.name, *head)
            except StoreError as error:
                log.warning("an old message of %s stays for now: %s", live.name, error)
                return

    # Queues.

    def purge(self, queue: str) -> int:
        """Delete all messages of the queue; how many there were.

        What is ready goes with one rename, however much it is. A failure leaves the rest in place.
        """
        root = self._root
        index = root.index.queues[queue]
        count = len(index)
        self._remove_hidden(queue, index)
        if index.ready.count:
            self._remove_queue_folder(queue, index)
        root.index.queues[queue] = QueueIndex()
        try:
            root.folders.make(layout.queue_folder(queue))
        except StoreError as error:
            log.warning("the folder of %s is made with its next message: %s", queue, error)
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
            self._remove_queue_folder(queue, index)
            # Others may not have heard of the deletion. What they lease or extend while this looks, the
            # next look finds: only one that finds nothing is the last.
            if root.is_shared and (sent or self._sweep(queue)):
                return
        except StoreError as error:
            log.warning("the deleted queue %s can't be emptied yet: %s", queue, error)
            return
        del root.index.queues[queue]
        root.after_sync.append(lambda: self._catalog.bury_tombstone(queue))

    def _remove_hidden(self, queue: str, index: QueueIndex) -> None:
        for hidden in list(index.hidden()):
            source = self._root.path_of(queue, hidden)
            target = layout.removed(queue, item_of(hidden.item))
            self._root.folders.move(
                Move.DELETE,
                hidden.state,
                source,
                State.REMOVED,
                target,
                is_folder=hidden.is_folder,
            )
            index.unhide(hidden)

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

    def _sweep(self, queue: str) -> int:
        """What others have put into `delay/` of the doomed queue; how much there was."""
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


def _id_of(target: Target) -> str:
    return parse_receipt(target.receipt).id if isinstance(target, ByReceipt) else target.id
