"""The index in memory: the names of all batches, and the waiting messages of each queue, in order.

The index changes in two ways only: a name appears, or a name disappears. A start takes in a listing so,
a commit its own moves, and a process that shares its root the moves of others. It never touches the
disk.

`SortedNames` is a sorted list in chunks. A name starts with its message's id, so the order of names is
the order of messages, and a message is found by its id with two binary searches and no further table: a
waiting message costs its name and one reference. A chunk that nothing has changed lately is a tuple, of
which the collector of garbage reads nothing: lists of a million names would stop it for 0.3 s. Pure.

A packed message is a lone one that nothing has touched lately, in any state: the index keeps the path
of its only name, and its places in the orders. So a deep backlog takes few bytes, and the collector of
garbage sees none of it. Its objects are made when something asks for it, and it is packed again if it
stays. A start packs what it lists. Packing is safe between commits alone, while no part holds an entry.

Ready messages are leased in an order. Without groups it is the order of the sends. With groups, those
that have something to lease take turns, in the order in which they were leased from last, and each
group is in the order of its sends. In a queue whose `group_order` is strict a group is open up to its
first message that is leased or delayed, and a receive takes what it can of one group, then of the next;
else it takes from all groups alike. Messages without a group are a group of their own, which nothing
blocks.

Once a queue had a message with a priority, its ready messages are leased in the order of
`PriorityOrder`; so are those of each group, but for the groups of a strict queue. It begins with a copy
of the order of the sends, whose references take a millisecond for each half a million.

Costs: a message that appears or disappears costs what its group and its entry take, whatever else
waits; a receive costs the groups that it takes from.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from heapq import heappop, heappush
from itertools import chain, islice
from operator import attrgetter, itemgetter
from sys import intern
from typing import Final

from ..files.spares import Spare
from ..model.batch_file import Line
from ..model.clock import Millis
from ..model.members import below, first_of, indexes, lowest
from ..model.message_ids import ID_LENGTH, batch_of, index_of, sent_at
from ..model.names import MAX_PRIORITY, PACKABLE, Name, dead_letter_path, parse
from ..model.receipts import is_set_token
from ..model.settings import QueueSettings
from ..model.statistics import QueueMetrics
from ..model.transitions import State
from .deadlines import Deadlines
from .entries import BatchFile, Entry, Groups, LeaseShare

_CHUNK: Final = 128
_OPEN: Final = 8
"""Chunks of one list that are lists: those that were changed last."""
UNPACKED: Final = 5_000
"""So many lone messages have their objects: those that go soon cost no packing."""
_PACKS: Final = 1_000
"""Messages that one commit packs at most, beside as many as came since the one before."""

Runs = Generator[tuple[Entry, int], None, None]
"""Messages to be leased, as runs of one entry: the entry, and the mask of the run."""


class SortedNames:
    """A set of distinct names in order. Adding and removing cost the same at both ends and inside."""

    __slots__ = ("_chunks", "_count", "_opened")

    def __init__(self) -> None:
        self._chunks: list[tuple[str, ...] | list[str]] = []
        self._opened: tuple[list[str], ...] = ()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[str]:
        for chunk in self._chunks:
            yield from chunk

    def copy(self) -> SortedNames:
        """Return a list of the same names."""
        made = SortedNames()
        made._chunks, made._count = [tuple(chunk) for chunk in self._chunks], self._count
        return made

    def add(self, name: str) -> bool:
        """Add `name`; return False if it is there already."""
        at = len(self._chunks) - 1
        if at < 0:
            self._chunks.append((name,))
            self._count = 1
            return True
        if name < self._chunks[at][0]:
            at = max(0, self._chunk_of(name))
        chunk = self._chunks[at]
        place = bisect_left(chunk, name)
        if place < len(chunk) and chunk[place] == name:
            return False
        self._count += 1
        if isinstance(chunk, tuple):
            chunk = self._open(at, chunk)
        chunk.insert(place, name)
        if len(chunk) > 2 * _CHUNK:
            # An append at the very end is the usual case: a full chunk is left as it is.
            keep = 2 * _CHUNK if chunk[-1] == name else _CHUNK
            self._chunks[at : at + 1] = [tuple(chunk[:keep]), tuple(chunk[keep:])]
        return True

    def _open(self, at: int, chunk: tuple[str, ...]) -> list[str]:
        """Make a chunk a list, and the one that was opened before the others a tuple."""
        opened = self._chunks[at] = list(chunk)
        if len(self._opened) == _OPEN:
            oldest = self._opened[0]
            there = self._chunk_of(oldest[0])
            if self._chunks[there] is oldest:
                self._chunks[there] = tuple(oldest)
        self._opened = (*self._opened[1 - _OPEN :], opened)
        return opened

    def extend(self, ordered: Sequence[str]) -> None:
        """Add names that are in order, and not there yet."""
        if self._chunks and ordered and ordered[0] < self._chunks[-1][-1]:
            ordered = sorted((*self, *ordered))
            self._chunks.clear()
            self._count = 0
        self._chunks += (tuple(ordered[at : at + _CHUNK]) for at in range(0, len(ordered), _CHUNK))
        self._count += len(ordered)

    def remove(self, name: str) -> bool:
        """Remove `name`; return whether it was there."""
        at = self._chunk_of(name)
        if at < 0:
            return False
        chunk = self._chunks[at]
        place = bisect_left(chunk, name)
        if place == len(chunk) or chunk[place] != name:
            return False
        if len(chunk) == 1:
            del self._chunks[at]
        elif isinstance(chunk, tuple):
            del self._open(at, chunk)[place]
        else:
            del chunk[place]
        self._count -= 1
        return True

    def first(self) -> str | None:
        return self._chunks[0][0] if self._chunks else None

    def last(self) -> str | None:
        return self._chunks[-1][-1] if self._chunks else None

    def since(self, start: str) -> Iterator[str]:
        """Yield all names from `start` on. Nothing may be added or removed meanwhile."""
        at = max(0, self._chunk_of(start))
        if at >= len(self._chunks):
            return
        chunk = self._chunks[at]
        yield from islice(chunk, bisect_left(chunk, start), None)
        for chunk in islice(self._chunks, at + 1, None):
            yield from chunk

    def _chunk_of(self, name: str) -> int:
        """Return the chunk in which `name` stands or belongs; -1 before the first."""
        return bisect_right(self._chunks, name, key=_FIRST_OF) - 1


_FIRST_OF: Final = itemgetter(0)
_MEMBERS: Final[Callable[[Entry], int]] = attrgetter("members")


class EntryOrder:
    """Entries in the order of the first message that each of them holds.

    A packed message stands here by its id alone, and has its entry from when it is looked at.

    Two entries may hold one message: a person has copied a file.
    """

    __slots__ = ("_by_first", "_doubles", "_unpack", "names")

    def __init__(self, unpack: Callable[[str], Entry]) -> None:
        """`unpack` makes the entry of a packed message, and calls `show`."""
        self._unpack = unpack
        self._by_first: dict[str, Entry] = {}
        self._doubles: dict[str, list[Entry]] = {}
        """Those whose first message another entry stands for."""
        self.names = SortedNames()

    def __bool__(self) -> bool:
        return len(self.names) > 0

    def __iter__(self) -> Iterator[Entry]:
        """Yield all entries. The order must not change meanwhile."""
        return (entry for _, entry in self.since(""))

    def change(self, entry: Entry, before: int, after: int) -> None:
        """Move an entry from the place of its members `before` to that of `after`."""
        stem = entry.batch.stem
        if stem.count:
            was = stem.message_id(lowest(before)) if before else ""
            first = stem.message_id(lowest(after)) if after else ""
        else:
            was, first = stem.id if before else "", stem.id if after else ""
        if first == was:
            return
        if was:
            self._remove(was, entry)
        if first:
            if self.names.add(first):
                self._by_first[first] = entry
            else:
                self.at(first)
                self._doubles.setdefault(first, []).append(entry)

    def _remove(self, first: str, entry: Entry) -> None:
        doubles = self._doubles.get(first)
        if doubles is None:
            self.names.remove(first)
            del self._by_first[first]
            return
        if self._by_first[first] is entry:
            self._by_first[first] = doubles.pop()
        else:
            doubles.remove(entry)
        if not doubles:
            del self._doubles[first]

    def extend(self, ids: Sequence[str]) -> None:
        """Add packed messages, in order."""
        self.names.extend(ids)

    def hide(self, entry: Entry) -> None:
        """Forget the entry of a message that is packed now."""
        del self._by_first[entry.batch.stem.id]

    def show(self, entry: Entry) -> None:
        """Know the entry of a message that was packed."""
        self._by_first[entry.batch.stem.id] = entry

    def copy(self) -> EntryOrder:
        """Return an order of the same entries."""
        made = EntryOrder(self._unpack)
        made.names, made._by_first = self.names.copy(), self._by_first.copy()
        made._doubles = {first: doubles.copy() for first, doubles in self._doubles.items()}
        return made

    def first(self) -> str | None:
        """Return the id of the first message."""
        return self.names.first()

    def at(self, first: str) -> Entry:
        """Return an entry whose first message is `first`."""
        return self._by_first.get(first) or self._unpack(first)

    def since(self, id: str) -> Iterator[tuple[str, Entry]]:
        """Yield the entries from `id` on, each with the id of its first message. The order must not
        change meanwhile."""
        for first in self.names.since(id):
            entry = self._by_first.get(first)
            yield first, self.at(first) if entry is None else entry
            for double in self._doubles.get(first, ()) if self._doubles else ():
                yield first, double

    def sightings(self, id: str) -> Iterator[tuple[str, Entry | None]]:
        """Yield the same with None in place of each packed message."""
        for first in self.names.since(id):
            yield first, self._by_first.get(first)
            for double in self._doubles.get(first, ()) if self._doubles else ():
                yield first, double

    def runs(self, but: Mapping[Entry, int], members_of: Callable[[Entry], int]) -> Runs:
        """Yield messages in order.

        `but` are messages that are passed over; it may grow while this runs, nothing else may change.
        """
        firsts = self.since("")
        following = next(firsts, None)
        split: list[tuple[str, Entry, int]] = []
        while following is not None or split:
            if split and (following is None or split[0][0] < following[0]):
                _, entry, members = heappop(split)
            else:
                assert following is not None
                _, entry = following
                members = members_of(entry)
                following = next(firsts, None)
            ahead = None if following is None else following[0]
            if split and (ahead is None or split[0][0] < ahead):
                ahead = split[0][0]
            stem = entry.batch.stem
            # Only what has an id between two messages of one file divides it: a part of it that came
            # back.
            if ahead is not None and stem.count and batch_of(ahead) == stem.id:
                run = below(members, index_of(ahead))
                if run != members:
                    rest = members & ~run
                    heappush(split, (stem.message_id(lowest(rest)), entry, rest))
                    members = run
            members &= ~but.get(entry, 0)
            if members:
                yield entry, members


class PriorityOrder:
    """Entries in the order of their priorities, the oldest of one priority first.

    Each priority has an order of its own, and a receive merges them: another `aging` moves nothing.
    With one a message stands where it would without a priority if it had been sent so much earlier for
    each step of its priority: so a lower one is overtaken for a bounded time only. All messages of a
    file have one priority and one time.
    """

    __slots__ = ("_unpack", "levels")

    def __init__(self, plain: EntryOrder, unpack: Callable[[str], Entry]) -> None:
        """`plain` are the entries of priority 0."""
        self.levels = {0: plain}
        self._unpack = unpack

    def change(self, entry: Entry, before: int, after: int) -> None:
        """Move an entry from the place of its members `before` to that of `after`."""
        level = self.levels.get(entry.batch.stem.priority)
        if level is None:
            level = self.levels[entry.batch.stem.priority] = EntryOrder(self._unpack)
        level.change(entry, before, after)

    def first(self) -> str | None:
        """Return the id of the oldest message."""
        return min(filter(None, (level.first() for level in self.levels.values())), default=None)

    def runs(
        self, but: Mapping[Entry, int], members_of: Callable[[Entry], int], aging: int | None
    ) -> Runs:
        """Yield messages in order, as `EntryOrder.runs` does.

        `aging` in milliseconds; 0: a higher priority is always first; None: the oldest message is.
        """
        if len(self.levels) == 1:
            return self.levels[0].runs(but, members_of)
        levels = [level.runs(but, members_of) for level in self.levels.values()]
        return heapq.merge(*levels, key=partial(_place_of, aging))


def _place_of(aging: int | None, run: tuple[Entry, int]) -> tuple[int, str]:
    """Return the place of a run among those of other priorities."""
    entry, members = run
    stem = entry.batch.stem
    id = stem.message_id(lowest(members))
    if aging is None:
        return 0, id
    return sent_at(id) + (MAX_PRIORITY - stem.priority) * (aging or _ALWAYS), id


_ALWAYS: Final = 1 << 48
"""More milliseconds than an id can say."""


class _Group:
    """The messages of one group."""

    __slots__ = ("claimed", "hidden", "name", "offered", "ready", "waiting")

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

    def be_set(self, settings: QueueSettings) -> None:
        """Apply the queue's settings: a change takes one pass of the groups."""
        self._aging = settings.priority_aging
        is_strict = settings.group_order == "strict"
        if is_strict != self._is_strict:
            self._is_strict = is_strict
            for group in self._groups.values():
                self._offer(group)

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
        self._offer(group)
        if name and not (group.waiting or group.hidden):
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


COUNTED: Final = (State.READY, State.LEASED, State.DELAYED)
"""The states whose messages a queue counts as its own."""
_WAITS: Final = (State.LEASED, State.DELAYED)
_OVER: Final = (State.REMOVED, State.QUARANTINED)


_MOMENT_OF: Final = itemgetter(slice(13))
"""The part of an id that is its time: many ids share one."""


class CountsByAge:
    """Counts of messages by the time at which they were sent, to an eighth of a second.

    A message costs two additions. A question costs one look for every two minutes in which messages
    were sent, and a thousand more, whatever the number of messages.
    """

    __slots__ = ("coarse", "fine")

    def __init__(self) -> None:
        self.fine: dict[int, int] = {}
        """By spans of 2 ** 7 ms."""
        self.coarse: dict[int, int] = {}
        """By spans of 2 ** 17 ms."""

    def add(self, sent: int, count: int) -> None:
        for counts, span in ((self.fine, sent >> 7), (self.coarse, sent >> 17)):
            left = counts.get(span, 0) + count
            if left:
                counts[span] = left
            else:
                counts.pop(span, None)

    def add_all(self, ids: Iterable[str]) -> None:
        """Add messages by their ids."""
        for moment, count in Counter(map(_MOMENT_OF, ids)).items():
            self.add(sent_at(moment), count)

    def before(self, moment: int) -> int:
        """Return the number of messages that were sent before a Unix time."""
        fine, coarse = moment >> 7, moment >> 17
        found = sum(count for span, count in self.coarse.items() if span < coarse)
        return found + sum(self.fine.get(span, 0) for span in range(coarse << 10, fine))


class QueueIndex:
    """The messages of one queue."""

    __slots__ = (
        *("_unpack", "bytes", "counts", "entered", "groups", "left", "orders", "plain", "priorities"),
        *("ready", "sent"),
    )

    def __init__(self, unpack: Callable[[str], Entry]) -> None:
        self._unpack = unpack
        self.ready = EntryOrder(unpack)
        self.plain: EntryOrder | None = None
        """The ready messages without a group and a priority, once the queue had others."""
        self.priorities: PriorityOrder | None = None
        """The ready messages in the order of their priorities, once the queue had a message with one,
        and none with a group."""
        self.groups: GroupOrder | None = None
        """Whose turn it is, once the queue had a message with a group."""
        self.counts = dict.fromkeys(COUNTED, 0)
        self.bytes = 0
        """Of all messages that are counted."""
        self.entered = 0
        """Messages that this process has brought into the queue."""
        self.left = 0
        """Messages that it has deleted, let expire or moved away."""
        self.sent = CountsByAge()
        """The ready messages."""
        self.orders = {
            State.READY: self.ready,
            State.LEASED: EntryOrder(unpack),
            State.DELAYED: EntryOrder(unpack),
        }

    @property
    def files_ready(self) -> int:
        """How many files have messages that are ready."""
        return len(self.orders[State.READY].names)

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def entries(self) -> Iterator[Entry]:
        """All that hold a message here, in the three states."""
        return chain(*self.orders.values())

    def order_by_priority(self) -> None:
        """Order the ready messages by their priorities from now on; none has one so far."""
        self.plain = self.ready.copy()
        self.priorities = PriorityOrder(self.plain, self._unpack)

    def order_by_group(self) -> None:
        """Let groups take turns from now on; no message has one so far."""
        if self.priorities is None:
            self.order_by_priority()
        assert self.priorities is not None
        count = self.counts[State.READY]
        self.groups, self.priorities = GroupOrder(self.priorities, count, self._unpack), None

    def orders_of(self, entry: Entry) -> Iterator[EntryOrder]:
        """Yield the orders in which a lone message stands."""
        name, groups = entry.name, entry.batch.groups
        yield self.orders[name.state]
        if self.groups is not None:
            group = "" if groups is None else groups.of(0)
            if group or name.state is State.READY:
                yield self.groups.order_of(group, entry)
        elif self.priorities is not None and name.state is State.READY:
            yield self.priorities.levels[entry.batch.stem.priority]

    def extend(self, state: State, ids: Sequence[str], size: int) -> None:
        """Add packed messages without a group and a priority, in order, of so many bytes."""
        self.counts[state] += len(ids)
        self.bytes += size
        self.orders[state].extend(ids)
        if state is State.READY:
            self.sent.add_all(ids)
            if self.plain is not None:
                self.plain.extend(ids)
            if self.groups is not None:
                self.groups.add_packed(len(ids))

    def sightings(self, id: str, states: Collection[State]) -> Iterator[tuple[str, Entry | None]]:
        """Yield the entries in `states` whose first message isn't below `id`, in order, each with the
        id of its first message; None in place of a packed one. The index must not change meanwhile."""
        return heapq.merge(*(self.orders[state].sightings(id) for state in states), key=_FIRST_OF)

    def available(self, settings: QueueSettings) -> int:
        """Return the number of messages that a receive could lease."""
        if self.groups is None:
            return self.counts[State.READY]
        self.groups.be_set(settings)
        return self.groups.available

    def runs(self, room: int, but: Mapping[Entry, int], settings: QueueSettings, commit: int) -> Runs:
        """Yield the messages that a receive of up to `room` leases.

        `but` are messages that are passed over: it grows by what is taken, and nothing else changes
        meanwhile.
        """
        if self.groups is not None:
            self.groups.be_set(settings)
            return self.groups.runs(room, but, commit)
        if self.priorities is not None:
            return self.priorities.runs(but, _MEMBERS, settings.priority_aging)
        return self.ready.runs(but, _MEMBERS)


class Index:
    """The names of all queues in memory. Not thread-safe."""

    def __init__(self) -> None:
        self.batches: dict[str, BatchFile] = {}
        """All files but those of packed messages, by the texts of their stems."""
        self._packed: dict[str, str] = {}
        """The paths of packed messages, by their ids."""
        self._groups: dict[str, str] = {}
        """The groups of those that have one, or whose file could not say it."""
        self._consumers: dict[str, str] = {}
        """The time in hexadecimal and the consumer of the receives of those whose consumer is known."""
        self.to_be_packed: deque[str] = deque()
        """Ids of messages that may be packed, those that have waited longest first; some are gone."""
        self._left_to_pack = 0
        """As many ids the last commit has left."""
        self.unpacked = UNPACKED
        self._by_id: dict[str, BatchFile] = {}
        """By the id of the file, and for a batch an "n", as its first message has the same id."""
        self._doubles: dict[str, list[BatchFile]] = {}
        """Files with one id, which only a hand can make."""
        self.unused_dead_letter_files: dict[str, int] = {}
        """Dead-letter files that no name refers to any more, and the commit that must be durable before
        they are unlinked."""
        self.queues: dict[str, QueueIndex] = {}
        self.new_keyed_files: dict[BatchFile, None] = {}
        """New batches with deduplication keys, which are not taken in yet."""
        self.unread_group_files: dict[BatchFile, None] = {}
        """Batches whose groups are not known yet: their messages have to wait."""
        self.loose_files: dict[BatchFile, None] = {}
        """Batches that have a name outside `remove/` which may be unlinked after a sync."""
        self.deleted_files: dict[BatchFile, None] = {}
        """Batches whose names in `remove/` the reaper may have after a sync."""
        self.in_spares: dict[str, Spare] = {}
        """Files that have a spare's name on the disk still, by their paths in `new/`."""
        self.unpublished_queues: dict[str, None] = {}
        """Queues whose published counts are behind."""
        self.published: dict[str, QueueMetrics] = {}
        """The counts of each queue that had a message, as of the last commit's end. Each is replaced,
        and never changed, so that it is read in any thread."""
        self.changed_queues: dict[str, None] = {}
        """Queues that may have become able to give something to those that wait: they take them out."""
        self.dues = Deadlines[str]()
        """When leases and delays end: of a lone message by its id, of any other entry by its path."""
        self._listed = 0
        """The commit that makes durable what the last listing has packed."""
        self.leases_of: dict[str, dict[Entry, None]] = {}
        """The leases of reserved sets, by their tokens."""
        self.is_answer = True
        """Whether consumers end the leases that end now; not time, or the loss of a response."""

    def queue(self, name: str) -> QueueIndex:
        found = self.queues.get(name)
        if found is None:
            found = self.queues[name] = QueueIndex(self.unpack)
        return found

    def drop_queue(self, name: str) -> None:
        """Know no more of a queue that was deleted, once it has no message."""
        queue = self.queues.get(name)
        if queue is None or not queue.total:
            self.queues.pop(name, None)
            self.published.pop(name, None)

    def publish(self, sent: Mapping[Entry, int], synced: int) -> None:
        """Publish the counts of the queues that have changed.

        `sent` are files in `new/`, and the commits that wrote them: those up to `synced` were answered,
        and count as if they were in their queues.
        """
        touched, self.unpublished_queues = self.unpublished_queues, {}
        answered: dict[str, list[Entry]] = {}
        for entry, commit in sent.items():
            if commit > synced:
                self.unpublished_queues[entry.name.queue] = None
            elif entry.members:
                answered.setdefault(entry.name.queue, []).append(entry)
        for name in touched:
            if name not in self.queues and name not in answered:
                continue  # It was deleted.
            queue = self.queues.get(name) or self.queue(name)
            kept, entered, size = self.published.get(name), queue.entered, queue.bytes
            ready, leased, delayed = queue.counts.values()
            heads = {State.READY: ("", 0), State.LEASED: ("", 0)}
            for state in heads:
                order = queue.orders[state]
                if chunks := order.names._chunks:
                    first = chunks[0][0]
                    head = order._by_first.get(first)
                    if head is not None:
                        heads[state] = first, head.name.receives
                    elif kept is not None and kept.first == first:
                        heads[state] = first, kept.receives  # It is packed, so nothing touched it.
                    else:
                        heads[state] = first, parse(self._packed[first]).receives
            ready_head, leased_head = heads.values()
            for entry in answered.get(name, ()):
                count, stem = entry.members.bit_count(), entry.batch.stem
                if count == (stem.count or 1):
                    size += stem.size + stem.attributes  # No call for what is nearly always so.
                else:
                    size += entry.batch.counted_bytes_of(entry.members)
                entered += count
                if entry.name.due is not None:
                    delayed += count
                    continue
                ready += count
                if not ready_head[0] or entry.batch.stem.id < ready_head[0]:
                    ready_head = entry.batch.stem.id, 0
            oldest = ready_head
            if leased_head[0] and not "" < ready_head[0] < leased_head[0]:
                oldest = leased_head
            self.published[name] = QueueMetrics(
                name=name,
                ready=ready,
                leased=leased,
                delayed=delayed,
                bytes=size,
                first_ready=ready_head[0],
                oldest_ready_receives=ready_head[1],
                first=oldest[0],
                receives=oldest[1],
                entered=entered,
                left=queue.left,
            )

    def batch(self, id: str) -> tuple[BatchFile, int] | None:
        """Return the file that has the message `id`, and the message's index in it."""
        if id in self._packed:
            self.unpack(id)
        batch, index = self._by_id.get(batch_of(id) + "n"), index_of(id)
        if batch is not None and index < batch.stem.count:
            return batch, index
        lone = self._by_id.get(id)
        return None if lone is None else (lone, 0)

    def holder(self, id: str) -> tuple[Entry, int] | None:
        """Return the entry that holds the message `id`, and the message's index; None if it is not
        there."""
        found = self.batch(id)
        if found is None:
            return None
        batch, index = found
        entry = batch.holder(index)
        return None if entry is None else (entry, index)

    def appear(self, name: Name, commit: int, *, due: int = 0) -> Entry:
        """Add a name; `due` is the monotonic time at which its lease or delay ends."""
        if name.stem.id in self._packed:
            self.unpack(name.stem.id)
        batch = self.batches.get(name.stem.text)
        is_new = batch is None
        if batch is None:
            batch = self.batches[name.stem.text] = BatchFile(name.stem)
        entry, losers = batch.add(name, commit)
        if is_new:
            self._register(batch)
            if name.stem.key is not None:
                self.new_keyed_files[batch] = None
            if name.stem.is_grouped:
                self.unread_group_files[batch] = None
        if name.death is not None and name.death.file and self.unused_dead_letter_files:
            self.unused_dead_letter_files.pop(dead_letter_path(name.stem.id, name.death.file), None)
        entry.due = due
        for loser in losers:
            self.unpublished_queues[loser.name.queue] = None  # Also of a file in `new/`.
            if loser.shares:
                self._pass_on(loser, entry)
            if loser.name.state in COUNTED:
                self._count(loser, loser.members)
            if not loser.members:
                self.loose_files[batch] = None
        if name.state in COUNTED:
            self._count(entry, entry.members)
            if not name.stem.count:
                self.to_be_packed.append(name.stem.id)
        if name.state in _WAITS:
            self.schedule(entry, due)
        if name.state is State.REMOVED:
            if batch.is_over:
                self.deleted_files[batch] = None
        elif not entry.members:
            self.loose_files[batch] = None
        return entry

    def disappear(self, entry: Entry, commit: int) -> None:
        """Remove a name. Its messages that no other name lists are gone."""
        batch = entry.batch
        members = entry.members
        if entry.name.state is State.SENT:
            self.unpublished_queues[entry.name.queue] = None
        batch.drop(entry, commit)
        entry.members = 0
        if entry.shares:
            self._pass_on(entry, None)
        if entry.counted:
            self._count(entry, 0)
        if entry.name.death is not None and entry.name.death.file:
            self._leave_untold(batch, entry.name.death.file, commit)
        if members:
            self._fall_back(batch, members, commit)
        if not batch.entries:
            self.loose_files.pop(batch, None)
            self.deleted_files.pop(batch, None)
            self.unread_group_files.pop(batch, None)
            del self.batches[batch.stem.text]
            self._unregister(batch)
        elif batch.is_over:
            self.loose_files.pop(batch, None)
            self.deleted_files[batch] = None
        elif batch in self.loose_files and not batch.is_loose:
            del self.loose_files[batch]

    def rename(self, entry: Entry, name: Name, commit: int, *, due: int = 0) -> Entry:
        """Replace the only name of a file by another one, to which all that it holds moves: what
        `appear` and `disappear` do, at once."""
        batch, old, members = entry.batch, entry.name, entry.members
        made = Entry(batch, name)
        made.due = due
        batch.entries, batch.top, batch.changed = (made,), name.version, commit
        entry.members, entry.taken = 0, commit
        self.unpublished_queues[old.queue] = None  # Also of a file in `new/`.
        if entry.shares:
            self._pass_on(entry, made)
        if old.state in COUNTED:
            self._count(entry, 0)
        if name.state in COUNTED:
            self._count(made, members)
            if not name.stem.count:
                self.to_be_packed.append(name.stem.id)
        if name.state in _WAITS:
            self.schedule(made, due)
        elif name.state in _OVER:
            self.deleted_files[batch] = None
        return made

    def unknown_disappears(self, name: Name, commit: int) -> None:
        """Note the end of a name that another process had in `new/`: its batch may be over."""
        batch = self.batches.get(name.stem.text)
        if batch is not None:
            batch.changed = commit
            if batch.is_over:
                self.deleted_files[batch] = None

    def _fall_back(self, batch: BatchFile, members: int, commit: int) -> None:
        """Let the names that are left hold what the highest one held: it was removed by hand."""
        for other in reversed(batch.entries):
            back = members & other.name.members
            if not back:
                continue
            members &= ~back
            batch.regain(other, back, commit)
            self._count(other, other.members)
            if other.name.state in _WAITS:
                self.schedule(other, other.due)

    def entry_at(self, name: Name) -> Entry | None:
        """Return the entry with the path of `name`."""
        batch = self.file(name.stem.text)
        return None if batch is None else batch.entry_at(name)

    def file(self, text: str) -> BatchFile | None:
        """Return the file whose stem has this text."""
        id = text[:ID_LENGTH]
        if id in self._packed:
            self.unpack(id)
        return self.batches.get(text)

    def entries_of(self, text: str) -> Sequence[Entry]:
        """Return the entries of the file whose stem has this text, or of the lone message with this
        id."""
        file = self.file(text) or self._by_id.get(text)
        return () if file is None else file.entries

    def has_file_of(self, id: str) -> bool:
        """Return whether there is a file of this message alone, in any state."""
        return id in self._by_id or id in self._packed

    # Packed messages.

    def may_be_packed(self, batch: BatchFile) -> None:
        """Pack the message of a file if others follow it, and nothing else touches it."""
        if not batch.stem.count:
            self.to_be_packed.append(batch.stem.id)

    def pack(self, synced: int) -> None:
        """Pack messages that have waited long, so that no more than `unpacked` aren't. No part may hold
        their entries."""
        came = len(self.to_be_packed) - self._left_to_pack
        for _ in range(min(len(self.to_be_packed) - self.unpacked, _PACKS + came)):
            batch = self._by_id.get(self.to_be_packed[0])
            if batch is not None and batch.changed > synced:
                break  # Nor are those behind it durable.
            self.to_be_packed.popleft()
            if batch is not None and len(batch.entries) == 1 and self._is_its_name(batch.entries[0]):
                self._pack(batch, batch.entries[0])
        self._left_to_pack = len(self.to_be_packed)

    def _is_its_name(self, entry: Entry) -> bool:
        """Return whether the path of a lone message's only name says all about it, but for its group
        and consumer. What flow control counts is never packed: that bounds it."""
        name, batch = entry.name, entry.batch
        id = batch.stem.id
        return (
            name.state in COUNTED
            and bool(entry.members)
            and name.version == batch.top
            and (name.state is State.READY or id in self.dues.times)
            and not (name.token and is_set_token(name.token))
            and all(share.credits is None for share in entry.shares)
            and batch not in self.new_keyed_files
            and batch not in self.unread_group_files
            and id not in self._doubles
            and batch_of(id) + "n" not in self._by_id
        )

    def _pack(self, batch: BatchFile, entry: Entry) -> None:
        id = batch.stem.id
        for order in self.queues[entry.name.queue].orders_of(entry):
            order.hide(entry)
        del self.batches[batch.stem.text], self._by_id[id]
        batch.entries = ()  # No cycle is left to the collector.
        self._packed[id] = entry.name.path
        if batch.groups is not None:
            self._groups[id] = intern(batch.groups.of(0))
        for share in entry.shares:
            self._consumers[id] = f"{share.since:x} {share.consumer}"

    def unpack(self, id: str) -> Entry:
        """Make the objects of a packed message."""
        entry = self.look_at_packed(id)
        self.batches[entry.batch.stem.text] = self._by_id[id] = entry.batch
        del self._packed[id]
        self._groups.pop(id, None)
        self._consumers.pop(id, None)
        for order in self.queues[entry.name.queue].orders_of(entry):
            order.show(entry)
        self.to_be_packed.append(id)
        return entry

    def look_at_packed(self, id: str) -> Entry:
        """Return the entry of a packed message, which stays packed. It must not be changed."""
        name = parse(self._packed[id])
        batch = BatchFile(name.stem)
        group = self._groups.get(id)
        if group is not None:
            batch.groups = Groups({group: 1} if group else {}, 1)
        entry, _ = batch.add(name, self._listed)
        entry.counted = entry.members
        entry.due = self.dues.times.get(id, 0)
        since, _, consumer = self._consumers.get(id, "").partition(" ")
        if since:
            share = LeaseShare(1, name.stem.counted, None, consumer, Millis(int(since, 16)), 0, 1)
            entry.shares = (share,)
        return entry

    def pack_listed(
        self, paths: Iterable[str], commit: int, due_of: Callable[[int, bool], int]
    ) -> tuple[list[str], list[str]]:
        """Take in the paths of a listing, in order, of what can be packed; return the ids of that, and
        the other paths. `due_of` returns the monotonic time of a Unix time, and whether it ends a
        lease."""
        packed, by_id = self._packed, self._by_id
        others: list[str] = []
        found: defaultdict[tuple[str, State], tuple[list[str], list[int]]]
        found = defaultdict(lambda: ([], []))
        for path in paths:
            match = PACKABLE.fullmatch(path)
            if match is None:
                others.append(path)
                continue
            ready, hidden, id, body, attributes, due, token = match.groups()
            if (
                id in packed
                or (by_id and (id in by_id or batch_of(id) + "n" in by_id))
                or (token and is_set_token(token))
            ):
                others.append(path)
                continue
            packed[id] = path
            state = State.READY if ready else State.LEASED if token else State.DELAYED
            if due:
                self.dues.set(id, Millis(due_of(int(due), token is not None)))
            ids, sizes = found[ready or hidden, state]
            ids.append(id)
            sizes.append(int(body) + int(attributes or 0))
        for (queue, state), (ids, sizes) in found.items():
            self._listed = commit
            self.queue(queue).extend(state, ids, sum(sizes))
            self.changed_queues[queue] = self.unpublished_queues[queue] = None
        return [id for ids, _ in found.values() for id in ids], others

    @property
    def packed_paths(self) -> Collection[str]:
        """The paths of all packed messages."""
        return self._packed.values()

    def _register(self, batch: BatchFile) -> None:
        key = batch.stem.id + "n" if batch.stem.count else batch.stem.id
        there = self._by_id.setdefault(key, batch)
        if there is not batch:
            self._doubles.setdefault(key, [there]).append(batch)

    def _unregister(self, batch: BatchFile) -> None:
        key = batch.stem.id + "n" if batch.stem.count else batch.stem.id
        doubles = self._doubles.get(key)
        if doubles is None:
            del self._by_id[key]
            return
        doubles.remove(batch)
        self._by_id[key] = doubles[0]
        if len(doubles) == 1:
            del self._doubles[key]

    def _leave_untold(self, batch: BatchFile, file: str, commit: int) -> None:
        """Note a dead-letter file, if no name of the batch refers to it any more."""
        for other in batch.entries:
            if other.name.death is not None and other.name.death.file == file:
                return
        self.unused_dead_letter_files[dead_letter_path(batch.stem.id, file)] = commit

    def due(self, now: Millis) -> Iterator[Entry]:
        """Yield the entries whose lease or delay is over; the caller moves them, or schedules them
        again."""
        while (due := self.dues.next()) is not None and due <= now:
            key = self.dues.pop(now) or ""
            if key in self._packed:
                self.unpack(key).due = due
            named = self.entry_at(parse(key)) if "/" in key else None
            for entry in self.entries_of(key) if named is None else (named,):
                # Of a copied file the key may be that of the other one.
                if entry.members and entry.name.state in _WAITS and entry.due <= now:
                    yield entry

    def schedule(self, entry: Entry, due: int) -> None:
        """Let the lease or delay of an entry end then."""
        if entry.members:
            self.dues.set(self._due_key(entry), Millis(due))

    def _due_key(self, entry: Entry) -> str:
        stem = entry.batch.stem
        return entry.name.path if stem.count or stem.id in self._doubles else stem.id

    def end_shares(self, entry: Entry) -> None:
        """Let no consumer hold an entry any more, whose lease goes on for now."""
        shares, entry.shares = entry.shares, ()
        for share in shares:
            if share.credits is not None:
                share.credits.give_back(share.members.bit_count(), share.size, is_answer=False)

    def _pass_on(self, loser: Entry, winner: Entry | None) -> None:
        """Let the shares of messages follow them: a lease that was extended goes on, any other is
        over."""
        kept: list[LeaseShare] = []
        goes_on = winner is not None and winner.name.token == loser.name.token
        for share in loser.shares:
            left, lost = share.members & loser.members, share.members & ~loser.members
            # Of a part of a file that isn't in memory any more they are a guess: the sum is exact.
            lost_size = share.size
            if left and lost_size:
                lost_size = min(lost_size, loser.batch.counted_bytes_of(lost))
            if lost and goes_on:
                assert winner is not None
                winner.shares += (LeaseShare(lost, lost_size, *share[2:]),)
            elif lost and share.credits is not None:
                share.credits.give_back(lost.bit_count(), lost_size, is_answer=self.is_answer)
            if left:
                kept.append(LeaseShare(left, share.size - lost_size, *share[2:]))
        loser.shares = tuple(kept)

    def learn(self, batch: BatchFile, line: Line | None) -> None:
        """Keep a file's line about its messages, for exact byte counts; None: drop it."""
        counted: list[tuple[Entry, int]] = []
        for entry in batch.entries:
            if entry.counted:
                counted.append((entry, entry.counted))
                self.unpublished_queues[entry.name.queue] = None
                self.queues[entry.name.queue].bytes -= batch.counted_bytes_of(entry.counted)
        batch.line = line
        if line is not None and batch.groups is None and batch.stem.is_grouped:
            self.learn_groups(batch, line.groups)
        for entry, members in counted:
            self.queues[entry.name.queue].bytes += batch.counted_bytes_of(members)

    def learn_groups(self, batch: BatchFile, groups: Mapping[str, int]) -> None:
        """Order the messages of a file by groups: `groups` has the members of each group."""
        batch.groups = Groups(groups, batch.stem.full)
        self.unread_group_files.pop(batch, None)
        self.may_be_packed(batch)
        for entry in batch.entries:
            queue = self.queues[entry.name.queue] if entry.counted else None
            self.changed_queues[entry.name.queue] = None
            if queue is not None and queue.groups is not None:
                queue.groups.change(entry, 0, entry.counted)

    def _count(self, entry: Entry, members: int) -> None:
        """Make the queue's figures and order be as if the entry held `members`."""
        name = entry.name
        if name.state not in COUNTED:
            return
        queue = self.queue(name.queue)
        stem = entry.batch.stem
        was = entry.counted
        if queue.groups is None and members:
            if stem.is_grouped:
                queue.order_by_group()
            elif stem.priority and queue.priorities is None and name.state is State.READY:
                queue.order_by_priority()
        self.unpublished_queues[name.queue] = None
        queue.counts[name.state] += members.bit_count() - was.bit_count()
        if members:
            queue.bytes += entry.batch.counted_bytes_of(members)
        if was:
            queue.bytes -= entry.batch.counted_bytes_of(was)
        entry.counted = members
        if members and not was:
            if name.token and is_set_token(name.token):
                self.leases_of.setdefault(name.token, {})[entry] = None
        elif was and not members and name.token and is_set_token(name.token):
            del self.leases_of[name.token][entry]
            if not self.leases_of[name.token]:
                del self.leases_of[name.token]
        queue.orders[name.state].change(entry, was, members)
        if name.state in _WAITS and not members:
            self.dues.discard(self._due_key(entry))
        if name.state is State.READY or queue.groups is not None:
            self.changed_queues[name.queue] = None
        if name.state is State.READY:
            queue.sent.add(sent_at(stem.id), members.bit_count() - was.bit_count())
            if queue.priorities is not None:
                queue.priorities.change(entry, was, members)
        if queue.groups is not None:
            queue.groups.change(entry, was, members)
