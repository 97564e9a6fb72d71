"""The reasons of errors, each with its gRPC code and its HTTP status.

The one table of the server and the client. A reason is the name of a class, in `errors` of the client
and of the store: a new one is a row here and a class in each. Reasons of the HTTP port, of SQS and of
the client itself are not in it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

CODES: Final[Mapping[str, tuple[str, int]]] = {
    "INVALID_QUEUE_NAME": ("INVALID_ARGUMENT", 400),
    "INVALID_SETTING": ("INVALID_ARGUMENT", 400),
    "INVALID_REQUEST": ("INVALID_ARGUMENT", 400),
    "INVALID_MESSAGE": ("INVALID_ARGUMENT", 400),
    "INVALID_RECEIPT": ("INVALID_ARGUMENT", 400),
    "MESSAGE_TOO_LARGE": ("INVALID_ARGUMENT", 413),
    "ATTRIBUTES_TOO_LARGE": ("INVALID_ARGUMENT", 431),
    "UNAUTHENTICATED": ("UNAUTHENTICATED", 401),
    "PERMISSION_DENIED": ("PERMISSION_DENIED", 403),
    "QUEUE_NOT_FOUND": ("NOT_FOUND", 404),
    "MESSAGE_NOT_FOUND": ("NOT_FOUND", 404),
    "STAGE_NOT_FOUND": ("NOT_FOUND", 404),
    "RESERVATION_NOT_FOUND": ("NOT_FOUND", 404),
    "REDRIVE_NOT_FOUND": ("NOT_FOUND", 404),
    "SCHEDULE_NOT_FOUND": ("NOT_FOUND", 404),
    "SCHEDULE_EXISTS": ("ALREADY_EXISTS", 409),
    "QUEUE_EXISTS": ("ALREADY_EXISTS", 409),
    "VERSION_MISMATCH": ("ABORTED", 412),
    "STALE_RECEIPT": ("FAILED_PRECONDITION", 412),
    "STAGE_INCOMPLETE": ("FAILED_PRECONDITION", 412),
    "EPOCH_DIFFERS": ("FAILED_PRECONDITION", 412),
    "EPOCH_PASSED": ("FAILED_PRECONDITION", 412),
    "CHUNK_DIFFERS": ("FAILED_PRECONDITION", 412),
    "NAME_TAKEN": ("ALREADY_EXISTS", 409),
    "RESERVATION_LOST": ("FAILED_PRECONDITION", 412),
    "RESERVATION_COMMITTED": ("FAILED_PRECONDITION", 412),
    "RESERVATION_UNREAD": ("FAILED_PRECONDITION", 412),
    "ROOT_DIFFERS": ("FAILED_PRECONDITION", 412),
    "WRONG_SHARD": ("FAILED_PRECONDITION", 421),
    "REDRIVE_RUNNING": ("FAILED_PRECONDITION", 409),
    "NO_DEAD_LETTER_QUEUE": ("FAILED_PRECONDITION", 409),
    "SENDING_PAUSED": ("FAILED_PRECONDITION", 409),
    # softlayer/mq has one answer for whatever can't be guaranteed: retry after so many seconds.
    "QUEUE_FULL": ("RESOURCE_EXHAUSTED", 503),
    "TOO_MANY_DEDUPLICATION_IDS": ("RESOURCE_EXHAUSTED", 503),
    "TOO_MANY_WRITERS": ("RESOURCE_EXHAUSTED", 503),
    "TOO_MANY_RESERVATIONS": ("RESOURCE_EXHAUSTED", 503),
    "DISK_FULL": ("RESOURCE_EXHAUSTED", 503),
    "MEMORY_LIMIT": ("RESOURCE_EXHAUSTED", 503),
    "QUEUE_BEING_DELETED": ("UNAVAILABLE", 503),
    "DISK_ERROR": ("UNAVAILABLE", 503),
    "DRAINING": ("UNAVAILABLE", 503),
    "STORE_FAILED": ("UNAVAILABLE", 503),
    "OUTCOME_UNKNOWN": ("UNKNOWN", 503),
    "MESSAGE_DAMAGED": ("DATA_LOSS", 500),
    "INTERNAL_ERROR": ("INTERNAL", 500),
}
"""Every reason that a server answers. No row ever changes."""


def reason_of(name: str) -> str:
    """Return the reason of the class `name`: `STALE_RECEIPT` of `StaleReceipt`."""
    return re.sub("(?<=[a-z])(?=[A-Z])", "_", name).upper()
