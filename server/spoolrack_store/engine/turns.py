"""The turns of a commit's requests: each kind has one, and each request its outcome."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, ParamSpec, TypeVar

from ..files.disk import explained
from ..model.errors import StoreError
from ..model.operations import UNFINISHED, Outcome, Receive, messages_named
from .effort import Effort

PORTION: Final = 1_000
"""Messages of requests of one kind that a commit moves whatever that costs."""
_FEW: Final = 10
FILES_OF_OTHERS: Final = 4
"""A request whose size doesn't tell how many messages it moves counts as so many: a tick of a schedule
stages a file, writes a manifest and moves both."""


@dataclass(frozen=True, slots=True)
class Turn:
    """All requests of one kind in a commit."""

    kind: type[Any]
    run: Callable[[Any], Outcome]
    """Takes one request; or all of them, and returns an outcome for each."""
    together: bool = False


def run_in(turns: Mapping[type[Any], Turn], requests: Sequence[Any], effort: Effort) -> list[Outcome]:
    """Return the outcomes of `requests`, in their order, once each kind has had its turn, in the order
    of `turns`.

    None of them was answered before another came in, so no other order was promised. The error of a
    request is its outcome, and stops none of the others.

    The moves of a commit count as `effort`. Requests for many messages, beyond the first `PORTION` of
    their kind, begin only while there is some of it; else they are unfinished, or, receives that wait,
    find nothing. Those for few messages begin all the same, but for one behind another of its queue.
    """
    outcomes: list[Outcome] = [None] * len(requests)
    places: dict[type[Any], list[int]] = {}
    for place, request in enumerate(requests):
        places.setdefault(type(request), []).append(place)
    for kind in turns if len(places) > 1 else places:
        left = places.get(kind)
        if left is None:
            continue
        turn, least = turns[kind], effort.left // 2
        if len(left) == 1:
            _run(turn, requests, left, outcomes)
            continue
        while left:
            portion, left = _portion(requests, left)
            _run(turn, requests, portion, outcomes)
            if left and effort.left <= least:
                few, left = _few(requests, left)
                _run(turn, requests, few, outcomes)
                for place in left:
                    request = requests[place]
                    waits = isinstance(request, Receive) and request.wait != 0
                    outcomes[place] = [] if waits else UNFINISHED
                break
    return outcomes


def _run(turn: Turn, requests: Sequence[Any], places: Sequence[int], outcomes: list[Outcome]) -> None:
    """Do the requests of one kind at `places`."""
    if turn.together:
        are_all = len(places) == len(requests)
        answers = turn.run(requests if are_all else [requests[place] for place in places])
        for place, outcome in zip(places, answers, strict=True):
            outcomes[place] = outcome
        return
    for place in places:
        outcomes[place] = outcome_of(turn.run, requests[place])


Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def outcome_of(
    call: Callable[Arguments, Result], *arguments: Arguments.args, **named: Arguments.kwargs
) -> Result | StoreError:
    """Return what a call returns, or its error; one of the system is told as the store's."""
    try:
        return call(*arguments, **named)
    except StoreError as error:
        return error
    except OSError as error:
        return explained(error)


def _portion(requests: Sequence[Any], places: list[int]) -> tuple[list[int], list[int]]:
    """Divide the places of requests of one kind: the first ones, for up to `PORTION` messages, or as
    many files, and the rest."""
    messages = 0
    for at, place in enumerate(places):
        named = messages_named(requests[place])
        messages += FILES_OF_OTHERS if named is None else named
        if messages > PORTION and at:
            return places[:at], places[at:]
    return places, []


def _few(requests: Sequence[Any], places: list[int]) -> tuple[list[int], list[int]]:
    """Divide the places of requests of one kind: those for few messages that may overtake the others,
    and the rest."""
    few: list[int] = []
    queues: set[str] = set()
    for place in places:
        request = requests[place]
        named = messages_named(request)
        if named is None:
            continue  # Of a kind of which none overtakes another.
        if request.queue in queues or named > _FEW:
            queues.add(request.queue)
        else:
            few.append(place)
    few, _ = _portion(requests, few)
    begun = set(few)
    return few, [place for place in places if place not in begun]
