"""Garbage collections of a server look at no message that its start has read."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from spoolrack_server.process.garbage import STEP, WHOLE, GrowthCollector, frozen_afterwards
from spoolrack_store.model.clock import Millis
from spoolrack_store.store import Store

from benchmarks.made_root import MadeRoot

COUNT = 3_000


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    yield
    gc.unfreeze()


def test_a_collection_looks_at_no_message_that_the_start_has_read(tmp_path: Path) -> None:
    MadeRoot(tmp_path / "root").ready("q", Millis(1_700_000_000_000), COUNT)
    gc.collect()
    with frozen_afterwards():
        store = Store.open(tmp_path / "root")
    assert gc.isenabled()
    with store:
        assert len(gc.get_objects()) < COUNT
        assert store.queue("q").counts.ready_count == COUNT


async def test_what_lives_long_is_looked_at_once_and_only_as_memory_grows() -> None:
    sizes = [10 * STEP, 10 * STEP + 1, 11 * STEP, 12 * STEP - 1, 6 * STEP, 7 * STEP]
    frozen: list[int] = []
    made: list[list[int]] = []
    measured = asyncio.Event()

    def measure() -> int:
        frozen.append(gc.get_freeze_count())
        made.extend([] for _ in range(COUNT))
        if len(frozen) == len(sizes):
            measured.set()
        return sizes[min(len(frozen), len(sizes)) - 1]

    gc.unfreeze()
    before = gc.get_threshold()
    collector = GrowthCollector(measure)
    while not measured.is_set():
        await collector.look(every=0)
    collector.end()
    grown = [count > 0 for count in frozen]
    assert grown == [False] * 3 + [True] * 3, "after the memory has grown by a step"
    assert abs(frozen[5] - frozen[3]) < COUNT
    assert gc.get_freeze_count() > frozen[5] + COUNT, "and after it has grown again from less"
    assert gc.get_threshold() == before


async def test_garbage_of_what_lived_long_is_freed_once_the_memory_has_doubled() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    ended = weakref.ref(kept := type("Ended", (), {})())
    cycle.append(kept)
    sizes = [WHOLE, WHOLE + STEP, 2 * WHOLE - STEP, 2 * WHOLE, 2 * WHOLE]
    alive: list[bool] = []
    measured = asyncio.Event()

    def measure() -> int:
        nonlocal cycle, kept
        alive.append(ended() is not None)
        if len(alive) == 3:  # It is frozen.
            cycle, kept = [], None
        if len(alive) == len(sizes):
            measured.set()
        return sizes[min(len(alive), len(sizes)) - 1]

    collector = GrowthCollector(measure)
    while not measured.is_set():
        await collector.look(every=0)
    collector.end()
    assert alive == [True] * 4 + [False]


async def test_the_collector_stays_as_it_is_where_memory_cannot_be_measured() -> None:
    before = gc.get_threshold()
    collector = GrowthCollector(lambda: None)
    await collector.look(every=0)
    assert gc.get_threshold() == before


def test_garbage_is_collected_again_after_a_start_that_fails() -> None:
    with pytest.raises(OSError), frozen_afterwards():  # noqa: PT011  # Any.
        raise OSError
    assert gc.isenabled()
