"""A set that is reserved is leased under a name, read again as often as asked, and committed once."""

from __future__ import annotations

import errno

import pytest
from engine_rig import EngineRig
from faulty_disk import FaultyDisk
from memory_disk import MemoryDisk
from spoolrack_store.model.clock import HOUR, Millis
from spoolrack_store.model.errors import (
    DiskFull,
    ReservationCommitted,
    ReservationLost,
    ReservationNotFound,
)
from spoolrack_store.model.operations import ById, ByReceipt, Delete, Purge
from spoolrack_store.model.reservations import (
    MEMORY,
    CommitReservations,
    Committed,
    Confirm,
    Release,
    Reservation,
    Reserve,
    Unreserve,
)

HOLD = Millis(60_000)


@pytest.fixture
def rig() -> EngineRig:
    rig = EngineRig(FaultyDisk(MemoryDisk()))
    rig.create()
    return rig


def reserve(rig: EngineRig, seq: int = 0, **what: object) -> Reservation:
    made = rig.ask(Reserve(**({"queue": "q", "stream": "s", "seq": seq, "hold": HOLD} | what)))  # type: ignore[arg-type]
    assert made is not None
    rig.check()
    return made


def ids_in(rig: EngineRig, seq: int = 0) -> list[str]:
    """The ids that a read finds, in its order."""
    count = rig.engine.reservations.begin_reading("s", seq, from_start=False)
    return [each.entry.id for each in rig.engine.reservations.sights("s", seq, 0, count)]


def commit(rig: EngineRig, up_to: int = 0) -> Committed:
    done = rig.ask(CommitReservations(stream="s", up_to=up_to))
    rig.check()
    return done


def names(rig: EngineRig) -> list[str]:
    return sorted(found.name for found in rig.disk.scan("reserved"))


def test_a_set_is_what_was_ready_in_order_and_is_nobody_elses(rig: EngineRig) -> None:
    ids = rig.send(b"1", b"2", b"3") + rig.send(b"4") + rig.send(b"5", b"6")

    made = reserve(rig, max_messages=5)

    assert (made.queue, made.stream, made.seq) == ("q", "s", 0)
    assert (made.messages, made.bytes, made.is_lost, made.reads) == (5, 5, False, 0)
    assert made.expires_at == rig.clock.wall() + HOLD
    assert ids_in(rig) == ids[:5]
    assert [message.id for message in rig.receive(10)] == ids[5:]


def test_nothing_ready_reserves_nothing_and_leaves_nothing(rig: EngineRig) -> None:
    assert rig.ask(Reserve(queue="q", stream="s", seq=0)) is None
    assert names(rig) == []


def test_the_same_name_is_answered_with_the_same_set_whatever_else_is_asked(rig: EngineRig) -> None:
    rig.create("other")
    rig.send(b"1", b"2")
    made = reserve(rig)
    rig.send(b"3")

    again = reserve(rig, queue="other", max_messages=100, hold=Millis(5_000))

    assert again == made
    assert made.is_new
    assert not again.is_new


def test_a_set_is_bounded_by_bytes_but_never_empty(rig: EngineRig) -> None:
    for body in (b"12345", b"67", b"8", b"9" * 50):
        rig.send(body)

    assert reserve(rig, max_bytes=8).messages == 3
    assert reserve(rig, 1, max_bytes=8).bytes == 50


def test_more_than_a_thousand_messages_make_one_set(rig: EngineRig) -> None:
    for _ in range(4):
        rig.send(*[b"x"] * 400)

    assert reserve(rig, max_messages=1_500).messages == 1_500


def test_a_read_again_shows_the_same_messages_and_counts_no_receive(rig: EngineRig) -> None:
    rig.send(b"1", b"2", b"3")
    reserve(rig)

    for _ in range(2):
        rig.engine.reservations.begin_reading("s", 0, from_start=True)
    sights = rig.engine.reservations.sights("s", 0, 1, 3)

    assert [sight.entry.receives for sight in sights] == [1, 1]
    assert [shown.reads for shown in rig.engine.reservations.shown("", "", ("", -1), 10)] == [2]


def test_a_confirmation_lengthens_the_hold_of_all_of_it(rig: EngineRig) -> None:
    rig.send(b"1", b"2", b"3")
    rig.send(b"4")
    reserve(rig)
    rig.clock.advance(50_000)

    confirmed = rig.ask(Confirm(stream="s", seq=0))

    assert confirmed.expires_at == rig.clock.wall() + HOLD
    rig.clock.advance(59_999)
    rig.tick()
    assert len(ids_in(rig)) == 4
    assert rig.receive(10) == []
    rig.clock.advance(1)
    rig.tick()
    assert len(rig.receive(10)) == 4


def test_a_confirmation_may_shorten_the_hold(rig: EngineRig) -> None:
    rig.send(b"1", b"2")
    reserve(rig)

    rig.ask(Confirm(stream="s", seq=0, hold=Millis(2_000)))
    rig.clock.advance(2_000)

    assert len(rig.receive(10)) == 2
    with pytest.raises(ReservationLost):
        ids_in(rig)


def test_a_hold_that_can_not_be_shortened_lasts(rig: EngineRig) -> None:
    rig.send(b"1", b"2")
    reserve(rig)
    assert isinstance(rig.disk, FaultyDisk)
    rig.disk.fail(errno.ENOSPC, "rename", path="reserved/")

    with pytest.raises(DiskFull):
        rig.ask(Confirm(stream="s", seq=0, hold=Millis(2_000)))

    rig.clock.advance(HOLD - 1)
    assert len(ids_in(rig)) == 2


def test_messages_whose_leases_can_not_be_shortened_come_back_later(rig: EngineRig) -> None:
    rig.send(b"1", b"2")
    reserve(rig)
    assert isinstance(rig.disk, FaultyDisk)
    rig.disk.fail(errno.ENOSPC, "rename", path="delay/")

    confirmed = rig.ask(Confirm(stream="s", seq=0, hold=Millis(2_000)))

    assert confirmed.expires_at == rig.clock.wall() + 2_000
    rig.clock.advance(2_000)
    with pytest.raises(ReservationLost):
        ids_in(rig)
    assert rig.receive(10) == []
    rig.disk.heal()
    rig.clock.advance(HOLD)
    assert len(rig.receive(10)) == 2


def test_a_hold_that_is_over_gives_the_messages_back_and_is_told_as_lost(rig: EngineRig) -> None:
    ids = rig.send(b"1", b"2")
    reserve(rig)
    rig.clock.advance(HOLD)

    assert [message.id for message in rig.receive(10)] == ids
    for request in (
        Reserve(queue="q", stream="s", seq=0),
        Confirm(stream="s", seq=0),
    ):
        with pytest.raises(ReservationLost):
            rig.ask(request)
    with pytest.raises(ReservationLost):
        ids_in(rig)
    (shown,) = rig.engine.reservations.shown("", "", ("", -1), 10)
    assert shown.is_lost


def test_a_lost_set_is_never_held_again_also_after_a_restart_with_a_clock_set_back(
    rig: EngineRig,
) -> None:
    rig.send(b"1", b"2")
    reserve(rig)
    rig.clock.step_wall(-HOUR)
    rig.clock.advance(HOLD)
    rig.tick()
    targets = [ByReceipt(message.receipt or "") for message in rig.receive(10)]
    rig.ask(Delete(queue="q", targets=targets))
    rig.clock.step_wall(-HOUR)
    rig.restart()

    with pytest.raises(ReservationLost):
        rig.ask(Reserve(queue="q", stream="s", seq=0))
    rig.check()


def test_a_commit_deletes_all_sets_up_to_its_number_and_may_be_repeated(rig: EngineRig) -> None:
    rig.send(b"1", b"2", b"3")
    for seq in range(3):
        reserve(rig, seq, max_messages=1)

    assert commit(rig, 1) == Committed(messages=2, lost=[])
    assert commit(rig, 1) == Committed(messages=0, lost=[])
    assert commit(rig, 0) == Committed(messages=0, lost=[])

    assert len(ids_in(rig, 2)) == 1
    assert names(rig)[0] == "s.1"
    assert len(names(rig)) == 2
    for seq in (0, 1):
        with pytest.raises(ReservationCommitted):
            rig.ask(Reserve(queue="q", stream="s", seq=seq))
        with pytest.raises(ReservationCommitted):
            ids_in(rig, seq)


def test_a_commit_names_the_lost_sets_and_leaves_their_messages_alone(rig: EngineRig) -> None:
    ids = rig.send(b"1", b"2", b"3")
    reserve(rig, 0, max_messages=1)
    rig.clock.advance(HOLD)
    rig.tick()
    (taken,) = rig.receive(1)
    reserve(rig, 1, max_messages=1)

    assert commit(rig, 1) == Committed(messages=1, lost=[0])
    assert commit(rig, 1) == Committed(messages=0, lost=[0])  # The first answer may not have come.

    assert taken.id == ids[0]
    assert sorted(rig.states()) == [ids[0], ids[2]]
    reserve(rig, 2)
    assert commit(rig, 2).lost == []


def test_a_commit_of_what_never_was_is_remembered(rig: EngineRig) -> None:
    assert commit(rig, 7) == Committed(messages=0, lost=[])
    rig.restart()

    with pytest.raises(ReservationCommitted) as refused:
        rig.ask(Reserve(queue="q", stream="s", seq=7))

    assert refused.value.facts["committed"] == 7


def test_a_release_gives_the_messages_back_at_once_and_may_be_repeated(rig: EngineRig) -> None:
    ids = rig.send(b"1", b"2")
    reserve(rig)

    rig.ask(Release(stream="s", seq=0))
    rig.ask(Release(stream="s", seq=0))

    assert [(m.id, m.receives) for m in rig.receive(10)] == [(id, 2) for id in ids]
    with pytest.raises(ReservationLost):
        rig.ask(Reserve(queue="q", stream="s", seq=0))
    (shown,) = rig.engine.reservations.shown("", "", ("", -1), 10)
    assert shown.is_lost
    assert shown.expires_at == rig.clock.wall()


def test_what_never_was_is_not_found(rig: EngineRig) -> None:
    for request in (Confirm(stream="s", seq=3), Release(stream="s", seq=3)):
        with pytest.raises(ReservationNotFound):
            rig.ask(request)
    with pytest.raises(ReservationNotFound):
        ids_in(rig, 3)


def test_what_is_deleted_by_id_or_purged_is_left_out(rig: EngineRig) -> None:
    ids = rig.send(b"1", b"2", b"3")
    reserve(rig)

    rig.ask(Delete(queue="q", targets=[ById(ids[1])]))
    assert ids_in(rig) == [ids[0], ids[2]]
    rig.ask(Purge(queue="q"))
    assert ids_in(rig) == []

    assert rig.ask(Confirm(stream="s", seq=0)).messages == 3
    assert commit(rig) == Committed(messages=0, lost=[])


def test_a_restart_finds_all_as_it_was(rig: EngineRig) -> None:
    ids = rig.send(b"1", b"2", b"3")
    rig.send(b"4")
    made = reserve(rig, max_messages=3)
    later = reserve(rig, 1)

    rig.restart()

    rig.check()
    assert reserve(rig) == made
    assert reserve(rig, 1) == later
    assert ids_in(rig) == ids
    assert commit(rig, 1).messages == 4
    rig.restart()
    rig.check()
    assert names(rig) == ["s.1"]
    assert not rig.states()


def test_a_hold_that_has_ended_while_nobody_was_there_is_lost(rig: EngineRig) -> None:
    rig.send(b"1", b"2")
    reserve(rig)
    rig.clock.advance(HOLD)
    rig.restart()

    with pytest.raises(ReservationLost):
        rig.ask(Confirm(stream="s", seq=0))
    assert len(rig.receive(10)) == 2


def test_a_full_disk_undoes_the_leases(rig: EngineRig) -> None:
    ids = rig.send(b"1", b"2", b"3") + rig.send(b"4")

    assert isinstance(rig.disk, FaultyDisk)
    rig.disk.fail(errno.ENOSPC, "create", path="reserved/")

    with pytest.raises(DiskFull):
        rig.ask(Reserve(queue="q", stream="s", seq=0))

    rig.disk.heal()
    rig.check()
    assert [(m.id, m.receives) for m in rig.receive(10)] == [(id, 1) for id in ids]


def test_leases_that_used_up_their_receives_become_dead_letters(rig: EngineRig) -> None:
    rig.create("dead")
    rig.create("poor", max_receives=1, dead_letter_queue="dead")
    ids = rig.send(b"1", b"2", queue="poor")
    reserve(rig, queue="poor")

    rig.ask(Release(stream="s", seq=0))

    rig.check()
    assert sorted(rig.states("dead")) == ids


def test_an_undone_reservation_was_never_there(rig: EngineRig) -> None:
    ids = rig.send(b"1", b"2")
    reserve(rig)

    rig.ask(Unreserve(stream="s", seq=0))

    rig.check()
    assert names(rig) == []
    assert [(m.id, m.receives) for m in rig.receive(10)] == [(id, 1) for id in ids]


def test_a_reservation_that_somebody_was_told_of_is_not_undone(rig: EngineRig) -> None:
    rig.send(b"1", b"2")
    made = reserve(rig)
    reserve(rig)

    rig.ask(Unreserve(stream="s", seq=0))

    assert reserve(rig) == made


def test_what_is_long_over_is_forgotten(rig: EngineRig) -> None:
    rig.send(b"1", b"2")
    reserve(rig, 0, max_messages=1)
    commit(rig, 0)
    reserve(rig, 1)
    rig.ask(Release(stream="s", seq=1))
    assert len(names(rig)) == 2

    rig.clock.advance(MEMORY - 1)
    rig.tick()
    assert len(names(rig)) == 2
    rig.clock.advance(60_001)
    rig.tick()
    rig.clock.advance(60_001)
    rig.tick()

    assert names(rig) == []
    with pytest.raises(ReservationNotFound):
        rig.ask(Confirm(stream="s", seq=1))
