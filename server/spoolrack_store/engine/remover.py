"""Deletes: a message is deleted when its move to `remove/` is durable; the reaper unlinks it later."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ..files import layout
from ..files.syncer import SyncFailed
from ..index.hidden import Hidden
from ..index.ready import BatchFolder
from ..model.errors import DiskError, InvalidRequest, MessageNotFound, StaleReceipt, StoreError
from ..model.ids import is_id, sent_at
from ..model.names import id_of, parse_receipt
from ..model.operations import ByReceipt, Delete, Target
from ..model.transitions import Move, State
from . import receipts
from .catalog import Catalog
from .letters import Letters
from .live import Live
from .root import Root, is_entry, path_in, place_of_ready

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

    def __init__(
        self,
        root: Root,
        catalog: Catalog,
        letters: Letters,
        seek: Seek,
        is_arriving: Callable[[str, str], bool],
        led_to: Callable[[str], Iterator[str]],
    ) -> None:
        """`seek` looks for a message, by queue and id, that others may have moved; `is_arriving` says
        whether one is sent and not in its queue yet; `led_to` names the queues to which redrives may
        have moved what was in one."""
        self._root = root
        self._catalog = catalog
        self._letters = letters
        self._seek = seek
        self._is_arriving = is_arriving
        self._led_to = led_to

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
        if self._root.is_shared or self._root.unread:
            # All of it before anything is found for good: looking changes what is known.
            asked = [one for one in asked if self._has_looked_for(one)]
        removals = _Removals()
        unknown: list[_Asked] = []
        gone: list[_Asked] = []
        for one in asked:
            try:
                place = self._find(one.live, one.target)
            except StoreError as error:
                one.fail(error)
                continue
            if place is not None:
                removals.add(one, *place)
                continue
            gone.append(one)
            if not isinstance(one.target, ByReceipt):
                unknown.append(one)
        self._refuse_unknown(unknown)
        self._promise_gone(gone)
        missed: list[_Asked] = []
        for (queue, container), names in removals.by_container.items():
            missed += self._remove(queue, container, names)
        return missed

    def _promise_gone(self, gone: Sequence[_Asked]) -> None:
        """Whoever has deleted these may not have made that durable, and now it is promised."""
        if not gone or not self._root.is_shared:
            return
        try:
            self._root.everything_changed()
        except StoreError as error:
            for one in gone:
                one.fail(error)

    def _has_looked_for(self, asked: _Asked) -> bool:
        """Whether it is known where the target is; if it can't be, that is its result."""
        try:
            self._look_for(asked)
        except StoreError as error:
            asked.fail(error)
            return False
        return True

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
        # It may have become a dead letter.
        for queue in self._graves(asked.live):
            self._seek(queue, _id_of(asked.target))

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
        """Whether the message lives on as a dead letter, or was one, so that it isn't gone at all."""
        if self._letters.is_moving(id):
            return True
        for name in self._graves(live):
            index = self._root.index.queues.get(name)
            if index is not None and (index.find_hidden(id) or index.ready.find(id)):
                return True
        return False

    def _graves(self, live: Live) -> Iterator[str]:
        """The queue's dead-letter queue, that one's, and so on; and where redrives led from there."""
        seen = {live.name}
        names = [live.name]
        while names:
            name = names.pop()
            there = self._catalog.queues.get(name)
            grave = there.settings.dead_letter_queue if there is not None else ""
            for next in (grave, *self._led_to(name)):
                if next and next not in seen:
                    seen.add(next)
                    names.append(next)
                    yield next

    def _refuse_unknown(self, unknown: Sequence[_Asked]) -> None:
        """Fail deletes by ids that aren't in the queue: what lies in `remove/` counts as unlinked."""
        for one in unknown:
            id = _id_of(one.target)
            try:
                if self._is_arriving(one.live.name, id):
                    raise DiskError(detail=f"message {id} is stored, and not in its queue yet")
                raise MessageNotFound(queue=one.live.name, id=id)
            except StoreError as error:
                one.fail(error)

    def _remove(self, queue: str, container: Container, names: _Names) -> list[_Asked]:
        """Move `names` to `remove/`, with the folder they lie in if nothing else is left there.

        Answers with those that aren't there any more, and may be elsewhere.
        """
        folder = container.item if isinstance(container, Hidden) else container
        missed: list[_Asked] = []
        if isinstance(folder, BatchFolder) and len(names) == len(folder):
            everybody = [one for asked in names.values() for one in asked]
            try:
                if self._holds_more(queue, container, folder):
                    self._forget(queue, container)
                    missed += everybody
                elif not self._remove_folder(queue, container, folder):
                    missed += everybody
                elif self._root.is_shared:
                    # Others may have taken something out of it, unheard: that isn't deleted.
                    there = self._names_in(layout.removed(queue, folder.batch))
                    missed += [one for name in names if name not in there for one in names[name]]
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

    def remove_lease(self, queue: str, hidden: Hidden) -> int:
        """Delete all that is under a lease; how many messages. What others have taken isn't counted."""
        names = list(hidden.names)
        if not isinstance(hidden.item, BatchFolder):
            return int(self._remove_single(queue, hidden, names[0]))
        if self._holds_more(queue, hidden, hidden.item):
            self._forget(queue, hidden)
            return 0
        if not self._remove_folder(queue, hidden, hidden.item):
            return 0
        if not self._root.is_shared:
            return len(names)
        there = self._names_in(layout.removed(queue, hidden.item.batch))
        return sum(name in there for name in names)

    def _holds_more(self, queue: str, container: Container, folder: BatchFolder) -> bool:
        """Whether the folder holds messages that it isn't believed to: they must not go with it.

        What is believed rests on news of others, and on races that were lost to them. Nothing ever
        comes into a folder, so what isn't there now can't be there later.
        """
        if not self._root.is_shared:
            return False
        known = set(folder.names)
        there = self._root.folders.scan(self._path_of(queue, container, folder))
        return any(found.name not in known and is_entry(found) for found in there)

    def _path_of(self, queue: str, container: Container, folder: BatchFolder) -> str:
        if isinstance(container, Hidden):
            return self._root.path_of(queue, container)
        return layout.ready(queue, folder.batch)

    def _forget(self, queue: str, container: Container) -> None:
        """What is believed of a folder is wrong: whoever asks for something in it has to look."""
        index = self._root.index.queues[queue]
        if isinstance(container, Hidden):
            index.unhide(container)
        elif container is not None:
            index.ready.doubt(container)

    def _names_in(self, folder: str) -> set[str]:
        try:
            return {found.name for found in self._root.folders.scan(folder)}
        except StoreError as error:
            # It has moved already, so nobody can be told that nothing has happened.
            raise SyncFailed(f"what was deleted with {folder} can't be told: {error}") from error

    def _remove_folder(self, queue: str, container: Container, folder: BatchFolder) -> bool:
        root, index = self._root, self._root.index.queues[queue]
        source = self._path_of(queue, container, folder)
        state = container.state if isinstance(container, Hidden) else State.READY
        target = layout.removed(queue, folder.batch)
        moved = root.folders.move(Move.DELETE, state, source, State.REMOVED, target, is_folder=True)
        if not moved:
            log.info("%s was taken away by somebody else", source)
        else:
            index.left += len(folder)
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
        else:
            index.left += 1
        if isinstance(container, Hidden):
            index.unhide(container, [name] if container.is_folder else None)
        else:
            index.ready.remove(name, container)
        return moved

    # What is too old.

    def is_expired(self, live: Live, id: str) -> bool:
        retention = live.settings.retention
        return bool(retention) and sent_at(id) + retention <= self._root.clock.wall()

    def expire(self, queue: str, name: str, folder: BatchFolder | None) -> None:
        """Remove the ready entry `name`, which is too old; its folder if it is all that is left."""
        if folder is not None and len(folder) == 1:
            if self._holds_more(queue, folder, folder):
                self._forget(queue, folder)
                return
            self._remove_folder(queue, folder, folder)
        else:
            self._remove_single(queue, folder, name)
        self._root.statistics.count(queue, "expire", 1)

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


def _id_of(target: Target) -> str:
    return parse_receipt(target.receipt).id if isinstance(target, ByReceipt) else target.id
