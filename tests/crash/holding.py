"""A consumer as the store's callers are: it believes in receipts until it has used them."""

from __future__ import annotations

from collections.abc import Sequence

from spoolrack_store.model.names import parse_receipt

REMEMBERED = 12
"""So many used receipts are remembered."""


class Consumer:
    """It is never told that a lease has ended, so some of what it believes in is stale."""

    def __init__(self) -> None:
        self.held: list[str] = []
        """Receipts that it hasn't used up, the newest first."""
        self.old: list[str] = []
        """Receipts of what it has deleted or released, or was refused."""

    def copy(self) -> Consumer:
        other = Consumer()
        other.held, other.old = list(self.held), list(self.old)
        return other

    def take(self, receipt: str) -> None:
        self.held.insert(0, receipt)

    def use_up(self, receipt: str) -> None:
        if receipt in self.held:
            self.held.remove(receipt)
            self.old.insert(0, receipt)
            del self.old[REMEMBERED:]

    def pick(self, whose: str, pick: int, count: int) -> tuple[str, list[str]] | None:
        """A queue, and receipts of it: the picked one and the next, counted round.

        A count of 0 is all of the picked one's batch. None if there are none at all.
        """
        every = self.held if whose == "held" else self.old
        if not every:
            return None
        first = every[pick % len(every)]
        queue = queue_of(first)
        there = [receipt for receipt in every if queue_of(receipt) == queue]
        if count == 0:
            token = parse_receipt(first).token
            return queue, [receipt for receipt in there if parse_receipt(receipt).token == token]
        return queue, round_from(there, there.index(first), count)


def queue_of(receipt: str) -> str:
    return receipt.partition(":")[0]


def id_in(receipt: str) -> str:
    return receipt.partition("~")[0][-36:]


def token_in(receipt: str) -> str:
    return receipt.partition("~")[2]


def round_from(every: Sequence[str], first: int, count: int) -> list[str]:
    """Up to `count` of them, each once, from the one at `first`, counted round."""
    return [every[(first + at) % len(every)] for at in range(min(count, len(every)))]
