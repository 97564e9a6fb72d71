"""Threads that call at random, while the interpreter changes threads as often as it can, see every
promise kept: in one process and in two, by the driver of a thread and by that of an event loop, and
through the client, over gRPC and in a folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from spoolrack.testing import running_server

from tests.proof.races import client_stress
from tests.proof.races.stress import Ledger, judge, work
from tests.store.test_index_lock import a_loop_driver, a_thread_driver

SECONDS: Final = float(os.environ.get("SPOOLRACK_RACES", "8"))
"""Of each case."""
INTERVALS: Final = (1e-6, 0.0005)
"""As often as can be, and the server's own."""


@pytest.fixture
def seed() -> int:
    return Random(time.time_ns()).randrange(1 << 30)


def _require(faults: list[str], seed: int) -> None:
    assert faults == [], f"seed {seed}"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("interval", INTERVALS)
@pytest.mark.parametrize("driver", [a_thread_driver, a_loop_driver])
def test_threads_of_one_process_see_every_promise_kept(
    tmp_path: Path, interval: float, driver: Any, seed: int
) -> None:
    made: AbstractContextManager[Any] = driver()
    with made as runs:
        ledger = work(tmp_path, seconds=SECONDS, threads=4, seed=seed, interval=interval, driver=runs)
    assert ledger.sent
    _require(judge(tmp_path, [ledger]), seed)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("interval", INTERVALS)
def test_threads_of_two_processes_see_every_promise_kept(
    tmp_path: Path, interval: float, seed: int
) -> None:
    root, names = tmp_path / "root", ("p", "q")
    programs = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.proof.races.stress", str(root), "--name", name),
                *("--seconds", str(SECONDS), "--interval", str(interval), "--seed", str(seed)),
                *("--ledger", str(tmp_path / name)),
            ]
        )
        for name in names
    ]
    assert [each.wait(600) for each in programs] == [0, 0]
    ledgers = [_ledger_in(tmp_path / name) for name in names]
    assert all(ledger.sent for ledger in ledgers)
    _require(judge(root, ledgers), seed)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("interval", INTERVALS)
@pytest.mark.parametrize("transport", ["grpc", "file"])
def test_threads_with_a_client_see_every_promise_kept(
    tmp_path: Path, interval: float, transport: str, seed: int
) -> None:
    root = tmp_path / "root"
    with ExitStack() as stack:
        url = f"file://{root}"
        if transport == "grpc":
            url = stack.enter_context(running_server(root)).url
        ledger = client_stress.work(url, seconds=SECONDS, threads=4, seed=seed, interval=interval)
    assert ledger.sent
    _require(judge(root, [ledger]), seed)


def _ledger_in(path: Path) -> Ledger:
    seen = json.loads(path.read_text())
    return Ledger(
        sent=[tuple(each) for each in seen["sent"]],
        holds=[tuple(each) for each in seen["holds"]],
        deleted=[tuple(each) for each in seen["deleted"]],
        faults=seen["faults"],
        calls=seen["calls"],
    )
