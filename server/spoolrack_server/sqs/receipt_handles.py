"""Receipt handles: a receipt of the store, and the facts of its receive.

    handle = receipt "*" receives "*" first receive "*" this receive, both in Unix milliseconds

The first two numbers stay in the message's name when its lease ends: a message that is ready with the
same ones was not received since. Pure.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from spoolrack_store.model.clock import Millis
from spoolrack_store.model.operations import LastReceive, Message

from . import sqs_errors

_HANDLE: Final = re.compile(
    r"(?P<receipt>[^*]{1,200})\*(?P<receives>\d{1,10})\*(?P<first>\d{1,15})(\*(?P<at>\d{1,15}))?",
    re.ASCII,
)


class Handle(NamedTuple):
    receipt: str
    last: LastReceive
    received_at: Millis

    def __str__(self) -> str:
        return (
            f"{self.receipt}*{self.last.receive_count}*{self.last.first_received_at}*{self.received_at}"
        )

    @property
    def id(self) -> str:
        """The message's id."""
        return self.receipt.partition(":")[2].partition("~")[0]


def handle_of(message: Message, received_at: Millis) -> str:
    """Return the handle of a message that was received."""
    assert message.receipt is not None
    first = message.first_received_at or Millis(0)
    return str(Handle(message.receipt, LastReceive(message.receive_count, first), received_at))


def parse(text: str) -> Handle:
    match = _HANDLE.fullmatch(text)
    if match is None:
        raise sqs_errors.not_a_receipt(text)
    last = LastReceive(int(match["receives"]), Millis(int(match["first"])))
    # Handles of 1.0.0-beta.1 have no last number.
    return Handle(match["receipt"], last, Millis(int(match["at"] or match["first"])))
