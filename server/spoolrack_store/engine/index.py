"""The index in memory: the names of all batches, and the waiting messages of each queue, in order.

The index changes in two ways only: a name appears, or a name disappears. A start takes in a listing so,
a commit its own moves, and a process that shares its root the moves of others. It never touches the
disk.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Mapping
from heapq import heappop, heappush
from typing import Final

from ..model.batch import Batch, Charge, Entry, Groups
from ..model.clock import Millis
from ..model.content import Line
from ..model.members import indexes
from ..model.names import Name, batch_of, index_of
from ..model.settings import QueueSettings
from ..model.transitions import State
from .queue_order import EntryOrder, GroupOrder, PriorityOrder

COUNTED: Final = (State.READY, State.LEASED, State.DELAYED)
"""The states whose messages a queue counts as its own."""
_WAITS: Final = (State.LEASED, State.DELAYED)


class QueueIndex:
    """The messages of one queue."""

    __slots__ = (
        *("bytes", "counts", "entered", "entries", "groups", "left", "listed", "priorities", "ready"),
    )

    def __init__(self) -> None:
        self.ready = EntryOrder()
        self.groups: GroupOrder | None = None
        """Whose turn it is, once the queue had a message with a group."""
        self.priorities: PriorityOrder | None = None
        """The ready entries in the order of their priorities, once the queue had a message with one."""
        self.counts = dict.fromkeys(COUNTED, 0)
        self.bytes = 0
        """Of all messages that are counted."""
        self.entries: dict[Entry, None] = {}
        """All that hold a message here, in the three states."""
        self.entered = 0
        """Messages that this process has brought into the queue."""
        self.left = 0
        """Messages that it has deleted, let expire or moved away."""
        self.listed: dict[State, EntryOrder] = {}
        """Those that are leased, and those that are delayed, in order, once they were listed."""

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def head(self) -> Entry | None:
        """Return the entry that holds the oldest ready message."""
        first = self.ready.first()
        return None if first is None else self.ready.by_first[first]

    def since(self, id: str, states: Collection[State]) -> Iterator[tuple[str, Entry]]:
        """Yield the entries in `states` whose first message isn't below `id`, in order, each with the
        id of its first message. The index must not change meanwhile."""
        found = [self.ready.since(id)] if State.READY in states else []
        found += [self._in_order_of(state).since(id) for state in _WAITS if state in states]
        return heapq.merge(*found, key=_first_of)

    def _in_order_of(self, state: State) -> EntryOrder:
        """Return what is leased, or what is delayed, in order: it costs one pass the first time."""
        if state not in self.listed:
            self.listed[state] = EntryOrder(each for each in self.entries if each.name.state is state)
        return self.listed[state]

    def available(self, settings: QueueSettings) -> int:
        """Return how many messages a receive could take."""
        if self.groups is None:
            return self.counts[State.READY]
        self.groups.be_set(settings, has_priorities=self.priorities is not None)
        return self.groups.available

    def runs(
        self, room: int, but: Mapping[Entry, int], settings: QueueSettings, commit: int
    ) -> Iterator[tuple[Entry, int]]:
        """Yield what a receive of up to `room` messages is to lease, as runs of one entry: the entry,
        and the mask of the run.

        `but` are messages that are passed over: it grows by what is taken, and nothing else changes
        meanwhile.
        """
        if self.groups is not None:
            self.groups.be_set(settings, has_priorities=self.priorities is not None)
            return self.groups.runs(room, but, commit)
        if self.priorities is None:
            return self.ready.runs(but, _held)
        if self.priorities.aging != settings.priority_aging:
            self.priorities.aging = settings.priority_aging
            self.priorities.take_over(self.ready)
        return self.priorities.runs(but, _held)


class Index:
    """All queues. Not thread-safe."""

    def __init__(self) -> None:
        self.batches: dict[str, Batch] = {}
        """By the texts of their stems."""
        self._by_id: dict[str, Batch] = {}
        """By the id of the file, and for a batch an "n", as its first message has the same id."""
        self._doubles: dict[str, list[Batch]] = {}
        """Files of one message: a dead letter, and what it was copied from."""
        self.superseded: dict[tuple[Batch, int], int] = {}
        """Messages that are in a dead letter's own file now, to be deleted where they were, and the
        commit that published that file and must be durable before. They stay until that is durable."""
        self.queues: dict[str, QueueIndex] = {}
        self.keyed: dict[Batch, None] = {}
        """New batches with deduplication keys, which are not taken in yet."""
        self.grouped: dict[Batch, None] = {}
        """Batches whose groups are not known yet: their messages have to wait."""
        self.loose: dict[Batch, None] = {}
        """Batches that have a name outside `remove/` which may be unlinked after a sync."""
        self.over: dict[Batch, None] = {}
        """Batches whose names in `remove/` the reaper may have after a sync."""
        self.hidden: list[tuple[int, int, Entry]] = []
        """A heap of leases and delays by when they end; some hold nothing any more."""
        self._pushed = 0

    def queue(self, name: str) -> QueueIndex:
        found = self.queues.get(name)
        if found is None:
            found = self.queues[name] = QueueIndex()
        return found

    def batch(self, id: str) -> tuple[Batch, int] | None:
        """Return the file that has the message `id`, and the message's index in it."""
        lone = self._by_id.get(id)
        batch = self._by_id.get(batch_of(id) + "n")
        index = index_of(id)
        if batch is None or index >= batch.stem.count:
            return None if lone is None else (lone, 0)
        # The copy of a dead letter counts once it has left `new/`.
        return (batch, index) if lone is None or not _counts(lone)[0] else (lone, 0)

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
        """Take in a name; `due` is the monotonic time at which its lease or delay ends."""
        batch = self.batches.get(name.stem.text)
        is_new = batch is None
        if batch is None:
            batch = self.batches[name.stem.text] = Batch(name.stem)
        entry, losers = batch.add(name, commit)
        if is_new:
            self._register(batch)
            if name.stem.key is not None:
                self.keyed[batch] = None
            if name.stem.is_grouped:
                self.grouped[batch] = None
        if name.stem.deaths or name.stem.id in self._doubles:
            self._supersede(batch, commit)
        entry.due = due
        for loser in losers:
            if loser.charged:
                _pass_on(loser, entry)
            self._count(loser, loser.held)
            if not loser.held:
                self.loose[batch] = None
        self._count(entry, entry.held)
        if name.state in _WAITS:
            self._pushed += 1
            heappush(self.hidden, (due, self._pushed, entry))
        if name.state is State.REMOVED:
            if batch.is_over:
                self.over[batch] = None
        elif not entry.held:
            self.loose[batch] = None
        return entry

    def disappear(self, entry: Entry, commit: int) -> None:
        """Forget a name that is there no more. What it held and no other name lists is gone."""
        batch = entry.batch
        held = entry.held
        batch.drop(entry, commit)
        entry.held = 0
        if entry.charged:
            _pass_on(entry, None)
        self._count(entry, 0)
        if held:
            self._fall_back(batch, held, commit)
        if not batch.entries:
            self.loose.pop(batch, None)
            self.over.pop(batch, None)
            self.grouped.pop(batch, None)
            del self.batches[batch.stem.text]
            self._unregister(batch)
        elif batch.is_over:
            self.loose.pop(batch, None)
            self.over[batch] = None
        elif not batch.is_loose:
            self.loose.pop(batch, None)

    def unknown_disappears(self, name: Name, commit: int) -> None:
        """Note that a name is gone which another process had in `new/`: its batch may be over now."""
        batch = self.batches.get(name.stem.text)
        if batch is not None:
            batch.changed = commit
            if batch.is_over:
                self.over[batch] = None

    def _fall_back(self, batch: Batch, members: int, commit: int) -> None:
        """Let the names that are left hold what the highest one held: it was removed by hand."""
        for other in reversed(batch.entries):
            back = members & other.name.members
            if not back:
                continue
            members &= ~back
            other.held |= back
            other.taken = commit
            self._count(other, other.held)
            if other.name.state in _WAITS:
                self._pushed += 1
                heappush(self.hidden, (other.due, self._pushed, other))

    def entry_at(self, name: Name) -> Entry | None:
        """Return the entry with the path of `name`."""
        batch = self.batches.get(name.stem.text)
        return None if batch is None else batch.entry_at(name.path)

    def has_file_of(self, id: str) -> bool:
        """Return whether a file of this message alone is there, in whatever state."""
        return id in self._by_id

    def _register(self, batch: Batch) -> None:
        key = _key_of(batch)
        there = self._by_id.setdefault(key, batch)
        if there is not batch:
            self._doubles.setdefault(key, [there]).append(batch)

    def _unregister(self, batch: Batch) -> None:
        key = _key_of(batch)
        doubles = self._doubles.get(key)
        if doubles is None:
            del self._by_id[key]
            return
        doubles.remove(batch)
        self._by_id[key] = max(doubles, key=_counts)
        if len(doubles) == 1:
            del self._doubles[key]

    def find_superseded(self, commit: int) -> None:
        """Find what dead letters supersede, once all names are known: in a listing the copy may stand
        before the file that its message was in."""
        for batch in self.batches.values():
            if batch.stem.deaths:
                self._supersede(batch, commit)

    def _supersede(self, batch: Batch, commit: int) -> None:
        """Let the file count that has the later death of a message, once it has left `new/`."""
        stem = batch.stem
        doubles = self._doubles.get(stem.id, [batch])
        counts = self._by_id[stem.id] = max(doubles, key=_counts)
        if not _counts(counts)[0] or not counts.stem.deaths:
            return
        # A copy in `new/` that has one death more is the message's next file, not an older one.
        found = [
            (double, 0)
            for double in doubles
            if double is not counts and double.stem.deaths <= counts.stem.deaths
        ]
        source, index = self._by_id.get(batch_of(stem.id) + "n"), index_of(stem.id)
        if source is not None and index < source.stem.count:
            found.append((source, index))
        for each in found:
            self.superseded.setdefault(each, commit)

    def superseded_of(self, entry: Entry) -> int:
        """Return the mask of what an entry holds and a dead letter's own file has now."""
        if not self.superseded:
            return 0
        return sum(
            1 << index for index in indexes(entry.held) if (entry.batch, index) in self.superseded
        )

    def next_due(self) -> Millis | None:
        """Return the monotonic time at which the next lease or delay ends."""
        while self.hidden:
            due, _, entry = self.hidden[0]
            if entry.held:
                return Millis(due)
            heappop(self.hidden)
        return None

    def take_due(self, now: Millis, most: int) -> list[Entry]:
        """Return up to `most` entries whose lease or delay is over; the caller moves them."""
        taken: list[Entry] = []
        while len(taken) < most and (due := self.next_due()) is not None and due <= now:
            taken.append(heappop(self.hidden)[2])
        return taken

    def put_back_due(self, entry: Entry, due: Millis) -> None:
        """Look at an entry again at `due`: the disk refused to move it."""
        self._pushed += 1
        heappush(self.hidden, (due, self._pushed, entry))

    def learn(self, batch: Batch, line: Line | None) -> None:
        """Take in what a file says of its messages: from now on bytes are exact; None: forget it."""
        counted = [(entry, entry.counted) for entry in batch.entries if entry.counted]
        for entry, held in counted:
            self.queues[entry.name.queue].bytes -= batch.counted_bytes_of(held)
        batch.line = line
        if line is not None and batch.groups is None and batch.stem.is_grouped:
            self.learn_groups(batch, line.groups)
        for entry, held in counted:
            self.queues[entry.name.queue].bytes += batch.counted_bytes_of(held)

    def learn_groups(self, batch: Batch, groups: Mapping[str, int]) -> None:
        """Let the messages of a file have their turns: `groups` are the members of each group."""
        batch.groups = Groups(groups, batch.stem.full)
        self.grouped.pop(batch, None)
        for entry in batch.entries:
            queue = self.queues[entry.name.queue] if entry.counted else None
            if queue is not None and queue.groups is not None:
                queue.groups.change(entry, 0, entry.counted)

    def _count(self, entry: Entry, held: int) -> None:
        """Make the queue's figures and order be as if the entry held `held`."""
        name = entry.name
        if name.state not in COUNTED:
            return
        queue = self.queue(name.queue)
        stem = entry.batch.stem
        was = entry.counted
        queue.counts[name.state] += held.bit_count() - was.bit_count()
        queue.bytes += entry.batch.counted_bytes_of(held) - entry.batch.counted_bytes_of(was)
        entry.counted = held
        if held and not was:
            queue.entries[entry] = None
        elif was and not held:
            del queue.entries[entry]
        if name.state is State.READY:
            queue.ready.change(entry, was, held)
            if queue.priorities is not None:
                queue.priorities.change(entry, was, held)
            elif stem.priority and held:
                queue.priorities = PriorityOrder(queue.ready.by_first.values())
        elif queue.listed and name.state in queue.listed:
            queue.listed[name.state].change(entry, was, held)
        if queue.groups is not None:
            queue.groups.change(entry, was, held)
        elif stem.is_grouped and held:
            queue.groups = GroupOrder(queue.entries)


def _held(entry: Entry) -> int:
    return entry.held


def _first_of(found: tuple[str, Entry]) -> str:
    return found[0]


def _pass_on(loser: Entry, winner: Entry | None) -> None:
    """Let the charges of messages follow them: a lease that was extended goes on, any other is over."""
    kept: list[Charge] = []
    goes_on = winner is not None and winner.name.token == loser.name.token
    for members, size, credits in loser.charged:
        left, lost = members & loser.held, members & ~loser.held
        # Of a part of a file that isn't in memory any more they are a guess: the sum is exact.
        lost_size = min(size, loser.batch.counted_bytes_of(lost)) if left else size
        if lost and goes_on:
            assert winner is not None
            winner.charged.append(Charge(lost, lost_size, credits))
        elif lost:
            credits.give_back(lost.bit_count(), lost_size)
        if left:
            kept.append(Charge(left, size - lost_size, credits))
    loser.charged = kept


def _key_of(batch: Batch) -> str:
    return batch.stem.id + "n" if batch.stem.count else batch.stem.id


def _counts(batch: Batch) -> tuple[bool, int, str]:
    """Rank files of one message: which of them counts. One in quarantine is damaged."""
    counting = (*COUNTED, State.REMOVED)
    is_out = any(entry.name.state in counting for entry in batch.entries)
    return is_out, batch.stem.deaths, batch.stem.text
