"""Ids of messages, and the grammar of names: the one module that formats and parses paths of messages.

    stem  = id [",n" count] ",s" size [",a" attributes] ",c" crc [",m" line] [",d" deaths]
            [",k" [key]] [",g"] [",p" priority] [",x"]
    name  = stem [",v" version] ["," members] [",r" receives] [",f" first] [",t" redriven]
            [",o" owner]
    path  = "new/" queue ":" name ["@" due ["~" token]]
          / "queues/" queue "/" name
          / "delay/" queue ":" name "@" due ["~" token]
          / "remove/" queue ":" name
          / "quarantine/" queue ":" name

All hard links of one file share its stem, which never changes; the rest of a name says which messages
it lists, and their state. A file without `,n` holds one message, whose id it bears. With `,n` the id's
low 12 bits are 0, and the message with index i has the id plus i. Every value has one spelling, because
a name is the source of a rename. With `,x` the body of the only message is in a file of its own, at
`bodies/<id>`, and the file has the line alone. Pure.

Message ids: UUIDs of version 7 (RFC 9562), lower case and hyphenated, made in order.

An id carries the time of its send and decides the message's place in its queue, so ids made by one
maker strictly rise: within one millisecond, and also when the wall clock steps back.

`PooledRandom` draws the system's random numbers many at a time. To ask the system for each id and each
token lets another thread take the interpreter's lock each time: that took a fifth of the committer's
time.

Members are the messages of a batch that a name lists: a bit mask in memory, of which bit i stands for
the message with index i. In a name a mask has one spelling: ranges (`,i0-9.12`), or,
where that is shorter, a bitmap (`,b<first>.<digits>`: five bits to a digit, lowest first, from the
first member on). Pure.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from random import Random
from sys import intern
from typing import Final
from zlib import crc32

from ..model.clock import DAY, LAST_MOMENT, Clock, Millis
from ..model.transitions import State

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
"""Any UUID in the canonical form. Names compare as text exactly as their ids compare as numbers."""

PLAUSIBLE_LEAD = DAY
"""An id further than this ahead of the clock is a mistake: the maker doesn't follow it."""

_VERSION = 7
_VARIANT = 0b10
_LOW_BITS = 62
_LOW_MASK = (1 << _LOW_BITS) - 1
_RANDOM_BITS = 74
_RANDOM_END = 1 << _RANDOM_BITS
_START_BITS = _RANDOM_BITS - 1
_STEP_BITS = 32


def is_id(text: str) -> bool:
    return UUID.fullmatch(text) is not None


def sent_at(id: str) -> Millis:
    """Return the Unix time at which a version 7 `id` was made; of any other UUID, its first 48 bits.

    Never above `LAST_MOMENT`: a foreign id may say the year 10889, which no calendar of a client knows.
    """
    return min(Millis(int(id[:8] + id[9:13], 16)), LAST_MOMENT)


def first_id_of(moment: Millis) -> str:
    """Return the smallest id that can be made at Unix time `moment`."""
    return _format(max(moment, 0), 0)


class IdMaker:
    """A maker of strictly rising ids. Not thread-safe."""

    def __init__(self, clock: Clock, random: random.Random) -> None:
        self._clock = clock
        self._random = random
        self._millis = 0
        self._fraction = 0
        self._seen = ""
        """The highest id that later ones must exceed."""

    def make(self) -> str:
        now = self._clock.wall()
        if now > self._millis:
            self._millis = now
            # The top bit stays free, so that the steps below hardly ever run over.
            self._fraction = self._random.getrandbits(_START_BITS)
        else:
            self._fraction += 1 + self._random.getrandbits(_STEP_BITS)
            if self._fraction >= _RANDOM_END:
                self._millis += 1
                self._fraction = self._random.getrandbits(_START_BITS)
        return _format(self._millis, self._fraction)

    def rise_above(self, id: str) -> None:
        """Make only ids above `id` from now on, if its time is plausible.

        Called with what a restart finds on disk: a clock that went back while the process was away
        must not put new messages before old ones.
        """
        if id <= self._seen:
            return
        millis = sent_at(id)
        if millis > self._clock.wall() + PLAUSIBLE_LEAD:
            return
        self._seen = id
        digits = id.replace("-", "")
        version, high = int(digits[12], 16), int(digits[13:16], 16)
        variant, low = divmod(int(digits[16:], 16), 1 << _LOW_BITS)
        # An id of another kind may stand above all of ours with the same time, or the same beginning.
        if version > _VERSION:
            high, low = (1 << 12) - 1, _LOW_MASK
        elif variant > _VARIANT:
            low = _LOW_MASK
        fraction = (high << _LOW_BITS) | low
        if (millis, fraction) > (self._millis, self._fraction):
            self._millis, self._fraction = millis, fraction


class FileIds:
    """A maker of strictly rising ids, each above all messages of the file before. Not thread-safe."""

    def __init__(self, clock: Clock, random: random.Random) -> None:
        self._maker = IdMaker(clock, random)
        self._last = ""

    def make(self) -> str:
        id = batch_of(self._maker.make())
        while id <= self._last:
            id = batch_of(self._maker.make())
        self._last = id
        return id

    def rise_above(self, id: str) -> None:
        """Make only ids above `id`, if its time is plausible: see `IdMaker.rise_above`."""
        self._maker.rise_above(id[:-3] + "fff")


def _format(millis: int, fraction: int) -> str:
    high = fraction >> _LOW_BITS
    low = (_VARIANT << _LOW_BITS) | (fraction & _LOW_MASK)
    text = f"{millis:012x}{_VERSION:x}{high:03x}{low:016x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


_POOL_BYTES: Final = 4_096


class PooledRandom(random.SystemRandom):
    """Random numbers of the system, from a pool. As unpredictable as `random.SystemRandom`, and can't
    be seeded. Not thread-safe."""

    def __init__(self) -> None:
        self._pool = b""
        self._used = 0
        self._process = 0
        super().__init__()

    def getrandbits(self, k: int, /) -> int:
        if k < 0:
            raise ValueError("number of bits must be non-negative")
        count = (k + 7) // 8
        end = self._used + count
        # A process that was forked off must not draw what its parent draws.
        if end > len(self._pool) or self._process != os.getpid():
            self._pool, self._used, end = os.urandom(max(count, _POOL_BYTES)), 0, count
            self._process = os.getpid()
        drawn = int.from_bytes(self._pool[self._used : end], "big")
        self._used = end
        return drawn >> (count * 8 - k)


MOST: Final = 1_000
"""Messages of one batch."""

_DIGITS: Final = "0123456789abcdefghijklmnopqrstuv"
_VALUE: Final = {digit: value for value, digit in enumerate(_DIGITS)}
_RANGES: Final = re.compile(r"[0-9]+(?:-[0-9]+)?(?:\.[0-9]+(?:-[0-9]+)?)*")
_BITMAP: Final = re.compile(r"([0-9]+)\.([0-9a-v]+)")


class NotMembers(ValueError):
    """The text lists no members, or not in their one spelling."""


def all_of(count: int) -> int:
    """Return the mask of a batch's `count` messages."""
    return (1 << count) - 1


def runs(mask: int) -> Iterator[tuple[int, int]]:
    """Yield the first and the last index of each unbroken run of members, in order."""
    start = 0
    while mask:
        skipped = (mask & -mask).bit_length() - 1
        mask >>= skipped
        length = (~mask & (mask + 1)).bit_length() - 1
        mask >>= length
        start += skipped
        yield start, start + length - 1
        start += length


_RUNS_LIKE_A_RENAME: Final = 8


def effort(mask: int) -> int:
    """Return the cost of moving the members, in renames: a list of many runs costs more."""
    return 1 + (mask ^ mask << 1).bit_count() // (2 * _RUNS_LIKE_A_RENAME)


def indexes(mask: int) -> Iterable[int]:
    """Return each member's index, in order."""
    if mask & (mask + (mask & -mask)) == 0:
        return range((mask & -mask).bit_length() - 1, mask.bit_length()) if mask else ()
    return chain.from_iterable(range(first, last + 1) for first, last in runs(mask))


def lowest(mask: int) -> int:
    """Return the lowest index in a mask that isn't empty."""
    return (mask & -mask).bit_length() - 1


def first_of(mask: int, count: int) -> int:
    """Return the mask of the `count` lowest members; all of them if there are no more."""
    if mask.bit_count() <= count:
        return mask
    taken = 0
    for first, last in runs(mask):
        length = last - first + 1
        if length >= count:
            return taken | (all_of(count) << first)
        taken |= all_of(length) << first
        count -= length
    return taken


def below(mask: int, end: int) -> int:
    """Return the members with an index below `end`."""
    return mask & all_of(end)


def to_text(mask: int) -> str:
    """Return the tag that lists `mask`, which isn't empty."""
    ranges = "i" + ".".join(
        f"{first}" if first == last else f"{first}-{last}" for first, last in runs(mask)
    )
    start = lowest(mask)
    if len(ranges) < _bitmap_length(mask, start):
        return ranges
    digits, rest = [], mask >> start
    while rest:
        digits.append(_DIGITS[rest & 31])
        rest >>= 5
    bitmap = f"b{start}.{''.join(digits)}"
    return ranges if len(ranges) <= len(bitmap) else bitmap


def from_text(text: str) -> int:
    """Return the mask that a tag lists; raise `NotMembers` for any other text."""
    mask = _ranges(text[1:]) if text[:1] == "i" else _bitmap(text[1:]) if text[:1] == "b" else 0
    if not mask or mask.bit_length() > MOST or to_text(mask) != text:
        raise NotMembers(text)
    return mask


def pieces(mask: int, room: int) -> list[int]:
    """Divide `mask` so that each piece's tag has at most `room` characters, which must be 8 or more."""
    parts, rest = [], mask
    while rest:
        piece = rest
        while len(to_text(piece)) > room:
            piece = first_of(piece, piece.bit_count() // 2)
        parts.append(piece)
        rest &= ~piece
    return parts


def _bitmap_length(mask: int, start: int) -> int:
    return 2 + len(str(start)) + -(-(mask.bit_length() - start) // 5)


def _ranges(text: str) -> int:
    if not _RANGES.fullmatch(text) or len(text) > 4 * MOST:
        return 0
    mask = 0
    for part in text.split("."):
        first, _, last = part.partition("-")
        start, end = int(first[:4]), int((last or first)[:4])
        if start > end or end >= MOST:
            return 0
        mask |= all_of(end - start + 1) << start
    return mask


def _bitmap(text: str) -> int:
    match = _BITMAP.fullmatch(text)
    if match is None or len(match[1]) > 3 or len(match[2]) > MOST:
        return 0
    mask = 0
    for digit in reversed(match[2]):
        mask = mask << 5 | _VALUE[digit]
    return mask << int(match[1])


MAX_BYTES: Final = 255
"""The longest name that file systems allow."""
MAX_RECEIVES: Final = 999_999_999
"""The count of receives stops here, so that a name keeps its room."""
MAX_DEATHS: Final = 999
ID_LENGTH: Final = 36
MAX_PRIORITY: Final = 9
INDEX_DIGITS: Final = 3
"""Hexadecimal digits of an id that are a message's index."""

_ID: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_MAX_QUEUE_NAME: Final = 80
_WORD: Final = re.compile(r"[A-Za-z0-9_-]+")
QUEUE_NAME: Final = rf"[A-Za-z0-9][A-Za-z0-9_.-]{{0,{_MAX_QUEUE_NAME - 1}}}"
"""Names of queues: never a leading dot, a slash, or a separator of ours."""
_QUEUE_NAME: Final = re.compile(QUEUE_NAME)
_OWNER: Final = re.compile(r"[a-z0-9]{1,16}")
_TOKEN_DIGITS: Final = "0123456789abcdefghijklmnopqrstuv"
_TOKEN: Final = re.compile(rf"[{_TOKEN_DIGITS}]{{13}}")
_FIRST_OF_A_SET: Final = "g"
_MARK_LENGTH: Final = 4
"""A digit of 16: the bit above the 64 random ones."""
_NAME: Final = re.compile(
    rf"(?P<stem>(?P<id>{_ID})(?:,n(?P<count>[1-9][0-9]{{0,3}}))?,s(?P<size>0|[1-9][0-9]{{0,14}})"
    r"(?:,a(?P<attributes>[1-9][0-9]{0,14}))?"
    r",c(?P<crc>[0-9a-f]{8})(?:,m(?P<line>[1-9][0-9]{0,14}))?(?:,d(?P<deaths>[1-9][0-9]{0,2}))?"
    r"(?P<keyed>,k(?P<key>[0-7][0-9a-v]{25})?)?(?P<grouped>,g)?"
    r"(?:,p(?P<priority>[1-9]))?(?P<external>,x)?)"
    r"(?:,v(?P<version>[1-9][0-9]{0,8}))?(?:,(?P<members>[ib][0-9a-v.-]+))?"
    r"(?:,r(?P<receives>[1-9][0-9]{0,8}))?(?:,f(?P<first>0|[1-9][0-9]{0,12}))?"
    r"(?:,t(?P<redriven>[0-9]{13}))?(?:,o(?P<owner>[a-z0-9]{1,16}))?"
    r"(?:@(?P<due>[0-9]{13})(?:~(?P<token>[0-9a-v]{13}))?)?"
)
_PATH: Final = re.compile(
    rf"(?P<folder>new|delay|remove|quarantine)/(?P<queue>{QUEUE_NAME}):(?P<name>.+)"
)
_READY: Final = re.compile(rf"queues/(?P<queue>{QUEUE_NAME})/(?P<name>.+)")


class NotAName(ValueError):
    """The text is not a valid name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stem:
    """The part that all names of one file share."""

    id: str
    count: int = 0
    """Messages that it was written with; 0 for a lone message."""
    size: int
    """Bytes of the bodies together."""
    attributes: int = 0
    """Bytes of the attributes together, of names and values."""
    crc: int
    """CRC-32 (zlib's) of the line; of the whole file where there is no line."""
    line: int = 0
    """Bytes of the line with its two line feeds; 0 where there is none."""
    deaths: int = 0
    """How often the message became a dead letter: of two files of one message the higher counts."""
    key: str | None = None
    """The deduplication key of a lone message; of a batch "" if its line has keys."""
    is_grouped: bool = False
    """Whether its line has groups."""
    priority: int = 0
    """Of all its messages; up to `MAX_PRIORITY`, which is received first."""
    is_external: bool = False
    """Whether the body is in a file of its own, at `body_path`."""
    text: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        parts = [self.id]
        if self.count:
            parts.append(f"n{self.count}")
        parts.append(f"s{self.size}")
        if self.attributes:
            parts.append(f"a{self.attributes}")
        parts.append(f"c{self.crc:08x}")
        if self.line:
            parts.append(f"m{self.line}")
        if self.deaths:
            parts.append(f"d{self.deaths}")
        if self.key is not None:
            parts.append(f"k{self.key}")
        if self.is_grouped:
            parts.append("g")
        if self.priority:
            parts.append(f"p{self.priority}")
        if self.is_external:
            parts.append("x")
        object.__setattr__(self, "text", ",".join(parts))

    @property
    def full(self) -> int:
        """The mask of all its messages."""
        return (1 << (self.count or 1)) - 1

    @property
    def counted(self) -> int:
        """Bytes of its messages together, as the queue's limits count them."""
        return self.size + self.attributes

    @property
    def length(self) -> int:
        """Bytes of the whole file, without a body in a file of its own."""
        return self.line if self.is_external else self.size + self.line

    def message_id(self, index: int) -> str:
        return f"{self.id[:-INDEX_DIGITS]}{index:03x}" if self.count else self.id

    def message_ids(self, indexes: Iterable[int]) -> list[str]:
        """Return the ids of the messages with these indexes."""
        if not self.count:
            return [self.id]
        start = self.id[:-INDEX_DIGITS]
        return [f"{start}{index:03x}" for index in indexes]

    def holds(self, id: str) -> bool:
        """Return whether the message `id` is in the file."""
        if not self.count:
            return id == self.id
        return self.id == batch_of(id) and index_of(id) < self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """A hard link to a batch file: its place and its list of messages."""

    stem: Stem
    state: State
    queue: str
    version: int = 1
    members: int
    receives: int = 0
    first: Millis | None = None
    """Unix time of the first receive."""
    redriven: Millis | None = None
    """Of a message that was a dead letter: the Unix time at which a redrive brought it to its queue."""
    owner: str = ""
    """In `new/` only: the process that writes the file."""
    due: Millis | None = None
    token: str = ""

    @property
    def path(self) -> str:
        """Its path in the root. It is made anew each time: of a waiting message it isn't kept."""
        stem = self.stem
        text = stem.text
        if self.version != 1:
            text += f",v{self.version}"
        if stem.count and self.members != stem.full:
            text += "," + to_text(self.members)
        if self.receives:
            text += f",r{self.receives}"
        if self.first is not None:
            text += f",f{self.first}"
        if self.redriven is not None:
            text += f",t{self.redriven:013d}"
        if self.owner:
            text += f",o{self.owner}"
        if self.due is not None:
            text += f"@{self.due:013d}~{self.token}" if self.token else f"@{self.due:013d}"
        match self.state:
            case State.READY:
                return f"queues/{self.queue}/{text}"
            case State.SENT:
                return f"new/{self.queue}:{text}"
            case State.REMOVED:
                return f"remove/{self.queue}:{text}"
            case State.QUARANTINED:
                return f"quarantine/{self.queue}:{text}"
            case _:
                return f"delay/{self.queue}:{text}"

    @property
    def bytes(self) -> int:
        """Bytes of the last component, which a file system limits."""
        return (
            len(self.path)
            - self.path.index("/")
            - 1
            - (len(self.queue) + 1 if self.state is State.READY else 0)
        )


def members_room(name: Name) -> int:
    """Return the number of characters that the tag of members may have in `name`, which lists all."""
    return MAX_BYTES - len(",") - name.bytes


def body_path(id: str) -> str:
    """Return the path of the body of the message `id`, if it is in a file of its own."""
    return f"bodies/{id}"


def batch_of(id: str) -> str:
    """Return the id of the batch that a message with this `id` would be in."""
    return id[:-INDEX_DIGITS] + "0" * INDEX_DIGITS


def index_of(id: str) -> int:
    """Return the index that a message with this `id` would have in its batch."""
    return int(id[-INDEX_DIGITS:], 16)


def parse(path: str) -> Name:
    """Return the name at `path`; raise `NotAName` for any other spelling."""
    place = _READY.fullmatch(path) or _PATH.fullmatch(path)
    if place is None:
        raise NotAName(path)
    match = _NAME.fullmatch(place["name"])
    if match is None:
        raise NotAName(path)
    group = match.groupdict()
    count = int(group["count"] or 0)
    if count > MOST or (count and index_of(group["id"])):
        raise NotAName(path)
    stem = Stem(
        id=group["id"],
        count=count,
        size=int(group["size"]),
        attributes=int(group["attributes"] or 0),
        crc=int(group["crc"], 16),
        line=int(group["line"] or 0),
        deaths=int(group["deaths"] or 0),
        key=(group["key"] or "") if group["keyed"] else None,
        is_grouped=group["grouped"] is not None,
        priority=int(group["priority"] or 0),
        is_external=group["external"] is not None,
    )
    try:
        members = stem.full if group["members"] is None else from_text(group["members"])
    except NotMembers as error:
        raise NotAName(path) from error
    name = Name(
        stem=stem,
        state=_state_of(place.groupdict().get("folder"), group["token"]),
        # One text for all messages of a queue.
        queue=intern(place["queue"]),
        version=int(group["version"] or 1),
        members=members,
        receives=int(group["receives"] or 0),
        first=None if group["first"] is None else Millis(int(group["first"])),
        redriven=None if group["redriven"] is None else Millis(int(group["redriven"])),
        owner=group["owner"] or "",
        due=None if group["due"] is None else Millis(int(group["due"])),
        token=group["token"] or "",
    )
    if name.path != path or members & ~stem.full or not _is_complete(name):
        raise NotAName(path)
    return name


def _state_of(folder: str | None, token: str | None) -> State:
    match folder:
        case "new":
            return State.SENT
        case "remove":
            return State.REMOVED
        case "quarantine":
            return State.QUARANTINED
        case "delay":
            return State.LEASED if token else State.DELAYED
        case _:
            return State.READY


def _is_complete(name: Name) -> bool:
    """Return whether the tags are those of its state, and a lone file's key is one."""
    if name.stem.key is not None and bool(name.stem.key) == bool(name.stem.count):
        return False
    if name.stem.is_grouped and not name.stem.line:
        return False
    if name.stem.is_external and (name.stem.count or not name.stem.line):
        return False
    match name.state:
        case State.SENT:
            return bool(name.owner)
        case State.LEASED | State.DELAYED:
            return name.due is not None and not name.owner
        case _:
            return name.due is None and not name.owner


def is_word(text: str, most: int) -> bool:
    """Return whether a text of up to `most` characters can be a name in a file's name."""
    return len(text) <= most and _WORD.fullmatch(text) is not None


def is_queue_name(text: str) -> bool:
    # Each receipt has one: longer ones must not fill the cache.
    return len(text) <= _MAX_QUEUE_NAME and _is_queue_name(text)


@lru_cache(maxsize=1_024)
def _is_queue_name(text: str) -> bool:
    return _QUEUE_NAME.fullmatch(text) is not None


def is_owner(text: str) -> bool:
    return _OWNER.fullmatch(text) is not None


def is_token(text: str) -> bool:
    return _TOKEN.fullmatch(text) is not None


def make_token(random: Random) -> str:
    """Return 64 random bits: no two leases share a token, not even in the same millisecond."""
    return _token(random.getrandbits(64))


def make_set_token(owner: str, random: Random) -> str:
    """Return the token of all leases of a reserved set: 44 random bits, and 20 that are the mark of the
    process that makes it."""
    token = _token(random.getrandbits(64) | 1 << 64)
    return token[0] + mark_of(owner) + token[1 + _MARK_LENGTH :]


def mark_of(owner: str) -> str:
    """Return the mark in all tokens of sets that a process makes."""
    return _token(crc32(owner.encode()))[-_MARK_LENGTH:]


def mark_in(token: str) -> str:
    """Return the mark of the process that has made the token of a set."""
    return token[1 : 1 + _MARK_LENGTH]


def is_set_token(token: str) -> bool:
    """Return whether leases with this `token` are those of a reserved set."""
    return token[0] >= _FIRST_OF_A_SET


def _token(bits: int) -> str:
    text = ""
    for shift in range(60, -1, -5):
        text += _TOKEN_DIGITS[(bits >> shift) & 31]
    return text
