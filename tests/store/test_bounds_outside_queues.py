"""What a root keeps outside of queues is bounded, by queue or by caller: one more is refused, nothing
else is affected, and what is forgotten makes room."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from spoolrack_store.engine import redriver, reservation_index, reserver, stages
from spoolrack_store.model.errors import (
    RedriveNotFound,
    ReservationNotFound,
    TooManyReservations,
    TooManyWriters,
)
from spoolrack_store.model.operations import Send
from spoolrack_store.model.redrive_requests import CancelRedrive, StartRedrive
from spoolrack_store.model.reservation_requests import (
    MEMORY,
    CommitReservations,
    Release,
    ReservationState,
)
from spoolrack_store.model.schedule_requests import CreateSchedule, Fire
from spoolrack_store.model.stage_requests import MIN_EPOCH_RETENTION, Publish

from tests.store.stage_rig import START, Rig
from tests.support.dead_letter_rig import Rig as RedriveRig
from tests.support.set_rig import SetRig


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    monkeypatch.setattr(stages, "MAX_WRITERS", 2)
    return Rig()


@pytest.fixture
def sets(monkeypatch: pytest.MonkeyPatch) -> SetRig:
    monkeypatch.setattr(reserver, "MAX_RESERVATIONS", 2)
    return SetRig()


def empty(writer: str, epoch: int = 0, owner: str = "") -> Publish:
    """A publication without messages, which is forgotten first."""
    return Publish(
        writer=writer, epoch=epoch, stages=[], owner=owner, epoch_retention=MIN_EPOCH_RETENTION
    )


# Writers.


def fill_writers(rig: Rig) -> None:
    for writer in ("w1", "w2"):
        rig.stage(writer, 0, b"a")
        rig.publish(writer, 0, writer, epoch_retention=MIN_EPOCH_RETENTION)


def test_a_writer_more_than_a_queue_may_have_is_refused_and_its_stage_stays(rig: Rig) -> None:
    fill_writers(rig)
    rig.stage("more", 0, b"a")
    with pytest.raises(TooManyWriters) as refused:
        rig.publish("w3", 0, "more")
    assert refused.value.facts == {"what": "the queue q", "held": 2, "limit": 2}
    assert (rig.staged(), rig.engine.stages.last_epoch("w3")) == (["more"], None)
    rig.settle()
    # Writers that are known go on, a repetition is answered, and other queues have room of their own.
    assert rig.publish("w2", 0).duplicate
    assert rig.publish("w1", 1, "more").message_count == 1
    rig.settle()
    rig.stage("elsewhere", 0, b"b", queue="other")
    assert rig.publish("w3", 0, "elsewhere").message_count == 1
    assert (rig.receive(), rig.receive("other")) == ([b"a", b"a", b"a"], [b"b"])


def test_a_known_writer_needs_room_in_a_queue_that_it_has_not_written(rig: Rig) -> None:
    fill_writers(rig)
    rig.stage("s", 0, b"a", queue="other")
    rig.publish("w3", 0, "s")
    rig.settle()
    rig.stage("s", 0, b"a")
    with pytest.raises(TooManyWriters):
        rig.publish("w3", 1, "s")


@pytest.mark.parametrize("restart", [False, True])
def test_a_writer_that_is_forgotten_makes_room(rig: Rig, restart: bool) -> None:
    fill_writers(rig)
    rig.stage("more", 0, b"a")
    if restart:
        rig.restart()
        with pytest.raises(TooManyWriters):  # What is remembered is counted at the start, too.
            rig.publish("w3", 0, "more")
    rig.clock.advance(MIN_EPOCH_RETENTION)
    rig.settle()
    assert rig.names("published") == []
    assert rig.publish("w3", 0, "more").message_count == 1


def test_publications_without_messages_are_bounded_by_caller(rig: Rig) -> None:
    """Each makes a file that is kept for up to a year, and no queue pays for it."""
    for writer in ("w1", "w2"):
        rig.ask(empty(writer, owner="alice"))
    with pytest.raises(TooManyWriters, match="writers are remembered of alice, without messages"):
        rig.ask(empty("w3", owner="alice"))
    assert not rig.ask(empty("w1", 1, owner="alice")).duplicate
    assert rig.ask(empty("w2", owner="alice")).duplicate
    rig.settle()
    assert len(rig.names("published")) == 2
    for writer in ("w4", "w5"):
        rig.ask(empty(writer, owner="bob"))
    rig.stage("s", 0, b"a")
    assert rig.publish("w6", 0, "s").message_count == 1
    rig.clock.advance(MIN_EPOCH_RETENTION)
    rig.settle()
    assert not rig.ask(empty("w3", owner="alice")).duplicate


def test_a_publication_with_messages_frees_the_place_of_one_without(rig: Rig) -> None:
    for writer in ("w1", "w2"):
        rig.ask(empty(writer))
    rig.stage("s", 0, b"a")
    rig.publish("w1", 1, "s")
    rig.settle()
    assert not rig.ask(empty("w3")).duplicate


def test_schedules_send_to_a_queue_with_all_its_writers(rig: Rig) -> None:
    fill_writers(rig)
    made = rig.ask(CreateSchedule(queue="q", name="nightly", cron="0 3 * * *", time_zone="UTC"))
    tick = START // 1_000 + 60
    assert rig.ask(Fire(queue="q", name="nightly", token=made.schedule.token, tick=tick))


def test_other_processes_count_the_same_writers(rig: Rig) -> None:
    fill_writers(rig)
    other = rig.join()
    rig.ask(empty("w1", 1))
    rig.settle()  # The earlier manifests are unlinked.
    rig.ask(Send(queue="q", bodies=[b"a"]), other)
    assert other.stages._manifests_of == rig.engine.stages._manifests_of == {"q": 2}


# Reservations and streams.


def reserve_refused(sets: SetRig, queue: str = "q") -> dict[str, object]:
    with pytest.raises(TooManyReservations) as refused:
        sets.reserve(0, stream="more", max_messages=1, queue=queue)
    return refused.value.facts


def release(sets: SetRig, stream: str) -> None:
    sets.ask(Release(stream=stream, sequence_number=0))
    sets.settle()


def lose_two(sets: SetRig) -> None:
    """Make two lost reservations of one message."""
    sets.send(b"a")
    for stream in ("s1", "s2"):
        sets.reserve(0, stream=stream)
        release(sets, stream)


def commit_two(sets: SetRig) -> None:
    """Commit two streams."""
    sets.send(b"a", b"b", b"c")
    for stream in ("s1", "s2"):
        sets.reserve(0, stream=stream, max_messages=1)
        sets.ask(CommitReservations(stream=stream, last_sequence_number=0))
        sets.settle()


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("fill", [lose_two, commit_two])
def test_a_reservation_more_than_a_queue_may_have_is_refused_until_old_ones_are_forgotten(
    sets: SetRig, fill: Callable[[SetRig], None], restart: bool
) -> None:
    fill(sets)
    if restart:
        sets.restart()
    assert reserve_refused(sets) == {"queue": "q", "held": 2, "limit": 2}
    assert len(sets.names("reserved")) == 2
    sets.send(b"elsewhere", queue="other")
    assert sets.reserve(0, stream="more", queue="other").message_count == 1
    assert len(sets.receive()) == 1, "what isn't reserved is delivered"
    sets.send(b"d")
    sets.advance(MEMORY + 1)
    assert sets.reserve(1, stream="more2", max_messages=1).message_count == 1


def test_a_commit_of_a_full_queue_s_reservations_is_done_and_makes_room(sets: SetRig) -> None:
    sets.send(b"a", b"b", b"c")
    for number in range(2):
        sets.reserve(number, max_messages=1)
    reserve_refused(sets)
    assert sets.ask(CommitReservations(stream="s", last_sequence_number=1)).deleted_count == 2
    sets.settle()
    assert sets.reserve(2).message_count == 1
    assert sets.reserve(2).message_count == 1, "a repetition is answered in a full queue"


def test_a_reservation_of_many_files_counts_for_more(
    sets: SetRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its record names each file, and is as large as 500 others at the most."""
    monkeypatch.setattr(reserver, "MAX_RESERVATIONS", 4)
    for _ in range(31):
        sets.send(b"a")
    assert sets.reserve(0, max_messages=30).message_count == 30
    for _ in range(2):
        assert reserve_refused(sets) == {"queue": "q", "held": 4, "limit": 4}
        sets.restart()
    sets.ask(CommitReservations(stream="s", last_sequence_number=0))
    sets.settle()
    assert sets.reserve(1).message_count == 1


def test_of_a_stream_that_loses_all_its_reservations_the_last_are_remembered(
    sets: SetRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that failed for a month without a commit made a file for each reservation."""
    monkeypatch.setattr(reserver, "MAX_RESERVATIONS", 4)
    monkeypatch.setattr(reservation_index, "REMEMBERED_LOST_SETS", 3)
    (id,) = sets.send(b"a")
    numbers = range(8, 20)  # Whose names have another order.
    for number in numbers:
        sets.reserve(number)
        sets.ask(Release(stream="s", sequence_number=number))
        sets.settle()
    for _ in range(2):
        assert len(sets.names("reserved")) == 3
        with pytest.raises(ReservationNotFound):
            sets.engine.reservations.find("s", 16)
        for number in (17, 18, 19):
            assert sets.engine.reservations.find("s", number).state is ReservationState.LOST
        sets.restart()
    assert sets.ask(CommitReservations(stream="s", last_sequence_number=19)).lost_sequence_numbers == [
        17,
        18,
        19,
    ]
    assert sets.receive() == [(id, len(numbers) + 1)]


# Redrives.


def test_a_queue_s_redrives_are_remembered_up_to_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """A redrive is never refused for those before it: the oldest is forgotten."""
    monkeypatch.setattr(redriver, "MAX_REMEMBERED", 3)
    rig = RedriveRig()
    started = [rig.ask(StartRedrive(queue="other")).id]
    rig.ask(CancelRedrive(id=started[0]))
    ids = []
    for _ in range(5):
        ids.append(rig.ask(StartRedrive(queue="dead")).id)
        rig.ask(CancelRedrive(id=ids[-1]))
    rig.settle()
    for each in (rig, rig.restart()):
        listed = [redrive.id for redrive in each.engine.redrives.listed("dead", "", 9)]
        assert listed == ids[-3:]
        with pytest.raises(RedriveNotFound):
            each.engine.redrives.find(ids[0])
        assert [redrive.id for redrive in each.engine.redrives.listed("other", "", 9)] == started
    assert len([*rig.disk.scan("redrives")]) == 4


def test_a_root_that_has_more_redrives_loses_the_oldest_with_each_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = RedriveRig()
    for count in [10, 10, 10, 10, 10, 2, 2, 2, 2]:
        monkeypatch.setattr(redriver, "MAX_REMEMBERED", count)
        rig.ask(CancelRedrive(id=rig.ask(StartRedrive(queue="dead")).id))
    assert len(rig.engine.redrives.listed("dead", "", 99)) == 2
