"""The vectors of `shards.json`: names of queues, as the file has them, their tags, and their shards."""

from __future__ import annotations

from typing import Any, Final
from zlib import crc32

from spoolrack_store.model.names import is_queue_name
from spoolrack_store.model.shards import shard_of, tag_of

COUNTS: Final = (1, 2, 3, 8, 16, 1_024)


def vectors(kept: dict[str, Any]) -> list[dict[str, Any]]:
    queues = [each["queue"] for each in kept["vectors"]]
    assert all(map(is_queue_name, queues))
    return [
        {
            "queue": queue,
            "tag": tag_of(queue),
            "hash": crc32(tag_of(queue).encode()) >> 16 & 0x7FFF,
            "shards": {str(count): shard_of(queue, count) for count in COUNTS},
        }
        for queue in queues
    ]
