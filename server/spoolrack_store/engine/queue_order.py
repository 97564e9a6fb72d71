"""The order in which the ready messages of a queue are leased.

Without groups it is the order of the sends. With groups, those that have something to lease take turns,
in the order in which they were leased from last, and each group is in the order of its sends. In a
queue whose `group_order` is strict a group has nothing to lease while one of its messages is leased, or
is delayed and older than what is ready. Messages without a group are a group of their own, which
nothing blocks.

Once a queue had a message with a priority, its ready messages are leased in the order of
`PriorityOrder`; so are those of each group, but for the groups of a strict queue.

Costs: a message that appears or disappears costs what its group and its entry take, whatever else
waits; a receive costs the groups that it takes from.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import heappop, heappush
from typing import Final

from ..model.batch import Entry
from ..model.ids import sent_at
from ..model.members import below, first_of, indexes, lowest
from ..model.names import ID_LENGTH, MAX_PRIORITY, Stem, batch_of, index_of
from ..model.settings import QueueSettings
from ..model.transitions import State
from .sorted_names import SortedNames


class EntryOrder:
    """Entries in the order of the first message that each of them holds."""

    __slots__ = ("by_first", "names")

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.by_first = {self._key(entry.batch.stem, entry.first_id): entry for entry in entries}
        self.names = SortedNames(self.by_first)

    def __bool__(self) -> bool:
        return bool(self.by_first)

    def change(self, entry: Entry, before: int, after: int) -> None:
        """Give an entry that stood for the members `before` the place of the members `after`."""
        stem = entry.batch.stem
        was = stem.message_id(lowest(before)) if before else ""
        first = stem.message_id(lowest(after)) if after else ""
        if first == was:
            return
        if was:
            key = self._key(stem, was)
            self.names.remove(key)
            del self.by_first[key]
        if first:
            key = self._key(stem, first)
            self.names.add(key)
            self.by_first[key] = entry

    def _key(self, stem: Stem, id: str) -> str:
        """Return the text that is in the order of the messages, and ends in the id."""
        return id

    def take_over(self, other: EntryOrder) -> None:
        """Have what another order has."""
        found = other.by_first.items()
        self.by_first = {self._key(entry.batch.stem, key[-ID_LENGTH:]): entry for key, entry in found}
        self.names = SortedNames(self.by_first)

    def first(self) -> str | None:
        """Return the id of the first message."""
        return self.names.first()

    def since(self, id: str) -> Iterator[tuple[str, Entry]]:
        """Yield what isn't below `id`, with the id of each first message. Nothing may change
        meanwhile."""
        return ((first, self.by_first[first]) for first in self.names.since(id))

    def runs(
        self, but: Mapping[Entry, int], members_of: Callable[[Entry], int]
    ) -> Iterator[tuple[Entry, int]]:
        """Yield messages in order, as runs of one entry: the entry, and the mask of the run.

        `but` are messages that are passed over; it may grow while this runs, nothing else may change.
        """
        firsts = self.names.since("")
        entry, following = None, next(firsts, None)
        split: list[tuple[str, Entry, int]] = []
        while following is not None or split:
            if split and (following is None or split[0][0] < following):
                _, entry, members = heappop(split)
            else:
                assert following is not None
                entry = self.by_first[following]
                members = members_of(entry)
                following = next(firsts, None)
            ahead = min(
                (each for each in (following, split[0][0] if split else None) if each), default=None
            )
            stem = entry.batch.stem
            # Only what has an id between two messages of one file divides it: a part of it that came
            # back.
            if ahead is not None and stem.count and batch_of(ahead[-ID_LENGTH:]) == stem.id:
                run = below(members, index_of(ahead))
                if run != members:
                    rest = members & ~run
                    heappush(split, (self._key(stem, stem.message_id(lowest(rest))), entry, rest))
                    members = run
            members &= ~but.get(entry, 0)
            if members:
                yield entry, members


class PriorityOrder(EntryOrder):
    """Entries in the order of their priorities, the oldest of one priority first.

    With an `aging` a message stands where it would without a priority if it had been sent so much
    earlier for each step of its priority: so a lower one is overtaken for a bounded time only. All
    messages of a file have one priority and one time, so a message that waits costs nothing.
    """

    __slots__ = ("aging",)

    def __init__(self, entries: Iterable[Entry] = (), *, aging: int = 0) -> None:
        """`aging` in milliseconds; 0: a higher priority is always first."""
        self.aging = aging
        super().__init__(entries)

    def _key(self, stem: Stem, id: str) -> str:
        rank = sent_at(stem.id) + (MAX_PRIORITY - stem.priority) * (self.aging or _ALWAYS)
        return f"{rank:014x}{id}"


_ALWAYS: Final = 1 << 48
"""More milliseconds than an id can say."""


class _Group:
    """The messages of one group."""

    __slots__ = ("claimed", "delayed", "leased", "name", "offered", "ready", "waiting")

    def __init__(self, name: str, ready: EntryOrder) -> None:
        self.name = name
        self.ready = ready
        self.delayed = EntryOrder()
        self.waiting = 0
        """Messages that are ready."""
        self.leased = 0
        self.offered = 0
        """Messages that count as available."""
        self.claimed = 0
        """The last commit that leased from it, if the order is strict."""

    @property
    def is_blocked(self) -> bool:
        if not self.name:
            return False
        delayed, ready = self.delayed.first(), self.ready.first()
        return self.leased > 0 or (delayed is not None and ready is not None and delayed < ready)

    @property
    def is_empty(self) -> bool:
        return not (self.waiting or self.leased or self.delayed)


class GroupOrder:
    """The groups of one queue."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        """`entries` are all that the queue counts."""
        self._groups: dict[str, _Group] = {}
        self._turns: OrderedDict[_Group, None] = OrderedDict()
        """Groups that have something to lease, the one whose turn it is first."""
        self._is_strict = False
        self._aging: int | None = None
        """None: no message had a priority."""
        self.available = 0
        """Messages of these groups that are ready."""
        for entry in entries:
            self.change(entry, 0, entry.counted)

    def be_set(self, settings: QueueSettings, *, has_priorities: bool) -> None:
        """Follow the queue's settings: a change costs one pass."""
        is_strict = settings.group_order == "strict"
        aging = settings.priority_aging if has_priorities else None
        if (is_strict, aging) == (self._is_strict, self._aging):
            return
        self._is_strict, self._aging = is_strict, aging
        for group in self._groups.values():
            if has_priorities:
                was, group.ready = group.ready, self._order_of(group.name)
                group.ready.take_over(was)
            self._offer(group)

    def _order_of(self, name: str) -> EntryOrder:
        """Return an order for the ready messages of a group; a strict one has that of the sends."""
        if self._aging is None or (self._is_strict and name):
            return EntryOrder()
        return PriorityOrder(aging=self._aging)

    def change(self, entry: Entry, was: int, held: int) -> None:
        """Take in that an entry holds `held` in place of `was`."""
        if was == held:
            return
        groups = entry.batch.groups
        if groups is None:
            if not entry.batch.stem.is_grouped:
                self._change(entry, "", was, held)
            return  # Its groups are not read yet: until then its messages have to wait.
        for name in dict.fromkeys(map(groups.of, indexes(was ^ held))):
            members = groups.members(name)
            self._change(entry, name, was & members, held & members)

    def _change(self, entry: Entry, name: str, was: int, held: int) -> None:
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = _Group(name, self._order_of(name))
        state, more = entry.name.state, held.bit_count() - was.bit_count()
        if state is State.READY:
            group.ready.change(entry, was, held)
            group.waiting += more
        elif state is State.LEASED:
            group.leased += more
        else:
            group.delayed.change(entry, was, held)
        self._offer(group)
        if group.is_empty:
            del self._groups[name]

    def _offer(self, group: _Group) -> None:
        """Let a group have turns if there is something to lease."""
        offered = 0 if self._is_strict and group.is_blocked else group.waiting
        self.available += offered - group.offered
        group.offered = offered
        if not offered:
            self._turns.pop(group, None)
        elif group not in self._turns:
            self._turns[group] = None

    def runs(self, room: int, but: Mapping[Entry, int], commit: int) -> Iterator[tuple[Entry, int]]:
        """Yield what a receive of up to `room` messages is to lease, as runs of one entry.

        `but` are messages that other receives of the `commit` lease, or this one: it must grow by what
        is taken of a run before the next is asked for. No message is yielded behind one of its group
        that was not taken, if the order is strict.
        """
        share = max(1, room // max(1, len(self._turns)))
        mine: set[_Group] = set()
        vain = 0
        while vain < len(self._turns):
            group = next(iter(self._turns))
            if group.claimed == commit and group not in mine:
                vain += 1
                self._turns.move_to_end(group)
                continue
            if self._is_strict and group.name:
                mine.add(group)
            taken = 0
            for entry, run in self._turn(group, share, but):
                try:
                    yield entry, run
                finally:  # Also where the receive has all that it wants, and asks for no more.
                    got = (but.get(entry, 0) & run).bit_count()
                    if got:
                        taken += got
                        self._turns.move_to_end(group)
                        group.claimed = commit if group in mine else 0
            if not taken:
                self._turns.move_to_end(group)
            vain = 0 if taken else vain + 1

    def _turn(self, group: _Group, share: int, but: Mapping[Entry, int]) -> Iterator[tuple[Entry, int]]:
        """Yield runs of up to `share` messages of a group."""
        delayed = group.delayed.first() if self._is_strict and group.name else None
        for entry, ready in group.ready.runs(but, self._members(group)):
            members = ready if delayed is None else _before(entry, ready, delayed)
            if not members:
                return
            while members:
                run = first_of(members, share)
                yield entry, run
                got = but.get(entry, 0) & run
                share -= got.bit_count()
                if share <= 0 or (got != run and self._is_strict):
                    return
                members &= ~run if got == run else 0

    def _members(self, group: _Group) -> Callable[[Entry], int]:
        def members_of(entry: Entry) -> int:
            groups = entry.batch.groups
            return entry.held if groups is None else entry.held & groups.members(group.name)

        return members_of


def _before(entry: Entry, members: int, id: str) -> int:
    """Return those of the members whose ids are below `id`."""
    stem = entry.batch.stem
    if stem.count and batch_of(id) == stem.id:
        return below(members, index_of(id))
    return members if stem.message_id(lowest(members)) < id else 0
