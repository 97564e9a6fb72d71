"""Filter list pages by permission without leaving them short."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol, TypeVar

Item = TypeVar("Item")
Cursor = TypeVar("Cursor")
Covariant = TypeVar("Covariant", covariant=True)
Contravariant = TypeVar("Contravariant", contravariant=True)

LOOK: Final = 1_000
"""Items that are looked at together, where some may not be shown."""


class Listing(Protocol[Covariant, Contravariant]):
    """A list of items, in order."""

    def __call__(self, *, after: Contravariant, limit: int) -> Sequence[Covariant]: ...


def shown(
    listing: Listing[Item, Cursor],
    place: Callable[[Item], Cursor],
    queues: Callable[[Item], Iterable[str]],
    allowed: Callable[[str], bool] | None,
    *,
    after: Cursor,
    limit: int,
) -> Sequence[Item]:
    """Return up to `limit` items above the place `after`: those with all their `queues` allowed.

    `allowed` of None allows all. Takes as long as it takes to list all that isn't shown.
    """
    if allowed is None:
        return listing(after=after, limit=limit)
    found: list[Item] = []
    while len(found) < limit:
        page = listing(after=after, limit=LOOK)
        found += [item for item in page if all(map(allowed, queues(item)))]
        if len(page) < LOOK:
            break
        after = place(page[-1])
    return found[:limit]
