"""Syncs of a local disk that run at once, each in a thread."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from spoolrack_store.files.local_disk import LocalDisk

STUCK = 60.0


@pytest.fixture
def disk(tmp_path: Path) -> LocalDisk:
    return LocalDisk(tmp_path)


def test_syncs_at_once_wait_for_the_disk_together(disk: LocalDisk) -> None:
    meeting = threading.Barrier(3)

    disk.run_at_once([lambda: void(meeting.wait(STUCK))] * 3)

    assert not meeting.broken


@pytest.mark.parametrize("failing", range(3))
def test_the_error_of_a_sync_is_raised_when_the_others_have_ended(
    disk: LocalDisk, failing: int
) -> None:
    failed, ended = threading.Event(), []

    def fail() -> None:
        failed.set()
        raise OSError(errno.EIO, "of the disk")

    def end() -> None:
        assert failed.wait(STUCK)
        ended.append(1)

    syncs: list[Callable[[], None]] = [end, end, end]
    syncs[failing] = fail
    with pytest.raises(OSError, match="of the disk"):
        disk.run_at_once(syncs)

    assert ended == [1, 1]


def test_a_system_without_threads_runs_each_sync_once(
    disk: LocalDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    done: list[int] = []

    disk.run_at_once([partial(done.append, number) for number in range(3)])

    assert done == [0, 1, 2]


def test_each_of_a_thousand_syncs_runs_once_in_a_few_threads(disk: LocalDisk) -> None:
    done: list[tuple[int, int]] = []

    disk.run_at_once([partial(run_in, done, number) for number in range(1_000)])

    assert sorted(number for number, _ in done) == list(range(1_000))
    assert len({thread for _, thread in done}) <= 16


def run_in(done: list[tuple[int, int]], number: int) -> None:
    done.append((number, threading.get_native_id()))


def void(_: object) -> None:
    pass
