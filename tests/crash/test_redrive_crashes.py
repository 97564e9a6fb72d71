"""Redrives on a disk that may lose power at every step: each message is in one queue, with its history.

What was begun goes on, what was cancelled moves nothing more, and what was deleted never comes back.
"""

from __future__ import annotations

from itertools import cycle

import pytest
from acts import History, Plot, parse_lines
from cuts import Model
from every_history import ALPHABET, SETTINGS
from telling import BrokenStory, Told, tell
from test_crashes import report
from trying import EveryDeath

DEEP = 64
"""At one in so many places, the next start dies everywhere as well."""
DEAD_LETTERS = (
    "send q 3 5 0; send-id q 1 5 0; receive 0 q 9 0; later 30000; receive 0 q 9 0; later 30000; "
    "receive 0 q 9 0"
)
STORIES = {
    "and-they-die-again": "redrive d - 0; tick; receive 1 q 9 0; later 30000; receive 1 q 9 0; "
    "later 30000; receive 1 q 9 0; later 1000; redrive d - 0; tick; delete-id q 0 1",
    "to-another-queue": "redrive d r 0; tick; receive 1 r 9 0; delete 1 held 0 0",
    "slowly": "redrive d - 1; later 1000; later 1000; later 1000; later 1000; later 1000",
    "cancelled": "redrive d - 1; later 1000; end-redrive d; later 1000; redrive d r 0; tick",
    "purged": "redrive d - 10; later 100; purge d; later 100; redrive d - 0",
    "deleted": "redrive d - 10; later 100; delete-queue d; tick; create d; tick",
    "to-a-queue-that-goes": "redrive d r 10; later 100; delete-queue r; later 100; create r; "
    "redrive d r 0",
    "to-a-queue-that-is-purged": "redrive d - 10; later 100; purge q; later 100; later 100",
    "and-received-meanwhile": "redrive d r 10; pass 100; receive 0 d 1 0; later 100; "
    "receive 1 r 9 0; tick",
    "all-at-once": "redrive d r 0 + send r 2 5 0 + receive 0 r 1 0; "
    "end-redrive d + redrive d q 0; tick",
    "what-was-sent-there": "send d 4 5 0; redrive d r 0; tick; reap",
}
PLOTS = tuple(
    Plot(can_sync_all=can_sync_all, relaxed=relaxed, model=model)
    for can_sync_all, relaxed in SETTINGS
    for model in (Model.ANY_SUBSET, Model.ORDERED)
)
UNDER_WAY = f"{DEAD_LETTERS}; redrive d - 10; later 100; pass 100"
"""One message was moved back, and the next commit moves another."""
BESIDE = (
    *ALPHABET,
    *(each for text in ALPHABET if (each := f"{text} ".replace(" q ", " d ").strip()) != text),
)


def told(plot: Plot, before: str, tried: str) -> Told:
    """Tell a story, and let its process die at every place of the lines that are `tried`."""
    first = parse_lines(before)
    history = History(plot, (*first, *parse_lines(tried)))
    try:
        return tell(history, trying=EveryDeath(DEEP), tried_from=len(first))
    except BrokenStory as broken:
        pytest.fail(report(broken))


@pytest.mark.parametrize("name", STORIES)
def test_a_redrive_breaks_no_promise_wherever_the_process_dies(name: str) -> None:
    at = list(STORIES).index(name)
    for plot in (PLOTS[at % 4], PLOTS[4 + at % 4]) if name != "slowly" else PLOTS[:4]:
        assert told(plot, DEAD_LETTERS, STORIES[name]).crashes > 50


@pytest.mark.parametrize("part", range(3))
def test_no_operation_beside_a_redrive_breaks_a_promise_wherever_the_process_dies(part: int) -> None:
    sum = Told()
    for operation, plot in zip(BESIDE[part::3], cycle(PLOTS), strict=False):
        sum.add(told(plot, UNDER_WAY, f"{operation}; later 100"))
    assert sum.crashes > 1_000
