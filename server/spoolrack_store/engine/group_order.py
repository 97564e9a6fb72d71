"""Groups of a queue's messages, whose ready messages are leased in turns.

Groups that have something to lease take turns, in the order in which they were leased from last, and
each group is in the order of its sends. In a queue whose `group_order` is strict a group is open up to
its first message that is leased or delayed, and a receive takes what it can of one group, then of the
next; else it takes from all groups alike. Messages without a group are a group of their own, which
nothing blocks.

Costs: a message that appears or disappears costs what its group and its entry take, whatever else
waits; a receive costs the groups that it takes from.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from math import inf

from ..model.members import below, first_of, indexes, lowest
from ..model.message_ids import batch_of, index_of
from ..model.settings import QueueSettings
from ..model.transitions import State
from .entries import Entry
from .entry_orders import EntryOrder, PriorityOrder, Runs
from .lease_limits import QueueLimits


class _Group:
    """The messages of one group."""

    __slots__ = ("begun", "claimed", "hidden", "leased", "name", "offered", "ready", "waiting")

    def __init__(self, name: str, ready: PriorityOrder, hidden: EntryOrder) -> None:
        self.name = name
        self.ready = ready
        self.hidden = hidden
        """Leased and delayed messages; of the messages without a group none, as they block nothing."""
        self.waiting = 0
        """Messages that are ready."""
        self.offered = 0
        """Messages that count as available."""
        self.claimed = 0
        """The last commit that leased from it, if the order is strict."""
        self.leased = 0
        """Messages that are leased."""
        self.begun = 0, 0
        """The last commit that leased from it, and how many messages; their names may not have moved
        yet."""

    @property
    def end(self) -> str | None:
        """The id of the message before which the group is open, if the order is strict; None: it is
        open to its last."""
        return self.hidden.first()

    @property
    def is_blocked(self) -> bool:
        end, ready = self.end, self.ready.first()
        return end is not None and ready is not None and end <= ready


class GroupOrder:
    """The groups of one queue."""

    def __init__(self, ready: PriorityOrder, waiting: int, unpack: Callable[[str], Entry]) -> None:
        """`ready` are the queue's ready messages, so many: none of them has a group."""
        self._unpack = unpack
        self._rest = _Group("", ready, EntryOrder(unpack))
        """The messages without a group."""
        self._groups = {"": self._rest}
        self._turns: OrderedDict[_Group, None] = OrderedDict()
        """Groups that have something to lease, the one whose turn it is first."""
        self._is_strict = False
        self._aging: int = 0
        self._limits: QueueLimits | None = None
        """Those of groups; None: they have none."""
        self._bounds: object = None
        self.limited: dict[_Group, None] = {}
        """Groups that wait for their limits."""
        self.available = 0
        """Messages of these groups that are ready."""
        self.add_packed(waiting)

    def add_packed(self, count: int) -> None:
        """Count packed messages that are in the order now."""
        self._rest.waiting += count
        self._offer(self._rest)

    def order_of(self, name: str, entry: Entry) -> EntryOrder:
        """Return the order of a group in which its lone message stands."""
        group = self._groups[name]
        is_ready = entry.name.state is State.READY
        return group.ready.levels[entry.batch.stem.priority] if is_ready else group.hidden

    def be_set(self, settings: QueueSettings, limits: QueueLimits | None) -> None:
        """Apply the queue's settings: a change takes one pass of the groups."""
        self._aging = settings.priority_aging
        is_strict = settings.group_order == "strict"
        bounds = limits.of_groups if limits is not None else None
        if is_strict != self._is_strict or bounds != self._bounds:
            self._is_strict, self._bounds = is_strict, bounds
            self._limits = limits if bounds is not None else None
            for group in self._groups.values():
                self._offer(group)
        if self._limits is not None:
            for name in self._limits.pop_due_groups():
                if name in self._groups:
                    self._offer(self._groups[name])

    def _aging_of(self, group: _Group) -> int | None:
        """Return the aging of a group's priorities; None: it is in the order of the sends."""
        return None if self._is_strict and group.name else self._aging

    def change(self, entry: Entry, was: int, now: int) -> None:
        """Update an entry from the members `was` to `now`."""
        if was == now:
            return
        groups = entry.batch.groups
        if groups is None:
            if not entry.batch.stem.is_grouped:
                self._change(entry, "", was, now)
            return  # Its groups are not read yet: until then its messages have to wait.
        for name in dict.fromkeys(map(groups.of, indexes(was ^ now))):
            members = groups.members(name)
            self._change(entry, name, was & members, now & members)

    def _change(self, entry: Entry, name: str, was: int, now: int) -> None:
        group = self._groups.get(name)
        if group is None:
            ready = PriorityOrder(EntryOrder(self._unpack), self._unpack)
            group = self._groups[name] = _Group(name, ready, EntryOrder(self._unpack))
        if entry.name.state is State.READY:
            group.ready.change(entry, was, now)
            group.waiting += now.bit_count() - was.bit_count()
        elif name:
            group.hidden.change(entry, was, now)
            if entry.name.state is State.LEASED:
                group.leased += now.bit_count() - was.bit_count()
        self._offer(group)
        if name and not (group.waiting or group.hidden):
            del self._groups[name]
            self.limited.pop(group, None)

    def limited_groups(self) -> Iterator[tuple[str, int, int]]:
        """Yield the groups that wait for their limits, with their leased and their ready messages."""
        for group in self.limited:
            yield group.name, group.leased, group.waiting

    def _offer(self, group: _Group) -> None:
        """Let a group have turns if there is something to lease."""
        offered = 0 if self._is_strict and group.is_blocked else group.waiting
        if self._limits is not None and group.name:
            room = self._limits.group_room(group.name, group.leased, 0) if offered else offered
            if room < offered:
                offered = int(room)
                self.limited[group] = None
            else:
                self.limited.pop(group, None)
        self.available += offered - group.offered
        group.offered = offered
        if not offered:
            self._turns.pop(group, None)
        elif group not in self._turns:
            self._turns[group] = None

    def runs(self, room: int, but: Mapping[Entry, int], commit: int) -> Runs:
        """Yield the messages that a receive of up to `room` leases.

        `but` are messages that other receives of the `commit` lease, or this one: it must grow by what
        is taken of a run before the next is asked for. No message is yielded behind one of its group
        that was not taken, if the order is strict.
        """
        share = room if self._is_strict else max(1, room // max(1, len(self._turns)))
        mine: set[_Group] = set()
        vain = 0
        while vain < len(self._turns):
            group = next(iter(self._turns))
            if group.claimed == commit and group not in mine:
                vain += 1
                self._turns.move_to_end(group)
                continue
            room_of_group = self._room_of(group, commit)
            if not room_of_group:
                vain += 1
                self._turns.move_to_end(group)
                continue
            if self._is_strict and group.name:
                mine.add(group)
            taken = 0
            for entry, run in self._turn(group, int(min(share, room_of_group)), but):
                try:
                    yield entry, run
                finally:  # Also where the receive has all that it wants, and asks for no more.
                    got = (but.get(entry, 0) & run).bit_count()
                    if got:
                        self._begin(group, got, commit)
                        taken += got
                        self._turns.move_to_end(group)
                        group.claimed = commit if group in mine else 0
            if not taken:
                self._turns.move_to_end(group)
            vain = 0 if taken else vain + 1

    def _room_of(self, group: _Group, commit: int) -> float:
        """Return how many messages of a group may be leased."""
        if self._limits is None or not group.name:
            return inf
        begun = group.begun[1] if group.begun[0] == commit else 0
        return self._limits.group_room(group.name, group.leased, begun)

    def _begin(self, group: _Group, count: int, commit: int) -> None:
        """Count messages of a group that are leased, in a commit."""
        if self._limits is not None and group.name:
            begun = group.begun[1] if group.begun[0] == commit else 0
            group.begun = commit, begun + count
            self._limits.begin_in_group(group.name, count)

    def _turn(self, group: _Group, share: int, but: Mapping[Entry, int]) -> Runs:
        """Yield runs of up to `share` messages of a group."""
        end = group.end if self._is_strict else None
        for entry, ready in group.ready.runs(but, self._members(group), self._aging_of(group)):
            members = ready if end is None else _before(entry, ready, end)
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
            return entry.members if groups is None else entry.members & groups.members(group.name)

        return members_of


def _before(entry: Entry, members: int, id: str) -> int:
    """Return those of the members whose ids are below `id`."""
    stem = entry.batch.stem
    if stem.count and batch_of(id) == stem.id:
        return below(members, index_of(id))
    return members if stem.message_id(lowest(members)) < id else 0
