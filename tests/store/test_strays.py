"""Refuse calls about sets that this root doesn't know, and answer repetitions."""

from __future__ import annotations

from typing import Any

import pytest
from spoolrack_store.model.errors import (
    ReservationCommitted,
    ReservationNotFound,
)
from spoolrack_store.model.reservation_requests import (
    REMEMBERED_SETS,
    CommitReservations,
    Committed,
    ExtendReservation,
    MarkRead,
    OfSet,
    Release,
)

from tests.support.set_rig import SetRig


@pytest.fixture
def rig() -> SetRig:
    return SetRig()


def commit(rig: SetRig, number: int, **what: Any) -> Committed:
    done: Committed = rig.ask(CommitReservations(stream="s", last_sequence_number=number, **what))
    rig.settle()
    return done


def reserved(rig: SetRig, *numbers: int, **what: Any) -> None:
    for number in numbers:
        rig.send(b"1", queue=what.get("queue", "q"))
        rig.reserve(number, **what)


def test_a_commit_of_a_set_of_another_root_is_refused_where_the_stream_is_further(rig: SetRig) -> None:
    reserved(rig, 0, 4)
    assert commit(rig, 4).deleted_count == 2
    for number in (1, 3):
        with pytest.raises(ReservationCommitted, match="or it was never made here"):
            commit(rig, number)


def test_a_commit_that_is_repeated_succeeds_behind_later_ones(rig: SetRig) -> None:
    for number in range(5):
        reserved(rig, number)
        assert commit(rig, number).deleted_count == 1
    for number in (4, 0, 3):
        assert commit(rig, number) == Committed(deleted_count=0, lost_sequence_numbers=[])
    rig.restart()
    assert commit(rig, 2) == Committed(deleted_count=0, lost_sequence_numbers=[])


def test_a_commit_that_is_repeated_later_than_is_remembered_is_told_so(rig: SetRig) -> None:
    for number in range(REMEMBERED_SETS + 2):
        reserved(rig, number)
        commit(rig, number)
    assert commit(rig, 1) == Committed(deleted_count=0, lost_sequence_numbers=[])
    with pytest.raises(ReservationCommitted):
        commit(rig, 0)


def test_a_commit_of_a_set_of_another_queue_is_refused(rig: SetRig) -> None:
    reserved(rig, 0)
    with pytest.raises(ReservationNotFound):
        commit(rig, 0, queue="other")
    assert commit(rig, 0, queue="q").deleted_count == 1
    with pytest.raises(ReservationNotFound):
        commit(rig, 0, queue="other")
    assert commit(rig, 0, queue="q").deleted_count == 0


@pytest.mark.parametrize("kind", [ExtendReservation, Release, MarkRead])
def test_a_call_about_a_set_of_another_queue_is_refused(rig: SetRig, kind: type[OfSet[Any]]) -> None:
    reserved(rig, 0)
    with pytest.raises(ReservationNotFound):
        rig.ask(kind(stream="s", sequence_number=0, queue="other"))
    rig.ask(kind(stream="s", sequence_number=0, queue="q"))


def test_a_read_of_a_set_of_another_queue_is_refused(rig: SetRig) -> None:
    reserved(rig, 0)
    sets = rig.engine.reservations
    with pytest.raises(ReservationNotFound):
        sets.begin_reading("s", 0, 0, 0, queue="other")
    with pytest.raises(ReservationNotFound):
        sets.find("s", 0, "other")
    assert sets.begin_reading("s", 0, 0, 0, queue="q") == sets.find("s", 0, "q").message_count == 1
