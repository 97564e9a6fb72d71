"""Names of queues: their shards, and patterns of them.

The server has the same rule of shards; `tests/vectors/shards.json` holds both. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import translate
from typing import ClassVar
from zlib import crc32

from .errors import InvalidRequest


def tag_of(queue: str) -> str:
    """Return the part of a queue's name that decides its shard: queues with one tag lie together."""
    return queue.partition("--")[0].removesuffix(".fifo")


def shard_of(queue: str, count: int) -> int:
    """Return the number of the shard, of `count`, that a queue of this name belongs to."""
    return (crc32(tag_of(queue).encode()) >> 16 & 0x7FFF) % count


def check_together(home: Callable[[str], str], first: str, queue: str) -> None:
    """Raise `InvalidRequest` if two queues can't share a batch, as they lie on two shards. `home` names
    the shard of a queue."""
    here, there = home(first), home(queue)
    if here != there:
        raise InvalidRequest(
            f"A batch is of one shard: {first} (tag {tag_of(first)}) is on {here}, and {queue} "
            f"(tag {tag_of(queue)}) is on {there}. Give both one tag, such as {tag_of(first)} and "
            f"{tag_of(first)}--{tag_of(queue)}."
        )


class QueuePattern:
    """A glob pattern of names. Only one with `--` in it matches a name with `--`: `jobs-*` has no
    dead-letter queues."""

    SIGNS: ClassVar = re.compile(r"[*?\[]")
    """A name with one of them is a pattern."""

    def __init__(self, pattern: str) -> None:
        self.prefix = self.SIGNS.split(pattern, maxsplit=1)[0]
        self._is_plain = "--" not in pattern
        self._expression = re.compile(translate(pattern))

    def matches(self, name: str) -> bool:
        return not (self._is_plain and "--" in name) and self._expression.match(name) is not None
