"""A large set is leased, brought back and deleted in slices, between the commits of other callers."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest
from spoolrack_store.engine import effort as efforts
from spoolrack_store.engine import reserver
from spoolrack_store.engine.entries import Entry
from spoolrack_store.files.lock_wait import LockWait
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import ReservationCommitted, ReservationNotFound
from spoolrack_store.model.members import effort
from spoolrack_store.model.operations import UNFINISHED, Purge, Receive, Send, UpdateQueue
from spoolrack_store.model.reservation_requests import (
    CommitReservations,
    ExtendReservation,
    Reservation,
    Reserve,
    UndoReservation,
)
from spoolrack_store.store import Store

from tests.store.front_rig import GIVE_UP, FrontRig, opened
from tests.support.set_rig import HOLD, SetRig
from tests.support.steps import slices_of


def reserve_all() -> Reserve:
    return Reserve(queue="q", stream="s", sequence_number=0, max_messages=100, visibility_timeout=HOLD)


@pytest.fixture(autouse=True)
def slices_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(efforts, "FILES", 2)


@pytest.fixture
def rig() -> SetRig:
    return SetRig()


@pytest.fixture
def front(tmp_path: Path) -> Iterator[FrontRig]:
    with opened(tmp_path / "root") as rig:
        yield rig


def lone(rig: SetRig | FrontRig, count: int) -> list[str]:
    return [id for at in range(count) for id in rig.send(b"%d" % at)]


def leased(rig: SetRig) -> list[Entry]:
    entries = rig.engine.index.queue("q").entries
    return [entry for entry in entries if entry.name.token]


def test_a_commit_leases_one_slice_and_another_caller_gets_what_is_left(rig: SetRig) -> None:
    ids = lone(rig, 6)

    assert rig.ask(reserve_all()) is UNFINISHED
    assert len(leased(rig)) == 2
    with pytest.raises(ReservationNotFound):
        rig.ask(ExtendReservation(stream="s", sequence_number=0))
    assert rig.ask(reserve_all()) is UNFINISHED
    assert rig.receive() == [(id, 1) for id in ids[4:]]
    made = rig.ask(reserve_all())

    assert (made.message_count, made.byte_count, made.is_new) == (4, 4, True)
    assert rig.ids_in() == ids[:4]


def test_a_set_in_slices_keeps_its_bounds(rig: SetRig) -> None:
    ids = lone(rig, 9)
    bounded = Reserve(queue="q", stream="s", sequence_number=0, max_messages=5, visibility_timeout=HOLD)
    by_bytes = Reserve(queue="q", stream="s", sequence_number=1, max_bytes=2, visibility_timeout=HOLD)

    assert [rig.ask(bounded), rig.ask(bounded)] == [UNFINISHED] * 2
    assert rig.ask(bounded).message_count == 5
    assert rig.ask(by_bytes) is UNFINISHED
    assert rig.ask(by_bytes).message_count == 2
    assert rig.ids_in(1) == ids[5:7]


def test_a_process_that_joins_leaves_the_slices_of_a_living_one_alone(rig: SetRig) -> None:
    ids = lone(rig, 5)
    assert rig.ask(reserve_all()) is UNFINISHED
    other = rig.join()
    rig.settle(engine=other)

    assert rig.ask(reserve_all()) is UNFINISHED
    rig.settle(engine=other)

    made = rig.ask(reserve_all())
    assert (made.message_count, rig.ids_in()) == (5, ids)
    assert rig.receive(engine=other) == []


def test_a_set_that_another_process_has_made_meanwhile_is_the_answer(rig: SetRig) -> None:
    ids = lone(rig, 5)
    other = rig.join()
    rig.settle(engine=other)
    assert rig.ask(reserve_all()) is UNFINISHED
    assert rig.ask(reserve_all(), engine=other) is UNFINISHED
    assert rig.ask(reserve_all(), engine=other).message_count == 3

    assert rig.ask(reserve_all()).message_count == 3
    rig.settle()

    assert rig.ids_in() == ids[2:]
    assert rig.receive() == [(id, 1) for id in ids[:2]]


def test_what_is_being_undone_is_reserved_before_what_was_sent_later(rig: SetRig) -> None:
    ids = lone(rig, 5)
    while rig.ask(reserve_all()) is UNFINISHED:
        pass
    ids += lone(rig, 1)

    rig.ask(UndoReservation(stream="s", sequence_number=0))
    while rig.ask(reserve_all()) is UNFINISHED:
        pass

    assert rig.ids_in() == ids


def test_what_is_purged_between_slices_is_not_in_the_set(rig: SetRig) -> None:
    lone(rig, 5)
    assert rig.ask(reserve_all()) is UNFINISHED
    purge = Purge(queue="q")
    while rig.ask(purge) is UNFINISHED:
        pass
    rig.settle()

    late = lone(rig, 1)
    made = rig.ask(reserve_all())

    assert made.message_count == 1
    assert rig.ids_in() == late


def test_a_set_of_a_strict_queue_is_whole_with_what_one_commit_leases(
    rig: SetRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reserver, "PORTION", 3)
    rig.ask(UpdateQueue(name="q", changes={"group_order": "strict"}))
    ids = [id for at in range(5) for id in rig.ask(_grouped(at)).results]
    rig.settle()

    made = rig.ask(reserve_all())

    # A further slice would find the group leased, and callers wait for as long as a commit takes.
    assert (made.message_count, rig.ids_in()) == (3, ids[:3])


def _grouped(at: int) -> Send:
    return Send(queue="q", bodies=[b"%d" % at], groups={0: "g"})


def test_a_set_whose_number_is_committed_between_slices_is_undone(rig: SetRig) -> None:
    lone(rig, 1)
    rig.ask(replace(reserve_all(), sequence_number=1, max_messages=1))
    ids = lone(rig, 5)
    assert rig.ask(reserve_all()) is UNFINISHED
    rig.ask(CommitReservations(stream="s", last_sequence_number=1))

    with pytest.raises(ReservationCommitted):
        rig.ask(reserve_all())
    rig.settle()

    assert rig.receive() == [(id, 1) for id in ids]


def test_a_commit_deletes_one_slice_at_a_time(rig: SetRig) -> None:
    lone(rig, 5)
    while rig.ask(reserve_all()) is UNFINISHED:
        pass
    assert rig.ask(CommitReservations(stream="s", last_sequence_number=0)).deleted_count == 5

    assert slices_of(lambda: len(leased(rig)), rig.tick)[-4:] == [1] * 4
    rig.settle()
    assert rig.receive() == []


def test_a_hold_ends_beside_a_committed_set_that_is_being_deleted(rig: SetRig) -> None:
    lone(rig, 9)
    reserve = reserve_all()
    while rig.ask(reserve) is UNFINISHED:
        pass
    rig.send(b"x", queue="other")
    rig.reserve(stream="t", queue="other")
    rig.ask(CommitReservations(stream="s", last_sequence_number=0))
    rig.clock.now += HOLD

    rig.tick()

    assert leased(rig)
    assert rig.engine.reservations.sets["t", 0].name.is_lost


def test_a_caller_of_the_store_gets_the_whole_set_and_its_count_after_the_commit(
    front: FrontRig,
) -> None:
    lone(front, 7)

    made = front.ask(reserve_all())
    assert isinstance(made, Reservation)
    assert made.message_count == 7
    front.ask(CommitReservations(stream="s", last_sequence_number=0))

    counts = front.store.queue("q").counts
    assert (counts.ready_count, counts.leased_count) == (0, 0)


def test_a_reserve_whose_caller_goes_in_its_first_slice_is_done_and_undone(front: FrontRig) -> None:
    ids = lone(front, 5)
    asked: list[Future[Reservation | None]] = []
    is_asked = Event()

    def cancel() -> None:
        is_asked.wait(GIVE_UP)
        asked[0].cancel()

    front.disk.before_sync = cancel
    asked.append(front.store.submit(reserve_all()))
    is_asked.set()

    got: list[tuple[str, int]] = []
    while len(got) < len(ids):
        deliveries = front.ask(Receive(queue="q", max_messages=100, wait=None))
        got += [(id, each.receive_count) for each in deliveries for id in each.ids]
    assert asked[0].cancelled()
    assert sorted(got) == [(id, 1) for id in ids]


@pytest.mark.parametrize("processes", [1, 2])
def test_a_process_leaves_the_lock_to_others_between_slices(
    front: FrontRig, processes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[int] = []
    leave_to_others = LockWait.leave_to_others

    def counted(self: LockWait, now: Millis) -> None:
        left.append(1)
        leave_to_others(self, now)

    monkeypatch.setattr(LockWait, "leave_to_others", counted)
    lone(front, 7)
    with closing(Store.open(front.path)) if processes > 1 else nullcontext():
        made = front.ask(reserve_all())

    assert made is not None
    assert made.message_count == 7
    assert bool(left) == (processes > 1)


def test_moving_a_list_of_many_runs_counts_like_several_files() -> None:
    assert effort(1) == effort((1 << 1_000) - 1) == 1
    assert effort(int("01" * 500, 2)) > 50
