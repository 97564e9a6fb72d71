"""Bounds of names, ids and numbers of callers, as the contract states them. Pure.

A value beyond its bounds raises `InvalidRequest`, which names it; bounds that depend on a queue are the
store's.
"""

from __future__ import annotations

from typing import Final

from spoolrack_store.model.clock import HOUR
from spoolrack_store.model.errors import InvalidMessage, InvalidQueueName, InvalidRequest
from spoolrack_store.model.field_checks import check_number, check_word
from spoolrack_store.model.message_ids import is_id
from spoolrack_store.model.names import is_queue_name
from spoolrack_store.model.shards import Shard, parse_shard, require_call

MAX_COUNT: Final = 1_000
"""Messages, targets, changes or items of a page in one request."""
MAX_SKIP: Final = 100_000
"""Messages that a page of a list may pass over: commits wait meanwhile."""
DEFAULT_PAGE: Final = 100
MAX_VERSION: Final = 10**15 - 1
"""Of a queue: its file's name has 15 digits."""
MAX_FILTERS: Final = 10
"""Attributes that a list may name."""
MAX_DEDUPLICATION_ID: Final = 128
"""Characters."""
MAX_WAIT: Final = HOUR
"""Of a receive or a reserve for its first message."""
SHARD_KEY: Final = "x-spoolrack-shard"
"""The metadata or header in which any call may name the shard that it is for. It checks the order of a
client's addresses; a proxy takes a call that names no queue to that shard."""


def require_shard(own: Shard | None, named: str) -> None:
    """Raise `WrongShard` for a call that names another shard than the server's `own`, if it is one, and
    `InvalidRequest` for one that names none."""
    try:
        shard = parse_shard(named)
    except ValueError:
        rule = "must be the number and the count of shards, such as 2/8"
        raise InvalidRequest(what=SHARD_KEY, value=named, rule=rule) from None
    require_call(own, shard)


def queue_name(name: str) -> str:
    if not is_queue_name(name):
        raise InvalidQueueName(name=name)
    return name


def message_id(id: str) -> str:
    if not is_id(id.lower()):
        raise InvalidRequest(what="id", value=id, rule="must be a UUID such as a send answers with")
    return id.lower()


def deduplication_id(id: str) -> str:
    """Return a valid deduplication id; raise `InvalidMessage`."""
    if not 1 <= len(id) <= MAX_DEDUPLICATION_ID:
        raise InvalidMessage(
            why=f"its deduplication id has {len(id)} characters, not 1 to {MAX_DEDUPLICATION_ID}"
        )
    return id


def number(value: int, what: str, *, default: int, most: int) -> int:
    """Return a field that is from 1 to `most`, with 0 for `default`."""
    if value:
        check_number(what, value, 1, most)
    return value or default


def place(value: int, what: str, *, most: int) -> int:
    """Return a field that counts from 0, up to `most`."""
    check_number(what, value, 0, most)
    return value


def word(name: str, what: str, *, most: int) -> str:
    """Return a name that its user has chosen and that becomes part of a file's."""
    check_word(what, name, most)
    return name
