"""The rules of one batch: which of its names holds a message, and what may be done to a name.

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

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from .content import Line
from .credits import Credits
from .members import indexes, lowest
from .names import Name, Stem
from .transitions import State

_OVER = frozenset({State.REMOVED, State.QUARANTINED})


class Groups:
    """Which messages of a file are of which group; those without one are of the group ""."""

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


class Charge(NamedTuple):
    """Leased messages of one entry that count for a consumer's flow control."""

    members: int
    size: int
    """Bytes of them together."""
    credits: Credits


class Entry:
    """A name of a batch that is there now."""

    __slots__ = ("batch", "charged", "counted", "due", "held", "name", "taken")

    def __init__(self, batch: Batch, name: Name) -> None:
        self.batch = batch
        self.name = name
        self.held = name.members
        """The mask of the messages whose state it decides."""
        self.counted = 0
        """The part of it that the queue's figures include."""
        self.taken = 0
        """The last commit that took messages from it."""
        self.charged: list[Charge] = []
        """Of a lease: which messages count for which consumer's flow control."""
        self.due = 0
        """Monotonic milliseconds at which the lease or the delay ends."""

    @property
    def first_id(self) -> str:
        """The id of the first message that it holds; it holds one."""
        return self.batch.stem.message_id(lowest(self.held))

    def __repr__(self) -> str:
        return f"Entry({self.name.path}, held={self.held:b})"


class Batch:
    """The names of one file."""

    __slots__ = ("changed", "entries", "groups", "line", "stem", "top")

    def __init__(self, stem: Stem) -> None:
        self.stem = stem
        self.entries: list[Entry] = []
        """By version, the lowest first."""
        self.top = 0
        """The highest version of a name that it has or had."""
        self.changed = 0
        """The last commit that made or unlinked a name."""
        self.line: Line | None = None
        """The file's line about its messages, if it was read."""
        self.groups: Groups | None = None
        """Its groups, once they are known, if its messages have any."""

    def add(self, name: Name, commit: int) -> tuple[Entry, list[Entry]]:
        """Take in a name that is there now; return its entry, and the entries that lost messages to
        it."""
        entry = Entry(self, name)
        losers: list[Entry] = []
        at = len(self.entries)
        for place, other in enumerate(self.entries):
            # Equal versions can't come about; if they do, the later state wins, then the greater text.
            if _rank(other.name) > _rank(name):
                at = min(at, place)
                if entry.held & other.name.members:
                    entry.held &= ~other.name.members
                    entry.taken = commit
            elif other.held & name.members:
                other.held &= ~name.members
                other.taken = commit
                losers.append(other)
        self.entries.insert(at, entry)
        self.top = max(self.top, name.version)
        self.changed = commit
        return entry, losers

    def drop(self, entry: Entry, commit: int) -> None:
        """Forget a name that was unlinked or renamed."""
        self.entries.remove(entry)
        self.changed = commit

    def holder(self, index: int) -> Entry | None:
        """Return the entry that holds the message with this index; None if it is gone."""
        bit = 1 << index
        for entry in self.entries:
            if entry.held & bit:
                return entry
        return None

    def entry_at(self, path: str) -> Entry | None:
        for entry in self.entries:
            if entry.name.path == path:
                return entry
        return None

    def bytes_of(self, members: int) -> int:
        """Return the bytes of the bodies of `members`: of a part of a file that wasn't read, its
        share."""
        stem = self.stem
        if members == stem.full:
            return stem.size
        if self.line is None:
            return stem.size * members.bit_count() // (stem.count or 1)
        return self.line.bytes_of(members)

    def counted_bytes_of(self, members: int) -> int:
        """Return the bytes that `members` take of a queue, of bodies and attributes: of a part of a
        file that wasn't read, its share."""
        stem = self.stem
        if members == stem.full:
            return stem.counted
        if self.line is None:
            return stem.counted * members.bit_count() // (stem.count or 1)
        return self.line.bytes_of(members) + self.line.attribute_bytes_of(members)

    @property
    def was_sent(self) -> bool:
        """Whether it counts: rule 4."""
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
        return all(entry.name.state in _OVER for entry in self.entries)

    def stale(self, synced: int) -> Iterator[Entry]:
        """Yield the entries outside `remove/` that hold nothing, durably: they may be unlinked."""
        for entry in self.entries:
            if not entry.held and entry.taken <= synced and entry.name.state not in _OVER:
                yield entry

    def reapable(self, synced: int) -> list[Entry]:
        """Return the entries in `remove/`, if it is durable that there are none but those and
        quarantine's."""
        if self.changed > synced or not self.is_over:
            return []
        return [entry for entry in self.entries if entry.name.state is State.REMOVED]

    @property
    def is_loose(self) -> bool:
        """Whether it has a name outside `remove/` that may be unlinked now or after a sync."""
        return any(not entry.held and entry.name.state not in _OVER for entry in self.entries)

    def extendable(self, queue: str) -> Entry | None:
        """Return an entry in `remove/` whose list a delete may extend by a rename.

        Nothing leaves `remove/` but by an unlink, so whichever of its renames a power cut keeps lists
        all that an earlier one listed.
        """
        for entry in reversed(self.entries):
            if entry.name.state is State.REMOVED and entry.name.queue == queue:
                return entry
        return None


def may_rename(entry: Entry, members: int, synced: int) -> bool:
    """Return whether a rename of the name may take the place of a link to `members`: rule 3."""
    return members == entry.held and entry.taken <= synced


def resolve(names: Iterable[Name]) -> dict[str, Batch]:
    """Return the batches that the names of a listing make, by the text of their stems."""
    batches: dict[str, Batch] = {}
    for name in names:
        text = name.stem.text
        batch = batches.get(text)
        if batch is None:
            batch = batches[text] = Batch(name.stem)
        batch.add(name, 0)
    return batches


_ORDER = (State.SENT, State.READY, State.DELAYED, State.LEASED, State.REMOVED, State.QUARANTINED)


def _rank(name: Name) -> tuple[int, int, str]:
    return name.version, _ORDER.index(name.state), name.path
