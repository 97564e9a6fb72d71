"""Bytes of memory that a waiting message takes. The ceilings may only fall."""

from __future__ import annotations

import gc
import tracemalloc
from random import Random

import pytest
from spoolrack_store.engine.index import Index
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.message_ids import batch_of, first_id_of
from spoolrack_store.model.names import Name, Stem, parse
from spoolrack_store.model.transitions import State

FILES = 4_000


def _paths(count: int) -> list[str]:
    random = Random(7)
    found = []
    for number in range(FILES):
        id = f"{first_id_of(Millis(1_700_000_000_000 + number))[:24]}{random.getrandbits(48):012x}"
        stem = Stem(
            id=batch_of(id) if count else id,
            count=count,
            size=100 * (count or 1),
            crc=random.getrandbits(32),
            line=100 if count else 0,
        )
        found.append(
            Name(stem=stem, state=State.READY, queue="a-queue-with-a-name", members=stem.full).path
        )
    return found


def test_a_lone_message_behind_many_others_takes_few_bytes_and_no_object() -> None:
    names = sorted(path.rpartition("/")[2] for path in _paths(0))
    index = Index()
    objects = len(gc.get_objects())
    tracemalloc.start()
    try:
        ids, others = index.pack_listed("a-queue-with-a-name", names, 1)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (len(ids), others) == (FILES, [])
    assert index.queue("a-queue-with-a-name").total == FILES
    assert taken / FILES < 300, f"{taken / FILES:.0f} bytes"
    assert len(gc.get_objects()) - objects < FILES / 10, "the collector looks at each of them"


def test_a_lone_message_that_others_follow_is_packed() -> None:
    paths = _paths(0)
    index = Index()
    index.unpacked = 0
    tracemalloc.start()
    try:
        for path in paths:
            index.appear(parse(path), 1)
            index.pack(1)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(index.packed_paths) == FILES
    assert taken / FILES < 350, f"{taken / FILES:.0f} bytes"


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
