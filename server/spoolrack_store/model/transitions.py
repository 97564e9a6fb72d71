"""The legal moves of a message, as data.

A state is a folder, and a move is a name in another one, by one link or rename. `engine.moves` refuses
a change of state that the table doesn't hold. A test compares the drawing in
docs/explanation/lifecycle.md with it.

    SENT ──publish──► READY ──lease──► LEASED ──delete──► REMOVED ──reap──► (gone)
      └────hide────► DELAYED ──due──► READY ◄──requeue── LEASED
                        ▲───────────postpone──────────────┘

A message that is leased in the commit that sends it is assigned while it is SENT, and then delivered to
LEASED. READY and DELAYED messages can be deleted too, LEASED ones be extended, and any file that isn't
what its name says goes to QUARANTINED, from where only `fsck --restore` takes it. A receive leases
READY messages only; `ChangeVisibility` leases a DELAYED one again for its last receive.
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class State(Enum):
    SENT = "sent"
    """In `new/`: being written, or written and not yet published. With a token: assigned."""
    READY = "ready"
    """In `queues/<queue>/`: waits for a receive."""
    DELAYED = "delayed"
    """In `delay/` without a token: hidden until it is due."""
    LEASED = "leased"
    """In `delay/` with a token: handed to a consumer, whose lease ends when it is due."""
    REMOVED = "removed"
    """In `remove/`: deleted, waits for the reaper."""
    QUARANTINED = "quarantined"
    """In `quarantine/`: damaged or foreign; never delivered, never destroyed."""

    # By identity: an enum's own hash is a call of Python's for each look-up.
    __hash__ = object.__hash__


class Move(Enum):
    PUBLISH = "publish"
    HIDE = "hide"
    ASSIGN = "assign"
    """Leased before it has left `new/`: there, its name says so."""
    DELIVER = "deliver"
    """To where leases are, once that is durable."""
    ADOPT = "adopt"
    DUE = "due"
    LEASE = "lease"
    EXTEND = "extend"
    REQUEUE = "requeue"
    POSTPONE = "postpone"
    """The lease is over, and the message stays hidden: a release with a delay, or a back-off."""
    DEAD_LETTER = "dead_letter"
    """To the dead-letter queue, where it is ready."""
    REDRIVE = "redrive"
    """From there to the queue that it came from, or another one, where it is ready."""
    DELETE = "delete"
    QUARANTINE = "quarantine"
    RESTORE = "restore"
    """By `fsck --restore`, which an operator calls."""


LEGAL: Final = frozenset(
    {
        (Move.ADOPT, State.SENT, State.SENT),
        (Move.PUBLISH, State.SENT, State.READY),
        (Move.HIDE, State.SENT, State.DELAYED),
        (Move.ASSIGN, State.SENT, State.SENT),
        (Move.DELIVER, State.SENT, State.LEASED),
        (Move.DUE, State.DELAYED, State.READY),
        (Move.LEASE, State.READY, State.LEASED),
        (Move.EXTEND, State.LEASED, State.LEASED),
        (Move.EXTEND, State.DELAYED, State.LEASED),
        (Move.REQUEUE, State.LEASED, State.READY),
        (Move.POSTPONE, State.LEASED, State.DELAYED),
        (Move.DEAD_LETTER, State.READY, State.READY),
        (Move.DEAD_LETTER, State.LEASED, State.READY),
        (Move.REDRIVE, State.READY, State.READY),
        (Move.DELETE, State.SENT, State.REMOVED),
        (Move.DELETE, State.READY, State.REMOVED),
        (Move.DELETE, State.DELAYED, State.REMOVED),
        (Move.DELETE, State.LEASED, State.REMOVED),
        (Move.QUARANTINE, State.SENT, State.QUARANTINED),
        (Move.QUARANTINE, State.READY, State.QUARANTINED),
        (Move.QUARANTINE, State.DELAYED, State.QUARANTINED),
        (Move.QUARANTINE, State.LEASED, State.QUARANTINED),
        (Move.RESTORE, State.QUARANTINED, State.READY),
    }
)

CHANGES: Final = frozenset((source, target) for _, source, target in LEGAL)
"""The changes of state that some move makes."""
