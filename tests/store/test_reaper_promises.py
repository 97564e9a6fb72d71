"""The reaper unlinks what is durably deleted, without the lock, and nothing else."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from spoolrack_store.model.background_work import BackgroundWork
from spoolrack_store.model.clock import Millis, SystemClock
from spoolrack_store.model.operations import Delete, Purge, Receive, Send

from tests.store.front_rig import opened
from tests.support.cuts import Cut, Keep
from tests.support.dead_letter_rig import Rig
from tests.support.engines import begun
from tests.support.linked_disk import LinkedDisk, reap
from tests.support.set_rig import SetRig

BODIES = [b"a", b"b", b"c"]


def test_a_deleted_message_stays_deleted_though_an_older_name_is_not_durably_gone() -> None:
    rig = Rig()
    ids = rig.send(b"a", b"b", queue="third")
    rig.engine.apply([Receive(queue="third", max_messages=1, visibility_timeout=Millis(10_000))])
    # Nothing of this was synced, so that the name in the queue stays.
    assert rig.ask(Delete(queue="third", ids=ids)) == [None, None]
    assert len(list(rig.disk.scan("queues/third"))) == 1
    rig.engine.apply([])
    assert not list(rig.disk.scan("queues/third"))
    reap(rig.engine)
    for kept in range(rig.disk.pending):
        disk = rig.disk.cut(Cut(Keep.ONLY, (kept,)))
        assert isinstance(disk, LinkedDisk)
        disk.free_locks()
        after = Rig(disk=disk, clock=rig.clock, owner="p9")
        after.ask()
        assert after.receive("third") == []
    _let_reap(rig)
    assert not list(rig.disk.scan("remove"))


def test_deleted_files_are_unlinked_while_the_store_is_idle(tmp_path: Path) -> None:
    with opened(tmp_path) as rig:
        rig.send(b"a")
        rig.send(b"b", b"c")
        rig.delete(*rig.receive(10))
        _until_empty(tmp_path / "remove")


def test_a_start_unlinks_what_the_last_process_has_left(tmp_path: Path) -> None:
    with opened(tmp_path, background=BackgroundWork(unlinks=False)) as rig:
        rig.send(b"a", b"b")
        rig.delete(*rig.receive(10))
        rig.in_turn()
    assert len(list((tmp_path / "remove").iterdir())) == 1
    with opened(tmp_path):
        _until_empty(tmp_path / "remove")


def test_of_a_large_purge_each_commit_hands_over_a_slice() -> None:
    rig = SetRig()
    for _ in range(10):
        rig.send(b"a")
    rig.ask(Purge(queue="q"))
    rig.engine.moves.effort.files = 3
    left = []
    for _ in range(5):
        rig.tick()
        left.append(len(rig.disk.scan("remove")))
    assert left == [7, 4, 1, 0, 0]


@pytest.mark.parametrize("receives", [(1,), (1, 2)], ids=["a part is leased", "all is leased"])
def test_a_message_leased_as_it_was_sent_stays_deleted_when_its_sender_dies(
    receives: tuple[int, ...],
) -> None:
    one, other = _with_deletes_elsewhere(receives)
    one.living.discard("p1")
    other.ask(tick=True)
    _let_reap(other)
    _check_left(other, receives)


@pytest.mark.parametrize("receives", [(1,), (1, 2)], ids=["a part is leased", "all is leased"])
def test_a_message_leased_as_it_was_sent_stays_deleted_after_power_loss(
    receives: tuple[int, ...],
) -> None:
    one, other = _with_deletes_elsewhere(receives)
    one.engine.apply([])
    other.engine.apply([])
    reap(other.engine)
    for kept in range(one.disk.pending):
        disk = one.disk.cut(Cut(Keep.ONLY, (kept,)))
        assert isinstance(disk, LinkedDisk)
        disk.free_locks()
        _check_left(Rig(disk=disk, clock=one.clock, owner="p9"), receives)
    _let_reap(one)
    _check_left(other, receives)


def _with_deletes_elsewhere(receives: tuple[int, ...]) -> tuple[Rig, Rig]:
    """Let one process send three messages and lease some in one commit, and another delete those."""
    one = Rig()
    other = one.join("p2")
    work = begun(
        one.engine,
        Send(queue="third", bodies=BODIES),
        *(
            Receive(queue="third", max_messages=most, visibility_timeout=Millis(most * 10_000))
            for most in receives
        ),
    )
    _, *delivered = one.engine.finish(work) or ()
    receipts = [receipt for (delivery,) in delivered for receipt in delivery.receipts]
    assert other.ask(Delete(queue="third", receipts=receipts)) == [None] * sum(receives)
    _let_reap(other)
    return one, other


def _check_left(rig: Rig, receives: tuple[int, ...]) -> None:
    rig.ask()
    left = [body for delivery in rig.receive("third") for body in delivery.bodies]
    assert left == BODIES[sum(receives) :]
    if not left:
        _let_reap(rig)
        assert not list(rig.disk.scan("remove"))


def _let_reap(rig: Rig) -> None:
    for _ in range(3):
        rig.ask()
        reap(rig.engine)


def test_a_name_that_another_process_has_unlinked_is_no_trouble(tmp_path: Path) -> None:
    clock = SystemClock()
    with opened(tmp_path, clock) as one, opened(tmp_path, clock) as other:
        for _ in range(20):
            one.send(b"a")
            other.delete(*other.receive())
        _until_empty(tmp_path / "remove")
        for rig in (one, other):
            for _ in range(1_000):
                rig.in_turn()
                if not rig.store._engine.index.batches:
                    break
            assert rig.store._engine.index.batches == {}
            assert rig.store.failure is None


def _until_empty(folder: Path) -> None:
    pause = threading.Event()
    for _ in range(4_000):
        if not list(folder.iterdir()):
            return
        pause.wait(0.005)
    raise AssertionError(f"{list(folder.iterdir())} stay")
