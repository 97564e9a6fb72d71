"""The order of one commit: whose requests are done before whose, and by which part of the engine.

None of them was answered before another came in, so nobody was promised any other order. An error of
one request is its outcome, and stops none of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..files.syncer import Commit
from ..model.errors import StoreError
from ..model.operations import Request

Outcome = Any
"""A request's answer, or the `StoreError` that befell it."""


@dataclass(frozen=True, slots=True)
class Turn:
    """All requests of one kind."""

    kind: type[Request[Any]]
    run: Callable[[Any], Outcome]
    """Takes one request; or all of them, and answers with an outcome for each."""
    together: bool = False


@dataclass(slots=True)
class Work:
    """One commit under way."""

    outcomes: list[Outcome]
    """In the order of the requests; to be told only after `finish`."""
    commit: Commit | None
    """None if nothing of it needs to be durable before it is answered."""
    after_sync: list[Callable[[], None]]
    removed: list[str]


def run_in(turns: Sequence[Turn], requests: Sequence[Request[Any]]) -> list[Outcome]:
    """The outcomes of `requests`, in their order, once each kind has had its turn."""
    outcomes: list[Outcome] = [None] * len(requests)
    places: dict[type[Request[Any]], list[int]] = {}
    for at, request in enumerate(requests):
        places.setdefault(type(request), []).append(at)
    for turn in turns:
        of_kind = places.get(turn.kind, ())
        if turn.together and of_kind:
            answers = turn.run([requests[at] for at in of_kind])
            for at, outcome in zip(of_kind, answers, strict=True):
                outcomes[at] = outcome
            continue
        for at in of_kind:
            try:
                outcomes[at] = turn.run(requests[at])
            except StoreError as error:
                outcomes[at] = error
    return outcomes
