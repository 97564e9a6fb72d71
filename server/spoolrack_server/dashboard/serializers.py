"""The dashboard's JSON: HTTP's own, with facts that only the dashboard shows. Pure.

Moments and spans of a row of the list are in milliseconds. A body is base64, as it may be no text.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Any, Final

from spoolrack_store.model.clock import Millis
from spoolrack_store.model.operations import Message, Queue
from spoolrack_store.model.statistics import Owner

from ..app.caller import Permission
from ..wire import convert
from ..wire.json_form import rendered

PREVIEW: Final = 64 * 1024
"""Bytes of a body that are shown of one message."""
GLIMPSE: Final = 200
"""The same in a list."""


def row(queue: Queue, now: Millis, permissions: Sequence[Permission]) -> dict[str, Any]:
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
        "may": [each.value for each in permissions],
    }


def page(queue: Queue, now: Millis, permissions: Sequence[Permission]) -> dict[str, Any]:
    """Return all facts of a queue."""
    blocking = queue.blocking
    return {
        **rendered(convert.queue(queue, now), without=("counts", "blocking_message")),
        **row(queue, now, permissions),
        "blocking_id": None if blocking is None else blocking.id,
    }


def message(message: Message, *, body: bytes | None) -> dict[str, Any]:
    """Return a message with the beginning of its body; None: it isn't shown."""
    return {
        **rendered(convert.message(message), without=("body", "receipt")),
        "body": None if body is None else b64encode(body).decode(),
    }


def owner(owner: Owner) -> dict[str, Any]:
    return {"name": owner.name, "about": owner.about, "is_me": owner.is_me}
