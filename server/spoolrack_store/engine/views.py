"""What there is to see of queues and messages, without changing anything."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from ..files import layout
from ..files.owners import owners_of
from ..index.ages import ages_of
from ..index.hidden import Hidden
from ..index.ready import BatchFolder
from ..model.clock import Millis
from ..model.content import Content
from ..model.deaths import Death
from ..model.errors import InvalidRequest, MessageNotFound
from ..model.figures import QueueFigures
from ..model.ids import is_id, sent_at
from ..model.names import Entry, id_of, moved_out, parse_entry
from ..model.operations import Blocking, Counts, Message, Queue
from ..model.overview import Ages, Owner, Traffic
from ..model.transitions import State
from .catalog import Catalog
from .live import Live
from .root import Root, path_in, place_of_ready

MANY_RECEIVES: Final = 3
"""The oldest message is said to block its queue after so many receives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """Where a message lies at this moment."""

    queue: str
    entry: Entry
    """With the receives that its batch folder counts for it."""
    state: State
    path: str
    due: Millis | None
    history: str | None
    """Where it may be told how the message came to be a dead letter. None: it is none."""

    def message(self, content: Content, deaths: Sequence[Death] = ()) -> Message:
        """The message, with a body that may have been cut."""
        entry = self.entry
        return Message(
            queue=self.queue,
            id=entry.id,
            state=self.state,
            body=content.body,
            attributes=content.attributes,
            size=entry.size or 0,
            sent_at=sent_at(entry.id),
            receives=entry.receives,
            first_receive=entry.first_receive,
            due=self.due,
            receipt=None,
            deaths=deaths,
        )


class Views:
    """Not thread-safe."""

    def __init__(self, root: Root, catalog: Catalog, look_into: Callable[[str], None]) -> None:
        """`look_into` lets all messages of a queue be known by name."""
        self._look_into = look_into
        self._root = root
        self._catalog = catalog

    def queue(self, live: Live) -> Queue:
        self._look_into(live.name)
        index = self._root.index.queues[live.name]
        return Queue(
            name=live.name,
            settings=live.settings,
            created_at=live.created_at,
            version=live.version,
            counts=Counts(
                ready=index.ready.count,
                leased=index.leased,
                delayed=index.delayed,
                bytes=index.bytes,
                oldest=index.oldest_sent_at(),
            ),
            blocking=self._blocking(live),
            traffic=Traffic(entered=index.entered, left=index.left),
        )

    def ages(self, queue: str, bounds: Sequence[Millis]) -> Ages | None:
        """The queue's ready messages by age, from what is known of them already; None: no such queue.

        Unlike all else here it lists no folder, whatever nobody has looked into.
        """
        if queue not in self._catalog.queues:
            return None
        return ages_of(self._root.index.queues[queue].ready, self._root.clock.wall(), bounds)

    @property
    def owner(self) -> str:
        """The name under which this process writes."""
        return self._root.owner

    def owners(self) -> list[Owner]:
        """Who has the root open; raises `OSError`."""
        disk, me = self._root.disk, self._root.owner
        found = []
        for name in sorted(owners_of(disk)):
            try:
                about = disk.read(layout.owner(name), 200)
            except FileNotFoundError:
                continue  # It has just left.
            text = about.decode(errors="replace").strip()
            found.append(Owner(name=name, about=text, is_me=name == me))
        return found

    def queues(self, prefix: str, after: str, limit: int) -> list[Queue]:
        names = (n for n in self._catalog.queues if n.startswith(prefix) and n > after)
        return [self.queue(self._catalog.queues[n]) for n in heapq.nsmallest(limit, names)]

    def figures(self, name: str) -> QueueFigures | None:
        """What is known of a queue without looking anywhere; None if there is none."""
        index = self._root.index.queues.get(name)
        if index is None or name not in self._catalog.queues:
            return None
        head, oldest = index.ready.head(), index.ready.oldest_id()
        receives = 0
        if head is not None:
            entry, folder = parse_entry(head[0]), head[1]
            receives = (entry if folder is None else moved_out(entry, folder.batch)).receives
        return QueueFigures(
            name=name,
            ready=index.ready.count,
            leased=index.leased,
            delayed=index.delayed,
            bytes=index.bytes,
            oldest_ready=None if oldest is None else sent_at(oldest),
            oldest_ready_receives=receives,
            entered=index.entered,
            left=index.left,
        )

    def overdue(self) -> Millis:
        """How long ago that should have come back which is due first; 0 if nothing is due."""
        due = self._root.index.next_due()
        return Millis(0) if due is None else Millis(max(0, self._root.clock.monotonic() - due))

    def find(self, queue: str, id: str) -> Sight:
        live = self._catalog.require(queue)
        if not is_id(id):
            raise InvalidRequest(what="id", value=id, rule="must be a UUID in lower case")
        self._look_into(live.name)
        index = self._root.index.queues[live.name]
        hidden = index.find_hidden(id)
        if hidden is not None:
            return self.hidden(live.name, hidden, hidden.name_of(id))
        place = index.ready.find(id)
        if place is None:
            raise MessageNotFound(queue=live.name, id=id)
        return self._ready(live.name, *place)

    def messages(self, queue: str, states: frozenset[State], after: str, limit: int) -> list[Sight]:
        """Up to `limit` messages above the id `after`, in order."""
        live = self._catalog.require(queue)
        self._look_into(queue)
        seen = heapq.merge(
            self._all_ready(live.name, after) if State.READY in states else iter(()),
            self._all_hidden(live.name, states, after, limit),
            key=lambda sight: sight.entry.id,
        )
        return list(islice(seen, limit))

    def _all_ready(self, queue: str, after: str) -> Iterator[Sight]:
        for name, folder in self._root.index.queues[queue].ready.since(after):
            yield self._ready(queue, name, folder)

    def _all_hidden(
        self, queue: str, states: frozenset[State], after: str, limit: int
    ) -> Iterator[Sight]:
        index = self._root.index.queues[queue]
        if not states & {State.LEASED, State.DELAYED}:
            return
        ids = (
            name
            for hidden in index.hidden()
            if hidden.state in states
            for name in map(id_of, hidden.names)
            if name > after
        )
        for id in heapq.nsmallest(limit, ids):
            hidden = index.find_hidden(id)
            assert hidden is not None
            yield self.hidden(queue, hidden, hidden.name_of(id))

    def _ready(self, queue: str, name: str, folder: BatchFolder | None) -> Sight:
        entry = parse_entry(name)
        return Sight(
            queue=queue,
            entry=entry if folder is None else moved_out(entry, folder.batch),
            state=State.READY,
            path=place_of_ready(queue, name, folder),
            due=None,
            history=self._history(queue, entry.id),
        )

    def hidden(self, queue: str, hidden: Hidden, name: str) -> Sight:
        """Where the entry `name` lies, which is leased or delayed as `hidden`."""
        entry = parse_entry(name)
        path = self._root.path_of(queue, hidden)
        if isinstance(hidden.item, BatchFolder):
            entry, path = moved_out(entry, hidden.item.batch), path_in(path, name)
        return Sight(
            queue=queue,
            entry=entry,
            state=hidden.state,
            path=path,
            due=hidden.due,
            history=self._history(queue, entry.id),
        )

    def _history(self, queue: str, id: str) -> str | None:
        return layout.history(queue, id) if self._root.may_have_history(queue, id) else None

    def _blocking(self, live: Live) -> Blocking | None:
        oldest = self._root.index.queues[live.name].oldest()
        if oldest is None:
            return None
        entry = self.find(live.name, oldest).entry
        limit, target = live.settings.max_receives, live.settings.dead_letter_queue
        if limit and entry.receives >= limit and target not in self._catalog.queues:
            why = (
                f"it was received {entry.receives} times, and its dead-letter queue {target} is "
                f"missing: create {target}, or delete the message"
            )
        elif entry.receives >= MANY_RECEIVES:
            why = (
                f"it is the oldest, and was received {entry.receives} times without a delete: "
                "look at it, and at what its consumers say"
            )
        else:
            return None
        return Blocking(id=entry.id, receives=entry.receives, why=why)
