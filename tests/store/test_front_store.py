"""The front of the store: requests, receives that wait, failures, and the lock that others hold."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.clock import SystemClock
from spoolrack_store.model.errors import (
    Draining,
    OutcomeUnknown,
    StoreError,
    StoreFailed,
)
from spoolrack_store.model.operations import Receive, Send
from spoolrack_store.store import Store

from tests.store.front_rig import GIVE_UP, FailingDisk, bodies_of, opened, taken_lock
from tests.support.listing import messages_in


def test_a_message_sent_to_an_idle_store_is_published_at_once(tmp_path: Path) -> None:
    clock = ManualClock()
    with opened(tmp_path, clock) as rig:
        pause = threading.Event()
        for _ in range(5):
            clock.advance(1_000)  # Commits that find nothing to do.
            pause.wait(0.01)
        rig.send(b"a")
        for _ in range(4_000):
            if not list((tmp_path / "new").iterdir()):
                return
            pause.wait(0.005)
        raise AssertionError("it stays in new/")


def test_an_answer_that_no_caller_hears_is_undone_and_not_counted(tmp_path: Path) -> None:
    with opened(tmp_path, ManualClock()) as rig:
        rig.send(b"a")
        rig.in_turn()
        is_cancelled, syncs = threading.Event(), threading.Event()

        def in_sync() -> None:
            syncs.set()
            assert is_cancelled.wait(GIVE_UP)

        rig.disk.before_sync = in_sync
        future = rig.store.submit(Receive(queue="q", wait=None))
        assert syncs.wait(GIVE_UP)
        assert future.cancel()
        is_cancelled.set()
        rig.disk.before_sync = None
        rig.in_turn()
        (delivery,) = rig.receive()
        assert (delivery.receive_count, delivery.first_received_at) == (1, rig.clock.wall())


def test_a_drain_ends_the_waiting_and_lets_the_rest_go_on(tmp_path: Path) -> None:
    with opened(tmp_path) as rig:
        future = rig.wait_for()
        rig.store.drain()
        with pytest.raises(Draining):
            future.result(GIVE_UP)
        with pytest.raises(Draining):
            rig.receive()
        rig.send(b"a")


def test_a_close_finishes_what_was_submitted(tmp_path: Path) -> None:
    with opened(tmp_path) as rig:
        futures = [rig.store.submit(Send(queue="q", bodies=[b"a"])) for _ in range(20)]
        rig.store.close()
        assert all(future.done() and future.exception() is None for future in futures)
        with pytest.raises(Draining):
            rig.send(b"b")


def test_a_relaxed_lease_waits_for_no_sync(tmp_path: Path) -> None:
    with opened(tmp_path) as rig:
        rig.send(b"a", queue="relaxed")
        rig.in_turn()
        before = rig.disk.syncs
        assert bodies_of(rig.receive(queue="relaxed")) == [b"a"]
        assert rig.disk.syncs == before


def test_a_receive_that_finds_nothing_waits_for_no_sync(tmp_path: Path) -> None:
    with opened(tmp_path) as rig:
        rig.send(b"a", queue="relaxed")
        before = rig.disk.syncs
        assert rig.receive() == []
        assert rig.disk.syncs == before


def test_a_failed_sync_leaves_the_outcome_unknown_and_stops_the_store(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[object] = []
    with opened(tmp_path) as rig:
        waiting = rig.wait_for()
        rig.store.on_failure(told.append)
        rig.disk.fails = True
        with pytest.raises(OutcomeUnknown):
            rig.ask(Send(queue="in-turn", bodies=[b"a"]))
        with pytest.raises(StoreFailed):
            waiting.result(GIVE_UP)
        with pytest.raises(StoreFailed):
            rig.send(b"b")
        assert [type(each) for each in told] == [StoreFailed]
        assert isinstance(rig.store.failure, StoreFailed)
    assert "nothing is promised until a restart: " in caplog.text


def test_a_start_that_cannot_sync_says_so_and_leaves_the_root_to_others(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    disk = FailingDisk(tmp_path)
    disk.fails = True
    with pytest.raises(StoreFailed):
        Store.open(tmp_path, disk=disk)
    assert not list((tmp_path / "owners").iterdir())
    with opened(tmp_path) as rig:
        rig.send(b"a")


class ClosedFolder(FailingDisk):
    def create(self, path: str, parts: Sequence[bytes], *, sync: bool) -> None:
        if path.startswith("owners/"):
            raise OSError(errno.ENOSPC, "No space left on device", path)
        super().create(path, parts, sync=sync)


def test_a_start_that_fails_half_way_says_so_and_leaves_the_root_to_others(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    with pytest.raises(StoreError):
        Store.open(tmp_path, disk=ClosedFolder(tmp_path))
    with opened(tmp_path) as rig:
        rig.send(b"a")


def test_a_store_closes_on_a_disk_that_syncs_no_more(tmp_path: Path) -> None:
    with opened(tmp_path) as rig:
        rig.send(b"a")
        rig.disk.fails = True
    with opened(tmp_path) as rig:
        assert bodies_of(rig.receive()) == [b"a"]


def test_later_changes_of_a_sender_s_attributes_change_no_message(tmp_path: Path) -> None:
    with opened(tmp_path) as rig:
        attributes: dict[str, str | bytes] = {"a": "b"}
        future = rig.store.submit(Send(queue="q", bodies=[b"x"], attributes={0: attributes}))
        future.result(GIVE_UP)
        attributes["a"] = "changed"
        (delivery,) = rig.receive()
        assert delivery.attributes == {0: {"a": "b"}}


def test_a_failed_sync_stops_other_processes_too(tmp_path: Path) -> None:
    clock = SystemClock()
    with opened(tmp_path, clock) as rig, opened(tmp_path, clock) as other:
        rig.disk.fails = True
        with pytest.raises(OutcomeUnknown):
            rig.send(b"a")
        with pytest.raises(StoreFailed, match="another process"):
            other.receive()
        assert other.store.failure is not None


class SyncsNoWhole(FailingDisk):
    def sync_all(self) -> None:
        raise OSError(errno.EIO, "Input/output error")


def test_a_start_that_cannot_sync_what_it_found_stops_other_processes_too(tmp_path: Path) -> None:
    with opened(tmp_path, SystemClock()) as rig:
        rig.send(b"a")
        with pytest.raises(StoreFailed):
            Store.open(tmp_path, disk=SyncsNoWhole(tmp_path))
        with pytest.raises(StoreFailed, match="another process"):
            rig.receive()


def test_a_fault_of_ours_answers_all_that_wait_and_is_logged_with_its_traceback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path) as rig:
        waiting = rig.wait_for()
        future = rig.store.submit(Send(queue="q", bodies=[None]))  # type: ignore[list-item]
        with pytest.raises(OutcomeUnknown, match="a fault of ours"):
            future.result(GIVE_UP)
        with pytest.raises((StoreFailed, OutcomeUnknown)):
            waiting.result(GIVE_UP)
    (logged,) = (each for each in caplog.records if each.message == "the store has a fault and stops")
    assert logged.exc_info is not None
    assert logged.exc_info[0] is TypeError


HOLDER = """
import fcntl, os, sys
from spoolrack_store.files.changes import SIZE, Changes
from spoolrack_store.files.local_disk import LocalDisk
lock = open(sys.argv[1] + "/LOCK", "r+")
fcntl.flock(lock, fcntl.LOCK_EX)
Changes(LocalDisk(sys.argv[1]).map("CHANGES", SIZE), "holder", os.getpid()).hold(1_700_000_000_000)
print("held", flush=True)
sys.stdin.read()
"""


def test_a_process_that_is_stopped_with_the_lock_is_named_and_then_work_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    with opened(tmp_path, clock) as rig:
        path = os.pathsep.join(sys.path)
        holder = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
        )
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"held\n"
            holder.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, holder.pid, os.WSTOPPED | os.WNOWAIT)
            future = rig.store.submit(Send(queue="q", bodies=[b"a"]))
            pause = threading.Event()
            said = f"holds the lock: process {holder.pid} (stopped) since 2023-11-14T22:13:20"
            for _ in range(2_000):
                if said in caplog.text:
                    break
                clock.advance(100)
                pause.wait(0.005)
            assert said in caplog.text
            assert not future.done()
        finally:
            holder.kill()
            holder.communicate()
        while not future.done():
            clock.advance(100)
            pause.wait(0.005)
        assert all(isinstance(id, str) for id in future.result(GIVE_UP).results)


def test_a_commit_that_waits_for_the_lock_waits_in_true_time(tmp_path: Path) -> None:
    with opened(tmp_path, ManualClock()) as rig:
        lock = taken_lock(tmp_path)
        future = rig.store.submit(Send(queue="q", bodies=[b"a"]))
        pause = threading.Event()
        for _ in range(20):
            pause.wait(0.005)
        assert not future.done()
        lock.release()
        assert future.result(GIVE_UP).results


def test_a_closed_store_keeps_neither_lock_nor_changes_open_and_still_answers(tmp_path: Path) -> None:
    with opened(tmp_path) as rig:
        (id,) = rig.send(b"a")
    held = [
        os.readlink(f"/proc/self/fd/{each}") for each in os.listdir("/proc/self/fd") if _is_link(each)
    ]

    assert [path for path in held if path.startswith(f"{tmp_path}/")] == []
    assert rig.store.message("q", id).body == b"a"
    assert [message.id for message in messages_in(rig.store, "q")] == [id]


def _is_link(descriptor: str) -> bool:
    # The one that lists them is closed by now.
    return Path("/proc/self/fd", descriptor).exists()
