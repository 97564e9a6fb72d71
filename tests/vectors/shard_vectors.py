"""The vectors of `shards.json`: names of queues, their tags, and their shards."""

from __future__ import annotations

from typing import Any, Final
from zlib import crc32

from spoolrack_store.model.names import is_queue_name
from spoolrack_store.model.shards import shard_of, tag_of

COUNTS: Final = (1, 2, 3, 8, 16, 1_024)
NAMES: Final = (
    "jobs",
    "jobs--dead",
    "jobs--dead--again",
    "jobs.fifo",
    "jobs--dead.fifo",
    "jobs.fifo--dead",
    "jobs-dead",
    "jobs-",
    "jobs---",
    "jobs.fifo.fifo",
    "jobs.fifo1",
    "jobs.FIFO",
    "Jobs",
    "a",
    "0",
    "a--",
    "mail",
    "orders.eu_1",
    "x" * 80,
    *(f"queue-{number}" for number in range(40)),
)


def vectors() -> list[dict[str, Any]]:
    assert all(map(is_queue_name, NAMES))
    return [
        {
            "queue": queue,
            "tag": tag_of(queue),
            "hash": crc32(tag_of(queue).encode()) >> 16 & 0x7FFF,
            "shards": {str(count): shard_of(queue, count) for count in COUNTS},
        }
        for queue in NAMES
    ]
