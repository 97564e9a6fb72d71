"""The list of planted bugs does not rot: each still applies, is Python, and names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import CHECKOUT
from tests.mutants import plant
from tests.mutants.plant import Verdict, table
from tests.support.mutant import STORE, DoesNotApply, Mutant, edit
from tests.support.mutants import MUTANTS

EVERY = pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
LEAST = 24


def test_there_are_many_bugs_and_both_ancestors_are_among_them() -> None:
    assert len(MUTANTS) >= LEAST
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    ancestors = [mutant.ancestor for mutant in MUTANTS if mutant.ancestor is not None]
    assert sum("softlayer/mq" in ancestor for ancestor in ancestors) >= 6
    assert sum("vsqs" in ancestor for ancestor in ancestors) >= 4


@EVERY
def test_a_bug_applies_to_the_store_as_it_is_and_leaves_it_python(mutant: Mutant) -> None:
    mutated = mutant.mutated(CHECKOUT)

    for path, text in mutated.items():
        assert text != path.read_text()
        compile(text, str(path), "exec")


@EVERY
def test_the_tests_that_should_catch_a_bug_exist(mutant: Mutant) -> None:
    assert mutant.caught_by
    for selected in mutant.caught_by:
        path, _, name = selected.partition("::")
        assert (CHECKOUT / path).exists()
        assert not name or re.search(rf"^def {name}\(", (CHECKOUT / path).read_text(), re.MULTILINE)


@pytest.mark.parametrize(
    ("at", "old"),
    [
        ("store.py:Store.open", "nothing like this"),
        ("store.py:Store.open", "is"),
        ("store.py:Store.nowhere", "is"),
        ("store.py:Store", "is"),
    ],
)
def test_a_bug_whose_text_is_not_in_its_function_exactly_once_is_refused(at: str, old: str) -> None:
    mutant = Mutant(name="m", breaks="it", edits=edit(at, old, ""), caught_by=("tests",))

    with pytest.raises(DoesNotApply, match=at):
        mutant.mutated(CHECKOUT)


def test_a_bug_is_planted_in_a_copy_and_taken_out_again(tmp_path: Path) -> None:
    copy = plant.Copy(tmp_path / "copy")
    mutant = MUTANTS[0]
    (path,) = mutant.mutated(copy.folder)
    before = path.read_text()

    with copy.planted(mutant):
        assert path.read_text() != before

    assert path.read_text() == before
    assert path.is_relative_to(copy.folder / STORE)


def test_a_bug_that_nothing_catches_is_shown_as_a_survivor() -> None:
    caught = Verdict(name="one", caught_by="test_it", seconds=1.0)
    survivor = Verdict(name="two", seconds=2.0)

    assert table([caught, survivor]).splitlines()[2:] == [
        "| one | `test_it` | 1.0 |",
        "| two | **nothing** | 2.0 |",
    ]
