"""Whole answers at each interface, the lines of the log, and the metrics are as recorded."""

from __future__ import annotations

import pytest

from tests.server.conversation_player import FOLDER, played


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.txt")))
def test_a_conversation_goes_as_it_is_recorded(name: str) -> None:
    told = (FOLDER / f"{name}.txt").read_text()
    assert played(told).splitlines() == told.splitlines()
