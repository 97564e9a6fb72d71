"""A start that can't list or read something goes on without it; what it answers then is kept.

Each call of the start fails in turn, it goes on, something is asked, and the process is killed. The
next start sees everything, and is held against all that was answered.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest
from acts import Place, parse_act, parse_history
from cuts import KILL
from faulty_disk import Killed
from spoolrack_store.files.syncer import SyncFailed
from spoolrack_store.model.errors import StoreError
from step_disk import Fault
from story import Story

BEFORE = {
    "a batch is leased": "send d 3 5 0; receive 0 d 3 0",
    "a batch is ready": "send d 3 5 0; send d 1 5 0; send d 2 5 0",
    "one of a batch is leased": "send d 3 5 0; receive 0 d 1 0",
    "a batch is delayed": "send d 3 5 9000; send d 1 5 9000",
    "a batch is released": "send d 3 5 0; receive 0 d 3 0; change 0 held 0 3 0",
    "a set is reserved": "send d 3 5 0; send d 1 5 0; reserve s d 0 9 60000",
    "a set of parts is reserved": "send d 3 5 0; send d 3 5 0; reserve s d 0 2 60000; receive 0 d 3 0",
    "ids are taken": "send-id q 3 5 0; receive 0 q 3 0; delete 0 held 0 1",
    "stages are published": "stage s 0 d 2 0; stage t 1 d 3 0; publish 0 1 st; receive 0 d 2 0",
}
ASKED = {
    "deletes by receipt": "delete 0 held 0 1000; delete 0 old 0 1000",
    "deletes by id": "delete-id d 0 9; delete-id q 0 9",
    "a purge": "purge d",
    "the queue's end": "delete-queue d; create d",
    "a commit": "commit s 0",
    "a release": "release s 0",
    "changes": "change 0 held 0 2 60000; change 0 held 0 1 0",
    "receives and deletes": "later 60000; receive 1 d 9 0; delete 1 held 0 1000; receive 1 q 9 0",
}
FAULTS = (Fault.EIO, Fault.EMFILE)


def start_blind(story: Story, fault: Fault, skip: int) -> bool | None:
    """Start while the call after so many fails; None if there isn't any, False if it doesn't start."""
    died = story.now
    try:
        story.start(story.power, die_at=Place(skip, fault, KILL))
    except Killed:
        pass
    except (SyncFailed, StoreError, OSError):
        return False
    else:
        return None
    story.disk.heal()
    story.is_blind = True
    # It knows only by the wall clock how long a lease lasts.
    off = story.now.monotonic - died.monotonic
    story.fates.alive = {
        id: replace(fate, ends=fate.ends + off) if fate.ends else fate
        for id, fate in story.fates.alive.items()
    }
    return True


def tell(before: str, asked: str, fault: Fault, skip: int) -> bool | None:
    """The whole story; whether the start went on, as `start_blind` says. Raises `Broken`."""
    story = Story(parse_history("plot 1 any-subset syncfs strict 5").plot)
    for text in before.split("; "):
        assert story.play((parse_act(text),)), text
    went_on = start_blind(story, fault, skip)
    if went_on:
        for text in asked.split("; "):
            story.play((parse_act(text),))
    story.start(story.power)
    story.finale()
    return went_on


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE)
def test_what_a_start_that_sees_too_little_answers_is_kept(before: str, asked: str) -> None:
    went_on = 0
    for fault in FAULTS:
        for skip in count():
            told = tell(before, asked, fault, skip)
            if told is None:
                break
            went_on += told
    assert went_on
