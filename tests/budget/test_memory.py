"""Bytes of memory that a waiting message takes. The ceilings may only fall."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from spoolrack_store.engine.entries import Entry, LeaseShare
from spoolrack_store.engine.index import Index
from spoolrack_store.engine.sorted_names import SortedNames
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.message_ids import batch_of, first_id_of
from spoolrack_store.model.names import Death, Name, Stem, parse
from spoolrack_store.model.transitions import State

FILES = 2_000


STATES: dict[str, dict[str, Any]] = {
    "ready": {},
    "leased": {"state": State.LEASED, "due": Millis(1_700_000_000_000), "token": "0123456789abc"},
    "delayed": {"state": State.DELAYED, "due": Millis(1_700_000_000_000)},
    "dead": {"death": Death(at=Millis(1_700_000_000_000), receives=3, source="another-queue")},
}


def _paths(count: int, key: str | None = None, *, is_grouped: bool = False, **state: Any) -> list[str]:
    random = Random(7)
    found = []
    for number in range(FILES):
        id = f"{first_id_of(Millis(1_700_000_000_000 + number))[:24]}{random.getrandbits(48):012x}"
        stem = Stem(
            id=batch_of(id) if count else id,
            count=count,
            size=100 * (count or 1),
            crc=random.getrandbits(32),
            line=100 if count or is_grouped else 0,
            key=key,
            is_grouped=is_grouped,
        )
        name = Name(stem=stem, state=State.READY, queue="a-queue-with-a-name", members=stem.full)
        found.append(replace(name, **state).path)
    return found


@pytest.mark.parametrize("state", STATES)
def test_a_lone_message_that_a_start_lists_takes_few_bytes_and_no_object(state: str) -> None:
    paths = sorted(_paths(0, **STATES[state]))
    index = Index()
    objects = len(gc.get_objects())
    tracemalloc.start()
    try:
        ids, others = index.pack_listed(paths, 1, lambda due, is_lease: due)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    gc.collect()  # It passes over tuples of texts from then on.
    assert (len(ids), others) == (FILES, [])
    assert index.queue("a-queue-with-a-name").total == FILES
    # The paths were there before.
    assert taken / FILES < 300, f"{taken / FILES:.0f} bytes"
    assert len(gc.get_objects()) - objects < FILES / 10, "the collector looks at each of them"


def _consume(index: Index, entry: Entry) -> None:
    entry.shares = (LeaseShare(1, 100, None, "a-consumer", Millis(1_700_000_000_000), 0, 1),)


def _learn(index: Index, entry: Entry) -> None:
    index.learn_groups(entry.batch, {"a-group": 1})


@pytest.mark.parametrize(
    ("made", "after"),
    [
        *((state, None) for state in STATES.values()),
        (STATES["leased"], _consume),
        ({"key": "0" * 26}, None),
        ({"is_grouped": True}, _learn),
    ],
    ids=[*STATES, "consumed", "keyed", "grouped"],
)
def test_a_lone_message_that_nothing_touches_takes_few_bytes_and_no_object(
    made: dict[str, Any], after: Callable[[Index, Entry], None] | None
) -> None:
    paths = _paths(0, **made)
    index = Index()
    index.unpacked = 0
    objects = len(gc.get_objects())
    tracemalloc.start()
    try:
        for due, path in enumerate(paths):
            entry = index.appear(parse(path), 1, due=due + 1_000_000)
            if after is not None:
                after(index, entry)
            index.new_keyed_files.clear()
            index.pack(1)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    gc.collect()
    assert len(index.packed_paths) == FILES
    assert taken / FILES < 600, f"{taken / FILES:.0f} bytes"
    assert len(gc.get_objects()) - objects < FILES / 10, "the collector looks at each of them"


@pytest.mark.parametrize(("count", "ceiling"), [(0, 800), (100, 12)])
def test_a_waiting_message_takes_few_bytes(count: int, ceiling: int) -> None:
    paths = _paths(count)
    index = Index()
    tracemalloc.start()
    try:
        for path in paths:
            index.appear(parse(path), 1)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    each = taken / (FILES * (count or 1))
    assert index.queue("a-queue-with-a-name").total == FILES * (count or 1)
    assert each < ceiling, f"{each:.0f} bytes"


def test_the_collector_reads_few_names_of_a_backlog_that_changes_everywhere() -> None:
    random = Random(7)
    names = [f"{number:08x}" for number in range(50_000)]
    order = SortedNames()
    for name in names:
        order.add(name)
    for name in random.sample(names, 5_000):
        order.remove(name)
        order.add(f"{name}x")
    gc.collect()
    chunks = [chunk for chunk in order._chunks if gc.is_tracked(chunk)]
    assert len(order) == len(names)
    assert sum(map(len, chunks)) < 5_000, "a collection stops the loop for as long as it reads"
