"""The rule of shards: which of N servers a queue's name belongs to.

The server has the same rule; `tests/vectors/shards.json` holds both. Pure.
"""

from __future__ import annotations

from zlib import crc32


def tag_of(queue: str) -> str:
    """Return the part of a queue's name that decides its shard: queues with one tag lie together."""
    return queue.partition("--")[0].removesuffix(".fifo")


def shard_of(queue: str, count: int) -> int:
    """Return the number of the shard, of `count`, that a queue of this name belongs to."""
    return (crc32(tag_of(queue).encode()) >> 16 & 0x7FFF) % count
