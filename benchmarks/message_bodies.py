"""Bodies of messages: the sender, a number, the due time, and filling.

Knows no system. A body that isn't ours, or isn't whole, is a fault of the system that delivered it.
"""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass
from typing import Final

SIZE: Final = 1024
_HEAD: Final = struct.Struct(">QIIQ")
_FILLING: Final = random.Random(1024).randbytes(SIZE - _HEAD.size)  # No system can compress it away.


class ForeignBody(Exception):
    """A message was delivered that wasn't sent in this run, or not as it was sent."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """The identity of a message."""

    run: int
    sender: int
    number: int
    due: int
    """Nanoseconds of the monotonic clock, which all processes of a machine share."""


def body_of(run: int, sender: int, number: int, due: int = 0) -> bytes:
    return _HEAD.pack(run, sender, number, due) + _FILLING


def mark_of(body: bytes) -> Mark:
    """Return the mark of a body; raise `Foreign` if it is not one of ours, to the last byte."""
    if len(body) != SIZE or body[_HEAD.size :] != _FILLING:
        raise ForeignBody(f"a body of {len(body)} bytes that were never sent: {body[:32]!r}")
    run, sender, number, due = _HEAD.unpack_from(body)
    return Mark(run=run, sender=sender, number=number, due=due)
