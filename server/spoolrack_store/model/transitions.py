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


LEGAL: Final = frozenset(
    {
        ("adopt", State.SENT, State.SENT),
        ("publish", State.SENT, State.READY),
        ("hide", State.SENT, State.DELAYED),
        ("assign", State.SENT, State.SENT),
        ("deliver", State.SENT, State.LEASED),
        ("due", State.DELAYED, State.READY),
        ("lease", State.READY, State.LEASED),
        ("extend", State.LEASED, State.LEASED),
        ("extend", State.DELAYED, State.LEASED),
        ("requeue", State.LEASED, State.READY),
        ("postpone", State.LEASED, State.DELAYED),
        ("dead_letter", State.READY, State.READY),
        ("dead_letter", State.LEASED, State.READY),
        ("redrive", State.READY, State.READY),
        ("delete", State.SENT, State.REMOVED),
        ("delete", State.READY, State.REMOVED),
        ("delete", State.DELAYED, State.REMOVED),
        ("delete", State.LEASED, State.REMOVED),
        ("quarantine", State.SENT, State.QUARANTINED),
        ("quarantine", State.READY, State.QUARANTINED),
        ("quarantine", State.DELAYED, State.QUARANTINED),
        ("quarantine", State.LEASED, State.QUARANTINED),
        ("restore", State.QUARANTINED, State.READY),
    }
)
"""Names of moves, each with the state before and after. An assignment is a lease of a message that has
not left `new/`: there, its name says so; the delivery moves it to where leases are, once it is durable.
A postponed message stays hidden after its lease: a release with a delay, or a back-off. A restoration
is a call of `fsck --restore` by an operator."""

CHANGES: Final = frozenset((source, target) for _, source, target in LEGAL)
"""The changes of state that some move makes."""
