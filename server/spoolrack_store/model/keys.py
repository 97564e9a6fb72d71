"""Deduplication keys: the hash of a message's deduplication id, which is part of a name. Pure.

A key is BLAKE2b-128 of the id, salted by the queue, so that the same id in another queue, or in one
that was made again under the same name, is another key: wherever a name with a key is found, it means
one id of one queue. In memory keys and ids of messages are numbers: there may be millions of them.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from .errors import InvalidMessage
from .message_ids import ID_LENGTH

MAX_ID_LENGTH: Final = 128
"""Characters of a deduplication id."""
MAX_KEYS: Final = 4_000_000
"""Bound on the keys of one queue."""
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuv"
_PAIRS: Final = [high + low for high in _DIGITS for low in _DIGITS]
_TIME_AT: Final = 80
"""Where in an id's number its time begins."""


def key_of(deduplication_id: str, salt: str) -> int:
    """Return the key of an id in the queue with this `salt`; raise `InvalidMessage`."""
    if not 1 <= len(deduplication_id) <= MAX_ID_LENGTH:
        raise InvalidMessage(
            why=f"its deduplication id has {len(deduplication_id)} characters, not 1 to {MAX_ID_LENGTH}"
        )
    try:
        text = deduplication_id.encode()
    except UnicodeEncodeError as error:
        raise InvalidMessage(why="its deduplication id is not Unicode text") from error
    return int.from_bytes(blake2b(text, digest_size=16, salt=salt.encode()).digest(), "big")


def key_text(key: int) -> str:
    """Return a key as 26 digits of five bits, the highest first."""
    return "".join([_PAIRS[(key >> shift) & 1023] for shift in range(120, -1, -10)])


def id_number(id: str) -> int:
    return int(id[:ID_LENGTH].replace("-", ""), 16)


def id_text(number: int) -> str:
    text = f"{number:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def first_number_of(moment: int) -> int:
    """Return the lower bound of the ids that are made at this time or later."""
    return max(moment, 0) << _TIME_AT
