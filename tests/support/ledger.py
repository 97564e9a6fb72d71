"""Ledgers of the processes of a run, so that killing one loses nothing that it knew.

A process appends a fact to its own file in one write, before it asks for something and after it was
answered. A process that is killed in the middle of a write leaves a torn last line, which says nothing;
the next one with that name begins a new file. Times are Unix milliseconds of this machine's clock.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final

import spoolrack

COPY: Final = "copy"
"""The attribute that names one attempt to send: `<sender>:<number>:<try>`. Each try is a call of its
own, so that a message which is there twice without having been sent twice is found out."""


@dataclass(frozen=True, slots=True)
class Sending:
    """About to send these copies, with the digests of their bodies. They may be stored from now on."""

    digests: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Sent:
    """The server has acknowledged these copies, under these ids."""

    ids: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Published:
    """The server has acknowledged these copies together, under ids that it doesn't tell."""

    copies: Sequence[str]


@dataclass(frozen=True, slots=True)
class Seen:
    """These messages were looked at, without a lease: which copies they are."""

    copies: Mapping[str, str]
    """By id."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The server has said that it did not store these copies, or has dropped them unpublished."""

    copies: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One message under one lease, as a consumer was handed it."""

    id: str
    copy: str
    digest: str
    receipt: str
    began_ms: int
    due_ms: int


@dataclass(frozen=True, slots=True)
class Received:
    deliveries: Sequence[Delivery]


@dataclass(frozen=True, slots=True)
class Releasing:
    """About to release these leases: they may end before they are due."""

    receipts: Sequence[str]


@dataclass(frozen=True, slots=True)
class Deleting:
    """About to ask for the deletion of these messages, in the call of this name."""

    call: str
    ids: Sequence[str]


@dataclass(frozen=True, slots=True)
class Deleted:
    """The server had acknowledged the deletion of these messages at `at_ms`."""

    call: str
    ids: Sequence[str]
    at_ms: int


@dataclass(frozen=True, slots=True)
class Kept:
    """The server has said that this call did not delete these messages: the lease was over."""

    call: str
    ids: Sequence[str]


Fact = Sending | Sent | Published | Seen | Refused | Received | Releasing | Deleting | Deleted | Kept
KINDS: Final = {
    kind.__name__: kind
    for kind in (Sending, Sent, Published, Seen, Refused, Received, Releasing, Deleting, Deleted, Kept)
}


def digest_of(body: bytes) -> str:
    return blake2b(body, digest_size=16).hexdigest()


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def delivery_of(message: spoolrack.Message, visibility_ms: int) -> Delivery:
    """Return what to write down of a message that was just received with this visibility timeout."""
    assert message.lease_expires_at is not None
    due_ms = round(message.lease_expires_at.timestamp() * 1_000)
    return Delivery(
        id=message.id,
        copy=str(message.attributes.get(COPY, "")),
        digest=digest_of(message.body),
        receipt=message.receipt,
        began_ms=due_ms - visibility_ms,
        due_ms=due_ms,
    )


class Ledger:
    """One process's file. Threads may share it."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        self._file = os.open(folder / f"{name}.{os.getpid()}.ledger", flags, 0o600)

    def write(self, fact: Fact) -> None:
        """Return once the fact outlives this process."""
        line = json.dumps([type(fact).__name__, asdict(fact)]).encode() + b"\n"
        written = os.write(self._file, line)
        if written != len(line):
            raise OSError(f"the ledger {self.name} took {written} of {len(line)} bytes")


def read_ledgers(folder: Path) -> Iterator[Fact]:
    """Yield all that the processes knew, one ledger after the other."""
    for path in sorted(folder.glob("*.ledger")):
        with path.open("rb") as lines:
            for line in lines:
                if not line.endswith(b"\n"):
                    break  # Its writer was killed here.
                kind, values = json.loads(line)
                if kind == "Received":
                    deliveries = [Delivery(**delivery) for delivery in values["deliveries"]]
                    yield Received(deliveries)
                else:
                    yield KINDS[kind](**values)
