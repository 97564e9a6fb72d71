"""`spoolrack bench`: it measures, and leaves nothing behind."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from spoolrack import Client, Message
from spoolrack_server.cli.operators.bench_command import _live, _measure

from tests.cli.cli_rig import Spoolrack
from tests.support import STUCK
from tests.support.waiting import until

LOADS = 4
DISK_LOADS = 2


def test_a_server_is_measured_and_the_queue_is_deleted(spoolrack: Spoolrack, client: Client) -> None:
    measured = spoolrack("bench", "--seconds", "800ms")
    assert measured.code == 0
    head, *rows = measured.out.splitlines()
    assert head.split() == ["WHAT", "PER", "SECOND", "P50", "MS", "P99", "MS"]
    assert len(rows) == LOADS
    assert list(client.list_queues()) == []


def test_the_disk_is_measured_beside_it_and_its_folder_is_removed(
    spoolrack: Spoolrack, tmp_path: Path
) -> None:
    measured = spoolrack("bench", "--seconds", "600ms", "--disk", str(tmp_path), "--json")
    assert measured.code == 0
    rows = [json.loads(line) for line in measured.out.splitlines()]
    assert len(rows) == LOADS + DISK_LOADS
    assert all(row["per_second"] > 0 and 0 < row["p50_ms"] <= row["p99_ms"] for row in rows)
    assert list(tmp_path.iterdir()) == []


def test_a_root_is_measured_without_a_server_and_its_disk_too(
    offline: Spoolrack, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    measured = offline("bench", "--seconds", "600ms", "--root", str(root), "--json")
    assert measured.code == 0, measured.err
    assert len(measured.out.splitlines()) == LOADS + DISK_LOADS
    assert offline("queues", "list", "--root", str(root)).out == ""


def test_interrupted_it_deletes_its_queue(
    start: Callable[..., subprocess.Popen[bytes]], client: Client
) -> None:
    process = start("bench", "--seconds", "10m")
    until(lambda: any(info.counts.ready_count for info in client.list_queues("bench-")))
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert list(client.list_queues()) == []


def test_no_wait_for_the_steps_is_without_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal in the instant before such a wait would be seen after it only."""
    bounds: list[float | None] = []
    is_measured, join = threading.Event(), threading.Thread.join

    def noted(thread: threading.Thread, timeout: float | None = None) -> None:
        if thread.is_alive():
            bounds.append(timeout)
            is_measured.set()
        join(thread, timeout)

    def step() -> int:
        assert is_measured.wait(STUCK)
        return 1

    monkeypatch.setattr(threading.Thread, "join", noted)
    _measure("a step", [step], seconds=0)
    assert bounds
    assert None not in bounds


def test_a_time_that_is_over_before_the_first_step_measures_one_step() -> None:
    row = _measure("a step", [lambda: 1], seconds=0)
    assert row.per_second > 0
    assert row.p50_ms >= 0


def test_a_life_goes_on_after_a_second_in_which_nothing_came(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another caller may hold the messages for a while: only the time to give up ends a life."""
    queue = client.create_queue("jobs")
    receive, asked = queue.receive, list[float]()

    def nothing_at_first(count: int, *, wait: float) -> list[Message]:
        asked.append(wait)
        return receive(count, wait=wait) if len(asked) > 1 else []

    monkeypatch.setattr(queue, "receive", nothing_at_first)
    assert _live(queue, [b"x"] * 3) == 3
    assert len(asked) > 1
    counts = queue.info().counts
    assert (counts.ready_count, counts.leased_count) == (0, 0)
