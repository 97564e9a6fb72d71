"""The legal moves of a message, as data.

A state is a folder, and a move is a name in another one, by one link or rename. `engine.moves` makes
the names by the table, and refuses a move from any other state. Tests compare with it
the tables in docs/explanation/lifecycle.md and docs/reference/disk-format.md, and each recorded move.

    SENT ──enqueue──► READY ──lease──► LEASED ──delete──► REMOVED ──reap──► (gone)
      └────hide────► DELAYED ──due──► READY ◄──requeue── LEASED
                        ▲───────────postpone──────────────┘

A message that is leased in the commit that sends it is assigned while it is SENT, and then delivered to
LEASED. READY and DELAYED messages can be deleted too, LEASED ones be extended, and any file that isn't
what its name says goes to QUARANTINED, from where only `fsck --restore` takes it. A receive leases
READY messages only; `ChangeVisibility` leases a READY or DELAYED one again for its last receive.
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class State(Enum):
    SENT = "sent"
    """In `new/`: being written, or written and not yet enqueued. With a token: assigned."""
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


COUNTED: Final = (State.READY, State.LEASED, State.DELAYED)
"""The states whose messages a queue counts as its own."""
_WAITING: Final = (State.SENT, State.READY, State.DELAYED, State.LEASED)


class Move(Enum):
    """The table: from which states to which one, the tags that a new name may say anew, and those that
    it hasn't any more. The tags are those of docs/reference/disk-format.md; all others stay."""

    ENQUEUE = (State.SENT,), State.READY, "", "o"
    HIDE = (State.SENT,), State.DELAYED, "", "o"
    ASSIGN = (State.SENT,), State.SENT, "rf@~", ""
    """A lease of a message that has not left `new/`: there, its name says so."""
    DELIVER = (State.SENT,), State.LEASED, "", "o"
    """Moves an assigned message, once it is durable, to where leases are."""
    LEASE = (State.READY,), State.LEASED, "rf@~", ""
    EXTEND = (State.READY, State.DELAYED, State.LEASED), State.LEASED, "@~", ""
    POSTPONE = (State.LEASED,), State.DELAYED, "r@", "~"
    """Keeps a message hidden after its lease: a release with a delay, or a back-off."""
    REQUEUE = (State.DELAYED, State.LEASED), State.READY, "r", "@~"
    DEAD_LETTER = (State.READY, State.LEASED), State.READY, "dt", "rf@~"
    REDRIVE = (State.READY,), State.READY, "dt", "rf"
    DELETE = _WAITING, State.REMOVED, "", "o@~"
    QUARANTINE = _WAITING, State.QUARANTINED, "", "o@~"
    RESTORE = (State.QUARANTINED,), State.READY, "", ""
    """A call of `fsck --restore` by an operator."""

    def __init__(self, sources: tuple[State, ...], target: State, sets: str, drops: str) -> None:
        self.sources, self.target, self.sets, self.drops = sources, target, sets, drops
