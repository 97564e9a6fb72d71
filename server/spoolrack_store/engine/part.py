"""The interface of the engine's parts, the turns of their requests, and the effort of their work.

A part has requests of its own, and work that waits for a sync, for a time, or for other processes. All
calls are made under the lock, in one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from logging import Logger
from typing import Any, Final, ParamSpec, TypeVar

from ..files.disk import explained
from ..model.clock import Millis
from ..model.errors import StoreError
from ..model.operations import UNFINISHED, Outcome, Receive, messages_named

DUE_NOW: Final = Millis(0)
"""A monotonic time before all others: work that is due then waits for no time."""


class Part:
    """A part of the engine. The default has nothing to do."""

    folders: Sequence[str] = ()
    """Where its own files are, that hold no messages: it hears of each that another process changes."""

    pending: Sequence[Collection[object]] = ()
    """The containers of what waits for a sync or a time, always the same objects. While all are empty,
    the part is asked nothing."""

    def recover(self) -> None:
        """Read its own files: at a start, when all names are known, and again when other processes
        changed more than `CHANGES` holds."""

    def path_changed(self, path: str) -> None:
        """Read a file again that another process has made, renamed or unlinked, or was changing when it
        died."""

    @property
    def has_durable(self) -> bool:
        """Whether an answered message is not yet in the place that the answer says."""
        return False

    def advance(self) -> None:
        """Continue work that waited for a sync or a time: at the beginning of a commit, if it is
        due."""

    def tick(self) -> None:
        """Do work that is due: now and then, at the beginning of a commit."""

    def next_due(self) -> Millis | None:
        """Return the monotonic time at which a commit continues its work; `DUE_NOW` if the work waits
        for a commit only, or for a sync; None: there is none."""
        return DUE_NOW if any(self.pending) else None


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


@contextmanager
def postponing(log: Logger, what: str, *arguments: object) -> Iterator[None]:
    """Log a refusal of the disk, and go on: later work tries again what has to wait."""
    try:
        yield
    except StoreError as error:
        log.warning(f"{what} has to wait: %s", *arguments, error)


PORTION: Final = 1_000
"""Messages of requests of one kind that a commit moves whatever that costs."""
_FEW: Final = 10
FILES_OF_OTHERS: Final = 4
"""A request whose size doesn't tell how many messages it moves counts as so many: a tick of a schedule
stages a file, writes a manifest and moves both."""


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


RETRY: Final = Millis(1_000)
"""Time after which work is tried again that the disk refused, or that failed for another reason."""


FILES: Final = 150
"""The effort of a commit, in files. A part that works alone moves half as many: a lease that ends takes
0.05 ms of processor time, a message past the retention 0.07."""
SYNC_EFFORT: Final = 14
"""Of a file or folder that is synced under the lock, in files that are only moved."""
BYTES_LIKE_A_FILE: Final = 64 * 1024
"""To read so many bytes takes as long as to move a file."""


class Effort:
    """The files that the background work of a commit may touch: requests wait for a bounded time.

    All parts draw on one effort, in the order of their turns. Each gets half of the rest: none takes it
    all, and the sum is bounded. Later commits do more. Not thread-safe.
    """

    def __init__(self) -> None:
        self.files = FILES
        self.left = FILES
        """A commit begins with all `files`."""

    @property
    def is_used(self) -> bool:
        """Whether background work has touched a file."""
        return self.left < self.files

    def share(self) -> int:
        """Return how many files a part may touch: one at least, so that no work stands still."""
        return max(1, self.left // 2)

    def spend(self, files: int = 1) -> None:
        """Count files that background work has touched."""
        self.left = max(0, self.left - files)
