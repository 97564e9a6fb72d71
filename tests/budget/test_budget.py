"""What an operation asks of the system is known to the last call, written down, and grows with nothing.

A real store on a real folder runs under strace. That the count sees a call too many, stores with a
planted bug show.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from cost_mutants import COST_MUTANTS
from counting import PARTS, counted, difference, measured_rows, trace
from mutant import CHECKOUT, Mutant
from spoolrack_store.files.calls import find_syncfs
from traced_server import why_not
from waiting import LEAST, make_root

from benchmarks import budget
from benchmarks.budget import BUDGET

PAGE = CHECKOUT / "docs" / "performance.md"
traced = pytest.mark.skipif(why_not() is not None, reason=why_not() or "")
syncs_all = pytest.mark.skipif(
    find_syncfs() is None,
    reason="needs Linux 5.8: the budget is that of a system whose syncfs tells errors",
)


@traced
@syncs_all
def test_each_operation_asks_of_the_system_what_the_budget_says(tmp_path: Path) -> None:
    rows = measured_rows(counted(trace(tmp_path, PARTS)))

    lines = difference(rows, BUDGET)

    assert not lines, (
        "\n".join(lines)
        + "\n\nIf that is meant: `make budget`, or put this into benchmarks/budget.py\n\n"
        + budget.source_text(rows)
    )
    assert [row.operation for row in rows] == [row.operation for row in BUDGET]


def check_depths(folder: Path, depths: tuple[int, ...]) -> None:
    make_root(folder / "root", depths)
    parts = ["nothing", *(f"depth:{depth}" for depth in depths)]
    costs = counted(trace(folder, parts, root=folder / "root"))
    by_depth = [
        {name.partition("/")[2]: cost for name, cost in costs.items() if name.startswith(f"{depth}/")}
        for depth in depths
    ]
    assert len(by_depth[0]) == 5
    for depth, found in zip(depths, by_depth, strict=True):
        assert found == by_depth[0], f"{depth} waiting"


@traced
def test_the_calls_are_the_same_with_10_and_1_000_and_20_000_waiting(tmp_path: Path) -> None:
    check_depths(tmp_path, (LEAST, 1_000, 20_000))


@traced
@pytest.mark.slow
def test_the_calls_are_the_same_with_100_000_waiting(tmp_path: Path) -> None:
    check_depths(tmp_path, (LEAST, 1_000, 10_000, 100_000))


@traced
@syncs_all
@pytest.mark.parametrize("mutant", COST_MUTANTS, ids=lambda mutant: mutant.name)
def test_a_store_that_asks_for_more_is_found_out(tmp_path: Path, mutant: Mutant) -> None:
    shutil.copytree(
        CHECKOUT / "server", tmp_path / "server", ignore=shutil.ignore_patterns("__pycache__")
    )
    for path, text in mutant.mutated(tmp_path).items():
        path.write_text(text)

    costs = counted(trace(tmp_path, ["nothing", "life:1", "life:10", "old"], code=tmp_path / "server"))

    known = [row for row in BUDGET if row.operation in costs]
    found = [
        budget.Row(operation=each.operation, messages=1, cost=costs[each.operation]) for each in known
    ]
    assert len(known) == 12
    assert difference(found, BUDGET)


def test_the_page_shows_the_budget_as_it_is_in_the_code() -> None:
    text = PAGE.read_text()

    assert budget.put(BUDGET, text) == text, "`make budget` writes it there"


def test_the_budget_allows_no_queue_to_be_listed_and_no_message_to_be_looked_at_unread() -> None:
    answered = [row for row in BUDGET if not row.operation.startswith("reaper")]
    assert len(answered) >= 20
    for row in answered:
        cost = row.cost
        # A folder that is leased whole may be listed once, instead of opening all that is in it.
        spared = row.operation.startswith("receive") and row.messages > cost.reads
        assert cost.listings <= spared, row.operation
        # A receive asks an open file for its size; a commit asks for the room, and for the root.
        assert cost.looks <= cost.reads + cost.listings + 2, row.operation
        # A folder is synced with an open; bodies need no sync of their own where several share one.
        assert cost.syncs <= 4, row.operation
        assert cost.unlinks == cost.rmdirs == 0, row.operation


def test_the_table_in_the_code_can_be_written_and_read_again() -> None:
    source = (CHECKOUT / "benchmarks" / "budget.py").read_text()

    assert budget.with_rows(source, BUDGET) == source
    assert budget.with_rows(budget.with_rows(source, ()), BUDGET) == source
    with pytest.raises(ValueError, match="no place"):
        budget.with_rows("nothing", BUDGET)
