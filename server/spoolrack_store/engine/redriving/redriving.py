"""All about redrives, as the engine sees it: their requests, and what is to be done beside them.

One process drives each, and its name says which; when that one dies, another goes on with it. Anybody
may cancel it, by giving it another name.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from ...files import layout
from ...files.owners import is_living
from ...files.segments import Segments
from ...model.clock import Millis
from ...model.errors import (
    InvalidQueueName,
    InvalidRequest,
    RedriveNotFound,
    RedriveRunning,
    StoreError,
)
from ...model.ids import is_id
from ...model.names import is_queue_name
from ...model.redrive_order import RedriveOrder
from ...model.redriving import (
    MAX_RATE,
    MAX_SELECTED,
    REDRIVE_MEMORY,
    CancelRedrive,
    Redrive,
    StartRedrive,
)
from ..catalog import Catalog
from ..histories import Histories
from ..order import Turn
from ..peers import Peers
from ..root import Root
from .doubles import drop_doubles
from .drive import Drive
from .pace import AT_ONCE
from .redrives import Kept, Redrives
from .selection import Entering

log = logging.getLogger(__name__)


class Redriving:
    """Not thread-safe."""

    def __init__(
        self,
        root: Root,
        catalog: Catalog,
        peers: Peers,
        histories: Histories,
        segments: Segments,
        entering: Entering,
    ) -> None:
        self._root = root
        self._catalog = catalog
        self._peers = peers
        self._histories = histories
        self._segments = segments
        self._entering = entering
        self._redrives = Redrives(root)
        self._drives: dict[str, Drive] = {}
        """Those that this process drives, by id."""
        self._due: Millis | None = None
        self.turns = (Turn(CancelRedrive, self._cancel), Turn(StartRedrive, self._start))

    def recover(self) -> None:
        """Put aside what is damaged, and let no message be in two queues; the engine syncs then."""
        self._redrives.recover()
        drop_doubles(self._root, self._redrives.every().values())

    def forget(self) -> None:
        """Others may come: what is known may soon be wrong."""
        self._redrives.forget()

    # What goes on beside the requests.

    @property
    def running(self) -> int:
        """How many are driven by this process."""
        return len(self._drives)

    @property
    def is_due(self) -> bool:
        """Whether a redrive would go on with a commit now. In any thread."""
        due = self._due
        return due is not None and due <= self._root.clock.monotonic()

    def next_due(self) -> Millis | None:
        """The monotonic time at which a redrive goes on, if one does here."""
        return self._due

    def _reckon(self) -> None:
        self._due = min((drive.due for drive in self._drives.values()), default=None)

    def go_on(self) -> None:
        """Do a bounded part of what is due; what it moves, it moves after the sync."""
        if not self._drives:
            return
        now, left = self._root.clock.monotonic(), AT_ONCE
        for id, drive in list(self._drives.items()):
            if left > 0 and drive.due <= now:
                left -= drive.prepare(now, left)
                # Whoever has had a turn lets the others go first.
                del self._drives[id]
                if not drive.is_over:
                    self._drives[id] = drive
        self._reckon()

    def look(self) -> None:
        """Take over what nobody drives, and forget what ended long ago."""
        if not self._root.is_shared and not self._redrives.every():
            return
        try:
            with self._redrives.held():
                for kept in list(self._redrives.every().values()):
                    self._look_at(kept)
        except StoreError as error:
            log.error("what others do about redrives has to wait: %s", error)
        self._reckon()

    def _look_at(self, kept: Kept) -> None:
        root, id, owner = self._root, kept.name.id, kept.name.owner
        drive = self._drives.get(id)
        if drive is not None and (not kept.goes_on or owner != root.owner):
            drive.is_over = True
            del self._drives[id]
        if kept.goes_on:
            if drive is None and root.chores.ticks and not self._is_driven(owner):
                self._take_over(kept)
        elif owner is not None:
            if owner == root.owner or not self._is_driven(owner):
                # What it moved last may not be durable.
                root.everything_changed()
                root.after_sync.append(partial(self._wind_up, kept, drive))
        elif kept.name.ended is not None and kept.name.ended + REDRIVE_MEMORY <= root.clock.wall():
            self._redrives.drop(kept)

    def _is_driven(self, owner: str | None) -> bool:
        if owner is None:
            return False
        return owner == self._root.owner or is_living(self._root.disk, owner)

    def _take_over(self, kept: Kept) -> None:
        # Whoever drove it may not have made durable what it did last.
        self._root.everything_changed()
        if self._redrives.rename(kept, replace(kept.name, owner=self._root.owner)):
            self._root.after_sync.append(partial(self._drive, kept))

    def _drive(self, kept: Kept) -> None:
        """The redrive is durably ours."""
        if kept.goes_on and kept.name.owner == self._root.owner:
            self._drives[kept.name.id] = Drive(
                self._root,
                self._catalog,
                self._peers,
                self._histories,
                self._segments,
                self._redrives,
                self._entering,
                kept,
            )
            self._reckon()

    def _wind_up(self, kept: Kept, drive: Drive | None) -> None:
        """All that a cancelled redrive has moved is durable: it has no owner any more."""
        try:
            with self._redrives.held():
                name = kept.name if drive is None else drive.cancelled(kept.name)
                self._redrives.rename(kept, replace(name, owner=None))
        except StoreError as error:
            log.warning(
                "the redrive %s was cancelled, and has its owner for now: %s", kept.name.id, error
            )

    # The requests.

    def _start(self, request: StartRedrive) -> Redrive:
        root = self._root
        ids = _checked(request)
        live = self._catalog.require(request.queue)
        if request.destination:
            self._catalog.require_open(request.destination)
        order = RedriveOrder(
            queue=live.name,
            queue_created_at=live.created_at,
            destination=request.destination,
            source_queue=request.source_queue,
            ids=ids,
            rate=request.rate,
            started_at=root.clock.wall(),
        )
        with self._redrives.held():
            for kept in self._redrives.every().values():
                if kept.goes_on and kept.order.queue == live.name:
                    raise RedriveRunning(queue=live.name, redrive=kept.name.id)
            kept = self._redrives.make(order, root.owner if root.chores.ticks else None)
        root.after_sync.append(partial(self._drive, kept))
        return self._shown(kept)

    def _cancel(self, request: CancelRedrive) -> Redrive:
        with self._redrives.held():
            kept = self._found(request.id)
            if kept.goes_on:
                self._cancel_running(kept)
            # Somebody else may have done it just now.
            self._root.syncer.folder_changed(layout.REDRIVES)
            return self._shown(kept)

    def _cancel_running(self, kept: Kept) -> None:
        drive = self._drives.get(kept.name.id)
        name = kept.name if drive is None else drive.progress
        ended = replace(name, is_cancelled=True, ended=self._root.clock.wall())
        if not self._redrives.rename(kept, ended):
            raise RedriveNotFound(redrive=kept.name.id)
        if drive is not None:
            drive.is_over = True
            del self._drives[kept.name.id]
            self._reckon()
            self._root.after_sync.append(partial(self._wind_up, kept, drive))

    # What there is to see.

    def find(self, id: str) -> Redrive:
        """Raises `RedriveNotFound`."""
        with self._redrives.held():
            return self._shown(self._found(id))

    def listed(self, queue: str, after: str, limit: int) -> list[Redrive]:
        """Up to `limit` redrives above the id `after`, in order; of `queue` only, if there is one."""
        with self._redrives.held():
            every = [
                kept
                for id, kept in self._redrives.every().items()
                if id > after and queue in ("", kept.order.queue)
            ]
            return [self._shown(kept) for kept in every[:limit]]

    def led_to(self, queue: str) -> Iterator[str]:
        """The queues that messages of `queue` may have been moved to, as far as is known."""
        # One that is given another name meanwhile may be missed, and was mostly there before.
        known = [*self._redrives.listed_last, *self._redrives.every().values()]
        orders = [kept.order for kept in known if kept.order.queue == queue]
        yield from {order.destination for order in orders if order.destination}
        if not all(order.destination for order in orders):
            for live in list(self._catalog.queues.values()):
                if live.settings.dead_letter_queue == queue:
                    yield live.name

    def _found(self, id: str) -> Kept:
        if not is_id(id):
            raise InvalidRequest(what="id", value=id, rule="must be a UUID in lower case")
        kept = self._redrives.every().get(id)
        if kept is None:
            # Whoever has begun it may have come, and died, and not been heard of yet.
            self._redrives.forget()
            kept = self._redrives.every().get(id)
        if kept is None:
            raise RedriveNotFound(redrive=id)
        return kept

    def _shown(self, kept: Kept) -> Redrive:
        order, drive = kept.order, self._drives.get(kept.name.id)
        name = kept.name if drive is None else drive.progress
        return Redrive(
            id=name.id,
            queue=order.queue,
            destination=order.destination,
            source_queue=order.source_queue,
            rate=order.rate,
            state=name.state,
            moved=name.moved if drive is None else drive.moved,
            failed=name.failed,
            last_failure="" if name.failure is None else name.failure.text,
            remaining=self._remaining(kept, drive),
            started_at=order.started_at,
            ended_at=name.ended,
        )

    def _remaining(self, kept: Kept, drive: Drive | None) -> int:
        if not kept.goes_on:
            return 0
        if drive is not None:
            return drive.remaining
        index = self._root.index.queues.get(kept.order.queue)
        ready = 0 if index is None else max(0, index.ready.count - kept.name.failed)
        return min(ready, len(kept.order.ids)) if kept.order.ids else ready


def _checked(request: StartRedrive) -> tuple[str, ...]:
    """The ids that are selected, each once, if all that is asked is valid."""
    if request.source_queue and not is_queue_name(request.source_queue):
        raise InvalidQueueName(name=request.source_queue)
    if request.destination and request.destination == request.queue:
        raise InvalidRequest(
            what="destination", value=request.destination, rule="must not be the queue itself"
        )
    if not 0 <= request.rate <= MAX_RATE:
        raise InvalidRequest(
            what="rate", value=request.rate, rule=f"must be from 0 to {MAX_RATE} messages a second"
        )
    if len(request.ids) > MAX_SELECTED:
        raise InvalidRequest(
            what="ids", value=len(request.ids), rule=f"must be no more than {MAX_SELECTED}"
        )
    for id in request.ids:
        if not is_id(id):
            raise InvalidRequest(what="id", value=id, rule="must be a UUID in lower case")
    return tuple(dict.fromkeys(request.ids))
