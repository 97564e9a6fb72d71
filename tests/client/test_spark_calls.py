"""Spark's tasks and planner, without Spark: over a server whose calls fail as told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from random import Random

import grpc
import pytest
import spoolrack
from spoolrack import Reservation, ReservationState, SpoolrackError
from spoolrack.spark import write_partition
from spoolrack.spark._light_client import LightClient
from spoolrack.spark._offsets import Offset
from spoolrack.spark._options import QueueAddress, ReadOptions
from spoolrack.spark._queue_peek import PeekShare, peek
from spoolrack.spark._queue_reader import REMIND, BatchLost, CheckpointTooOld, read_slice
from spoolrack.spark._reservation_extender import ReservationExtender
from spoolrack.spark._row_sender import stage
from spoolrack.spark._rows import chunks, message_of
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack.v1 import reservation_service_pb2 as reserved
from spoolrack_store.manual_clock import ManualClock

from tests.support.relayed_server import FRAME, Fault, RelayedServer, relayed_server
from tests.support.spark_reading import JobsReading, bodies_of, initial
from tests.support.waiting import until

BODIES = [str(number).encode() for number in range(10_000)]


class Time:
    """A clock that waiting moves, and the server's."""

    def __init__(self) -> None:
        self.clock = ManualClock()

    @property
    def now(self) -> float:
        return self.clock.monotonic() / 1_000

    def sleep(self, seconds: float) -> None:
        self.clock.advance(round(seconds * 1_000))


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def server(time: Time) -> Iterator[RelayedServer]:
    with relayed_server("jobs", clock=time.clock) as server:
        yield server


@pytest.fixture
def reading(server: RelayedServer, time: Time) -> Callable[..., JobsReading]:
    made = []

    def make(**options: object) -> JobsReading:
        # Most tests plan batches, and read none.
        values = {"hold_seconds": 60.0, "partitions": 3, "deletes_unread": True, **options}
        made.append(JobsReading(ReadOptions(place=place(server), **values), caller(server, time)))
        return made[-1]

    yield make
    for one in made:
        one.stop()


def reservation(server: RelayedServer) -> Reservation:
    (only,) = server.client.reservations.list()
    return only


def place(server: RelayedServer) -> QueueAddress:
    return QueueAddress(address=server.endpoint, queue="jobs", retry_seconds=30.0)


def caller(server: RelayedServer, time: Time, retry_seconds: float = 30.0) -> LightClient:
    now = {"sleep": time.sleep, "monotonic": lambda: time.now}
    return LightClient(server.endpoint, retry_seconds, random=Random(1), **now)


def latest(one: JobsReading, start: Offset, messages: int = 4_000) -> Offset:
    return one.latest(start, max_messages=messages, max_bytes=1 << 26)


def rows(
    server: RelayedServer, one: JobsReading, start: Offset, end: Offset, time: Time
) -> list[bytes]:
    return [
        body
        for part in one.parts(start, end)
        for frame in read_slice(caller(server, time), end.gen, end.sequence_number, part)
        for body in bodies_of(frame)
    ]


def test_batches_follow_each_other_and_what_is_done_is_deleted(
    server: RelayedServer, reading: Callable[..., JobsReading], time: Time
) -> None:
    server.put("jobs", BODIES)
    one, start, read = reading(deletes_unread=False), initial(), []

    while (end := latest(one, start)) != start:
        read += rows(server, one, start, end, time)
        start = end

    assert read == BODIES
    assert server.left("jobs") == 0
    assert start.sequence_number == 2


def test_an_idle_query_repeats_its_last_commit_once_a_day(
    server: RelayedServer, reading: Callable[..., JobsReading], time: Time
) -> None:
    """The server remembers a commit for 30 days."""
    server.put("jobs", BODIES[:1])
    one = reading()
    end = latest(one, initial())
    for _ in range(3):
        assert latest(one, end) == end
    assert server.calls["CommitReservations"] == 1

    time.sleep(REMIND)
    assert latest(one, end) == end
    assert latest(one, end) == end
    assert server.calls["CommitReservations"] == 2


def test_batches_that_are_done_for_an_old_checkpoint_are_refused_or_passed_over(
    server: RelayedServer, reading: Callable[..., JobsReading], time: Time
) -> None:
    """With asynchronous progress tracking a checkpoint is behind what is done: nothing is lost."""
    server.put("jobs", BODIES)
    one, start = reading(), initial()
    first = latest(one, start)
    one.commit(latest(one, first))

    with pytest.raises(CheckpointTooOld, match="onOldCheckpoint"):
        latest(reading(), replace(first, sequence_number=-1))
    with pytest.raises(CheckpointTooOld, match="onOldCheckpoint"):
        reading().parts(start, first)

    goes_on = reading(skips_done=True)
    assert goes_on.parts(start, first) == []
    end = latest(goes_on, first)
    assert end.sequence_number == 2
    assert rows(server, goes_on, first, end, time) == BODIES[8_000:]


def test_an_empty_batch_has_no_parts(
    server: RelayedServer, reading: Callable[..., JobsReading]
) -> None:
    server.put("jobs", BODIES)
    one = reading()
    end = latest(one, initial())

    assert one.parts(end, end) == []
    assert one.parts(initial(), initial()) == []


def test_a_first_batch_is_done_again_from_a_new_beginning(
    server: RelayedServer, reading: Callable[..., JobsReading], time: Time
) -> None:
    """Spark makes a new initial offset for it, with an unknown stream."""
    server.put("jobs", BODIES)
    end = latest(reading(), initial())

    assert rows(server, reading(), initial(), end, time) == BODIES[:4_000]


def test_a_reservation_that_was_not_written_down_is_found_again(
    server: RelayedServer, reading: Callable[..., JobsReading]
) -> None:
    server.put("jobs", BODIES)
    start = latest(reading(), initial())
    end = latest(reading(), start)

    assert latest(reading(), start, messages=7) == end


def test_one_that_was_not_written_down_and_is_lost_is_passed_over(
    server: RelayedServer, reading: Callable[..., JobsReading], time: Time
) -> None:
    """Its messages were never read, so that nothing is doubled."""
    server.put("jobs", BODIES)
    start = latest(reading(), initial())
    lost = latest(reading(), start)
    server.client.reservations.release(lost.gen, lost.sequence_number)

    one = reading()
    end = latest(one, start)

    assert end.sequence_number == start.sequence_number + 2
    assert rows(server, one, start, end, time) == BODIES[4_000:8_000]
    assert latest(one, end).sequence_number == end.sequence_number + 1


def test_a_lost_batch_fails_and_nothing_is_lost(
    server: RelayedServer, reading: Callable[..., JobsReading], time: Time
) -> None:
    server.put("jobs", BODIES)
    end = latest(reading(), initial())
    time.sleep(61)

    with pytest.raises(BatchLost, match="redeliver"):
        reading().parts(initial(), end)

    assert server.bodies("jobs") == BODIES


@pytest.mark.parametrize("was_read", [False, True])
def test_a_lost_batch_is_empty_where_redelivery_is_asked_for(
    server: RelayedServer, reading: Callable[..., JobsReading], time: Time, was_read: bool
) -> None:
    server.put("jobs", BODIES)
    first, start = reading(), initial()
    end = latest(first, start)
    if was_read:
        assert rows(server, first, start, end, time) == BODIES[:4_000]
    time.sleep(61)
    one = reading(on_lost="redeliver")

    assert one.parts(initial(), end) == []
    again = latest(one, end)
    assert rows(server, one, end, again, time) == BODIES[:4_000]


def test_what_no_other_reader_has_leased_of_a_lost_batch_is_deleted_where_that_is_asked_for(
    server: RelayedServer, reading: Callable[..., JobsReading], time: Time
) -> None:
    """The batch's rows are in the output, and Spark's commit log lacks it."""
    server.put("jobs", BODIES)
    first, start = reading(deletes_unread=False), initial()
    end = latest(first, start)
    assert rows(server, first, start, end, time) == BODIES[:4_000]
    time.sleep(61)
    other = latest(reading(), initial(), messages=1_000)
    server.client.reservations.release(other.gen, other.sequence_number)
    one = reading(on_lost="delete", deletes_unread=False)

    assert one.parts(initial(), end) == []
    again = latest(one, end)

    assert sorted(rows(server, one, end, again, time)) == sorted(BODIES[:1_000] + BODIES[4_000:7_000])
    assert server.left("jobs") == len(BODIES) - 3_000


def test_a_lost_batch_that_no_task_has_read_comes_again_where_it_may_be_deleted(
    server: RelayedServer, reading: Callable[..., JobsReading], time: Time
) -> None:
    server.put("jobs", BODIES)
    end = latest(reading(), initial())
    time.sleep(61)
    one = reading(on_lost="delete", deletes_unread=False)

    assert one.parts(initial(), end) == []
    assert rows(server, one, end, latest(one, end), time) == BODIES[:4_000]


def test_a_batch_that_was_done_and_could_not_be_deleted_is_told(
    server: RelayedServer, reading: Callable[..., JobsReading], time: Time
) -> None:
    server.put("jobs", BODIES)
    end = latest(reading(), initial())
    time.sleep(61)
    other = latest(reading(), initial(), messages=10)
    assert other.n == 10

    one = reading()
    with pytest.raises(BatchLost, match="could not be deleted"):
        latest(one, end)


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_batch_that_was_done_does_not_come_back_when_its_hold_is_over(
    server: RelayedServer, reading: Callable[..., JobsReading], time: Time, is_stopped: bool
) -> None:
    server.put("jobs", BODIES)
    one = reading()
    start = initial()
    end = latest(one, start)
    assert rows(server, one, start, end, time) == BODIES[:4_000]
    if is_stopped:
        one.stop()
    time.sleep(3600)

    following = latest(reading(), end)

    assert server.left("jobs") == len(BODIES) - end.n
    assert (following.sequence_number, following.n) == (end.sequence_number + 1, 4_000)


def test_an_old_checkpoint_is_told_and_nothing_is_lost(
    server: RelayedServer, reading: Callable[..., JobsReading]
) -> None:
    server.put("jobs", BODIES)
    one = reading()
    first = latest(one, initial())
    latest(one, latest(one, first))

    with pytest.raises(CheckpointTooOld, match="new checkpointLocation"):
        latest(reading(), first)
    with pytest.raises(CheckpointTooOld):
        reading().parts(initial(), first)
    assert server.left("jobs") == len(BODIES) - 2 * first.n


@pytest.mark.parametrize("skips", [False, True])
def test_a_commit_that_is_too_old_to_be_remembered_is_done(
    server: RelayedServer, reading: Callable[..., JobsReading], skips: bool
) -> None:
    """The server knows the last 100 batches one by one. What an older checkpoint commits is over, and
    the batch after it says so."""
    server.put("jobs", BODIES)
    one = reading()
    first = last = latest(one, initial())
    for _ in range(101):
        last = latest(one, last, messages=1)
    one.commit(last)

    old = reading(skips_done=skips)
    if not skips:
        with pytest.raises(CheckpointTooOld, match="new checkpointLocation"):
            latest(old, first)
    else:
        assert latest(old, first).sequence_number == last.sequence_number + 1
    assert server.left("jobs") == len(BODIES) - first.n - 101


def test_with_what_is_there_a_query_ends(
    server: RelayedServer, reading: Callable[..., JobsReading]
) -> None:
    server.put("jobs", BODIES)
    one, start, seen = reading(), initial(), 0
    one.only_what_is_there()
    server.put("jobs", BODIES)

    while (end := latest(one, start)) != start:
        seen += end.n
        start = end

    assert seen == len(BODIES)
    assert server.left("jobs") == len(BODIES)


@pytest.mark.parametrize("waiting", [0, 3_000])
def test_with_what_is_there_a_forgotten_reservation_comes_too(
    server: RelayedServer, reading: Callable[..., JobsReading], waiting: int
) -> None:
    server.put("jobs", BODIES[: 5_000 + waiting])
    start = latest(reading(), initial())
    forgotten = latest(reading(), start, messages=1_000)
    one, seen = reading(), 0
    one.only_what_is_there()

    assert latest(one, start) == forgotten
    start = forgotten
    while (end := latest(one, start)) != start:
        seen += end.n
        start = end

    assert seen == waiting


@pytest.mark.parametrize(
    "method", ["Reserve", "ExtendReservation", "CommitReservations", "ReadReservation"]
)
@pytest.mark.parametrize("is_after", [False, True])
def test_a_call_that_breaks_is_made_again(
    server: RelayedServer, reading: Callable[..., JobsReading], time: Time, method: str, is_after: bool
) -> None:
    server.put("jobs", BODIES)
    one, start, read = reading(hold_seconds=3600.0), initial(), []
    server.faults += [
        Fault(method=method, times=3, is_after=is_after),
        # As a server does that stops.
        Fault(method=method, is_after=is_after, code=grpc.StatusCode.CANCELLED),
    ]

    while (end := latest(one, start)) != start:
        read += rows(server, one, start, end, time)
        start = end

    assert read == BODIES
    assert server.left("jobs") == 0


def test_a_call_that_stays_broken_is_given_up(
    server: RelayedServer, reading: Callable[..., JobsReading], time: Time
) -> None:
    server.faults.append(Fault(method="Reserve", times=10_000))
    began = time.now

    with pytest.raises(SpoolrackError):
        latest(reading(), initial())

    assert time.now - began <= 31
    assert server.calls["Reserve"] > 5


def test_a_call_that_can_not_succeed_is_not_repeated(server: RelayedServer, time: Time) -> None:
    nowhere = QueueAddress(address=server.endpoint, queue="nowhere")

    with pytest.raises(spoolrack.errors.QueueNotFound):
        list(peek(caller(server, time), ReadOptions(place=nowhere), PeekShare("nowhere")))

    assert server.calls["ListMessages"] == 1


def test_a_read_that_breaks_is_taken_up_where_it_was(server: RelayedServer, time: Time) -> None:
    server.put("jobs", BODIES)
    one = JobsReading(ReadOptions(place=place(server), partitions=1), caller(server, time))
    end = latest(one, initial(), messages=len(BODIES))
    (part,) = one.parts(initial(), end)
    one.stop()
    server.faults.append(Fault(method=FRAME, times=2))

    read = list(read_slice(caller(server, time), end.gen, end.sequence_number, part))

    assert [body for frame in read for body in bodies_of(frame)] == BODIES
    assert server.calls["ReadReservation"] == 3


def test_a_slice_whose_hold_is_over_fails_its_task(
    server: RelayedServer, reading: Callable[..., JobsReading], time: Time
) -> None:
    """Before it reads, and in the middle: a part of a batch is never taken for all of it."""
    server.put("jobs", BODIES)
    one = reading(partitions=1)
    end = latest(one, initial(), messages=len(BODIES))
    (part,) = one.parts(initial(), end)
    one.stop()

    def lose() -> None:
        time.sleep(61)

    server.faults.append(Fault(method=FRAME, skip=1, action=lose))
    patient = caller(server, time, 600.0)
    read: list[bytes] = []

    def read_on() -> None:
        for frame in read_slice(patient, end.gen, end.sequence_number, part):
            read.extend(bodies_of(frame))

    for _ in range(2):
        with pytest.raises(SpoolrackError) as lost:
            read_on()
        assert lost.value.reason == "RESERVATION_LOST"

    assert read == BODIES[: len(read)]
    assert 0 < len(read) < len(BODIES)
    assert server.bodies("jobs") == BODIES


def test_a_batch_stays_reserved_for_as_long_as_its_query_lives() -> None:
    with relayed_server("jobs") as server:
        server.put("jobs", BODIES)
        options = ReadOptions(place=place(server), hold_seconds=3.0)
        one = JobsReading(options, LightClient(server.endpoint, 30.0))
        latest(one, initial())
        due = reservation(server).expires_at

        until(lambda: reservation(server).expires_at > due + timedelta(seconds=1))
        assert reservation(server).state is ReservationState.HELD
        one.stop()
        until(lambda: reservation(server).state is ReservationState.LOST)


def test_a_query_that_stops_leaves_a_whole_hold_to_its_batch(
    server: RelayedServer, reading: Callable[..., JobsReading], time: Time
) -> None:
    server.put("jobs", BODIES)
    one = reading(hold_seconds=3600.0)
    latest(one, initial())
    time.sleep(3000.0)

    one.stop()

    assert reservation(server).expires_at.timestamp() * 1_000 == time.clock.wall() + 3_600_000


def test_an_idle_queue_is_not_waited_for() -> None:
    with relayed_server("jobs") as server:
        for more in ({}, {"wait_seconds": 1.0}):
            options = ReadOptions(place=place(server), hold_seconds=60.0, **more)
            one, start = JobsReading(options, LightClient(server.endpoint, 30.0)), initial()
            assert latest(one, start) == start
            one.stop()
        asked = map(reserved.ReserveRequest.FromString, server.requests["Reserve"])
        assert [each.wait.seconds for each in asked] == [0, 1]


def test_a_batch_after_the_first_waits_for_enough_messages_and_not_too_long(
    server: RelayedServer, reading: Callable[..., JobsReading], time: Time
) -> None:
    server.put("jobs", BODIES[:1])
    one = reading(min_messages=100, max_trigger_delay=60.0)
    first = latest(one, initial())
    assert first.n == 1

    server.put("jobs", BODIES[:99])
    assert latest(one, first) == first
    server.put("jobs", BODIES[99:100])
    second = latest(one, first)
    assert second.n == 100

    server.put("jobs", BODIES[:3])
    time.sleep(59.0)
    assert latest(one, second) == second
    time.sleep(1.0)
    assert latest(one, second).n == 3


def test_a_query_of_what_is_there_waits_for_no_more(
    server: RelayedServer, reading: Callable[..., JobsReading]
) -> None:
    server.put("jobs", BODIES[:150])
    one = reading(min_messages=100)
    one.only_what_is_there()
    first = latest(one, initial(), messages=100)
    second = latest(one, first, messages=100)
    assert (first.n, second.n) == (100, 50)
    assert latest(one, second) == second


def test_the_keeper_says_nothing_of_a_batch_that_is_committed(
    server: RelayedServer, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    server.put("jobs", BODIES)
    options = ReadOptions(place=place(server), hold_seconds=60.0, deletes_unread=True)
    one = JobsReading(options, caller(server, time))
    extender = ReservationExtender(60.0)
    end = latest(one, initial())
    one.commit(end)

    extender.keep(end, caller(server, time))
    extender.stop()
    one.stop()

    assert not caplog.records


def test_a_call_that_is_repeated_is_logged(
    server: RelayedServer, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    server.faults.append(Fault(method="GetQueue", times=2))

    caller(server, time)("GetQueue", rpc.GetQueueRequest(name="jobs"))

    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    assert all(text.startswith("GetQueue failed, and is repeated in") for text in told)


def test_a_stage_is_whole_whatever_call_breaks(server: RelayedServer, time: Time) -> None:
    server.faults += [
        Fault(method="Stage", times=2),
        Fault(method="Stage", times=3, is_after=True),
        Fault(method="Stage", times=1, code=grpc.StatusCode.DEADLINE_EXCEEDED, is_after=True),
    ]
    messages = (message_of(body, None, None, None) for body in BODIES)

    staged = stage(caller(server, time), "jobs", chunks(messages, is_staged=True))

    assert staged.messages == len(BODIES)
    (name,) = staged.stages
    server.client.staging.publish(name, 0, [name])
    assert Counter(server.bodies("jobs")) == Counter(BODIES)


def test_a_stage_that_fails_is_dropped(server: RelayedServer, time: Time) -> None:
    messages = (message_of(body, None, None, None) for body in [*BODIES, None])

    with pytest.raises(ValueError, match="null"):
        stage(caller(server, time), "jobs", chunks(messages, is_staged=True))

    assert server.calls["AbortStage"] == 1


def test_rows_with_ids_are_sent_once_whatever_call_breaks(server: RelayedServer) -> None:
    server.faults += [Fault(method="Send", times=2), Fault(method="Send", times=2, is_after=True)]
    write = write_partition(server.endpoint, "jobs")

    (counts,) = write({"body": body, "deduplication_id": body.decode()} for body in BODIES)
    (again,) = write({"body": body, "deduplication_id": body.decode()} for body in BODIES)

    assert counts.sent + counts.duplicates == len(BODIES)
    assert (again.sent, again.duplicates) == (0, len(BODIES))
    assert sorted(server.bodies("jobs")) == sorted(BODIES)


def test_a_look_at_a_queue_takes_nothing(server: RelayedServer, time: Time) -> None:
    server.put("jobs", BODIES)

    pages = peek(caller(server, time), ReadOptions(place=place(server)), PeekShare("jobs"))
    seen = [message.body for page in pages for message in page]

    assert seen == BODIES == server.bodies("jobs")
