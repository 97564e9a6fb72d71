"""The picture in docs/explanation/lifecycle.md is the table that the store obeys, and it is sound."""

from __future__ import annotations

import re

from spoolrack_store.model.transitions import Move, State

from tests import CHECKOUT

PAGE = CHECKOUT / "docs" / "explanation" / "lifecycle.md"
ROW = re.compile(r"^\| (?P<move>[a-z_]+) \| (?P<sources>[a-z, ]+) \| (?P<target>[a-z]+) \|", re.M)


def test_the_page_lists_exactly_the_legal_moves() -> None:
    section = PAGE.read_text().partition("## The life of a message")[2].partition("\n## ")[0]
    listed = {
        row["move"]: ([State(source) for source in row["sources"].split(", ")], State(row["target"]))
        for row in ROW.finditer(section)
        if row["move"] != "move"
    }
    assert listed == {move.name.lower(): ([*move.sources], move.target) for move in Move}


def test_the_drawing_names_every_state_and_every_move_of_a_healthy_life() -> None:
    drawing = PAGE.read_text().partition("## The life of a message")[2].split("```")[1]
    for state in State:
        if state is not State.QUARANTINED:
            assert state.name in drawing
    for move in ("enqueue", "hide", "lease", "extend", "requeue", "postpone", "delete"):
        assert move in drawing


def test_a_deleted_message_never_comes_back() -> None:
    reached = {State.REMOVED}
    for _ in State:
        reached |= {move.target for move in Move if reached & {*move.sources}}
    assert reached == {State.REMOVED}
