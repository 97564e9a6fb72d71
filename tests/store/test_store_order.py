"""Names in order: the sorted list in chunks is a plain sorted list, only faster."""

from __future__ import annotations

from bisect import bisect_left
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from spoolrack_store.index import order
from spoolrack_store.index.order import SortedNames

some_names = st.integers(0, 60).map(lambda number: f"{number:02}")
"""Of one length, as ids are: none is the beginning of another."""


def chunks_of(size: int) -> object:
    """Small chunks: else no list of a test's size would ever have two."""
    return patch.object(order, "_CHUNK", size)


class OrderStory(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self._patch = patch.object(order, "_CHUNK", 2)
        self._patch.start()
        self.plain: list[str] = []
        self.names = SortedNames()

    def teardown(self) -> None:
        self._patch.stop()

    @initialize(names=st.sets(some_names))
    def begin(self, names: set[str]) -> None:
        self.plain = sorted(names)
        self.names = SortedNames(names)

    @rule(name=some_names)
    def add(self, name: str) -> None:
        if name not in self.plain:
            self.plain.insert(bisect_left(self.plain, name), name)
            self.names.add(name)

    @rule(name=some_names)
    def remove(self, name: str) -> None:
        there = name in self.plain
        if there:
            self.plain.remove(name)
        assert self.names.remove(name) is there

    @rule(start=some_names)
    def look(self, start: str) -> None:
        assert list(self.names.since(start)) == [name for name in self.plain if name >= start]
        assert self.names.find(start) == (start if start in self.plain else None)
        not_above = [name for name in self.plain if name <= start]
        assert self.names.before(start) == (not_above[-1] if not_above else None)

    @invariant()
    def it_is_the_plain_list(self) -> None:
        assert list(self.names) == self.plain
        assert len(self.names) == len(self.plain)
        assert self.names.first() == (self.plain[0] if self.plain else None)


TestSortedNamesAreASortedList = OrderStory.TestCase


@given(st.sets(st.integers(0, 10**6), max_size=300))
def test_a_message_is_found_by_the_beginning_of_its_name(numbers: set[int]) -> None:
    with patch.object(order, "_CHUNK", 4):
        names = SortedNames(f"{number:07},s{number}" for number in numbers)
        for number in numbers:
            assert names.find(f"{number:07}") == f"{number:07},s{number}"
            assert names.find(f"{number:07}~") is None


@pytest.mark.parametrize("step", [1, -1])
def test_what_only_grows_at_one_end_stays_in_large_chunks(step: int) -> None:
    names = SortedNames()
    for number in range(10_000)[::step]:
        names.add(f"{number:05}")
    assert list(names) == [f"{number:05}" for number in range(10_000)]
    assert len(names._chunks) <= 10_000 // 256
