"""The grammar of file names: the one module that formats and parses them.

A name carries everything about a message that changes, and what is needed to know a whole file from
a torn one; the file carries what never changes. This module is pure: it knows text, not folders. What
it doesn't recognise raises `NotAName`, and the caller decides what becomes of the file.

    entry = id [",s" size] [",c" crc32] [",m" trailer] [",r" receives] [",f" first-receive-ms]
               [",g" group-hash] [",k" dedup-hash] [",o" owner]
    batch = id ",n" count [",r" receives] [",f" first-receive-ms] [",o" owner]
    filed = queue ":" (entry | batch) ["@" due ["~" token]]

Tags that are not known here follow the known ones, and are kept as they are. Every value has one
spelling: what parses is formatted to the same text again, because a name is the source of a rename.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from random import Random
from typing import TypeVar

from .clock import Millis
from .ids import UUID

QUEUE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")
"""What a queue may be called: never a leading dot, a slash, or a separator of ours."""

ID_LENGTH = 36

MAX_NAME_BYTES = 239
"""The longest name we make; file systems allow 255 bytes."""

MAX_RECEIVES = 999_999_999
"""Where the count of receives stops, so that a name never grows past its room."""

TOKEN_LENGTH = 13
_TOKEN_DIGITS = "0123456789abcdefghijklmnopqrstuv"
_FIRST_OF_A_SET = "g"
"""A digit of 16: the bit above the 64 random ones."""
_TOKEN = re.compile(rf"[{_TOKEN_DIGITS}]{{{TOKEN_LENGTH}}}")
_OWNER = re.compile(r"[a-z0-9]{1,16}")
_DUE = re.compile(r"[0-9]{13}")
_SIZE = re.compile(r"0|[1-9][0-9]{0,14}")
_COUNT = re.compile(r"[1-9][0-9]{0,8}")
_MOMENT = re.compile(r"0|[1-9][0-9]{0,12}")
_CRC = re.compile(r"[0-9a-f]{8}")
_COUNTED = re.compile(r",n[0-9]")
_WORD = re.compile(r"[A-Za-z0-9_.-]*")


class NotAName(ValueError):
    """The text is not a name of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One message's file. A file without tags was put there by hand and waits to be adopted."""

    id: str
    size: int | None = None
    """Bytes of the body."""
    crc: int | None = None
    """CRC-32 (zlib's) of the whole file, body and trailer."""
    trailer: int = 0
    """Bytes of the trailer that follows the body."""
    receives: int = 0
    first_receive: Millis | None = None
    group: str | None = None
    dedup: str | None = None
    owner: str | None = None
    unknown: tuple[str, ...] = ()
    """Tags of a later version, kept as they are."""

    def __str__(self) -> str:
        parts = [self.id]
        if self.size is not None:
            parts.append(f"s{self.size}")
        if self.crc is not None:
            parts.append(f"c{self.crc:08x}")
        if self.trailer:
            parts.append(f"m{self.trailer}")
        if self.receives:
            parts.append(f"r{self.receives}")
        if self.first_receive is not None:
            parts.append(f"f{self.first_receive}")
        if self.group is not None:
            parts.append(f"g{self.group}")
        if self.dedup is not None:
            parts.append(f"k{self.dedup}")
        if self.owner is not None:
            parts.append(f"o{self.owner}")
        parts.extend(self.unknown)
        return ",".join(parts)

    @property
    def length(self) -> int:
        """Bytes of the whole file."""
        return (self.size or 0) + self.trailer

    @property
    def is_tagged(self) -> bool:
        return self.size is not None and self.crc is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A folder of entries that were sent together and move together while they can."""

    id: str
    count: int
    """How many entries it was written with. It is whole in `new/` only with all of them."""
    receives: int = 0
    first_receive: Millis | None = None
    owner: str | None = None
    unknown: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = [self.id, f"n{self.count}"]
        if self.receives:
            parts.append(f"r{self.receives}")
        if self.first_receive is not None:
            parts.append(f"f{self.first_receive}")
        if self.owner is not None:
            parts.append(f"o{self.owner}")
        parts.extend(self.unknown)
        return ",".join(parts)


Item = Entry | Batch
"""What lies in a queue's folder: a message, or a folder of messages."""

# What is left for an item before its first receive: the longest queue name, the separators, a due, a
# token, and the two tags that a receive adds, are already counted.
_ITEM_ROOM = MAX_NAME_BYTES - (80 + 1) - (1 + 13) - (1 + TOKEN_LENGTH) - len(",r") - 9 - len(",f") - 13


@dataclass(frozen=True, slots=True, kw_only=True)
class Filed:
    """An item in a folder that all queues share, with its queue and perhaps when it is due."""

    queue: str
    item: Item
    due: Millis | None = None
    token: str | None = None
    """Present in a lease, absent in a delay."""

    def __str__(self) -> str:
        text = f"{self.queue}:{self.item}"
        if self.due is not None:
            text += f"@{self.due:013d}"
            if self.token is not None:
                text += f"~{self.token}"
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What a consumer shows to prove that a lease is its own."""

    queue: str
    id: str
    token: str
    batch: str | None = None
    """The id of the batch that was leased whole, if one was."""

    def __str__(self) -> str:
        place = self.id if self.batch is None else f"{self.batch}/{self.id}"
        return f"{self.queue}:{place}~{self.token}"


def name_of_new(id: str, size: int, crc: int, trailer: int, key: str = "") -> str:
    """The name of an entry that was never leased: what `Entry` would say, in a quarter of the time."""
    name = f"{id},s{size},c{crc:08x},m{trailer}" if trailer else f"{id},s{size},c{crc:08x}"
    return f"{name},k{key}" if key else name


def is_as_sent(name: str) -> bool:
    """Whether the entry's `name` knows of no lease."""
    return ",r" not in name and ",f" not in name


def is_of_batch(name: str) -> bool:
    """Whether what has this name, alone or filed under its queue, must be a folder."""
    return _COUNTED.search(name) is not None


def id_of(name: str) -> str:
    """The id at the beginning of an entry's or a batch's name."""
    return name[:ID_LENGTH]


def is_queue_name(text: str) -> bool:
    return QUEUE_NAME.fullmatch(text) is not None


def is_owner(text: str) -> bool:
    return _OWNER.fullmatch(text) is not None


def is_token(text: str) -> bool:
    return _TOKEN.fullmatch(text) is not None


def make_token(random: Random) -> str:
    """64 random bits: no two leases share one, not even in the same millisecond."""
    return _token(random.getrandbits(64))


def make_set_token(random: Random) -> str:
    """The same for the leases of a reserved set, which share it, and are known as a set's by it."""
    return _token(random.getrandbits(64) | 1 << 64)


def is_set_token(token: str) -> bool:
    """Whether leases with this `token` are those of a reserved set."""
    return token[0] >= _FIRST_OF_A_SET


def _token(bits: int) -> str:
    return "".join(_TOKEN_DIGITS[(bits >> shift) & 31] for shift in range(60, -1, -5))


@lru_cache(maxsize=8_192)  # Each step of a message's way parses its name again.
def parse_item(text: str) -> Item:
    """The item that `text` names; raises `NotAName` also where a lease would make the name too long."""
    match = _ITEM.fullmatch(text)
    if match is None:
        raise NotAName(text)
    id, size, crc, trailer, count, receives, first, group, dedup, owner, others = match.groups()
    if len(text) > _ITEM_ROOM:
        grown = sum(len(",r") + len(value) for value in (receives, first) if value is not None)
        if len(text) - grown > _ITEM_ROOM:
            # It could not be leased: the file system would refuse the name, again and again.
            raise NotAName(text)
    received = int(receives) if receives is not None else 0
    first_receive = Millis(int(first)) if first is not None else None
    unknown = tuple(others[1:].split(",")) if others else ()
    if count is not None:
        if not (size is None and crc is None and trailer is None and group is None and dedup is None):
            raise NotAName(text)
        return Batch(
            id=id,
            count=int(count),
            receives=received,
            first_receive=first_receive,
            owner=owner,
            unknown=unknown,
        )
    return Entry(
        id=id,
        size=int(size) if size is not None else None,
        crc=int(crc, 16) if crc is not None else None,
        trailer=int(trailer) if trailer is not None else 0,
        receives=received,
        first_receive=first_receive,
        group=group,
        dedup=dedup,
        owner=owner,
        unknown=unknown,
    )


def length_of(text: str) -> int:
    """The bytes of the file whose entry's name is `text`, which is known to be one."""
    match = _LENGTH.match(text, ID_LENGTH)
    if match is None:
        raise NotAName(text)
    size, trailer = match.groups()
    return (int(size) if size is not None else 0) + (int(trailer) if trailer is not None else 0)


def length_of_plain(text: str) -> int | None:
    """The bytes of the file of the entry `text`, if that is a name as sends and leases make them.

    None: it may be a name or none, ask `parse_item`, which takes five times as long.
    """
    match = _PLAIN.fullmatch(text)
    if match is None:
        return None
    size, trailer = match.groups()
    return int(size) if trailer is None else int(size) + int(trailer)


def parse_entry(text: str) -> Entry:
    item = parse_item(text)
    if not isinstance(item, Entry):
        raise NotAName(text)
    return item


def parse_filed(text: str) -> Filed:
    queue, colon, rest = text.partition(":")
    if not colon or not is_queue_name(queue):
        raise NotAName(text)
    item, at, deadline = rest.partition("@")
    if not at:
        return Filed(queue=queue, item=parse_item(item))
    due, tilde, token = deadline.partition("~")
    if not _DUE.fullmatch(due) or (tilde and not _TOKEN.fullmatch(token)):
        raise NotAName(text)
    return Filed(
        queue=queue, item=parse_item(item), due=Millis(int(due)), token=token if tilde else None
    )


def parse_receipt(text: str) -> Receipt:
    match = _RECEIPT.fullmatch(text)
    if match is None:
        raise NotAName(text)
    return Receipt(queue=match["queue"], id=match["id"], token=match["token"], batch=match["batch"])


def leases_of(entry: Entry, batch: Batch | None) -> tuple[int, Millis | None]:
    """How often `entry` was leased, and first when: alone, and with the `batch` that it lies in."""
    if batch is None:
        return entry.receives, entry.first_receive
    first = batch.first_receive if entry.first_receive is None else entry.first_receive
    return min(entry.receives + batch.receives, MAX_RECEIVES), first


def moved_out(entry: Entry, batch: Batch) -> Entry:
    """The name of `entry` outside its `batch`, with the leases that it went through inside."""
    receives, first_receive = leases_of(entry, batch)
    return replace(entry, receives=receives, first_receive=first_receive)


AnyItem = TypeVar("AnyItem", Entry, Batch)


def leased(item: AnyItem, now: Millis) -> AnyItem:
    """The name of `item` after one lease more, begun at `now`."""
    first = item.first_receive if item.first_receive is not None else now
    return replace(item, receives=min(item.receives + 1, MAX_RECEIVES), first_receive=first)


def unleased(item: AnyItem) -> AnyItem:
    """The name of `item` as if its last lease had never been: nobody saw it."""
    receives = max(0, item.receives - 1)
    return replace(item, receives=receives, first_receive=item.first_receive if receives else None)


def forgotten(item: AnyItem) -> AnyItem:
    """The name of `item` as if it had never been leased: what arrives in another queue."""
    return replace(item, receives=0, first_receive=None)


def unsent(item: Item) -> Item:
    """The name, in `remove/`, of what was never sent: its deduplication keys don't count."""
    if isinstance(item, Entry):
        return replace(item, dedup=None)
    return replace(item, unknown=(*item.unknown, _UNSENT))


def is_unsent(item: Item) -> bool:
    return isinstance(item, Batch) and _UNSENT in item.unknown


_UNSENT = "u"
"""The tag of a batch in `remove/` that was never sent as a whole: no key in it counts."""
_TAGS = {
    "s": _SIZE,
    "c": _CRC,
    "m": _COUNT,
    "n": _COUNT,
    "r": _COUNT,
    "f": _MOMENT,
    "g": _WORD,
    "k": _WORD,
    "o": _OWNER,
}
"""What is known, in the order in which it stands."""
_ITEM = re.compile(
    f"({UUID.pattern})"
    + "".join(f"(?:,{letter}({value.pattern}))?" for letter, value in _TAGS.items())
    + f"((?:,(?![{''.join(_TAGS)}])[A-Za-z]{_WORD.pattern})*)"
)
_PLAIN = re.compile(
    rf"{UUID.pattern},s({_SIZE.pattern}),c{_CRC.pattern}(?:,m({_COUNT.pattern}))?"
    rf"(?:,r{_COUNT.pattern})?(?:,f(?:{_MOMENT.pattern}))?(?:,k[0-9a-v]{{26}})?"
)
"""Always short enough: before its leases the longest takes 102 of the `_ITEM_ROOM` bytes."""
_LENGTH = re.compile(rf"(?:,s({_SIZE.pattern}))?(?:,c{_CRC.pattern})?(?:,m({_COUNT.pattern}))?")
_RECEIPT = re.compile(
    rf"(?P<queue>{QUEUE_NAME.pattern}):(?:(?P<batch>{UUID.pattern})/)?(?P<id>{UUID.pattern})"
    rf"~(?P<token>{_TOKEN.pattern})"
)
