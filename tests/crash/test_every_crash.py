"""Short workloads in full: death at every step of them, with all that may be left, and every error.

The quick part takes all operations in every scene and setting, all pairs in two of them each, and a
sample of the rest and of the errors. `campaign.py` takes them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import pytest
from every_history import SCENES, SETTINGS, Workload, count, sequences, spread, workload, workload_of
from telling import BrokenStory, Told
from test_crashes import report
from trying import try_deaths, try_errors

PARTS = 4
DEEP = 64
"""At one in so many places, the next start dies everywhere as well."""
SAMPLES = 600
ERRORS = 15


def try_all(works: Iterable[Workload], try_one: Callable[[Workload], Told]) -> Told:
    sum = Told()
    for work in works:
        try:
            sum.add(try_one(work))
        except BrokenStory as broken:
            pytest.fail(report(broken))
    return sum


def deaths(work: Workload) -> Told:
    return try_deaths(work, deep=DEEP)


def all_pairs() -> Iterator[Workload]:
    """Each pair once without anything before it, and once in one of the other scenes, by turns."""
    for turn, pair in enumerate(sequences(2)):
        yield workload_of(pair, 0, turn % 2)
        yield workload_of(pair, 1 + turn % (len(SCENES) - 1), turn // 2 % len(SETTINGS))


@pytest.mark.parametrize("part", range(PARTS))
def test_no_operation_breaks_a_promise_wherever_the_process_dies(part: int) -> None:
    told = try_all(map(workload, range(part, count(1), PARTS)), deaths)
    assert told.crashes > 500


@pytest.mark.parametrize("part", range(PARTS))
def test_no_two_operations_break_a_promise_wherever_the_process_dies_in_the_second(part: int) -> None:
    told = try_all(islice(all_pairs(), part, None, PARTS), deaths)
    assert told.crashes > 1_250


def test_a_sample_of_longer_sequences_breaks_no_promise_wherever_the_process_dies() -> None:
    told = try_all((spread(at, from_length=3) for at in range(SAMPLES)), deaths)
    assert told.crashes > 500


def test_a_sample_of_failing_calls_breaks_no_promise() -> None:
    works = [workload(number) for number in range(0, count(1), count(1) // ERRORS)]
    works += [spread(at) for at in range(ERRORS)]
    told = try_all(works, try_errors)
    assert told.failures > 200
