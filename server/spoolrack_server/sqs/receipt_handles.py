"""Receipt handles: a receipt of the store, and which receive of its message it came with.

    handle = receipt "*" receives "*" first receive, in Unix milliseconds

Both numbers stay in the message's name when its lease ends: a message that is ready with the same ones
was not received since. Pure.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from spoolrack_store.model.clock import Millis
from spoolrack_store.model.operations import Message

from . import sqs_errors

_HANDLE: Final = re.compile(
    r"(?P<receipt>[^*]{1,200})\*(?P<receives>\d{1,10})\*(?P<first>\d{1,15})", re.ASCII
)


class Handle(NamedTuple):
    receipt: str
    receives: int
    first: Millis


def handle_of(message: Message) -> str:
    """Return the handle of a message that was received."""
    return f"{message.receipt}*{message.receives}*{message.first_receive or 0}"


def parse(text: str) -> Handle:
    found = _HANDLE.fullmatch(text)
    if found is None:
        raise sqs_errors.invalid_receipt(
            f'The input receipt handle "{text[:300]}" is not a valid receipt handle.'
        )
    return Handle(found["receipt"], int(found["receives"]), Millis(int(found["first"])))
