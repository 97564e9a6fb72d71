"""Redrives of two engines on one disk: whoever dies, wherever power fails, no promise breaks."""

from __future__ import annotations

import pytest
from acts import History, Plot, parse_lines
from every_history import SETTINGS
from shared_every import SharedWorkload, try_deaths
from telling import BrokenStory
from test_crashes import report

DEAD_LETTERS = (
    "a: send q 3 5 0; a: receive 0 q 9 0; a: later 32000; b: receive 0 q 9 0; b: later 32000; "
    "a: receive 0 q 9 0; a: tick; b: tick"
)
UNDER_WAY = "a: redrive d - 10; pass 100; a: apply tick"
THEN = "a: sync; a: finish; b: tick; a: tick"
STORIES = {
    "and-the-other-receives": "a: redrive d - 0; b: receive 1 q 9 0; b: tick; a: tick",
    "while-the-other-purges": "a: apply redrive d - 0; b: purge d; a: sync; a: finish; b: tick",
    "that-the-other-cancels": f"{UNDER_WAY}; b: end-redrive d; {THEN}",
    "while-the-other-receives-dead-letters": f"{UNDER_WAY}; b: receive 1 d 9 0; {THEN}",
    "while-the-other-deletes-the-queue": f"{UNDER_WAY}; b: delete-queue d; {THEN}",
    "to-a-queue-that-the-other-deletes": "a: redrive d r 10; pass 100; a: apply tick; "
    f"b: delete-queue r; {THEN}",
    "and-the-other-deletes-them": "a: redrive d r 10; pass 100; a: apply tick; a: sync; a: finish; "
    "b: receive 1 r 9 0; b: delete 1 held 0 0; a: tick; b: tick",
    "while-the-other-deletes-by-id": "a: redrive d - 10; pass 100; a: apply tick; a: sync; "
    "b: delete-id d 0 9; a: finish; b: tick; pass 100; a: tick",
    "and-they-die-again": "b: redrive d - 10; pass 100; b: tick; a: receive 1 q 9 0; pass 100; "
    "b: apply tick; a: later 32000; a: receive 1 q 1 0; a: later 32000; b: sync; b: finish; a: tick",
}
AFTERWARDS = "a: tick; b: tick"


@pytest.mark.parametrize("name", STORIES)
def test_a_redrive_breaks_no_promise_wherever_one_of_two_dies(name: str) -> None:
    at = list(STORIES).index(name)
    first, during, after = map(parse_lines, (DEAD_LETTERS, STORIES[name], AFTERWARDS))
    for turn, who in enumerate("ab"):
        can_sync_all, relaxed = SETTINGS[(at + turn) % len(SETTINGS)]
        plot = Plot(can_sync_all=can_sync_all, relaxed=relaxed, engines=2)
        history = History(plot, (*first, *during, *after))
        work = SharedWorkload(history, len(first), len(first) + len(during), who)
        try:
            assert try_deaths(work).crashes > 20
        except BrokenStory as broken:
            pytest.fail(report(broken))
