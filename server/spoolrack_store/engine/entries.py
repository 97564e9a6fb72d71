"""The names of a batch file, and the rules which of them holds a message.

A batch is a file with one or more names (hard links). Each name lists some of the messages, and its
folder is a state.

1. Holder. Of all names that list a message the one with the highest version holds it. A message is in
   the state of its holder. Inodes and link counts say nothing, so that a copied root means the same.
2. Version. A new name has a version above all names of its batch, and doesn't exist yet.
3. Change. A message that moves gets a new name that lists it, by a link; the old name stays and holds
   the rest. A rename takes the place of the link if all messages of the old name move, and none was
   taken from it since the last sync that this process completed: until then, a power cut may keep the
   rename and undo the earlier change.
4. Whole or nothing. If all names are in `new/` and one message is listed by none, the batch was never
   sent.
5. Unlink. A name that holds nothing goes once that is durable. Names in `remove/` go once it is durable
   that all names of the batch are there or in quarantine: a name elsewhere lists deleted messages, too,
   and would bring them back.

Commits are numbered. A change belongs to the commit that made it, and is durable when `synced`, the
number of the last commit whose sync is complete, has reached it. Pure: the caller renames, links and
unlinks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Final, NamedTuple

from ..credits import Credits
from ..model.batch_file import Line
from ..model.clock import Millis
from ..model.members import indexes, lowest
from ..model.names import Name, Stem
from ..model.transitions import State

FEW: Final = 8
"""So many names of a batch are looked through; with more, the holder of a message is looked up."""
_OVER: Final = frozenset({State.REMOVED, State.QUARANTINED})
_VERSION_OF: Final = attrgetter("name.version")


class Groups:
    """The groups of a file's messages; those without one are of the group ""."""

    __slots__ = ("_members", "_names")

    def __init__(self, members: Mapping[str, int], full: int) -> None:
        self._members = dict(members)
        self._names: dict[int, str] = {}
        for name, mask in members.items():
            full &= ~mask
            self._names.update(dict.fromkeys(indexes(mask), name))
        self._members[""] = full

    def of(self, index: int) -> str:
        """Return the group of the message with this index."""
        return self._names.get(index, "")

    def members(self, name: str) -> int:
        """Return the mask of a group's messages."""
        return self._members.get(name, 0)


class LeaseShare(NamedTuple):
    """The leased messages of one entry that one receive got."""

    members: int
    size: int
    """Bytes of them together, for the flow control."""
    credits: Credits | None
    """The flow control that they count for."""
    consumer: str
    since: Millis
    """Unix time of the receive."""
    first: int
    """The number of the first message for the flow control."""
    delivered: int
    """The members that were numbered from there on: `members` loses those whose leases end."""

    @property
    def is_prefetch(self) -> bool:
        """Whether its consumer has messages before it begins them."""
        return self.credits is not None and self.credits.concurrency > 0

    @property
    def prefetched(self) -> int:
        """The mask of the members that the consumer has not begun."""
        if self.credits is None or not self.is_prefetch:
            return 0
        begun = self.credits.begun - self.first
        if begun <= 0:
            return self.members
        rest = self.delivered
        for _ in range(min(begun, rest.bit_count())):
            rest &= rest - 1
        return self.members & rest


class Entry:
    """A name of a batch that exists."""

    __slots__ = ("batch", "counted", "due", "members", "name", "shares", "taken")

    def __init__(self, batch: BatchFile, name: Name) -> None:
        self.batch = batch
        self.name = name
        self.members = name.members
        """The mask of the messages whose state it decides."""
        self.counted = 0
        """The part of it that the queue's figures include."""
        self.taken = 0
        """The last commit that took messages from it."""
        self.shares: tuple[LeaseShare, ...] = ()
        """Of a lease: which messages went to which consumer, as far as a receive of this process named
        one or bounds what it holds."""
        self.due = 0
        """Monotonic milliseconds at which the lease or the delay ends."""

    @property
    def prefetched(self) -> int:
        """The mask of leased messages that their consumers have not begun, as far as this process
        leased them."""
        found = 0
        for share in self.shares:
            found |= share.prefetched
        return found & self.members

    @property
    def first_id(self) -> str:
        """The id of the first message that the entry holds, which must hold one."""
        return self.batch.stem.message_id(lowest(self.members))

    def __repr__(self) -> str:
        return f"Entry({self.name.path}, members={self.members:b})"


class _ManyNames(list[Entry]):
    """The entries of a batch that has or had more than `FEW`: nothing looks through all of them."""

    __slots__ = ("holders", "loose", "open")

    def __init__(self, entries: Iterable[Entry], count: int) -> None:
        super().__init__()
        self.holders: list[Entry | None] = [None] * count
        """The entry that holds each message."""
        self.open = 0
        """The number of names neither in `remove/` nor in quarantine."""
        self.loose = 0
        """The number of those that hold nothing."""
        for entry in entries:
            self.put(len(self), entry)

    def place(self, version: int) -> int:
        """Return the place of the first entry with this version, or a higher one."""
        return bisect_left(self, version, key=_VERSION_OF)

    def put(self, place: int, entry: Entry) -> None:
        self.insert(place, entry)
        self._count(entry, 1)
        self.hold(entry.members, entry)

    def take_out(self, entry: Entry) -> None:
        """Remove an entry, if it is there."""
        for at in range(self.place(entry.name.version), len(self)):
            if self[at] is entry:
                del self[at]
                self._count(entry, -1)
                self.hold(entry.members, None)
                return
            if self[at].name.version != entry.name.version:
                return

    def _count(self, entry: Entry, by: int) -> None:
        if entry.name.state not in _OVER:
            self.open += by
            if not entry.members:
                self.loose += by

    def hold(self, members: int, entry: Entry | None) -> None:
        """Note the entry that holds messages."""
        for index in indexes(members):
            self.holders[index] = entry

    def holders_of(self, members: int) -> list[Entry]:
        """Return the entries that hold any of the messages."""
        found = dict.fromkeys(self.holders[index] for index in indexes(members))
        return [entry for entry in found if entry is not None]


class BatchFile:
    """A batch file and its names."""

    __slots__ = ("changed", "entries", "groups", "line", "stem", "top")

    def __init__(self, stem: Stem) -> None:
        self.stem = stem
        self.entries: tuple[Entry, ...] | _ManyNames = ()
        """By version, the lowest first. Most files have one: a tuple takes half of a list's bytes."""
        self.top = 0
        """The highest version of a name that it has or had."""
        self.changed = 0
        """The last commit that made or unlinked a name."""
        self.line: Line | None = None
        """The file's line about its messages, if it was read."""
        self.groups: Groups | None = None
        """Its groups, once they are known, if its messages have any."""

    def add(self, name: Name, commit: int) -> tuple[Entry, list[Entry]]:
        """Add a name; return its entry, and the entries that lost messages to it."""
        entry = Entry(self, name)
        losers: list[Entry] = []
        entries = self.entries
        many = entries if isinstance(entries, _ManyNames) else None
        for other in entries if many is None else many.holders_of(name.members):
            # Equal versions can't come about; if they do, the later state wins, then the greater text.
            if name.version <= self.top and _outranks(other.name, name):
                if entry.members & other.name.members:
                    entry.members &= ~other.name.members
                    entry.taken = commit
            elif other.members & name.members:
                other.members &= ~name.members
                other.taken = commit
                losers.append(other)
                if many is not None and not other.members and other.name.state not in _OVER:
                    many.loose += 1
        at = len(entries)
        if name.version <= self.top:
            at = at if many is None else many.place(name.version + 1)
            while at and _outranks(entries[at - 1].name, name):
                at -= 1
        if many is not None:
            many.put(at, entry)
        else:
            self.entries = (*entries[:at], entry, *entries[at:])
            if len(self.entries) > FEW:
                self.entries = _ManyNames(self.entries, self.stem.count or 1)
        self.top = max(self.top, name.version)
        self.changed = commit
        return entry, losers

    def drop(self, entry: Entry, commit: int) -> None:
        """Remove a name that was unlinked or renamed."""
        entries = self.entries
        if isinstance(entries, _ManyNames):
            entries.take_out(entry)
        elif entry in entries:
            at = entries.index(entry)
            self.entries = entries[:at] + entries[at + 1 :]
        self.changed = commit

    def regain(self, entry: Entry, members: int, commit: int) -> None:
        """Let a name hold messages again that a higher one held, which is gone."""
        if isinstance(self.entries, _ManyNames):
            self.entries.hold(members, entry)
            if not entry.members and entry.name.state not in _OVER:
                self.entries.loose -= 1
        entry.members |= members
        entry.taken = commit

    def holder(self, index: int) -> Entry | None:
        """Return the entry that holds the message with this index; None if it is gone."""
        if isinstance(self.entries, _ManyNames):
            return self.entries.holders[index]
        bit = 1 << index
        for entry in self.entries:
            if entry.members & bit:
                return entry
        return None

    def entry_at(self, name: Name) -> Entry | None:
        """Return the entry with the path of `name`."""
        entries = self.entries
        first = entries.place(name.version) if isinstance(entries, _ManyNames) else 0
        for at in range(first, len(entries)):
            other = entries[at].name
            if other.version > name.version:
                break
            if other.version == name.version and other.path == name.path:
                return entries[at]
        return None

    def bytes_of(self, members: int) -> int:
        """Return the bytes of the bodies of `members`: an average share if the file's line wasn't
        read."""
        stem = self.stem
        if members == stem.full:
            return stem.size
        if self.line is None:
            return stem.size * members.bit_count() // (stem.count or 1)
        return self.line.bytes_of(members)

    def counted_bytes_of(self, members: int) -> int:
        """Return the bytes of bodies and attributes of `members`: an average share if the file's line
        wasn't read."""
        stem = self.stem
        if members.bit_count() == (stem.count or 1):
            return stem.size + stem.attributes
        if not members:
            return 0
        if self.line is None:
            return stem.counted * members.bit_count() // (stem.count or 1)
        return self.line.bytes_of(members) + self.line.attribute_bytes_of(members)

    @property
    def was_sent(self) -> bool:
        """Whether the batch is complete: rule 4."""
        if any(entry.name.state is not State.SENT for entry in self.entries):
            return True
        listed = 0
        for entry in self.entries:
            listed |= entry.name.members
        return listed == self.stem.full

    @property
    def unlisted(self) -> int:
        """The messages that no name lists: deleted and reaped, or lost."""
        listed = 0
        for entry in self.entries:
            listed |= entry.name.members
        return self.stem.full & ~listed

    @property
    def is_over(self) -> bool:
        """Whether all its names are in `remove/` or in quarantine."""
        if isinstance(self.entries, _ManyNames):
            return not self.entries.open
        # No generator, here and below: each move asks.
        for entry in self.entries:  # noqa: SIM110
            if entry.name.state not in _OVER:
                return False
        return True

    def stale(self, synced: int) -> Iterator[Entry]:
        """Yield the entries outside `remove/` that durably hold nothing: they may be unlinked."""
        for entry in self.entries:
            if not entry.members and entry.taken <= synced and entry.name.state not in _OVER:
                yield entry

    def reapable(self, synced: int) -> list[Entry]:
        """Return the entries in `remove/`, if it is durable that all others are in quarantine."""
        if self.changed > synced or not self.is_over:
            return []
        return [entry for entry in self.entries if entry.name.state is State.REMOVED]

    @property
    def is_loose(self) -> bool:
        """Whether the batch has a name outside `remove/` that may be unlinked, now or after a sync."""
        if isinstance(self.entries, _ManyNames):
            return self.entries.loose > 0
        for entry in self.entries:  # noqa: SIM110
            if not entry.members and entry.name.state not in _OVER:
                return True
        return False

    def extendable(self, name: Name) -> Entry | None:
        """Return an entry in `remove/` whose list a delete may extend by a rename.

        Nothing leaves `remove/` but by an unlink, so whichever of its renames a power cut keeps lists
        all that an earlier one listed.
        """
        for entry in reversed(self.entries):
            other = entry.name
            if other.state is State.REMOVED and other.queue == name.queue and other.death == name.death:
                return entry
        return None


def may_rename(entry: Entry, members: int, synced: int) -> bool:
    """Return whether a rename of the name may replace a link to `members`: rule 3."""
    return members == entry.members and entry.taken <= synced


def resolve(names: Iterable[Name]) -> dict[str, BatchFile]:
    """Return the batches of the names in a listing, by the text of their stems."""
    batches: dict[str, BatchFile] = {}
    for name in names:
        text = name.stem.text
        batch = batches.get(text)
        if batch is None:
            batch = batches[text] = BatchFile(name.stem)
        batch.add(name, 0)
    return batches


_ORDER = (State.SENT, State.READY, State.DELAYED, State.LEASED, State.REMOVED, State.QUARANTINED)


def _outranks(one: Name, other: Name) -> bool:
    """Return whether the first of two names holds what both list."""
    if one.version != other.version:
        return one.version > other.version
    return (_ORDER.index(one.state), one.path) > (_ORDER.index(other.state), other.path)
