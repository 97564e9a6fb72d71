"""The list of planted bugs does not rot: each still applies, is Python, and names tests that exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import CHECKOUT
from tests.proof.mutants import MUTANTS, plant
from tests.proof.mutants.mutant import STORE, DoesNotApply, Edit, Mutant
from tests.proof.mutants.plant import Verdict, table


def test_a_bug_has_a_name_of_its_own() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def test_each_bug_applies_to_the_code_as_it_is_and_leaves_it_python() -> None:
    for mutant in MUTANTS:
        for path, text in mutant.mutated(CHECKOUT).items():
            assert text != path.read_text(), mutant.name
            compile(text, str(path), "exec")


def test_the_tests_that_should_catch_a_bug_exist() -> None:
    for mutant in MUTANTS:
        assert mutant.caught_by, mutant.name
        for selected in mutant.caught_by:
            path, _, name = selected.partition("::")
            assert (CHECKOUT / path).exists(), mutant.name
            assert not name or f"\ndef {name}(" in (CHECKOUT / path).read_text(), mutant.name


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
    mutant = Mutant(name="m", breaks="it", edits=(Edit(at=at, old=old, new=""),), caught_by=("tests",))

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
