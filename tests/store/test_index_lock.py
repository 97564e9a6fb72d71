"""The holder of the store's lock alone reads the index: in all calls of the store, and in the looks of
its drivers for work."""

from __future__ import annotations

import asyncio
import pathlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from spoolrack_server.process.loop_driver import LoopDriver
from spoolrack_store.committer import Driver
from spoolrack_store.model.clock import SystemClock
from spoolrack_store.thread_driver import ThreadDriver

from tests.proof.races.stress import judge, work
from tests.support.lock_rule import watched


@contextmanager
def a_loop_driver() -> Iterator[Driver]:
    async def made() -> LoopDriver:
        return LoopDriver(SystemClock())

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield asyncio.run_coroutine_threadsafe(made(), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextmanager
def a_thread_driver() -> Iterator[Driver]:
    yield ThreadDriver()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("driver", [a_thread_driver, a_loop_driver])
def test_only_the_holder_of_the_lock_reads_the_index(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, driver: Any
) -> None:
    with watched(monkeypatch) as rule, driver() as made:
        ledger = work(tmp_path, seconds=3, threads=4, seed=1, interval=0.0005, driver=made)
    assert not rule.breaches
    assert ledger.calls > 0
    assert judge(tmp_path, [ledger]) == []
