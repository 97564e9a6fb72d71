"""Processes whose clocks differ: time namespaces, and the time for which a machine is suspended."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import pytest
from spoolrack_store.model.clock import SystemClock
from spoolrack_store.store import Store

AHEAD = 100_000
"""Seconds by which the other namespace's clock is ahead, as after a suspension of so long."""


@cache
def _why_not() -> str | None:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return "needs root, and unshare, to make time namespaces"
    tried = subprocess.run(["unshare", "--fork", "--time", "true"], capture_output=True, timeout=60)
    return None if tried.returncode == 0 else "needs root, and a kernel with time namespaces"


@pytest.fixture(autouse=True)
def _has_namespaces() -> None:
    if (why := _why_not()) is not None:
        pytest.skip(why)


def _elsewhere(program: str, *arguments: str, clock: str = "--boottime") -> str:
    """Return what a program of Python says in another time namespace."""
    enter = ["unshare", "--fork", "--time", clock, str(AHEAD)]
    ran = subprocess.run(
        [*enter, sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def test_a_root_is_opened_in_one_time_namespace_at_a_time(tmp_path: Path) -> None:
    """`CHANGES` has times of a clock that each namespace has for itself."""
    program = """
import sys
from spoolrack_store.model.errors import RootInUse
from spoolrack_store.store import Store

try:
    Store.open(sys.argv[1]).close()
    print("opened")
except RootInUse as error:
    print(error)
"""
    with Store.open(tmp_path):
        assert "in another time namespace of this host" in _elsewhere(program, str(tmp_path))
    assert _elsewhere(program, str(tmp_path)) == "opened"


def test_the_clock_of_the_store_goes_on_while_a_machine_is_suspended() -> None:
    """The clock that counts a suspension is told from the monotonic one by an offset of its own."""
    here = SystemClock().monotonic()
    program = "from spoolrack_store.model.clock import SystemClock; print(SystemClock().monotonic())"
    assert int(_elsewhere(program)) >= here + AHEAD * 1_000
    there = int(_elsewhere(program, clock="--monotonic"))
    assert there <= time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000 + 1


def test_the_client_measures_leases_by_a_clock_that_goes_on_while_a_machine_is_suspended() -> None:
    here = time.clock_gettime(time.CLOCK_BOOTTIME)
    program = "from spoolrack._runtime import Threads; print(Threads().elapsed())"
    assert float(_elsewhere(program)) >= here + AHEAD
