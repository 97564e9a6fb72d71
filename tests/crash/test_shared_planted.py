"""Faults that are planted in what processes owe each other are found, and shown in a few lines."""

from __future__ import annotations

import logging

import pytest
from acts import parse_history
from shared_random import random_shared_history
from shrinking import command_for, failure, smallest
from spoolrack_store.engine import beliefs, succession
from spoolrack_store.engine.heir import Heir
from spoolrack_store.engine.root import Root
from spoolrack_store.engine.sender import Sender
from spoolrack_store.files.disk import Disk

STORIES = 300
"""One of so many must find what was planted."""
SHOWN_IN = 8
"""So many lines are enough to show it."""


def nothing(*_: object, **__: object) -> None:
    """In the place of what a fault leaves out."""


def never(disk: Disk, owner: str) -> bool:
    return False


PLANTED: dict[str, tuple[object, str, object]] = {
    "an heir that lets a dead one's messages lie": (Heir, "take_over", nothing),
    "locks of owners that nobody looks at": (succession, "is_living", never),
    "leases of others that end when one's own clock says so": (beliefs, "MARGIN", 0),
    "a send that doesn't look whether its queue was deleted": (Sender, "_require_queue", nothing),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_fault_between_processes_is_found_and_shown_by_a_few_operations(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, logger="spoolrack_store")
    owner, attribute, planted = PLANTED[name]
    monkeypatch.setattr(owner, attribute, planted)
    found = (failure(random_shared_history(seed)) for seed in range(STORIES))
    broken = next(each for each in found if each is not None)

    least = smallest(broken)

    assert least.kind is broken.kind
    assert len(least.history.lines) <= SHOWN_IN, str(least.history)
    again = failure(parse_history(str(least.history)))
    assert again is not None
    assert again.kind is least.kind
    assert str(least.history) in command_for(least.history)


TAKE_OVER = (
    "plot 1 any-subset syncfs strict 2 of 2; "
    "b: apply send q 1 5 0; die b 0 kill; b: sync; die a 3 none whole; a: tick"
)


def test_a_take_over_that_makes_nothing_durable_is_found(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, logger="spoolrack_store")
    assert failure(parse_history(TAKE_OVER)) is None
    monkeypatch.setattr(Root, "everything_changed", nothing)

    assert failure(parse_history(TAKE_OVER)) is not None
