"""Bytes of memory that a waiting message takes. The ceilings may only fall."""

from __future__ import annotations

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
