"""The system calls of each operation are known exactly, written down, and constant.

A real store on a real folder runs under strace. That the count sees a call too many, the bugs of
`cost.txt` in tests/proof/mutants show.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from spoolrack_store.files.local_disk import find_syncfs

from benchmarks import budget
from benchmarks.budget import Cost
from tests.budget.counting import PAGE, PARTS, SHARING, counted, difference, measured_rows, trace
from tests.budget.waiting import LEAST, make_root, make_sent
from tests.support.traced_server import why_not

BUDGET = budget.rows_in(PAGE.read_text())
COSTS = {row.operation: row.cost for row in BUDGET}
TRACES = 3
"""Whether an operation's rest shares a commit with the look that ends its count depends on two threads;
a call too many is in each trace."""
traced = pytest.mark.skipif(why_not() is not None, reason=why_not() or "")
syncs_all = pytest.mark.skipif(
    find_syncfs() is None,
    reason="needs Linux 5.8: the budget is that of a system whose syncfs tells errors",
)


@traced
@syncs_all
def test_each_operation_asks_of_the_system_what_the_budget_says(tmp_path: Path) -> None:
    for number in range(TRACES):
        folder = tmp_path / str(number)
        folder.mkdir()
        rows = measured_rows(counted(trace(folder, PARTS)))
        lines = difference(rows, BUDGET)
        if not lines:
            break

    assert not lines, (
        "\n".join(lines)
        + f"\n\nIf that is meant: `make budget`, or put this into {PAGE}\n\n"
        + budget.page_text(rows)
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


def test_the_budget_on_the_page_is_written_as_it_is_read() -> None:
    text = PAGE.read_text()

    assert budget.put(BUDGET, text) == text, "`make budget` writes it there"


@traced
def test_a_start_opens_no_batch_that_is_in_its_queue(tmp_path: Path) -> None:
    few, many = started(tmp_path, (10, 0), (1_000, 0))

    # How many calls a listing takes grows with its length.
    assert replace(few, others=0) == replace(many, others=0)


@traced
@syncs_all
def test_a_start_reads_once_each_batch_that_a_dead_process_has_left_in_new(tmp_path: Path) -> None:
    few, many = started(tmp_path, (10, 10), (10, 110))

    more = many.less(few)
    assert more.reads == 100
    assert more.renames == 100
    assert more.listings == more.creates == more.writes == 0


def started(folder: Path, *roots: tuple[int, int]) -> list[Cost]:
    """Return what a start costs with so many batches that are ready, and so many in `new/`."""
    parts = ["nothing"]
    for number, (ready, sent) in enumerate(roots):
        make_sent(folder / f"start{number}", ready, sent)
        parts.append(f"start:{number}")
    costs = counted(trace(folder, parts))
    return [costs[f"start {number}"] for number in range(len(roots))]


def test_the_budget_allows_no_listing_and_no_unlink_before_an_answer() -> None:
    changes = ("create a schedule", "send a tick", "pause", "resume", "a snapshot")
    answered = [row for row in BUDGET if not row.operation.startswith(("reaper", *changes))]
    assert len(answered) >= 40
    for row in answered:
        cost = row.cost
        assert cost.listings == cost.mkdirs == cost.rmdirs == 0, row.operation
        # A receive asks an open file for its size; a commit asks for the room, and for the root.
        # A rejection has two commits, and asks whether the lease's name is there.
        looks = 3 if row.operation.startswith("reject") else 2
        assert cost.looks <= cost.reads + looks, row.operation
        # A file or folder is synced with an open; messages that share a commit share a syncfs. A
        # rejection takes one sync more than a commit, and a second commit, which deletes; so does the
        # send of a body that was written before.
        more = row.operation.startswith(("reject", "send 1 in a file of its own", "send 1 by a link"))
        assert cost.syncs <= 3 + more, row.operation
    # The first receive's name lists what two links hold, and goes in the commit after them.
    assert [row.operation for row in answered if row.cost.unlinks] == [
        "receive 5 and 5 of 10, two timeouts"
    ]


@pytest.mark.parametrize(
    "operation", ["send {}", "receive {}", "receive {}, sent before a start", "delete {}"]
)
def test_a_frame_of_10_or_100_or_1_000_messages_costs_the_same_and_no_more_than_one_message(
    operation: str,
) -> None:
    lone, *frames = (COSTS[operation.format(count)] for count in (1, 10, 100, 1_000))

    assert frames == [frames[0]] * 3
    assert frames[0].total <= lone.total


def test_the_messages_of_a_commit_are_one_create_one_write_and_one_rename() -> None:
    for operation in ("send 1", "send 10", "send 1000", f"send 1, {SHARING} that share a commit"):
        cost = COSTS[operation]
        assert (cost.creates, cost.writes, cost.renames, cost.links) == (1, 1, 1, 0), operation
    assert COSTS["send 10"].syncs == COSTS[f"send 1, {SHARING} that share a commit"].syncs == 1


def test_a_message_of_a_strict_group_or_with_a_priority_costs_what_any_other_does() -> None:
    for operation in ("send 1", "receive 1", "delete 1"):
        preposition = "to" if operation == "send 1" else "of"
        assert COSTS[f"{operation} {preposition} a strict group"] == COSTS[operation]
    for operation in ("send 1", "receive 1"):
        assert COSTS[f"{operation} with a priority"] == COSTS[operation]


def test_a_receive_is_one_link_or_rename_for_each_visibility_timeout() -> None:
    receives = {name: cost for name, cost in COSTS.items() if name.startswith("receive ")}
    assert len(receives) == 14
    for operation, cost in receives.items():
        timeouts = 2 if operation.endswith("two timeouts") else 1
        assert cost.links + cost.renames == timeouts, operation


def test_a_delete_is_one_link_or_rename_for_each_name_that_it_touches() -> None:
    deletes = {name: cost for name, cost in COSTS.items() if name.startswith("delete ")}
    assert len(deletes) == 11
    for operation, cost in deletes.items():
        assert cost.links + cost.renames == 1, operation
    assert COSTS["delete 3 of 10, leased with the others"].links == 1
