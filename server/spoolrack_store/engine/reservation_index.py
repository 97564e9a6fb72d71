"""The index of reservations: the sets and markers of `reserved/` in memory, read from its files.

    reserved/<stream>.<seq>@<due>[~read]     a set's record: its hold ends then
    reserved/<stream>.<seq>@<ended>[~read]~lost     the same, once the hold is over
    reserved/<stream>.<seq>                  a marker: the stream is committed up to this number

A set is in one of the states of `SetState`, and changes as `TRANSITIONS` says:

    HELD ──► ENDING ──► LOST ──► DISCARDED ──► (gone)
      │         │         │
      └─────────┴─────────┴────► COMMITTED ──► (gone)

The hold of a set ends by time or by a release. A lost set stays, so that its reader hears of it; it is
discarded by the stream's next commit but one, or after `MEMORY`. A commit of a lost set is possible as
long as no one has leased its messages since.

A file that doesn't count is stale: a marker that a later one replaced, a set that was never answered.
It is unlinked once the commit is durable that made it so.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, TypeVar

from ..files.layout import RESERVED
from ..model.clock import Millis
from ..model.errors import StoreError
from ..model.names import NotAName
from ..model.reservation_names import Marker, ReservationName, ReservationRecord, parse_reservation_name
from ..model.reservation_requests import REMEMBERED_LOST_SETS
from ..model.settings import MAX_VISIBILITY
from .deadlines import Deadlines
from .moves import Moves

log = logging.getLogger(__name__)

Member = TypeVar("Member")
Value = TypeVar("Value")
Key = tuple[str, int]
"""A stream and a number in it."""


class SetState(Enum):
    """The state of a reserved set."""

    HELD = "held"
    """The hold lasts, or is over and that isn't noted."""
    ENDING = "ending"
    """The hold is over: its leases come back once that is durable."""
    LOST = "lost"
    """Its leases are back. The record stays for its reader."""
    DISCARDED = "discarded"
    """It was lost, and its reader knows: its leases come back, and then its record goes."""
    COMMITTED = "committed"
    """A marker names it: its messages are deleted once that is durable, and then its record goes."""


TRANSITIONS: Final[Mapping[SetState, AbstractSet[SetState]]] = {
    SetState.HELD: {SetState.ENDING, SetState.COMMITTED},
    SetState.ENDING: {SetState.LOST, SetState.DISCARDED, SetState.COMMITTED},
    SetState.LOST: {SetState.DISCARDED, SetState.COMMITTED},
    SetState.DISCARDED: {SetState.COMMITTED},
    SetState.COMMITTED: frozenset(),
}


class SetWork(NamedTuple):
    """What commits do by themselves with a set in a state, once that is durable."""

    deletes: bool
    """Whether its messages are deleted; else they come back."""
    then: SetState | None
    """The state of the set when it has no lease any more; None: its record goes."""


WORK: Final[Mapping[SetState, SetWork]] = {
    SetState.ENDING: SetWork(deletes=False, then=SetState.LOST),
    SetState.DISCARDED: SetWork(deletes=False, then=None),
    SetState.COMMITTED: SetWork(deletes=True, then=None),
}
"""In the other states commits leave a set alone."""


@dataclass(slots=True, eq=False)
class ReservedSet:
    """A set that was reserved."""

    name: ReservationName
    record: ReservationRecord
    ends: Millis
    """When the hold is over, monotonic."""
    changed: int
    """The commit that made, lost or found it: durable before its leases come back."""
    is_told: bool = True
    """Whether a caller was told of it that has not made it."""
    state: SetState = SetState.HELD

    @property
    def key(self) -> Key:
        return self.name.stream, self.name.sequence_number

    @property
    def path(self) -> str:
        return f"{RESERVED}/{self.name}"

    @property
    def due(self) -> Millis:
        assert self.name.due is not None
        return self.name.due

    def is_over(self, now: Millis) -> bool:
        """Return whether the hold is over at the monotonic time `now`, noted or not."""
        return self.name.is_lost or self.ends <= now


@dataclass(frozen=True, slots=True)
class StreamCommit:
    """The newest marker of a stream."""

    sequence_number: int
    marker: Marker
    made: int
    """The store's commit that made or found it."""


class ReservationIndex:
    """The sets and markers of a root. Not thread-safe."""

    def __init__(self, moves: Moves) -> None:
        self._moves = moves
        self._clock = moves.clock
        self.sets: dict[Key, ReservedSet] = {}
        self.markers: dict[str, StreamCommit] = {}
        """By stream."""
        self._held_of: Counter[str] = Counter()
        """How many of these, and of the sets, each queue has; large sets count more than once."""
        self.streams: dict[str, dict[int, ReservedSet]] = {}
        """The sets of each stream."""
        self.of_queue: dict[str, dict[ReservedSet, None]] = {}
        """The sets of each queue, by the name that the queue had."""
        self._lost_of: dict[str, dict[ReservedSet, None]] = {}
        """The sets of each stream that are `LOST`."""
        self.of_token: dict[str, ReservedSet] = {}
        self.in_state: dict[SetState, dict[ReservedSet, None]] = {state: {} for state in SetState}
        self.ends = Deadlines[Key]()
        """When the holds end that aren't noted as over."""
        self.unchecked_keys: dict[Key, None] = {}
        """Sets and markers whose files were read: all of a set's leases may not be there."""
        self.stale_files: dict[str, int] = {}
        """Files that don't count, and the commit that must be durable before they go."""

    def committed(self, stream: str) -> int:
        """Return up to where the stream is committed; -1 if nothing is."""
        newest = self.markers.get(stream)
        return -1 if newest is None else newest.sequence_number

    def of_stream(self, stream: str) -> dict[int, ReservedSet]:
        return self.streams.get(stream, {})

    def is_named(self, a_set: ReservedSet) -> bool:
        """Return whether the stream's newest marker names the set."""
        newest = self.markers.get(a_set.name.stream)
        return newest is not None and a_set.name.sequence_number in newest.marker.sets

    def count_of(self, queue: str) -> int:
        """Return how many sets and markers are of a queue; a set counts once more for ten files."""
        return self._held_of[queue]

    def oldest_lost(self, stream: str) -> ReservedSet | None:
        """Return the oldest lost set of a stream that has more of them than are remembered."""
        lost = self._lost_of.get(stream, {})
        if len(lost) <= REMEMBERED_LOST_SETS:
            return None
        return min(lost, key=lambda a_set: a_set.name.sequence_number)

    def _hold(self, queue: str, count: int) -> None:
        self._held_of[queue] += count
        if not self._held_of[queue]:
            del self._held_of[queue]

    # Changes in memory.

    def add(self, a_set: ReservedSet) -> None:
        """Take in a set, in place of one under the same key."""
        there = self.sets.get(a_set.key)
        if there is not None:
            self.drop(there)
        self.sets[a_set.key] = a_set
        self.streams.setdefault(a_set.name.stream, {})[a_set.name.sequence_number] = a_set
        self.of_queue.setdefault(a_set.record.queue, {})[a_set] = None
        self.of_token[a_set.record.token] = a_set
        self._hold(a_set.record.queue, _weight(a_set))
        if self.is_named(a_set):
            a_set.state = SetState.COMMITTED
        elif a_set.name.is_lost:
            a_set.state = SetState.ENDING
        else:
            self.ends.set(a_set.key, a_set.ends)
        self.in_state[a_set.state][a_set] = None

    def drop(self, a_set: ReservedSet) -> None:
        """Drop a set whose record is gone, or goes."""
        if self.sets.get(a_set.key) is not a_set:
            return
        del self.sets[a_set.key], self.in_state[a_set.state][a_set]
        self.of_token.pop(a_set.record.token, None)
        self._hold(a_set.record.queue, -_weight(a_set))
        if a_set.state is SetState.LOST:
            _remove(self._lost_of, a_set.name.stream, a_set)
        self.ends.discard(a_set.key)
        _remove(self.streams, a_set.name.stream, a_set.name.sequence_number)
        _remove(self.of_queue, a_set.record.queue, a_set)

    def change(self, a_set: ReservedSet, state: SetState) -> None:
        """Change the state of a set, as `TRANSITIONS` allows."""
        if state is a_set.state:
            return
        if state not in TRANSITIONS[a_set.state]:
            raise AssertionError(f"no transition leads from {a_set.state} to {state}")
        del self.in_state[a_set.state][a_set]
        if a_set.state is SetState.LOST:
            _remove(self._lost_of, a_set.name.stream, a_set)
        if state is SetState.LOST:
            self._lost_of.setdefault(a_set.name.stream, {})[a_set] = None
        a_set.state = state
        self.in_state[state][a_set] = None
        self.ends.discard(a_set.key)

    def mark(self, stream: str, commit: StreamCommit) -> None:
        """Take in a marker: of a stream the greatest counts, any other goes once that is durable. The
        sets that it names are committed."""
        other = self.markers.get(stream)
        if other is not None and other.sequence_number > commit.sequence_number:
            other, commit = commit, other
        self.drop_marker(stream)
        self.markers[stream] = commit
        for queue in commit.marker.queues:
            self._hold(queue, 1)
        if other is not None and other.sequence_number != commit.sequence_number:
            self.stale_files[marker_path(stream, other.sequence_number)] = commit.made
        sets = self.of_stream(stream)
        for number in commit.marker.sets:
            if number in sets:
                self.change(sets[number], SetState.COMMITTED)

    def drop_marker(self, stream: str) -> None:
        """Drop the marker of a stream, if it has one."""
        newest = self.markers.pop(stream, None)
        for queue in () if newest is None else newest.marker.queues:
            self._hold(queue, -1)

    # The files.

    def recover(self) -> None:
        """Read all files."""
        for a_set in list(self.sets.values()):
            self.drop(a_set)
        for known in (self.markers, self._held_of, self.unchecked_keys, self.stale_files):
            known.clear()
        # In the order of their names: of two records of a set the one that ends first is kept.
        for path in sorted(f"{RESERVED}/{each.name}" for each in self._moves.scan(RESERVED)):
            try:
                self._read(path)
            except StoreError as error:
                log.error("%s can't be read, so reservations have to wait: %s", path, error)
                self._moves.unread_files[path] = None
        self._moves.syncer.folder_changed(RESERVED)

    def path_changed(self, path: str) -> None:
        """Read a file again that another process has made, renamed or unlinked. Raise `DiskError`,
        `DiskFull`."""
        try:
            name = parse_reservation_name(path.removeprefix(f"{RESERVED}/"))
        except NotAName:
            return
        a_set = self.sets.get((name.stream, name.sequence_number))
        if name.due is None:
            if self.committed(name.stream) == name.sequence_number:
                self.drop_marker(name.stream)
        elif a_set is not None and a_set.name == name:
            self.drop(a_set)
        self._read(path)

    def _read(self, path: str) -> None:
        """Take in a file that may be there."""
        self.stale_files.pop(path, None)
        try:
            name = parse_reservation_name(path.removeprefix(f"{RESERVED}/"))
        except NotAName:
            self._moves.foreign_files[path] = "its name is none of ours"
            return
        self.unchecked_keys[name.stream, name.sequence_number] = None
        if name.due is None:
            marker = self._moves.read_record(path, Marker.decode, "marker of a stream")
            if marker is not None:
                commit = StreamCommit(name.sequence_number, marker, self._moves.commit)
                self.mark(name.stream, commit)
            return
        record = self._moves.read_record(path, ReservationRecord.decode, "reservation")
        if record is not None:
            self._keep(name, record, name.due)

    def _keep(self, name: ReservationName, record: ReservationRecord, due: Millis) -> None:
        left = min(due - self._clock.wall(), MAX_VISIBILITY)
        ends = Millis(self._clock.monotonic() + left + self._moves.margin)
        found = ReservedSet(name, record, ends, self._moves.commit)
        useless = self.sets.get(found.key)
        if useless is None or (useless.record.token == record.token and name.is_lost):
            self.add(found)
        else:
            useless = found
        # Of two sets the older one was undone, and that isn't durable: none of them was answered.
        if useless is not None:
            self.stale_files[useless.path] = 0


def _weight(a_set: ReservedSet) -> int:
    """Return how many reservations a set counts for: its record names each file."""
    return 1 + len(a_set.record.files) // 10


def _remove(groups: dict[str, dict[Member, Value]], group: str, member: Member) -> None:
    """Remove a member from its group, and the group with its last one."""
    del groups[group][member]
    if not groups[group]:
        del groups[group]


def marker_path(stream: str, sequence_number: int) -> str:
    """Return the path of a stream's marker."""
    return f"{RESERVED}/{ReservationName(stream=stream, sequence_number=sequence_number)}"
