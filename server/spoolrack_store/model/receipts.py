"""Receipts: proofs of a lease, which a consumer sends back; and the tokens of leases.

    receipt = queue ":" id "~" tag

All messages of a lease name share its token, which is in the name and never leaves the host. A receipt
has a tag made from token and index, so that a consumer can't make the receipt of another message of the
same name, and so that a message keeps its receipt when its lease is extended under a name of its own.

A token has 13 digits. Those of a reserved set bear the mark of the process that made it. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from hmac import compare_digest
from random import Random
from typing import Final, NamedTuple
from zlib import crc32

from .errors import InvalidReceipt
from .message_ids import ID_LENGTH
from .names import is_queue_name

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


_TOKEN_DIGITS: Final = "0123456789abcdefghijklmnopqrstuv"
_TOKEN: Final = re.compile(rf"[{_TOKEN_DIGITS}]{{13}}")
_FIRST_OF_A_SET: Final = "g"
_MARK_LENGTH: Final = 4
"""A digit of 16: the bit above the 64 random ones."""


def is_token(text: str) -> bool:
    return _TOKEN.fullmatch(text) is not None


def make_token(random: Random) -> str:
    """Return 64 random bits: no two leases share a token, not even in the same millisecond."""
    return _token(random.getrandbits(64))


def make_set_token(owner: str, random: Random) -> str:
    """Return the token of all leases of a reserved set: 44 random bits, and 20 that are the mark of the
    process that makes it."""
    token = _token(random.getrandbits(64) | 1 << 64)
    return token[0] + mark_of(owner) + token[1 + _MARK_LENGTH :]


def mark_of(owner: str) -> str:
    """Return the mark in all tokens of sets that a process makes."""
    return _token(crc32(owner.encode()))[-_MARK_LENGTH:]


def mark_in(token: str) -> str:
    """Return the mark of the process that has made the token of a set."""
    return token[1 : 1 + _MARK_LENGTH]


def is_set_token(token: str) -> bool:
    """Return whether leases with this `token` are those of a reserved set."""
    return token[0] >= _FIRST_OF_A_SET


def _token(bits: int) -> str:
    text = ""
    for shift in range(60, -1, -5):
        text += _TOKEN_DIGITS[(bits >> shift) & 31]
    return text
