"""A driver of the commits never ends in silence: whatever is raised, the store fails, says why, and
answers each caller."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from spoolrack_store.committer import Committer
from spoolrack_store.engine.engine import Engine
from spoolrack_store.model.errors import OutcomeUnknown, StoreFailed
from spoolrack_store.model.operations import Receive, Send

from tests.store.front_rig import GIVE_UP, opened


class Fault(Exception):
    """A fault of ours."""


def raising(*_: Any, **__: Any) -> Any:
    raise Fault


PLACES: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    # As a race did: the driver's look for work met a container that changed under it.
    "the look for work": lambda patch: patch.setattr(Engine, "next_work", raising),
    "the look whether a receive finds nothing": lambda patch: patch.setattr(
        Engine, "has_nothing_for", raising
    ),
    "the beginning of a commit": lambda patch: patch.setattr(Committer, "_begin", raising),
    "the commit": lambda patch: patch.setattr(Engine, "apply", raising),
    "the end of a commit": lambda patch: patch.setattr(Engine, "finish", raising),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_driver_that_meets_a_fault_fails_the_store_and_answers_each_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, place: str
) -> None:
    caplog.set_level(logging.CRITICAL)
    with opened(tmp_path) as rig:
        told: list[object] = []
        rig.store.on_failure(told.append)
        waiting = rig.wait_for()
        PLACES[place](monkeypatch)
        asked: list[Future[Any]] = [
            rig.store.submit(Receive(queue="q", wait=None)),
            rig.store.submit(Send(queue="relaxed", bodies=[b"x"])),
        ]
        answers = [each.exception(GIVE_UP) for each in [waiting, *asked]]
        # The last, a send, may have come before the fault.
        assert all(isinstance(each, StoreFailed | OutcomeUnknown) for each in answers[:2])
        assert isinstance(rig.store.failure, StoreFailed)
        assert told == [rig.store.failure]
        assert "Fault" in str(rig.store.failure)
        later = rig.store.submit(Send(queue="q", bodies=[b"late"]))
        assert isinstance(later.exception(GIVE_UP), StoreFailed)
    assert "the store has a fault and stops" in caplog.text


def test_a_fault_that_is_met_while_a_failure_is_told_leaves_no_caller_without_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as rig:
        rig.store.on_failure(raising)
        told: list[object] = []
        rig.store.on_failure(told.append)
        monkeypatch.setattr(rig.store._engine.sharing, "poison", raising)
        rig.disk.fails = True
        sent = rig.store.submit(Send(queue="q", bodies=[b"x"]))
        assert isinstance(sent.exception(GIVE_UP), OutcomeUnknown)
        assert told == [rig.store.failure]
