"""A set that is reserved is leased under a name, read again as often as asked, and committed once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from spoolrack_store.engine import reserver
from spoolrack_store.files import changes
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import (
    DiskError,
    DiskFull,
    ReservationCommitted,
    ReservationLost,
    ReservationNotFound,
)
from spoolrack_store.model.operations import CreateQueue, DeleteQueue, Receive
from spoolrack_store.model.reservation_names import ReservationRecord
from spoolrack_store.model.reservation_requests import (
    MEMORY,
    CommitReservations,
    Committed,
    ExtendReservation,
    MarkRead,
    Release,
    ReservationState,
    UndoReservation,
)
from spoolrack_store.model.settings import QueueSettings

from tests.support.set_rig import HOLD, SetRig


@pytest.fixture
def rig() -> SetRig:
    return SetRig()


def commit(rig: SetRig, last_sequence_number: int = 0, **what: Any) -> Committed:
    done: Committed = rig.ask(
        CommitReservations(stream="s", last_sequence_number=last_sequence_number, **what)
    )
    rig.settle()
    return done


def test_a_set_of_lone_messages_ends_before_it_holds_up_others_for_long(
    rig: SetRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reserver, "MAX_EFFORT", 3)
    lone = [id for body in (b"1", b"2", b"3", b"4") for id in rig.send(body)]
    together = rig.send(b"5", b"6", b"7", b"8")

    assert rig.reserve(0, max_messages=100).message_count == 3
    assert rig.ids_in(0) == lone[:3]
    assert rig.reserve(1, max_messages=100).message_count == 5
    assert rig.ids_in(1) == [*lone[3:], *together]


def test_a_large_set_costs_one_name_for_each_file(rig: SetRig) -> None:
    ids = [id for _ in range(5) for id in rig.send(*[b"x"] * 500)]
    before = len(rig.disk.scan("delay"))

    made = rig.reserve(max_messages=100_000)

    assert made.message_count == 2_500
    assert len(rig.disk.scan("delay")) == before + 5
    assert len(rig.disk.read(f"reserved/{rig.names('reserved')[0]}")) < 1_000
    assert rig.ids_in() == ids


def test_a_commit_names_the_lost_sets_again_and_leaves_their_messages_alone(rig: SetRig) -> None:
    rig.send(b"1", b"2")
    rig.reserve(0, max_messages=1)
    rig.reserve(1, max_messages=1)
    rig.ask(Release(stream="s", sequence_number=0))
    rig.settle()

    assert commit(rig, 1) == Committed(deleted_count=1, lost_sequence_numbers=[0])
    assert commit(rig, 1) == Committed(deleted_count=0, lost_sequence_numbers=[0])
    rig.reserve(2, max_messages=1)
    assert commit(rig, 2) == Committed(deleted_count=1, lost_sequence_numbers=[])

    assert rig.names("reserved") == ["s.2"]
    assert rig.receive() == []


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_commit_deletes_a_lost_set_that_no_one_has_leased_since(
    rig: SetRig, is_restarted: bool
) -> None:
    rig.send(b"1", b"2")
    rig.send(b"3")
    rig.reserve()
    rig.ask(MarkRead(stream="s", sequence_number=0))
    rig.advance(HOLD)
    rig.settle()
    if is_restarted:
        rig.restart()

    assert commit(rig, only_read=True) == Committed(deleted_count=3, lost_sequence_numbers=[])
    assert commit(rig, only_read=True) == Committed(deleted_count=0, lost_sequence_numbers=[])

    assert rig.names("reserved") == ["s.0"]
    assert rig.receive() == []
    rig.restart()
    assert rig.receive() == []


def test_a_commit_deletes_a_lost_set_of_an_earlier_version_whose_leases_began_after_its_record(
    rig: SetRig,
) -> None:
    """Earlier versions read the clock for the record, and again for each lease."""
    rig.send(b"1", b"2")
    rig.reserve()
    (name,) = rig.names("reserved")
    path = f"reserved/{name}"
    record = ReservationRecord.decode(rig.disk.read(path))
    rig.disk.unlink(path)
    older = replace(record, made_at=Millis(record.made_at - 999))
    rig.disk.create(path, [older.encode()], sync=True)
    rig.restart()
    rig.ask(MarkRead(stream="s", sequence_number=0))
    rig.advance(HOLD)

    assert commit(rig) == Committed(deleted_count=2, lost_sequence_numbers=[])


def test_a_commit_of_a_lost_set_deletes_what_no_one_has_leased_since_and_leaves_the_rest(
    rig: SetRig,
) -> None:
    ids = rig.send(b"1", b"2", b"3")
    rig.reserve()
    rig.ask(MarkRead(stream="s", sequence_number=0))
    rig.advance(HOLD)
    rig.settle()
    assert rig.ask(Receive(queue="q", max_messages=1))[0].ids == ids[:1]
    rig.advance(HOLD)

    assert commit(rig) == Committed(deleted_count=2, lost_sequence_numbers=[0])

    assert rig.receive() == [(ids[0], 3)]


@pytest.mark.parametrize("end", ["unread", "released", "released when it was over"])
@pytest.mark.parametrize("only_read", [False, True])
def test_a_commit_leaves_a_lost_set_that_was_not_read_or_was_released(
    rig: SetRig, end: str, only_read: bool
) -> None:
    ids = rig.send(b"1")
    rig.reserve()
    if end != "unread":
        rig.ask(MarkRead(stream="s", sequence_number=0))
    if end == "released":
        rig.ask(Release(stream="s", sequence_number=0))
    rig.advance(HOLD)
    rig.settle()
    if end == "released when it was over":
        rig.ask(Release(stream="s", sequence_number=0))

    assert commit(rig, only_read=only_read) == Committed(deleted_count=0, lost_sequence_numbers=[0])

    assert rig.receive() == [(ids[0], 2)]


def test_a_commit_that_is_repeated_now_and_then_is_remembered_for_as_long(rig: SetRig) -> None:
    rig.send(b"1")
    rig.reserve(0)
    commit(rig, 0)

    for _ in range(4):
        rig.advance(MEMORY * 2 // 3)
        assert commit(rig, 0) == Committed(deleted_count=0, lost_sequence_numbers=[])
        assert len(rig.names("reserved")) == 1
    rig.restart()

    with pytest.raises(ReservationCommitted):
        rig.reserve(0)
    rig.advance(MEMORY + 60_001)
    rig.advance(60_001)
    assert rig.names("reserved") == []
    with pytest.raises(ReservationNotFound):
        commit(rig, 0)


@pytest.mark.parametrize("is_made_again", [False, True])
def test_a_set_of_a_queue_that_was_deleted_is_lost_for_its_reader(
    rig: SetRig, is_made_again: bool
) -> None:
    rig.send(b"1", b"2")
    made = rig.reserve()
    rig.ask(MarkRead(stream="s", sequence_number=0))
    rig.ask(DeleteQueue(name="q"))
    rig.advance(1)
    if is_made_again:
        rig.ask(CreateQueue(name="q", settings=QueueSettings()))
        rig.send(b"new")

    for _ in range(2):
        for request in (
            ExtendReservation(stream="s", sequence_number=0),
            MarkRead(stream="s", sequence_number=0),
        ):
            with pytest.raises(ReservationLost):
                rig.ask(request)
        with pytest.raises(ReservationLost):
            rig.engine.reservations.begin_reading("s", 0, 0, 0)
        (told,) = rig.engine.reservations.shown("", "s", ("", -1), 9)
        assert told.state is ReservationState.LOST
        assert told.message_count == made.message_count
        rig.restart()
    # Its messages are gone: nothing of it can come again.
    assert commit(rig, 0) == Committed(deleted_count=0, lost_sequence_numbers=[])
    if is_made_again:
        assert len(rig.receive()) == 1


@pytest.mark.parametrize(("refused", "spared"), [("reserved/", 0), ("delay/", 0), ("delay/", 1)])
def test_a_full_disk_undoes_the_reserve(rig: SetRig, refused: str, spared: int) -> None:
    ids = rig.send(b"1", b"2") + rig.send(b"3")
    rig.fill_disk(refused, spared=spared)

    with pytest.raises(DiskFull):
        rig.reserve()

    rig.disk.refused = ()
    assert rig.names("reserved") == []
    assert rig.receive() == [(id, 1) for id in ids]


def test_a_reserve_that_a_full_disk_could_not_undo_is_undone_later(rig: SetRig) -> None:
    ids = rig.send(b"1") + rig.send(b"2")
    rig.fill_disk("delay/", "queues/", spared=1)

    with pytest.raises(DiskFull):
        rig.reserve()
    with pytest.raises(DiskFull):
        rig.reserve()
    rig.disk.refused = ()
    rig.advance(1_000)

    assert rig.names("reserved") == []
    assert rig.receive() == [(id, 1) for id in ids]


def test_an_unanswered_reserve_is_not_counted_though_its_lease_is_over(rig: SetRig) -> None:
    ids = rig.send(b"1") + rig.send(b"2")
    rig.fill_disk("delay/", "queues/", spared=1)
    with pytest.raises(DiskFull):
        rig.reserve()
    rig.disk.refused = ()
    rig.clock.now += HOLD

    rig.restart()

    assert rig.receive() == [(id, 1) for id in ids]


def test_the_messages_of_a_lost_set_are_counted_though_the_disk_refused_to_release_them(
    rig: SetRig,
) -> None:
    ids = rig.send(b"1") + rig.send(b"2")
    rig.reserve()
    rig.fill_disk("queues/")
    rig.ask(Release(stream="s", sequence_number=0))
    rig.settle()
    rig.disk.refused = ()

    rig.restart()
    rig.advance(HOLD)

    assert rig.receive() == [(id, 2) for id in ids]


def test_a_reservation_that_another_caller_was_told_of_is_not_undone(rig: SetRig) -> None:
    rig.send(b"1", b"2")
    made = rig.reserve()
    rig.reserve()

    rig.ask(UndoReservation(stream="s", sequence_number=0))

    assert rig.reserve() == made


def test_an_old_reservation_is_forgotten(rig: SetRig) -> None:
    rig.clock.ticks = False
    rig.send(b"1", b"2")
    rig.reserve(0, max_messages=1)
    commit(rig, 0)
    rig.reserve(1)
    rig.ask(Release(stream="s", sequence_number=1))
    rig.settle()
    assert len(rig.names("reserved")) == 2

    rig.advance(MEMORY - 1)
    assert len(rig.names("reserved")) == 2
    rig.advance(60_001)
    rig.advance(60_001)

    assert rig.names("reserved") == []
    with pytest.raises(ReservationNotFound):
        rig.ask(ExtendReservation(stream="s", sequence_number=1))


def test_a_page_holds_two_mebibytes(rig: SetRig) -> None:
    for _ in range(6):
        rig.send(b"x" * 1_000_000)
    rig.reserve()

    page = rig.engine.reservations.page("s", 0, 0, 6)

    assert (len(page.messages), page.next_index) == (2, 2)


# Several processes.


def test_a_committed_set_whose_marker_cannot_be_read_is_not_brought_back(rig: SetRig) -> None:
    rig.send(b"1", b"2")
    rig.reserve()
    rig.ask(CommitReservations(stream="s", last_sequence_number=0))
    rig.disk.refused = ("read reserved/s.0",)
    rig.restart()
    for span in (HOLD, 1_000, 1_000):
        rig.advance(span)
        rig.send(b"3", queue="other")
    assert rig.receive() == []
    rig.disk.refused = ()
    rig.advance(1_000)

    assert (rig.receive(), rig.names("reserved")) == ([], ["s.0"])


@pytest.mark.parametrize("unreadable", ["reserved", "queues/other"])
def test_an_overtaken_process_lists_the_root_until_the_disk_shows_it(
    rig: SetRig, monkeypatch: pytest.MonkeyPatch, unreadable: str
) -> None:
    monkeypatch.setattr(changes, "RING", 2_000)
    other = rig.join()
    rig.send(b"1")
    rig.settle(engine=other)
    made = rig.reserve()
    for _ in range(60):
        rig.send(b"x", queue="other")
    rig.disk.refused = (f"scan {unreadable}",)
    for _ in range(2):
        with pytest.raises(DiskError):
            rig.reserve(engine=other)
    rig.disk.refused = ()

    assert rig.reserve(engine=other) == made


def test_a_damaged_record_is_put_aside_and_its_messages_are_ready_again(rig: SetRig) -> None:
    ids = rig.send(b"a", b"b")
    rig.reserve()
    (name,) = rig.names("reserved")
    content = rig.disk.read(f"reserved/{name}")
    rig.disk.unlink(f"reserved/{name}")
    rig.disk.create(f"reserved/{name}", [content.replace(b":", b";", 1)], sync=True)
    rig.restart()
    assert rig.names("reserved") == []
    (place,) = [each.name for each in rig.disk.scan("quarantine")]
    kept = sorted(each.name for each in rig.disk.scan(f"quarantine/{place}"))
    assert kept == [name, f"{name}.why"]
    assert rig.receive() == [(id, 1) for id in ids]


# Files that were removed by hand, or that the disk refuses to write.


def remove_record(rig: SetRig, number: int) -> None:
    (name,) = (each for each in rig.names("reserved") if each.startswith(f"s.{number}@"))
    rig.disk.unlink(f"reserved/{name}")


def test_a_record_that_was_removed_costs_its_own_set_alone(rig: SetRig) -> None:
    """Its leases have no record any more: they are undone, and their receive doesn't count."""
    ids = [rig.send(body)[0] for body in (b"1", b"2", b"3")]
    for number in range(3):
        rig.reserve(number, max_messages=1)
    remove_record(rig, 0)

    rig.advance(HOLD)

    assert rig.receive() == [(ids[0], 1), (ids[1], 2), (ids[2], 2)]
    assert [each.partition("@")[0] for each in rig.names("reserved")] == ["s.1", "s.2"]


def test_a_record_that_the_disk_refuses_to_rename_keeps_no_other_hold_from_its_end(
    rig: SetRig,
) -> None:
    ids = [rig.send(body)[0] for body in (b"1", b"2")]
    for number in range(2):
        rig.reserve(number, max_messages=1)
    rig.disk.refused = ["rename reserved/s.0"]

    rig.advance(HOLD)
    rig.advance(1_000)

    assert rig.receive() == [(ids[1], 2)]
    rig.disk.refused = []
    rig.advance(2_000)
    assert rig.receive() == [(ids[0], 2)]


@pytest.mark.parametrize(
    "request_", [ExtendReservation, MarkRead, Release], ids=lambda kind: kind.__name__
)
def test_a_request_for_a_set_whose_record_was_removed_says_that_there_is_none(
    rig: SetRig, request_: type[Any]
) -> None:
    (id,) = rig.send(b"1")
    rig.reserve()
    remove_record(rig, 0)
    rig.clock.now += 1
    with pytest.raises(DiskError, match="removed by hand"):
        rig.ask(request_(stream="s", sequence_number=0))
    with pytest.raises(ReservationNotFound):
        rig.ask(request_(stream="s", sequence_number=0))
    rig.settle()
    assert rig.receive() == [(id, 1)]


@pytest.mark.parametrize("refused", ["create new/", "make reserved/", "rename new/"])
def test_a_marker_that_cannot_be_written_again_is_not_lost(rig: SetRig, refused: str) -> None:
    """The commit was durable long ago, and still is: its repetition is a success."""
    rig.send(b"1")
    rig.reserve(0)
    commit(rig, 0)
    rig.advance(MEMORY * 2 // 3)
    rig.disk.refused = [refused]
    assert commit(rig, 0) == Committed(deleted_count=0, lost_sequence_numbers=[])
    rig.disk.refused = []
    assert rig.names("reserved") == ["s.0"]
    rig.restart()
    assert commit(rig, 0) == Committed(deleted_count=0, lost_sequence_numbers=[])
    assert rig.names("new") == []
