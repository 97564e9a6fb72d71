"""Reservations where several processes share a root: each knows what the others have reserved."""

from __future__ import annotations

from typing import Any

import pytest
from engine_rig import EngineRig
from memory_disk import MemoryDisk
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import ReservationCommitted, ReservationLost, ReservationUnread
from spoolrack_store.model.operations import ById, Delete
from spoolrack_store.model.reservations import (
    CommitReservations,
    Committed,
    Confirm,
    MarkRead,
    Release,
    Reservation,
    Reserve,
)

HOLD = Millis(60_000)
Two = tuple[EngineRig, EngineRig]


@pytest.fixture
def two() -> Two:
    disk = MemoryDisk()
    a = EngineRig(disk, seed=1, watch=disk.watch)
    b = EngineRig(disk, seed=2, watch=disk.watch, clock=a.clock)
    a.tick()
    a.create()
    b.tick()
    return a, b


def reserve(rig: EngineRig, seq: int = 0, most: int = 100) -> Reservation:
    made = rig.ask(Reserve(queue="q", stream="s", seq=seq, hold=HOLD, max_messages=most))
    assert made is not None
    return made


def ids_in(rig: EngineRig, seq: int = 0) -> list[str]:
    count = rig.engine.reservations.begin_reading("s", seq, from_start=True)
    return [each.entry.id for each in rig.engine.reservations.sights("s", seq, 0, count)]


def check(*rigs: EngineRig) -> None:
    for rig in rigs:
        rig.engine.heed()
        rig.check()


def test_what_one_has_reserved_another_finds_reads_and_confirms(two: Two) -> None:
    a, b = two
    ids = sorted(a.send(b"1", b"2", b"3") + b.send(b"4"))
    made = reserve(a)

    assert reserve(b) == made
    assert ids_in(b) == ids
    a.clock.advance(50_000)
    confirmed = b.ask(Confirm(stream="s", seq=0))
    a.clock.advance(59_999)
    for rig in (a, b):
        rig.tick()

    assert reserve(a).expires_at == confirmed.expires_at
    assert ids_in(a) == ids
    check(a, b)


def test_what_others_delete_while_it_is_confirmed_is_no_part_of_it_any_more(
    two: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = two
    ids = a.send(b"1") + a.send(b"2") + a.send(b"3")
    reserve(a)
    b.tick()
    leaser = a.engine._leaser
    move_end = leaser.move_end

    def others_are_faster(*which: Any) -> bool:
        monkeypatch.undo()
        b.ask(Delete(queue="q", targets=[ById(id) for id in ids[:2]]))
        return move_end(*which)

    monkeypatch.setattr(leaser, "move_end", others_are_faster)
    a.ask(Confirm(stream="s", seq=0, hold=Millis(90_000)))

    assert ids_in(a) == ids[2:]
    check(a, b)


def test_two_never_make_the_same_reservation(two: Two) -> None:
    a, b = two
    a.send(b"1", b"2")
    made = reserve(a, most=1)

    assert not reserve(b).is_new
    assert reserve(b) == made
    assert len(b.receive(10)) == 1


def test_what_one_has_marked_as_read_another_commits(two: Two) -> None:
    a, b = two
    a.send(b"1", b"2", b"3")
    reserve(a)
    request = CommitReservations(stream="s", up_to=0, only_read=True)

    with pytest.raises(ReservationUnread):
        b.ask(request)
    a.ask(MarkRead(stream="s", seq=0))
    b.ask(Confirm(stream="s", seq=0))

    assert a.ask(request) == Committed(messages=3, lost=[])
    check(a, b)


def test_what_one_has_reserved_another_commits(two: Two) -> None:
    a, b = two
    a.send(b"1", b"2", b"3")
    reserve(a)

    assert b.ask(CommitReservations(stream="s", up_to=0)) == Committed(messages=3, lost=[])
    assert a.ask(CommitReservations(stream="s", up_to=0)) == Committed(messages=0, lost=[])

    with pytest.raises(ReservationCommitted):
        reserve(a)
    check(a, b)
    assert a.states() == b.states() == {}


def test_what_one_releases_is_lost_for_all(two: Two) -> None:
    a, b = two
    a.send(b"1", b"2")
    reserve(a)

    b.ask(Release(stream="s", seq=0))

    with pytest.raises(ReservationLost):
        reserve(a)
    assert len(a.receive(10)) == 2
    check(a, b)


def test_a_hold_that_is_over_is_lost_for_all(two: Two) -> None:
    a, b = two
    a.send(b"1", b"2")
    reserve(a)
    a.clock.advance(HOLD)

    assert len(a.receive(10)) == 2
    with pytest.raises(ReservationLost):
        reserve(b)
    check(a, b)


def test_the_sets_of_one_that_died_end_by_the_others(two: Two) -> None:
    a, b = two
    a.send(b"1", b"2")
    reserve(a)
    a.die()
    b.tick()
    assert ids_in(b) == sorted(b.states())

    b.clock.advance(HOLD + 1_000)
    b.tick()

    with pytest.raises(ReservationLost):
        reserve(b)
    assert len(b.receive(10)) == 2


def test_a_commit_that_died_in_its_midst_is_finished_by_another(two: Two) -> None:
    a, b = two
    a.send(b"1", b"2", b"3")
    reserve(a)
    work = a.engine.apply([CommitReservations(stream="s", up_to=0)])
    a.engine.sync(work)
    a.die()

    b.tick()
    b.tick()

    assert [found.name for found in b.disk.scan("reserved")] == ["s.0"]
    check(b)
    assert b.states() == {}


def test_whoever_stays_alone_knows_what_the_other_has_done(two: Two) -> None:
    a, b = two
    b.send(b"1", b"2")
    made = reserve(b)
    b.die()
    a.tick()
    a.tick()

    assert not a.engine._root.is_shared
    assert reserve(a) == made
    assert a.ask(CommitReservations(stream="s", up_to=0)).messages == 2
    check(a)
