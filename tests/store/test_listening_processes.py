"""A receive that waits hears of what other processes change, and nothing is told to those that don't
wait."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from pathlib import Path

import pytest
from spoolrack_store.committer import LISTEN_EVERY, LISTENING_EVERY, NEWS_EVERY
from spoolrack_store.files import local_disk
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.errors import QueueBeingDeleted, QueueNotFound
from spoolrack_store.model.operations import CreateQueue, DeleteQueue, Delivery, Receive
from spoolrack_store.model.settings import QueueSettings

from tests.store.front_rig import GIVE_UP, FrontRig, bodies_of, opened, taken_lock


def touched(rig: FrontRig) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in (rig.path / "owners").iterdir()}


def owner(rig: FrontRig) -> str:
    return rig.store._engine.moves.owner


def test_a_receive_hears_of_a_send_before_it_would_look(tmp_path: Path) -> None:
    clock = ManualClock()
    with opened(tmp_path, clock) as rig, opened(tmp_path, clock) as other:
        future = rig.wait_for()
        pause = threading.Event()
        other.send(b"a")
        for _ in range(LISTENING_EVERY // 2):
            if future.done():
                break
            clock.advance(1)
            pause.wait(0.005)
        assert bodies_of(future.result(GIVE_UP)) == [b"a"]


def test_a_message_sent_as_a_receive_begins_to_wait_is_not_missed(tmp_path: Path) -> None:
    clock = ManualClock()
    with opened(tmp_path, clock) as rig, opened(tmp_path, clock) as other:
        pause = threading.Event()
        for number in range(50):
            future = rig.store.submit(Receive(queue="q", wait=None))
            other.send(b"%d" % number)
            for _ in range(LISTENING_EVERY // 2):
                if future.done():
                    break
                clock.advance(NEWS_EVERY if not number % 10 else 1)
                pause.wait(0.002)
            assert bodies_of(future.result(GIVE_UP)) == [b"%d" % number]


def _waiting_with_no_news(rig: FrontRig, other: FrontRig) -> Future[list[Delivery]]:
    """Return a receive that waits, once its process has just taken in news of the other one."""
    future = rig.wait_for()
    sharing = rig.store._engine.sharing
    known = sharing.replayed
    other.send(b"a", queue="in-turn")
    pause = threading.Event()
    for _ in range(4_000):
        if sharing.replayed > known and not sharing.has_news:
            break
        pause.wait(0.005)
    return future


def test_a_receive_gets_nothing_of_a_queue_that_another_process_made_anew(tmp_path: Path) -> None:
    clock, others = ManualClock(), ManualClock()
    with opened(tmp_path, clock) as rig, opened(tmp_path, others) as other:
        future = _waiting_with_no_news(rig, other)
        # It has just taken in news, and sees all of these at once, when it is time again.
        other.ask(DeleteQueue(name="q"))
        for _ in range(1_000):
            try:
                other.ask(CreateQueue(name="q", settings=QueueSettings()))
                break
            except QueueBeingDeleted:
                others.advance(1)
        other.send(b"b")
        clock.advance(NEWS_EVERY)
        with pytest.raises(QueueNotFound):
            future.result(GIVE_UP)
        assert bodies_of(other.receive()) == [b"b"]


def test_only_the_processes_that_wait_are_told_and_none_tells_itself(tmp_path: Path) -> None:
    clock = ManualClock()
    with opened(tmp_path, clock) as rig, opened(tmp_path, clock) as other:
        rig.in_turn()
        before = touched(rig)
        other.send(b"a")
        other.in_turn()
        assert touched(rig) == before, "no receive waits"
        rig.delete(*rig.receive())
        future = rig.wait_for()
        rig.send(b"for the queue in turn", queue="in-turn")
        rig.in_turn()
        assert touched(rig)[owner(rig)] == before[owner(rig)]
        other.send(b"b")
        other.in_turn()
        assert touched(rig)[owner(rig)] > before[owner(rig)]
        clock.advance(NEWS_EVERY)
        assert bodies_of(future.result(GIVE_UP)) == [b"b"]


def test_where_a_file_cannot_be_watched_a_receive_looks_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(path: str) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(local_disk, "TouchWatch", refused)
    clock = ManualClock()
    with opened(tmp_path, clock) as rig, opened(tmp_path, clock) as other:
        assert "max_user_instances" in caplog.text
        rig.in_turn()
        future = rig.wait_for()
        other.send(b"a")
        other.in_turn()
        pause = threading.Event()
        # In all less than the time after which it looks where it can watch.
        for _ in range(LISTENING_EVERY // 2 // LISTEN_EVERY):
            if future.done():
                break
            clock.advance(LISTEN_EVERY)
            pause.wait(0.02)
        assert bodies_of(future.result(GIVE_UP)) == [b"a"]


def test_a_change_noticed_while_the_lock_is_taken_is_read_soon_after(tmp_path: Path) -> None:
    clock = ManualClock()
    with opened(tmp_path, clock) as rig, opened(tmp_path, clock) as other:
        future = _waiting_with_no_news(rig, other)
        # It has just taken in news, and waits for its time before it does so again.
        other.send(b"b")
        other.in_turn()
        assert rig.store._engine.sharing.has_news
        held = taken_lock(tmp_path)
        clock.advance(NEWS_EVERY)
        pause = threading.Event()
        pause.wait(0.05)
        held.release()
        for _ in range(LISTENING_EVERY // 4):
            if future.done():
                break
            clock.advance(1)
            pause.wait(0.002)
        assert bodies_of(future.result(GIVE_UP)) == [b"b"]
