"""Servers that leave work to a mover and a reaper, which are processes of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.background_work import ONLY_REAPS, BackgroundWork
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.operations import (
    CreateQueue,
    Delete,
    DeleteQueue,
    Receive,
    Send,
    UpdateQueue,
)
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.store import Store

from tests.store.front_rig import GIVE_UP, FrontRig, bodies_of, opened

SERVER_ALONE = BackgroundWork(unlinks=False, ticks=False)
MOVER_OF_NEW = BackgroundWork(brings_back=False, unlinks=False)
MOVER_OF_DELAY = BackgroundWork(adopts=False, unlinks=False)
LOOKS = 4_000


def names(root: Path, folder: str) -> list[str]:
    return sorted(path.name for path in (root / folder).iterdir())


def until(is_so: Callable[[], bool], clock: ManualClock, *, ms: int = 500) -> None:
    """Let time go by until it is so."""
    pause = threading.Event()
    for _ in range(LOOKS):
        if is_so():
            return
        clock.advance(ms)
        pause.wait(0.002)
    raise AssertionError("it never is")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def limit(rig: FrontRig, **changes: object) -> None:
    rig.ask(UpdateQueue(name="q", changes=changes))


def test_without_mover_and_reaper_a_store_sends_receives_and_deletes(
    tmp_path: Path, clock: ManualClock
) -> None:
    with opened(tmp_path, clock, SERVER_ALONE) as rig:
        limit(rig, visibility_timeout=5_000, retention=1_000_000)
        rig.send(b"a", b"b")
        assert bodies_of(rig.receive(2)) == [b"a", b"b"]
        assert rig.receive() == []
        clock.advance(5_000)
        again = rig.receive(2)
        assert [delivery.receive_count for delivery in again] == [2], "a receive finds what is due"
        rig.delete(*again)
        rig.send(b"old")
        clock.advance(1_000_000)
        assert rig.receive() == [], "nor does it deliver what is too old"
        rig.ask(DeleteQueue(name="q"))
        rig.in_turn()
        rig.ask(CreateQueue(name="q", settings=QueueSettings()))
        assert rig.receive() == []
        assert len(names(tmp_path, "remove")) == 2, "nothing is unlinked"


def test_a_receive_that_waits_gets_what_is_due_without_a_mover(
    tmp_path: Path, clock: ManualClock
) -> None:
    with opened(tmp_path, clock, SERVER_ALONE) as rig:
        rig.send(b"a")
        rig.ask(Receive(queue="q", visibility_timeout=Millis(5_000)))
        waiting = rig.wait_for()
        until(waiting.done, clock)
        assert bodies_of(waiting.result(GIVE_UP)) == [b"a"]


def test_a_server_that_does_not_unlink_forgets_what_another_process_may_unlink(
    tmp_path: Path, clock: ManualClock
) -> None:
    with opened(tmp_path, clock, SERVER_ALONE) as rig:
        rig.send(b"a")
        rig.delete(*rig.receive())
        rig.in_turn()
        assert rig.store._engine.index.batches == {}
        assert len(names(tmp_path, "remove")) == 1
        with Store.open(tmp_path, clock=clock, background=ONLY_REAPS) as reaper:
            until(lambda: not names(tmp_path, "remove"), clock)
            rig.send(b"b", b"c")
            rig.delete(*rig.receive(2))
            until(lambda: reaper._engine.moves.removed_files.unlinked == 2, clock)
            assert names(tmp_path, "remove") == []
        rig.send(b"d")
        assert bodies_of(rig.receive()) == [b"d"]


def test_keys_stay_taken_when_another_process_has_unlinked_their_messages(
    tmp_path: Path, clock: ManualClock
) -> None:
    def sending() -> Send:
        return Send(queue="q", bodies=[b"a", b"b"], deduplication_ids={0: "x", 1: "y"})

    with opened(tmp_path, clock, SERVER_ALONE) as rig:
        ids = rig.ask(sending()).results
        rig.ask(Delete(queue="q", ids=ids))
        with Store.open(tmp_path, clock=clock, background=ONLY_REAPS):
            until(lambda: not names(tmp_path, "remove"), clock, ms=100)
        assert rig.ask(sending()).results == ids
    with opened(tmp_path, clock, SERVER_ALONE) as rig:
        assert rig.ask(sending()).results == ids, "also after a restart"


def test_a_mover_of_one_folder_leaves_the_other_alone(tmp_path: Path, clock: ManualClock) -> None:
    with opened(tmp_path, clock, SERVER_ALONE) as rig:
        rig.send(b"a")
        rig.ask(Receive(queue="q", visibility_timeout=Millis(5_000)))
    # The server has ended: any commit of its own would bring back what is due.
    with Store.open(tmp_path, clock=clock, background=MOVER_OF_NEW):
        for _ in range(50):
            clock.advance(1_000)
            threading.Event().wait(0.002)
        assert len(names(tmp_path, "delay")) == 1
    with Store.open(tmp_path, clock=clock, background=MOVER_OF_DELAY):
        until(lambda: not names(tmp_path, "delay"), clock)
    assert len(names(tmp_path, "queues/q")) == 1


def test_a_mover_that_comes_late_finds_what_was_there_before(
    tmp_path: Path, clock: ManualClock
) -> None:
    with opened(tmp_path, clock, SERVER_ALONE) as rig:
        limit(rig, retention=3_600_000)
        rig.send(b"leased")
        rig.ask(Receive(queue="q", visibility_timeout=Millis(5_000)))
    (tmp_path / "new" / "q:01a205ab-c259-76a3-96ae-f0c1e48b5abc,s5,c3610a686,odead").write_bytes(
        b"hello"
    )
    clock.advance(60_000)
    with Store.open(tmp_path, clock=clock, background=MOVER_OF_NEW):
        until(lambda: not names(tmp_path, "new"), clock)
    assert len(names(tmp_path, "delay")) == 1, "that is another mover's"
    with Store.open(tmp_path, clock=clock, background=MOVER_OF_DELAY):
        until(lambda: not names(tmp_path, "delay"), clock)
        assert len(names(tmp_path, "queues/q")) == 2
        clock.advance(3_660_000)
        until(lambda: len(names(tmp_path, "queues/q")) == 1, clock)


def test_a_mover_with_a_delay_moves_nothing_before_it_is_over(
    tmp_path: Path, clock: ManualClock
) -> None:
    with opened(tmp_path, clock, SERVER_ALONE) as rig:
        rig.send(b"a")
        rig.ask(Receive(queue="q", visibility_timeout=Millis(5_000)))
        clock.advance(4_000)
    background = BackgroundWork(adopts=False, unlinks=False, wait=Millis(100_000))
    with Store.open(tmp_path, clock=clock, background=background):
        for _ in range(50):
            clock.advance(1_900)
            threading.Event().wait(0.002)
        assert len(names(tmp_path, "delay")) == 1
        until(lambda: not names(tmp_path, "delay"), clock)


def test_several_movers_and_reapers_do_each_thing_once(tmp_path: Path, clock: ManualClock) -> None:
    with opened(tmp_path, clock, SERVER_ALONE) as rig:
        for number in range(30):
            rig.send(*(b"%d %d" % (number, place) for place in range(1 + number % 3)))
        rig.ask(Receive(queue="q", max_messages=100, visibility_timeout=Millis(5_000)))
        movers = [Store.open(tmp_path, clock=clock, background=MOVER_OF_DELAY) for _ in range(3)]
        until(lambda: not names(tmp_path, "delay"), clock)
        again = rig.receive(100)
        assert {delivery.receive_count for delivery in again} == {2}
        rig.delete(*again)
        reapers = [Store.open(tmp_path, clock=clock, background=ONLY_REAPS) for _ in range(3)]
        until(lambda: not names(tmp_path, "remove"), clock)
        for store in (*movers, *reapers):
            store.close()
            assert store.failure is None
        assert sum(store._engine.moves.removed_files.unlinked for store in reapers) == 30, (
            "each name once"
        )
