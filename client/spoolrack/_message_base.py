"""Facts of a message, without operations.

`spoolrack.Message` and `spoolrack.aio.Message` add the operations.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from ._values import (
    MAX_BODY_IN_MEMORY,
    Attributes,
    DeadLetterRecord,
    Envelope,
    MessageState,
    moment_of,
)
from .errors import Unsupported


class MessageFacts:
    """The content and state of a message. Only `lease_expires_at` changes, with an extension."""

    __slots__ = ("_envelope", "_finished", "_lease_expires_at", "_queue_name")

    def __init__(self, envelope: Envelope, queue_name: str) -> None:
        self._envelope = envelope
        self._queue_name = queue_name
        self._lease_expires_at: datetime | None = None
        self._finished = False

    @property
    def id(self) -> str:
        """A UUID of version 7, in the order of the sends."""
        return self._envelope.id

    @property
    def body(self) -> bytes:
        """The body; only its beginning in a peek that asked for no more.

        Raises `Unsupported` for one of more than 64 MiB, which has no place in memory: `path` is its
        file, or HTTP has it.
        """
        if self.is_body_left_out:
            raise Unsupported(
                f"The body of message {self.id} has {self.body_size} bytes, and isn't read into "
                "memory: "
                + (f"it is in {self._envelope.path}." if self._envelope.path else "read it over HTTP.")
            )
        return self._envelope.body

    @property
    def is_body_left_out(self) -> bool:
        """Whether the body was sent as a file and is too large for memory, more than 64 MiB."""
        return self.body_size > MAX_BODY_IN_MEMORY and not self._envelope.body

    @property
    def path(self) -> Path | None:
        """The file of the body in the root, to be read until the message is deleted.

        None: the body has no file of its own, or the client is connected to a server.
        """
        return Path(self._envelope.path) if self._envelope.path else None

    @property
    def text(self) -> str:
        """The body read as UTF-8; raises `UnicodeDecodeError` if it isn't."""
        return self.body.decode()

    def json(self) -> Any:
        """Return the body read as JSON; raises `ValueError` if it isn't."""
        return json.loads(self.body)

    @property
    def body_size(self) -> int:
        """Bytes of the whole body."""
        return self._envelope.body_size

    @property
    def attributes(self) -> Attributes:
        """Text and bytes by name, as they were sent."""
        return self._envelope.attributes

    @property
    def group(self) -> str:
        """The message's group; empty if it has none."""
        return self._envelope.group

    @property
    def priority(self) -> int:
        """The message's priority, from 0 to 9."""
        return self._envelope.priority

    @property
    def sent_at(self) -> datetime:
        """Time at which the server stored the message, in UTC."""
        return moment_of(self._envelope.sent_ms)

    @property
    def receive_count(self) -> int:
        """Number of leases on the message so far, this one included."""
        return self._envelope.receive_count

    @property
    def first_received_at(self) -> datetime | None:
        """Time at which its first lease began, in UTC. None: it was never received."""
        first = self._envelope.first_receive_ms
        return None if first is None else moment_of(first)

    @property
    def lease_expires_at(self) -> datetime | None:
        """Time at which the lease expires, by the server's clock. None: the message isn't leased."""
        if self._lease_expires_at is not None:
            return self._lease_expires_at
        return self._due_at(MessageState.LEASED)

    @property
    def deliver_at(self) -> datetime | None:
        """Time at which the delay ends, by the server's clock. None: the message isn't delayed."""
        return self._due_at(MessageState.DELAYED)

    def _due_at(self, state: MessageState) -> datetime | None:
        due = self._envelope.due_ms
        return None if due is None or self.state is not state else moment_of(due)

    @property
    def visibility_timeout(self) -> float | None:
        """Seconds that the lease lasted when the message was received. None: it was got or peeked, or
        comes from an older server."""
        return self._envelope.visibility_timeout

    @property
    def receipt(self) -> str:
        """Proof of the lease: `queue.delete(receipt)` works in any process. Empty in a peeked
        message."""
        return self._envelope.receipt

    @property
    def state(self) -> MessageState:
        """State of the message (ready, leased, delayed) when this answer was given."""
        return self._envelope.state

    @property
    def dead_letter_records(self) -> Sequence[DeadLetterRecord]:
        """Records of the message's moves to dead-letter queues: its last 20 records, the oldest first.

        A redriven message keeps them. Only a message that was got or peeked has them.
        """
        return self._envelope.dead_letter_records

    @property
    def queue_name(self) -> str:
        """Name of the queue that the message was received from, or read in."""
        return self._queue_name

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MessageFacts):
            return NotImplemented
        return (self.id, self.receipt, self._queue_name) == (other.id, other.receipt, other._queue_name)

    def __hash__(self) -> int:
        return hash((self.id, self.receipt))

    def __repr__(self) -> str:
        body = self._envelope.body
        shown = repr(body) if self.body_size <= 60 else f"{body[:57]!r}... {self.body_size} bytes"
        return (
            f"<Message {self.id} of {self._queue_name}: {shown}, {self.state}, "
            f"received {self.receive_count}x>"
        )
