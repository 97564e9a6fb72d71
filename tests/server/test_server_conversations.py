"""Whole answers at each interface, the lines of the log, and the metrics are as recorded."""

from __future__ import annotations

import time

import pytest

from tests.server.conversation_player import FOLDER, played


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.txt")))
def test_a_conversation_goes_as_it_is_recorded(name: str) -> None:
    told = (FOLDER / f"{name}.txt").read_text()
    assert played(told).splitlines() == told.splitlines()


@pytest.mark.parametrize(("name", "hours"), [("cli", 10), ("root", 10), ("root", 8_760)])
def test_a_recording_is_of_no_time_of_the_day_or_of_the_year(
    name: str, hours: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recorded column that is as wide as an age of now fails some hours later."""
    seconds, nanos = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: seconds() + hours * 3_600)
    monkeypatch.setattr(time, "time_ns", lambda: nanos() + hours * 3_600 * 10**9)
    told = (FOLDER / f"{name}.txt").read_text()
    assert played(told).splitlines() == told.splitlines()
