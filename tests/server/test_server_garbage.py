"""Garbage collections of a server look at no message that its start has read."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
from spoolrack_server.process.garbage import frozen_afterwards
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


def test_garbage_is_collected_again_after_a_start_that_fails() -> None:
    with pytest.raises(OSError), frozen_afterwards():  # noqa: PT011  # Any.
        raise OSError
    assert gc.isenabled()
