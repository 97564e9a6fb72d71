"""The picture in docs/explanation/lifecycle.md is the table that the store obeys, and it is sound."""

from __future__ import annotations

import re

from spoolrack_store.model.transitions import LEGAL, State

from tests import CHECKOUT

PAGE = CHECKOUT / "docs" / "explanation" / "lifecycle.md"
ROW = re.compile(r"^\| (?P<move>[a-z_]+) \| (?P<sources>[a-z, ]+) \| (?P<target>[a-z]+) \|", re.M)


def test_the_page_lists_exactly_the_legal_moves() -> None:
    section = PAGE.read_text().partition("## The life of a message")[2].partition("\n## ")[0]
    listed = {
        (row["move"], State(source), State(row["target"]))
        for row in ROW.finditer(section)
        if row["move"] != "move"
        for source in row["sources"].split(", ")
    }
    assert listed == LEGAL


def test_the_drawing_names_every_state_and_every_move_of_a_healthy_life() -> None:
    drawing = PAGE.read_text().partition("## The life of a message")[2].split("```")[1]
    for state in State:
        if state is not State.QUARANTINED:
            assert state.name in drawing
    for move in ("publish", "hide", "due", "lease", "extend", "requeue", "delete"):
        assert move in drawing


def test_a_deleted_message_never_comes_back() -> None:
    reached = {State.REMOVED}
    for _ in State:
        reached |= {target for _, source, target in LEGAL if source in reached}
    assert reached == {State.REMOVED}


def test_a_move_from_one_state_has_one_outcome() -> None:
    assert len({(move, source) for move, source, _ in LEGAL}) == len(LEGAL)
