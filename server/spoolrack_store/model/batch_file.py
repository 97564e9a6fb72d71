"""A batch file: the rules of its names, and its content.

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

The content of the file is the bodies back to back, and behind them one line of JSON about the messages.

    content = *body [ LF json LF ]

The line has columns, each with a value for each message: `sizes` and `crcs` (CRC-32, zlib's) always,
`attributes`, `binary_attributes` (base64) and `keys` by the message's index as text where a message has
any, and `groups` by name, each with its members as names spell them. A lone message without
attributes and group has no line: its name says its size and CRC.

A body in a file of its own (`names.body_path`) leaves the line alone in the message's file. Its CRC is
null if the body was linked from elsewhere, and never read. Pure.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from ..model.clock import Millis, span_text
from ..model.credits import Credits
from ..model.errors import AttributesTooLarge, InvalidMessage, MessageTooLarge
from ..model.names import MAX_PRIORITY, Name, Stem, from_text, indexes, lowest, runs, to_text
from ..model.settings import MAX_ATTRIBUTES, MAX_ATTRIBUTES_SIZE, MAX_DELAY
from ..model.transitions import State

Attributes = Mapping[str, str | bytes]

MAX_GROUP = 128
"""Characters of a message's group."""
MAX_ATTRIBUTE_NAME = 256
"""Bytes of UTF-8 of an attribute's name."""


_BLOCK = 512
"""Bytes that a disk writes whole."""


class Damaged(ValueError):
    """The bytes don't match the name; `is_torn`: some are only missing."""

    def __init__(self, why: str, *, is_torn: bool = False) -> None:
        super().__init__(why)
        self.is_torn = is_torn


@dataclass(slots=True)
class Line:
    """A file's line about its messages, by index."""

    sizes: Sequence[int]
    crcs: Sequence[int | None]
    """None: of a body that was never read."""
    attributes: Mapping[int, Attributes] = field(default_factory=dict)
    keys: Mapping[int, str] = field(default_factory=dict)
    """Deduplication keys."""
    groups: Mapping[str, int] = field(default_factory=dict)
    """The members of each group."""
    deaths: Sequence[Mapping[str, object]] = ()
    """Of a dead letter, how it came to be one each time, the oldest first: `dead_letter_records`."""
    is_external: bool = False
    """Whether the only body is in a file of its own."""
    starts: Sequence[int] = ()
    """Where each body begins; the end of the last one follows."""

    def __post_init__(self) -> None:
        self.starts = [0, *accumulate(self.sizes)]

    def group_of(self, index: int) -> str:
        """Return the group of a message; "" if it has none."""
        return next((name for name, members in self.groups.items() if members >> index & 1), "")

    def bytes_of(self, members: int) -> int:
        return sum(self.starts[last + 1] - self.starts[first] for first, last in runs(members))

    def attribute_bytes_of(self, members: int) -> int:
        if not self.attributes:
            return 0
        return sum(
            size_of(attributes) for index, attributes in self.attributes.items() if members >> index & 1
        )


def check_group(group: str) -> None:
    """Raise `InvalidMessage` for an invalid group."""
    if not 1 <= len(group) <= MAX_GROUP:
        raise InvalidMessage(why=f"its group has {len(group)} characters, not 1 to {MAX_GROUP}")
    try:
        group.encode()
    except UnicodeEncodeError as error:
        raise InvalidMessage(why="its group is not Unicode text") from error


def check_priority(priority: int) -> None:
    """Raise `InvalidMessage` for an invalid priority."""
    if not 0 <= priority <= MAX_PRIORITY:
        raise InvalidMessage(why=f"its priority is {priority}, not 0 to {MAX_PRIORITY}")


def check_delay(delay: Millis) -> None:
    """Raise `InvalidMessage` for a delay that no message can have."""
    if not 0 <= delay <= MAX_DELAY:
        raise InvalidMessage(
            why=f"its delay of {span_text(delay)} is not from 0 s to {span_text(MAX_DELAY)}"
        )


def size_of(attributes: Attributes) -> int:
    """Return the bytes of valid attributes: of names and values."""
    return sum(
        len(name.encode()) + len(value.encode() if isinstance(value, str) else value)
        for name, value in attributes.items()
    )


def check_attribute_count(count: int) -> None:
    """Raise `InvalidMessage` for more attributes than a message may have, before any is converted."""
    if count > MAX_ATTRIBUTES:
        raise InvalidMessage(why=f"it has {count} attributes, and may have {MAX_ATTRIBUTES}")


def check_content(queue: str, body_size: int, attributes: Attributes, max_message_size: int) -> None:
    """Raise the error of invalid content, before a byte of it is written."""
    if body_size > max_message_size:
        raise MessageTooLarge(queue=queue, size=body_size, limit=max_message_size)
    check_attribute_count(len(attributes))
    size = 0
    for name, value in attributes.items():
        try:
            encoded = name.encode()
            size += len(encoded) + len(value.encode() if isinstance(value, str) else value)
        except UnicodeEncodeError as error:
            raise InvalidMessage(why=f"the attribute {name[:50]!r} is not valid Unicode") from error
        if not 1 <= len(encoded) <= MAX_ATTRIBUTE_NAME:
            raise InvalidMessage(
                why=f"an attribute's name has {len(encoded)} bytes, and must have 1 to "
                f"{MAX_ATTRIBUTE_NAME}"
            )
    if size > MAX_ATTRIBUTES_SIZE:
        raise AttributesTooLarge(size=size, limit=MAX_ATTRIBUTES_SIZE)


def line_of(
    bodies: Sequence[bytes],
    attributes: Mapping[int, Attributes],
    keys: Mapping[int, str],
    groups: Mapping[int, str] | None = None,
) -> Line:
    members: dict[str, int] = {}
    for index, group in (groups or {}).items():
        members[group] = members.get(group, 0) | 1 << index
    return Line(
        list(map(len, bodies)),
        list(map(zlib.crc32, bodies)),
        attributes,
        keys,
        groups=members,
    )


def encode(line: Line) -> bytes:
    """Return the line that follows the bodies; nothing for a lone message that needs none."""
    if len(line.sizes) == 1 and not (line.attributes or line.groups or line.deaths or line.is_external):
        return b""
    parts: dict[str, object] = {"sizes": line.sizes, "crcs": line.crcs}
    text: dict[int, dict[str, str]] = {}
    binary: dict[int, dict[str, str]] = {}
    for index, attributes in line.attributes.items():
        for name, value in attributes.items():
            if isinstance(value, str):
                text.setdefault(index, {})[name] = value
            else:
                binary.setdefault(index, {})[name] = base64.b64encode(value).decode()
    if text:
        parts["attributes"] = text
    if binary:
        parts["binary_attributes"] = binary
    if line.keys and len(line.sizes) > 1:
        parts["keys"] = line.keys
    if line.groups:
        parts["groups"] = {name: to_text(members) for name, members in line.groups.items()}
    if line.deaths:
        parts["deaths"] = line.deaths
    return b"\n" + json.dumps(parts, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def checksum(line: Line, encoded: bytes) -> int:
    """Return the CRC-32 in a name: of the line, or of the body if there is no line."""
    return zlib.crc32(encoded) if encoded else line.crcs[0] or 0


def stem_of(id: str, line: Line, encoded: bytes, *, deaths: int = 0, priority: int = 0) -> Stem:
    """Return the stem of the names of a file with this line."""
    count = len(line.sizes)
    return Stem(
        id=id,
        count=0 if count == 1 else count,
        size=line.starts[-1],
        attributes=sum(map(size_of, line.attributes.values())),
        crc=checksum(line, encoded),
        line=len(encoded),
        deaths=deaths,
        key=(line.keys[0] if count == 1 else "") if line.keys else None,
        is_grouped=bool(line.groups),
        priority=priority,
        is_external=line.is_external,
    )


def is_torn(content: bytes) -> bool:
    """Return whether the end of a file of full size was never written: a power cut leaves zeros
    there."""
    return not any(content[(len(content) - 1) // _BLOCK * _BLOCK :])


def decode(stem: Stem, tail: bytes, length: int) -> Line:
    """Parse the line in `tail`, the last bytes of a file of `length` bytes.

    Raise `Damaged` if the file isn't as long as its name says, or the line is another one. The bodies'
    own checksums are for the reader of a body.
    """
    if length != stem.length:
        raise Damaged(f"it has {length} bytes instead of {stem.length}", is_torn=length < stem.length)
    if not stem.line:
        if stem.count:
            raise Damaged("a batch has no line of its messages")
        return Line([stem.size], [stem.crc], keys={0: stem.key} if stem.key else {})
    encoded = tail[len(tail) - stem.line :]
    if zlib.crc32(encoded) != stem.crc:
        raise Damaged("the checksum of its line differs")
    try:
        line = _decoded(json.loads(encoded))
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        # The checksum says that these bytes were written, not that a store wrote them.
        raise Damaged(f"its line can't be read: {error}") from error
    if (
        len(line.sizes) != (stem.count or 1)
        or len(line.crcs) != len(line.sizes)
        or sum(line.sizes) != stem.size
    ):
        raise Damaged("its line is about other messages")
    if bool(line.groups) != stem.is_grouped or any(
        members > stem.full for members in line.groups.values()
    ):
        raise Damaged("its groups are not those of its name")
    line.is_external = stem.is_external
    if None in line.crcs and not line.is_external:
        raise Damaged("it has no checksum")
    if stem.key:
        line.keys = {0: stem.key}
    return line


def body(line: Line, content: bytes, index: int) -> bytes:
    """Return the body with this index; raise `Damaged` if its checksum differs.

    `content` begins with the bodies: it is that of the body's own file, if it has one.
    """
    found = content[line.starts[index] : line.starts[index + 1]]
    if len(found) != line.sizes[index] or line.crcs[index] not in (None, zlib.crc32(found)):
        raise Damaged("its checksum differs")
    return found


def decode_whole(stem: Stem, content: bytes) -> Line:
    """Return what a file says of its messages; raise `Damaged` if it or a body isn't what was sent."""
    line = decode(stem, content, len(content))
    for index in indexes(stem.full):
        body(line, content, index)
    return line


def joined_bodies(line: Line, content: bytes, first: int, last: int) -> bytes:
    """Return the bodies from the index `first` to `last`, joined; raise `Damaged` if a checksum
    differs."""
    starts, crcs, view = line.starts, line.crcs, memoryview(content)
    for index in range(first, last + 1):
        if zlib.crc32(view[starts[index] : starts[index + 1]]) != crcs[index]:
            raise Damaged("its checksum differs")
    return content[starts[first] : starts[last + 1]]


def _decoded(parts: Mapping[str, object]) -> Line:
    attributes: dict[int, dict[str, str | bytes]] = {}
    for index, named in _mapping(parts.get("attributes", {})).items():
        for name, text in _mapping(named).items():
            (name + str(text)).encode()  # a half of a surrogate pair has no UTF-8
            attributes.setdefault(int(index), {})[name] = str(text)
    for index, named in _mapping(parts.get("binary_attributes", {})).items():
        for name, coded in _mapping(named).items():
            attributes.setdefault(int(index), {})[name] = base64.b64decode(str(coded), validate=True)
    keys = {int(index): str(key) for index, key in _mapping(parts.get("keys", {})).items()}
    groups = {name: from_text(str(text)) for name, text in _mapping(parts.get("groups", {})).items()}
    deaths = parts.get("deaths", [])
    if not isinstance(deaths, list):
        raise TypeError("not a list of deaths")
    crcs = parts["crcs"]
    return Line(
        _numbers(parts["sizes"]),
        [None] if crcs == [None] else _numbers(crcs),
        attributes,
        keys,
        groups,
        deaths,
    )


def _mapping(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise TypeError("not an object")
    return value


def _numbers(value: object) -> list[int]:
    if not isinstance(value, list) or not all(type(each) is int and each >= 0 for each in value):
        raise TypeError("not a list of numbers")
    return value


_OVER = frozenset({State.REMOVED, State.QUARANTINED})


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
    first: int = 0
    """The number of the first message for the flow control."""
    delivered: int = 0
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

    __slots__ = ("batch", "counted", "due", "held", "name", "shares", "taken")

    def __init__(self, batch: BatchFile, name: Name) -> None:
        self.batch = batch
        self.name = name
        self.held = name.members
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
        return found & self.held

    @property
    def first_id(self) -> str:
        """The id of the first message that the entry holds, which must hold one."""
        return self.batch.stem.message_id(lowest(self.held))

    def __repr__(self) -> str:
        return f"Entry({self.name.path}, held={self.held:b})"


class BatchFile:
    """A batch file and its names."""

    __slots__ = ("changed", "entries", "groups", "line", "stem", "top")

    def __init__(self, stem: Stem) -> None:
        self.stem = stem
        self.entries: tuple[Entry, ...] = ()
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
        at = len(self.entries)
        for place, other in enumerate(self.entries):
            # Equal versions can't come about; if they do, the later state wins, then the greater text.
            if _outranks(other.name, name):
                at = min(at, place)
                if entry.held & other.name.members:
                    entry.held &= ~other.name.members
                    entry.taken = commit
            elif other.held & name.members:
                other.held &= ~name.members
                other.taken = commit
                losers.append(other)
        self.entries = (*self.entries[:at], entry, *self.entries[at:])
        self.top = max(self.top, name.version)
        self.changed = commit
        return entry, losers

    def drop(self, entry: Entry, commit: int) -> None:
        """Remove a name that was unlinked or renamed."""
        entries = self.entries
        if entry in entries:
            at = entries.index(entry)
            self.entries = entries[:at] + entries[at + 1 :]
        self.changed = commit

    def holder(self, index: int) -> Entry | None:
        """Return the entry that holds the message with this index; None if it is gone."""
        bit = 1 << index
        for entry in self.entries:
            if entry.held & bit:
                return entry
        return None

    def entry_at(self, name: Name) -> Entry | None:
        """Return the entry with the path of `name`."""
        for entry in self.entries:
            if entry.name.version == name.version and entry.name.path == name.path:
                return entry
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
        # No generator, here and below: each move asks.
        for entry in self.entries:  # noqa: SIM110
            if entry.name.state not in _OVER:
                return False
        return True

    def stale(self, synced: int) -> Iterator[Entry]:
        """Yield the entries outside `remove/` that durably hold nothing: they may be unlinked."""
        for entry in self.entries:
            if not entry.held and entry.taken <= synced and entry.name.state not in _OVER:
                yield entry

    def reapable(self, synced: int) -> list[Entry]:
        """Return the entries in `remove/`, if it is durable that all others are in quarantine."""
        if self.changed > synced or not self.is_over:
            return []
        return [entry for entry in self.entries if entry.name.state is State.REMOVED]

    @property
    def is_loose(self) -> bool:
        """Whether the batch has a name outside `remove/` that may be unlinked, now or after a sync."""
        for entry in self.entries:  # noqa: SIM110
            if not entry.held and entry.name.state not in _OVER:
                return True
        return False

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
    """Return whether a rename of the name may replace a link to `members`: rule 3."""
    return members == entry.held and entry.taken <= synced


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
