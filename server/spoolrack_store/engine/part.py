"""The interface of the engine's parts: when each of them is called.

A part has requests of its own, and work that waits for a sync, for a time, or for other processes. All
calls are made under the lock, in one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from ..model.clock import Millis
from ..model.errors import StoreError

Outcome = Any
"""A request's answer, or the `StoreError` that befell it."""


class Part:
    """A part of the engine. By default it has nothing to do."""

    folders: Sequence[str] = ()
    """Where its own files are, that hold no messages: it hears of each that another process changes."""

    pending: Sequence[Collection[object]] = ()
    """The containers of what waits for a sync or a time, always the same objects. While all are empty,
    the part is asked nothing."""

    def recover(self) -> None:
        """Take in its own files: at the start, when all names are known, and again when other processes
        changed more than `CHANGES` holds."""

    def heard(self, path: str) -> None:
        """Another process has made, renamed or unlinked this file, or died while it did: look what is
        there."""

    @property
    def has_work(self) -> bool:
        """Whether `go_on` has something to do, of which nothing waits for a time."""
        return any(self.pending)

    @property
    def waits_for_sync(self) -> bool:
        """Whether it goes on once what it has changed is durable, and no answer may wait for that."""
        return False

    @property
    def has_durable(self) -> bool:
        """Whether an answer was given whose messages are not yet where it says they are."""
        return False

    def go_on(self) -> None:
        """Go on with what waited for a sync: at the beginning of a commit, if it `has_work`."""

    def tick(self) -> None:
        """Do what time has brought about: now and then, at the beginning of a commit."""

    def next_due(self) -> Millis | None:
        """Return the monotonic time at which a tick has something to do, if that is known."""
        return None


@dataclass(frozen=True, slots=True)
class Turn:
    """All requests of one kind in a commit."""

    kind: type[Any]
    run: Callable[[Any], Outcome]
    """Takes one request; or all of them, and returns an outcome for each."""
    together: bool = False


def run_in(turns: Sequence[Turn], requests: Sequence[Any]) -> list[Outcome]:
    """Return the outcomes of `requests`, in their order, once each kind has had its turn.

    None of them was answered before another came in, so no other order was promised. The error of a
    request is its outcome, and stops none of the others.
    """
    outcomes: list[Outcome] = [None] * len(requests)
    places: dict[type[Any], list[int]] = {}
    for place, request in enumerate(requests):
        places.setdefault(type(request), []).append(place)
    for turn in turns:
        of_kind = places.get(turn.kind)
        if of_kind is None:
            continue
        if turn.together:
            answers = turn.run([requests[place] for place in of_kind])
            for place, outcome in zip(of_kind, answers, strict=True):
                outcomes[place] = outcome
            continue
        for place in of_kind:
            try:
                outcomes[place] = turn.run(requests[place])
            except StoreError as error:
                outcomes[place] = error
    return outcomes
