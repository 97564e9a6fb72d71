"""The rule of shards: which of N roots a queue's name belongs to.

Consistent hashing is not used: N is fixed, and the hash is that of nginx's `hash` and of memcached's
clients, so that stock proxies and clients in any language agree. The client has the same rule in
`spoolrack._shards`; `tests/vectors/shards.json` holds both. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from zlib import crc32

from .errors import WrongShard
from .names import FIFO

MAX_SHARDS: Final = 1_024
"""The hash has 15 bits: more shards would get unequal parts of the names."""
_SHARD: Final = re.compile(r"(0|[1-9][0-9]{0,3})/([1-9][0-9]{0,3})")


@dataclass(frozen=True, slots=True)
class Shard:
    """One root of several: its number, from 0, and how many there are."""

    number: int
    count: int

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def has(self, queue: str) -> bool:
        """Return whether a queue of this name belongs here."""
        return shard_of(queue, self.count) == self.number

    def require(self, queue: str) -> None:
        """Raise `WrongShard` unless a queue of this name belongs here."""
        number = shard_of(queue, self.count)
        if number != self.number:
            tag = tag_of(queue)
            raise _wrong(self, f"The queue {queue}, by its tag {tag},", number, self.count, queue, tag)


def require_call(own: Shard | None, shard: Shard) -> None:
    """Raise `WrongShard` for a call that names another shard than the server's `own`; None: it is
    none."""
    if shard != own:
        raise _wrong(own, "The call", shard.number, shard.count)


def _wrong(
    own: Shard | None, what: str, number: int, count: int, queue: str = "", tag: str = ""
) -> WrongShard:
    return WrongShard(
        what=what,
        queue=queue,
        tag=tag,
        shard=number,
        shards=count,
        this="" if own is None else own.number,
        found="no shard" if own is None else f"shard {own.number} of {own.count}",
    )


def parse_shard(text: str) -> Shard:
    """Return the shard that a text like `2/8` names; raise `ValueError`, which says the rule."""
    match = _SHARD.fullmatch(text)
    shard = Shard(int(match[1]), int(match[2])) if match else None
    if shard is None or shard.count > MAX_SHARDS or shard.number >= shard.count:
        raise ValueError(
            f"{text[:40]!r} is no shard: it must be NUMBER/COUNT, such as 2/8, with a count of 1 to "
            f"{MAX_SHARDS} and numbers from 0 to one below it"
        )
    return shard


def tag_of(queue: str) -> str:
    """Return the part of a queue's name that decides its shard: queues with one tag lie together."""
    return queue.partition("--")[0].removesuffix(FIFO)


def shard_of(queue: str, count: int) -> int:
    """Return the number of the shard, of `count`, that a queue of this name belongs to."""
    return (crc32(tag_of(queue).encode()) >> 16 & 0x7FFF) % count
