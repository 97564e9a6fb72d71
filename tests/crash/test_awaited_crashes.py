"""What is leased in the commit that sends it: death at every step of that commit, and of the next one.

The oracle knows nothing of how it is done: a receive that was answered holds its message under its
receipt after any crash, counted; what was not answered is there, leased or not.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from acts import parse_history
from every_history import AWAITED, SETTINGS, Workload, awaited
from shrinking import failure
from spoolrack_store.files.folders import Folders
from spoolrack_store.model.transitions import Move
from test_every_crash import try_all
from trying import try_deaths, try_errors

DEEP = 16


@contextmanager
def counting(move: Move) -> Iterator[list[str]]:
    """What is moved so, meanwhile."""
    moved: list[str] = []
    known = Folders.move

    def count(self: Folders, each: Move, *args: Any, **kwargs: Any) -> bool:
        if each is move:
            moved.append(args[1])
        return known(self, each, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Folders, "move", count)
        yield moved


def test_no_receive_of_what_is_just_sent_breaks_a_promise_wherever_the_process_dies() -> None:
    with counting(Move.ASSIGN) as assigned:
        told = try_all(awaited(), partial(try_deaths, deep=DEEP))

    assert told.crashes > 2_000
    assert len(assigned) > 150


def test_no_failing_call_breaks_a_promise_about_what_is_received_as_it_is_sent() -> None:
    works = [work for work in awaited() if len(work.tried) > 1]
    assert len(works) == 2 * len(AWAITED) * len(SETTINGS)

    told = try_all(works, try_errors)

    assert told.failures > 500


def test_no_failing_call_breaks_a_promise_after_it() -> None:
    told = try_all(after(("delete 0 held 0 0", "change 0 held 0 1 0", "later 30000")), try_errors)

    assert told.failures > 100


def after(operations: tuple[str, ...]) -> Iterator[Workload]:
    for work in awaited():
        (act, *others) = work.tried
        if not others and str(act) in operations and not work.history.plot.relaxed:
            yield work


@pytest.mark.parametrize(
    "story",
    [
        # The move to delay/ fails: nobody is told, and the receive that is counted is undone.
        "send q 1 5 0 + receive 0 q 1 0; later 30000",
        "send q 3 5 0 + receive 0 q 9 0; receive 1 q 9 0; delete 1 held 0 0",
        "send q 3 5 0 + receive 0 q 9 0; purge q; send q 1 5 0",
        "send q 3 5 0 + receive 0 q 9 0; delete-queue q; create q; send q 1 5 0 + receive 0 q 1 0",
    ],
)
def test_what_goes_on_after_a_failure_breaks_no_promise_when_the_process_dies(story: str) -> None:
    first, *rest = story.split("; ")
    for skip in range(6):
        for fault in ("ENOSPC", "EIO"):
            lines = [f"fail {fault} {skip} 1 kill", first, "heal", *rest]
            for dies_in in range(len(lines)):
                history = [*lines[:dies_in], "crash 3 none whole", *lines[dies_in:]]
                text = "; ".join(("plot 1 any-subset syncfs strict 2", *history))
                assert failure(parse_history(text)) is None, text
