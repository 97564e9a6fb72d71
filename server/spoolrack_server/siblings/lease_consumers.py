"""The consumers of a queue's oldest leases, from all worker processes of one server.

Each process knows those that it served. The leases of one receive have their file, their end and their
receive count in common, by which another process's answer is matched.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any

from spoolrack_store.model.message_ids import batch_of
from spoolrack_store.model.operations import OLDEST_LEASES, OldLease, Queue


def known_leases(queue: Queue) -> list[dict[str, Any]]:
    """Return the oldest leases whose consumers this process knows, as JSON."""
    return [asdict(lease) for lease in queue.oldest_leases if lease.received_at is not None]


def has_unknown_consumers(queue: Queue) -> bool:
    return any(lease.received_at is None and not lease.stream for lease in queue.oldest_leases)


def with_consumers(queue: Queue, answers: Iterable[list[dict[str, Any]] | None]) -> Queue:
    """Return the queue with the consumers that other processes have reported; None: one didn't
    answer."""
    by_receive: dict[tuple[str, int, int], list[OldLease]] = {}
    for answer in answers:
        for fields in answer or ():
            lease = OldLease(**fields)
            by_receive.setdefault(_key(lease), []).append(lease)
    found: list[OldLease] = []
    for lease in queue.oldest_leases:
        known = by_receive.get(_key(lease), []) if lease.received_at is None else []
        found += known or [lease]
    return replace(queue, oldest_leases=found[:OLDEST_LEASES])


def _key(lease: OldLease) -> tuple[str, int, int]:
    return batch_of(lease.message_id), lease.lease_expires_at, lease.receive_count
