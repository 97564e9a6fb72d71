"""A fault that is planted in the store is found, and shown by a history of a few operations."""

from __future__ import annotations

import logging

import pytest
from acts import parse_history
from promises import Kind
from random_history import random_history
from shrinking import command_for, failure, smallest
from spoolrack_store.files.syncer import Syncer
from telling import BrokenStory

STORIES = 60
"""One of so many must find what was planted."""


def first_failure() -> BrokenStory:
    for seed in range(STORIES):
        broken = failure(random_history(seed))
        if broken is not None:
            return broken
    raise AssertionError("no story has found what was planted")


@pytest.fixture
def forgetful_syncer(monkeypatch: pytest.MonkeyPatch) -> None:
    """It forgets the source of what leaves `delay/`, so that no delete of a lease is durable."""
    remember = Syncer.folder_changed

    def forget(self: Syncer, folder: str) -> None:
        if folder != "delay":
            remember(self, folder)

    monkeypatch.setattr(Syncer, "folder_changed", forget)


@pytest.mark.usefixtures("forgetful_syncer")
def test_a_planted_fault_is_shown_by_a_few_operations(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="spoolrack_store")
    broken = first_failure()
    least = smallest(broken)
    assert least.kind is broken.kind
    assert len(least.history.lines) <= 5, str(least.history)
    assert len(least.history.lines) < len(broken.history.lines)
    again = failure(parse_history(str(least.history)))
    assert again is not None
    assert again.kind is least.kind
    assert str(least.history) in command_for(least.history)


def test_a_failure_that_cannot_be_shown_again_is_told_as_it_came() -> None:
    history = parse_history("plot 1 any-subset syncfs strict 2; send q 1 5 0")
    broken = BrokenStory(AssertionError("once"), Kind.OTHER, history)
    assert smallest(broken) is broken
