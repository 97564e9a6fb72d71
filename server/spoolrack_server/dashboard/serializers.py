"""Conversion of the store's answers to the dashboard's JSON. Pure.

Moments are Unix time in milliseconds and spans milliseconds, but for a queue's settings, which are as
`/{queue}` has them. A body is base64, as it may be no text. Numbers that may be larger than a script
can count to are texts.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Any, Final

from spoolrack_store.model.clock import Millis
from spoolrack_store.model.dead_letter_records import DeadLetterRecord
from spoolrack_store.model.message_content import Attributes
from spoolrack_store.model.operations import Message, Queue
from spoolrack_store.model.redrive_requests import Redrive
from spoolrack_store.model.reservation_requests import Reservation
from spoolrack_store.model.stage_requests import StageInfo
from spoolrack_store.model.statistics import Owner

from ..gateway.queue_endpoints import described, standstill

PREVIEW: Final = 64 * 1024
"""Bytes of a body that are shown of one message."""
GLIMPSE: Final = 200
"""The same in a list."""


def row(queue: Queue, now: Millis, permissions: Sequence[str]) -> dict[str, Any]:
    """Return a queue as a row of the list."""
    counts = queue.counts
    return {
        "name": queue.name,
        "ready": counts.ready_count,
        "leased": counts.leased_count,
        "delayed": counts.delayed_count,
        "bytes": counts.byte_count,
        "oldest_age": None if counts.oldest is None else max(0, now - counts.oldest),
        "entered": queue.traffic.entered,
        "left": queue.traffic.left,
        "dead_letter_queue": queue.settings.dead_letter_queue,
        "blocking": None if queue.blocking is None else queue.blocking.why,
        "may": list(permissions),
    }


def page(queue: Queue, now: Millis, permissions: Sequence[str]) -> dict[str, Any]:
    """Return all facts of a queue."""
    found = described(queue, now)
    blocking = queue.blocking
    return {
        **row(queue, now, permissions),
        "settings": found["settings"],
        "labels": found["labels"],
        "create_time": queue.created_at,
        "version": queue.version,
        "blocking_id": None if blocking is None else blocking.id,
        **standstill(queue),
    }


def message(message: Message, *, body: bytes | None) -> dict[str, Any]:
    """Return a message with the beginning of its body; None: it isn't shown."""
    return {
        "id": message.id,
        "state": message.state.value,
        "sent_at": message.sent_at,
        "size": message.size,
        "receives": message.receives,
        "first_receive": message.first_receive,
        "due": message.due,
        "group": message.group,
        "priority": message.priority,
        "attributes": _attributes(message.attributes),
        "body": None if body is None else b64encode(body).decode(),
        "dead_letter_records": [_record(record) for record in message.deaths],
    }


def _record(record: DeadLetterRecord) -> dict[str, Any]:
    return {
        "source_queue": record.source_queue,
        "reason": record.reason,
        "receives": record.receives,
        "first_receive": record.first_receive,
        "dead_lettered_at": record.dead_lettered_at,
        "explanation": record.explanation,
    }


def _attributes(attributes: Attributes) -> list[dict[str, str]]:
    return [
        {"name": name, "text": value}
        if isinstance(value, str)
        else {"name": name, "binary": b64encode(value).decode()}
        for name, value in sorted(attributes.items())
    ]


def stage(stage: StageInfo) -> dict[str, Any]:
    return {
        "name": stage.name,
        "chunks": stage.chunks,
        "messages": dict(stage.messages),
        "expires_at": stage.expires_at,
    }


def reservation(reservation: Reservation) -> dict[str, Any]:
    return {
        "queue": reservation.queue,
        "stream": reservation.stream,
        "sequence_number": str(reservation.sequence_number),
        "messages": reservation.messages,
        "bytes": reservation.bytes,
        "expires_at": reservation.expires_at,
        "is_lost": reservation.is_lost,
        "reads": reservation.reads,
    }


def redrive(redrive: Redrive) -> dict[str, Any]:
    return {
        "id": redrive.id,
        "queue": redrive.queue,
        "destination": redrive.destination,
        "source_queue": redrive.source_queue,
        "rate": redrive.rate,
        "state": redrive.state.value,
        "moved": redrive.moved,
        "failed": redrive.failed,
        "last_failure": redrive.last_failure,
        "remaining": redrive.remaining,
        "started_at": redrive.started_at,
        "ended_at": redrive.ended_at,
    }


def owner(owner: Owner) -> dict[str, Any]:
    return {"name": owner.name, "about": owner.about, "is_me": owner.is_me}
