"""Random stories with crashes: what was acknowledged is so afterwards, and nothing else has come up.

A failing story prints the smallest history that fails in the same way, and the command that tells it
again: `SPOOLRACK_STORY` is a history, or the seed of one. `SPOOLRACK_STORIES=<number>` tells more
stories than the quick run does.
"""

from __future__ import annotations

import os

import pytest
from acts import parse_history
from random_history import random_history
from shrinking import command_for, smallest, tell_any
from telling import BrokenStory, tell
from trying import SomeDeaths

STORIES = int(os.environ.get("SPOOLRACK_STORIES", "80"))
ASKED = os.environ.get("SPOOLRACK_STORY", "")
CHUNK = 20
SHARE = 0.04
"""At so many of the places where a process may die, it does."""


def report(broken: BrokenStory) -> str:
    """What a failing test prints: the smallest history, line by line, and how to tell it again."""
    least = smallest(broken)
    lines = "\n  ".join(str(least.history).split("; "))
    return f"{least}\n  {lines}\nto tell it again:\n  {command_for(least.history)}"


def tell_seed(seed: int) -> int:
    """How many disks were judged."""
    try:
        return tell(random_history(seed), trying=SomeDeaths(seed, share=SHARE)).crashes
    except BrokenStory as broken:
        pytest.fail(f"the story of the seed {seed} breaks a promise: {report(broken)}")


def chosen() -> list[range]:
    if ASKED.isdigit():
        return [range(int(ASKED), int(ASKED) + 1)]
    if ASKED:
        return [range(0)]
    return [range(at, min(at + CHUNK, STORIES)) for at in range(0, STORIES, CHUNK)]


@pytest.mark.parametrize("seeds", chosen(), ids=lambda seeds: f"seeds-{seeds.start}")
def test_what_was_acknowledged_survives_every_crash_of_a_random_story(seeds: range) -> None:
    assert sum(tell_seed(seed) for seed in seeds) >= len(seeds)


KNOWN = {
    "messages whose sync failed, that memory showed whole to the next start, and sent again": (
        "plot 1 any-subset syncfs strict 2; fail EIO 4 1 kill; send-id d 3 5 0; send-id d 3 5 0; "
        "crash 2 all empty; send q 1 5 0"
    ),
    "a set that was deleted by a commit whose marker was lost": (
        "plot 1 any-subset syncfs strict 2; send q 1 5 0; reserve s q 1 9 60000; crash 2 all empty; "
        "commit s 1"
    ),
    "a set that was deleted by a start, for a marker that it had read and that was lost": (
        "plot 1 any-subset syncfs strict 2; send q 1 5 0; reserve s q 1 9 60000; "
        "crash 1 kill & 3 all empty; commit s 1"
    ),
    "a chunk whose sync failed, and that memory showed whole to the next start": (
        "plot 1 any-subset syncfs strict 2; send q 1 5 0; send q 1 5 0; stage t 2 r 3 0 + send q 1 5 "
        "0 + send-id d 3 0 0; fail ENOSPC 11 1 kill; reserve s d 3 3 30000 + reserve t q 0 10 60000; "
        "stage t 0 q 3 0; crash 2 all half; publish 0 1 t"
    ),
    "a set that is confirmed for a shorter time, and one lease of it can't be": (
        "plot 1 any-subset syncfs strict 2; send q 3 5 0; receive 0 q 1 0; change 0 held 0 1 0; "
        "send q 3 5 0; reserve s q 0 4 0; reserve s q 1 9 60000; fail EIO 1 1 kill; "
        "confirm s 0 5000; heal"
    ),
    "a set that is confirmed for a shorter time, on a disk that refuses all from then on": (
        "plot 1 any-subset syncfs strict 2; stage s 0 q 2 0; publish 0 1 s; stage s 0 q 2 0; "
        "stage s 1 d 1 10000; stage t 0 q 1 0; reserve s q 0 9 0; reserve s q 1 2 60000; "
        "confirm s 0 90000; fail ENOSPC 1 1048576 kill; confirm s 0 5000; heal"
    ),
    "a message that was put aside as unreadable, by a move that a power cut undoes": (
        "plot 1 any-subset syncfs strict 2; send d 1 5 0 + receive 0 d 1 0; send-id q 1 5 0; "
        "later 60000; fail EIO 7 1 kill; delete-id q 0 1; receive 0 d 1 0; crash 0 none whole; heal"
    ),
    "a dead letter that a redrive takes back while the older history of it goes": (
        "plot 1 any-subset syncfs strict 2; send q 1 5 0 + receive 0 q 1 0; "
        "change 0 held 0 1 0 + reserve t q 3 10 60000; later 60000; redrive d - 0; "
        "reserve t q 0 10 0; pass 45000; receive 0 q 1 5000; pass 29999; redrive d - 0"
    ),
    "a set that is confirmed and committed at once": (
        "plot 1 any-subset syncfs strict 2; put d 5; later 2000; reserve s d 2 1 0; "
        "commit s 2 + confirm s 2 90000"
    ),
    "a set whose manifest could not be synced, was seen, and is lost": (
        "plot 1 any-subset syncfs strict 2; send-id d 1 60 0; send q 1 5 0; send-id d 1 60 2; "
        "fail EIO 4 1 kill; reserve t d 1 3 30000 + receive 0 q 1 0; crash 0 all zeros"
    ),
    "ids in a purged queue, whose new folder was made at a start that died, and the old one lost": (
        "plot 1 any-subset fsync strict 2; send-id r 3 60 1; stage t 0 d 3 0; "
        "crash 2 kill & 8 none whole; delete-queue d + purge r"
    ),
    "a publication that was gone on with, and whose manifest was written and not synced": (
        "plot 1 any-subset fsync strict 2; stage t 2 q 1 0; stage t 1 d 1 0; "
        "crash 1/written kill & 27 all half; publish 0 1 t"
    ),
    "the ids of a set whose commit was finished at the start": (
        "plot 1 any-subset syncfs strict 2; send-id r 3 60 0; reserve t r 3 10 30000; crash 2 kill; "
        "commit t 3 + send-id r 3 5 2"
    ),
    "ids in a purged queue, whose new folder was there and the old one lost": (
        "plot 1 any-subset syncfs strict 2; send-id q 1 5 0; crash 5 none whole; purge q"
    ),
    "a publication to a queue that was made in the same commit, and is lost": (
        "plot 1 any-subset fsync strict 2; stage t 2 d 1 0 + send d 7 5 0; delete-queue d; reap; "
        "stage s 0 q 1 0; crash 5 only=14 whole; publish 0 2 st + create d"
    ),
    "a stage that could not be read at first was made a second time": (
        "plot 459 any-subset syncfs strict 2; delete 0 held 5 3 + stage s 2 q 3 0 + "
        "change 0 held 0 0 60000; send q 7 0 0 + receive 0 q 2 30000; receive 0 q 2 30000; "
        "crash 1 only= zeros; later 30000; fail EIO 2 1 some=721055679; later 30000; "
        "delete 0 held 1 0 + stage s 0 d 1 0; heal"
    ),
    "what is published late, and could not be listed after its move": (
        "plot 1 any-subset syncfs strict 2; stage s 0 q 2 0; publish 0 1 s; stage s 0 q 2 0; "
        "stage s 1 d 1 10000; stage t 0 q 1 0; fail EIO 9 1 kill; publish 0 1 st; heal"
    ),
    "settings that were written and not synced, and the older ones dropped for them": (
        "plot 1 any-subset fsync strict 2; crash 0/written kill; update q 60000; crash 0 all empty"
    ),
    "a deleted queue whose older settings could not be unlinked": (
        "plot 1 any-subset syncfs strict 2; fail EIO 2 1 kill; delete-queue q; heal"
    ),
    "a tombstone that could not be written, and a part of it not be unlinked": (
        "plot 1 any-subset syncfs strict 2; fail LEFT 0 1 kill; delete-queue q; heal; delete-queue q"
    ),
    "a file that was put there by hand, and whose failed sync was repeated": (
        "plot 1 any-subset syncfs strict 2; put q 5; tick; pass 2000; fail EIO 4 1 kill; tick; heal; "
        "later 3000; later 3000; crash 0 all zeros"
    ),
    "a dead letter whose history was written before a kill, and not synced": (
        "plot 1 any-subset fsync strict 2; send q 5 5 0; receive 0 q 1 0 + receive 0 q 3 0 + "
        "receive 0 q 1 0; later 30000; receive 0 q 5 0; pass 30000; crash 9/written kill; create d; "
        "crash 10 all empty; receive 0 q 1 0"
    ),
    "a dead letter that had left its queue, not durably, when the queue was deleted": (
        "plot 1 any-subset syncfs strict 2; send q 1 5 0; receive 0 q 1 0; change 0 held 0 1 0; "
        "receive 0 q 1 0; later 30000; crash 1 only=1 whole; delete-queue q"
    ),
    "a relaxed lease on a dead letter whose move to its queue was lost": (
        "plot 1 any-subset syncfs relaxed 2; send q 1 5 0; receive 0 q 1 0; later 30000; "
        "receive 0 q 1 0; change 0 held 0 1 0; crash 1 none whole; receive 0 d 1 0"
    ),
    "a lease whose message could not be read, and that was undone": (
        "plot 1 any-subset syncfs strict 2; send d 1 5 0; fail EMFILE 0 5 kill; "
        "receive 0 d 1 0; receive 0 d 1 0; crash 0 only=3 whole; heal"
    ),
    "a lease of a whole batch that could not be read, and was undone": (
        "plot 1 ordered syncfs strict 2; send d 5 5 0; fail EMFILE 7 1 kill; "
        "receive 0 d 3 0; receive 0 d 1 0; heal; crash 2 none whole; send q 1 5 0"
    ),
    "settings that were never whole, beside a file that was put there by hand": (
        "plot 1 any-subset syncfs strict 2; "
        "delete-queue r; put r 5; crash 1/written all empty; create r"
    ),
    "an extension of two that was refused after the first": (
        "plot 1 any-subset syncfs strict 2; send d 3 5 0; receive 0 d 3 0; fail EIO 1 1 kill; "
        "change 0 held 0 2 60000; heal; delete 0 held 0 1"
    ),
}
"""Histories that broke a promise once."""


if ASKED and not ASKED.isdigit():
    KNOWN = {"the one that was asked for": ASKED}


@pytest.mark.parametrize("history", KNOWN.values(), ids=KNOWN)
def test_what_broke_a_promise_once_breaks_none_any_more(history: str) -> None:
    told = parse_history(history)
    assert str(told) == history
    tell_any(told)
