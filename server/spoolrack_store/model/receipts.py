"""Receipts: proofs of a lease, which a consumer sends back.

    receipt = queue ":" id "~" tag

All messages of a lease name share its token, which is in the name and never leaves the host. A receipt
has a tag made from token and index, so that a consumer can't make the receipt of another message of the
same name, and so that a message keeps its receipt when its lease is extended under a name of its own.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from hmac import compare_digest
from typing import Final, NamedTuple

from .errors import InvalidReceipt
from .names import ID_LENGTH, is_queue_name

_TAG_BYTES: Final = 8
_PER_DIGEST: Final = 64 // _TAG_BYTES
"""One digest makes the tags of eight messages in a row."""
_TAG_DIGITS: Final = 2 * _TAG_BYTES


class Receipt(NamedTuple):
    id: str
    tag: str


def make(queue: str, token: str, messages: Iterable[tuple[int, str]]) -> list[str]:
    """Return the receipt of each message, by its index and id, in ascending order."""
    receipts: list[str] = []
    block, tags = -1, ""
    for index, id in messages:
        if index // _PER_DIGEST != block:
            block = index // _PER_DIGEST
            tags = _tags(token, block)
        start = index % _PER_DIGEST * _TAG_DIGITS
        receipts.append(f"{queue}:{id}~{tags[start : start + _TAG_DIGITS]}")
    return receipts


def parse(queue: str, text: str) -> Receipt:
    """Parse a receipt of a message of `queue`; raise `InvalidReceipt`."""
    named, _, rest = text.partition(":")
    id, tilde, tag = rest[:ID_LENGTH], rest[ID_LENGTH : ID_LENGTH + 1], rest[ID_LENGTH + 1 :]
    if (
        named != queue
        or not is_queue_name(named)
        or tilde != "~"
        or len(tag) != _TAG_DIGITS
        or not tag.isascii()
    ):
        raise InvalidReceipt(receipt=text)
    return Receipt(id, tag)


def fits(receipt: Receipt, token: str, index: int) -> bool:
    """Return whether the receipt is of the lease with this token."""
    start = index % _PER_DIGEST * _TAG_DIGITS
    tag = _tags(token, index // _PER_DIGEST)[start : start + _TAG_DIGITS]
    return compare_digest(tag, receipt.tag)


@lru_cache(maxsize=4_096)
def _tags(token: str, block: int) -> str:
    """Return the tags of a block of messages: at the receive, and again at the delete."""
    return blake2b(block.to_bytes(2, "big"), key=token.encode(), digest_size=64).hexdigest()
