"""What it is that breaks a promise."""

from __future__ import annotations

from enum import Enum


class Kind(Enum):
    """Of a broken promise, as the tallies count them."""

    LOST = "lost"
    RESURRECTED = "resurrected"
    DOUBLED = "doubled"
    TORN = "torn"
    INVENTED = "invented"
    OTHER = "other"


class Broken(AssertionError):
    """A promise was broken."""

    def __init__(self, kind: Kind, what: str) -> None:
        super().__init__(f"{kind.value}: {what}")
        self.kind = kind
