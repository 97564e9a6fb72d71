"""A message in two places: which of them is the true one. Pure.

The rules are those of recovery: the later state wins, and within a state what has been received more.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from ..model.transitions import LATER, State
from .findings import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a message or a batch was found."""

    path: str
    queue: str
    state: State
    receives: int
    due: int
    """Unix milliseconds; 0 if it has none."""
    is_inside: bool
    """It lies in a batch folder."""


def problems_of(
    places: Sequence[Place], letters: Mapping[str, str], between: Container[str] = ()
) -> list[Problem]:
    """What is wrong with these places of one id: all of them but the true one.

    `letters` names the dead-letter queue of each queue that has one; out of the queues `between`,
    redrives were moving messages.
    """
    if len(places) < 2:
        return []
    queues = {place.queue for place in places}

    def is_buried_elsewhere(place: Place) -> bool:
        is_elsewhere = letters.get(place.queue) in queues - {place.queue}
        return is_elsewhere and not any(map(is_moved_on, places))

    def is_moved_on(place: Place) -> bool:
        """Whether it was moved out of a dead-letter queue, and isn't on its way there just now."""
        if place.queue not in between or place.state is not State.READY:
            return False
        return any(
            other.queue != place.queue and not (other.state is State.READY and other.receives)
            for other in places
        )

    first, *others = sorted(
        places,
        key=lambda place: (
            is_moved_on(place),
            is_buried_elsewhere(place),
            LATER.index(place.state),
            place.is_inside,
            -place.receives,
            -place.due,
            place.path,
        ),
    )
    return [
        Problem(path=place.path, why=f"the same message is, in a later state, at {first.path}")
        for place in others
    ]
