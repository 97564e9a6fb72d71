"""Streaming queries of several queues, and looks at them: over a real server, without Spark."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
import spoolrack
from spoolrack.errors import QueueNotFound
from spoolrack.spark._light_client import CALL_TIMEOUT, LightClient
from spoolrack.spark._offsets import QueuesOffset
from spoolrack.spark._options import InvalidOption, read_options
from spoolrack.spark._queue_peek import peek, shares
from spoolrack.spark._queue_reader import BatchLost, read_slice
from spoolrack.spark._queues_reader import QueuesReading, _divided, read_pieces
from spoolrack_server.access.security import Security

from tests.support.access_rig import in_a_thread
from tests.support.spark_reading import bodies_of

FIRST = QueuesOffset.initial(None)


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    with in_a_thread(tmp_path / "root", Security()) as address:
        yield address


@pytest.fixture
def client(address: str) -> Iterator[spoolrack.Client]:
    with spoolrack.connect(address) as client:
        yield client


@dataclass(frozen=True, slots=True)
class CountingCaller(LightClient):
    calls: Counter[str] = field(default_factory=Counter)

    def __call__(self, method: str, request: Any, *, timeout: float = CALL_TIMEOUT) -> Any:
        self.calls[method] += 1
        return super(CountingCaller, self).__call__(method, request, timeout=timeout)


class Query:
    """A run of a query, that goes from batch to batch as Spark does."""

    def __init__(self, address: str, queue: str, start: QueuesOffset = FIRST, **given: str) -> None:
        self.options = read_options({"endpoint": address, "queue": queue, **given})
        self.caller = CountingCaller(address, 30.0)
        self.reading = QueuesReading(self.options, self.caller)
        self.start = start

    def plan(self, messages: int = 1_000) -> QueuesOffset:
        end = self.reading.latest(self.start, max_messages=messages, max_bytes=1 << 26)
        # As it is after the checkpoint.
        return QueuesOffset.from_json(json.loads(json.dumps(end.as_json())), None)

    def read(self, start: QueuesOffset, end: QueuesOffset) -> list[list[tuple[str, str]]]:
        """Return the queue and the body of each message, in each task."""
        return [
            [
                (piece.queue, body.decode())
                for piece in pieces
                for page in read_slice(self.caller, piece.stream, piece.sequence_number, piece.part)
                for body in bodies_of(page)
            ]
            for pieces in self.reading.parts(start, end)
        ]

    def batch(self, messages: int = 1_000) -> list[tuple[str, str]]:
        """Return a whole batch, in the order of queues; nothing if there is none."""
        end = self.plan(messages)
        found = [] if end == self.start else [*chain(*self.read(self.start, end))]
        self.start = end
        return found

    def stop(self) -> None:
        self.reading.stop()


def fill(client: spoolrack.Client, **queues: Sequence[str]) -> None:
    for name, bodies in queues.items():
        if name not in {queue.name for queue in client.list_queues()}:
            client.create_queue(name)
        if bodies:
            client.queue(name).send_many(bodies)


def left(client: spoolrack.Client, queue: str) -> int:
    counts = client.queue(queue).info().counts
    return counts.ready_count + counts.leased_count


def test_a_pattern_has_the_queues_that_match_also_those_that_come_later(
    address: str, client: spoolrack.Client
) -> None:
    fill(client, jobs_a=["a1", "a2"], jobs_b=["b1"], other=["o"], jobs_idle=[])
    query = Query(address, "jobs_*")
    assert sorted(query.batch()) == [("jobs_a", "a1"), ("jobs_a", "a2"), ("jobs_b", "b1")]
    fill(client, jobs_b=["b2"], jobs_c=["c1"])
    assert sorted(query.batch()) == [("jobs_b", "b2"), ("jobs_c", "c1")]
    assert query.batch() == []
    query.stop()
    assert {name: left(client, name) for name in ("jobs_a", "jobs_b", "jobs_c", "other")} == {
        "jobs_a": 0,
        "jobs_b": 0,
        "jobs_c": 0,
        "other": 1,
    }


def test_a_pattern_has_no_dead_letter_queues_unless_it_says_so(
    address: str, client: spoolrack.Client
) -> None:
    fill(client, **{"jobs_a": ["a"], "jobs_a--dead": ["dead"], "jobs_b--dead": ["other"]})
    assert Query(address, "jobs_*").batch() == [("jobs_a", "a")]
    dead = [("jobs_a--dead", "dead"), ("jobs_b--dead", "other")]
    assert Query(address, "jobs_*--dead").batch() == dead
    options = read_options({"endpoint": address, "queue": "jobs_*,jobs_b--dead"})
    caller = LightClient(address, 30.0)
    assert {share.queue for share in shares(caller, options)} == {"jobs_a", "jobs_b--dead"}


def test_a_query_ends_the_batch_of_a_queue_that_its_patterns_have_no_more(
    address: str, client: spoolrack.Client
) -> None:
    fill(client, **{"jobs_a": ["a"], "jobs_a--dead": ["dead"]})
    end = Query(address, "jobs_*,jobs_*--dead").plan()
    again = Query(address, "jobs_*", start=end)
    assert sorted([*chain(*again.read(FIRST, end))]) == [("jobs_a", "a"), ("jobs_a--dead", "dead")]
    fill(client, **{"jobs_a": ["b"], "jobs_a--dead": ["later"]})
    assert again.batch() == [("jobs_a", "b")]
    assert [message.text for message in client.queue("jobs_a--dead").peek()] == ["later"]


def test_a_batch_that_was_not_written_down_is_planned_again_as_it_was(
    address: str, client: spoolrack.Client
) -> None:
    fill(client, jobs_a=["a1", "a2"], jobs_b=["b1"])
    died = Query(address, "jobs_a, jobs_b")
    planned = died.plan()
    died.stop()
    fill(client, jobs_a=["a3"])
    again = Query(address, "jobs_a, jobs_b")
    assert again.plan() == planned
    assert sorted(again.batch()) == [("jobs_a", "a1"), ("jobs_a", "a2"), ("jobs_b", "b1")]
    assert again.batch() == [("jobs_a", "a3")]
    again.stop()


def test_a_first_batch_is_read_again_from_a_new_beginning(
    address: str, client: spoolrack.Client
) -> None:
    fill(client, jobs_a=["a1"], jobs_b=["b1"])
    died = Query(address, "jobs_*")
    end = died.plan()
    died.stop()
    again = Query(address, "jobs_*", start=end)
    other_start = QueuesOffset.initial(None)
    assert sorted([*chain(*again.read(other_start, end))]) == [("jobs_a", "a1"), ("jobs_b", "b1")]
    assert again.batch() == []
    again.stop()
    assert left(client, "jobs_a") == left(client, "jobs_b") == 0


def test_idle_queues_cost_no_calls_after_the_first(address: str, client: spoolrack.Client) -> None:
    fill(client, **{f"jobs_{number}": [] for number in range(5)})
    query = Query(address, "jobs_*")
    query.batch()
    assert query.caller.calls == {"ListQueues": 1, "Reserve": 5}
    query.caller.calls.clear()
    fill(client, jobs_3=["x"])
    query.batch()
    query.batch()
    # Each batch is deleted by the next one.
    assert query.caller.calls == {
        "ListQueues": 2,
        "Reserve": 1,
        "ExtendReservation": 1,
        "CommitReservations": 1,
    }
    query.stop()


def test_tasks_are_alike_whatever_the_queues_have(address: str, client: spoolrack.Client) -> None:
    fill(client, jobs_a=["a"] * 5, jobs_b=["b"], jobs_c=["c"] * 6)
    query = Query(address, "jobs_*", numPartitions="3")
    end = query.plan()
    tasks = query.read(FIRST, end)
    assert [len(task) for task in tasks] == [4, 4, 4]
    assert Counter(queue for task in tasks for queue, _ in task) == {
        "jobs_a": 5,
        "jobs_b": 1,
        "jobs_c": 6,
    }
    query.stop()


@pytest.mark.parametrize(
    ("total", "wanted", "shares"),
    [
        (100, {"a": 7, "b": 5}, {"a": 7, "b": 5}),
        (10, {"a": 100, "b": 2, "c": 100}, {"b": 2, "a": 4, "c": 4}),
        (10, {"a": 100, "b": 100, "c": 100}, {"a": 3, "b": 3, "c": 4}),
        (2, {"a": 9, "b": 9, "c": 9}, {"a": 1, "b": 1, "c": 1}),
        (5, {}, {}),
    ],
)
def test_a_small_queue_leaves_of_its_share_to_the_others(
    total: int, wanted: dict[str, int], shares: dict[str, int]
) -> None:
    assert _divided(total, wanted) == shares


def test_a_limit_is_of_all_queues_together(address: str, client: spoolrack.Client) -> None:
    fill(client, jobs_a=["a"] * 50, jobs_b=["b"])
    query = Query(address, "jobs_*")
    assert len(query.batch(10)) == 10
    assert len(query.batch(10)) == 10
    query.stop()


def test_a_named_queue_that_does_not_exist_fails_or_is_waited_for(
    address: str, client: spoolrack.Client
) -> None:
    fill(client, jobs_a=["a"])
    fails = Query(address, "jobs_a, missing")
    with pytest.raises(QueueNotFound, match="no queue missing"):
        fails.batch()
    with pytest.raises(QueueNotFound, match="no queue missing"):
        fails.reading.only_what_is_there()
    fails.stop()
    waits = Query(address, "jobs_a, missing", fails.start, onMissingQueue="wait")
    assert waits.batch() == [("jobs_a", "a")]
    fill(client, missing=["m"])
    assert waits.batch() == [("missing", "m")]
    waits.stop()


@dataclass(frozen=True, slots=True)
class MeetingCaller(LightClient):
    """A client whose calls of a method wait for each other."""

    meeting: Barrier = field(default_factory=lambda: Barrier(3, timeout=60.0))

    def __call__(self, method: str, request: Any, *, timeout: float = CALL_TIMEOUT) -> Any:
        if method in ("Reserve", "ExtendReservation", "CommitReservations"):
            self.meeting.wait()
        return super(MeetingCaller, self).__call__(method, request, timeout=timeout)


def test_several_queues_are_asked_at_the_same_time(address: str, client: spoolrack.Client) -> None:
    fill(client, jobs_a=["a"], jobs_b=["b"], jobs_c=["c"])
    query = Query(address, "jobs_*", onUnreadBatch="delete")
    query.reading = QueuesReading(query.options, MeetingCaller(address, 30.0))

    end = query.plan()
    assert len(query.reading.parts(FIRST, end)) == 1
    query.reading.commit(end)

    assert [left(client, name) for name in ("jobs_a", "jobs_b", "jobs_c")] == [0, 0, 0]
    query.stop()


@dataclass(frozen=True, slots=True)
class MeetingReader(LightClient):
    """A client whose reads begin only when another one is about to begin."""

    meeting: Barrier = field(default_factory=lambda: Barrier(2, timeout=60.0))

    def frames(self, method: str, rest: Callable[[], Any]) -> Iterator[Any]:
        self.meeting.wait()
        yield from super(MeetingReader, self).frames(method, rest)


def test_a_task_of_many_queues_marks_several_at_the_same_time_and_keeps_their_order(
    address: str, client: spoolrack.Client
) -> None:
    names = [f"jobs_{number:02}" for number in range(20)]
    fill(client, **{name: [name, "last"] for name in names})
    query = Query(address, "jobs_*")
    (pieces,) = query.reading.parts(FIRST, query.plan())

    found = [
        (queue, body.decode())
        for queue, page in read_pieces(MeetingReader(address, 30.0), pieces)
        for body in bodies_of(page)
    ]

    assert found == [(name, body) for name in names for body in (name, "last")]
    query.stop()


def test_a_queue_of_a_pattern_that_is_deleted_stops_no_query(
    address: str, client: spoolrack.Client
) -> None:
    fill(client, jobs_a=["a"], jobs_b=["b"])
    query = Query(address, "jobs_*")
    assert len(query.batch()) == 2
    client.delete_queue("jobs_a")
    fill(client, jobs_b=["b2"])
    assert query.batch() == [("jobs_b", "b2")]
    fill(client, jobs_a=["again"])
    assert query.batch() == [("jobs_a", "again")]
    assert query.batch() == []
    query.stop()
    assert left(client, "jobs_a") == left(client, "jobs_b") == 0


def test_a_batch_whose_hold_was_released_names_its_queue(
    address: str, client: spoolrack.Client
) -> None:
    fill(client, jobs_a=["a"], jobs_b=["b"])
    query = Query(address, "jobs_*")
    end = query.plan()
    client.reservations.release(end.of("jobs_b").gen, 0)
    with pytest.raises(BatchLost, match=r"1 messages of jobs_b\)"):
        query.reading.parts(FIRST, end)
    query.stop()
    goes_on = Query(address, "jobs_*", end, onLostReservation="redeliver")
    assert [*chain(*goes_on.read(FIRST, end))] == [("jobs_a", "a")]
    assert goes_on.batch() == [("jobs_b", "b")]
    goes_on.stop()


def test_a_query_of_what_is_there_takes_no_more(address: str, client: spoolrack.Client) -> None:
    fill(client, jobs_a=["a1", "a2"], jobs_b=[])
    query = Query(address, "jobs_*", minMessagesPerTrigger="9")
    query.reading.only_what_is_there()
    fill(client, jobs_a=["a3"], jobs_b=["b"], jobs_c=["c"])
    assert query.batch(1) == [("jobs_a", "a1")]
    assert query.batch() == [("jobs_a", "a2")]
    assert query.batch() == []
    query.stop()


def test_a_batch_after_the_first_waits_for_enough_in_all_queues(
    address: str, client: spoolrack.Client
) -> None:
    fill(client, jobs_a=["a"], jobs_b=[])
    query = Query(address, "jobs_*", minMessagesPerTrigger="3")
    assert len(query.batch()) == 1
    fill(client, jobs_a=["a"], jobs_b=["b"])
    assert query.batch() == []
    fill(client, jobs_b=["b"])
    assert len(query.batch()) == 3
    query.stop()


def test_the_progress_has_the_lag_of_all_and_of_each(address: str, client: spoolrack.Client) -> None:
    fill(client, jobs_a=["a"] * 3, jobs_b=["b"])
    query = Query(address, "jobs_*")
    query.plan(2)
    behind = query.reading.lag(query.start)
    assert behind is not None
    assert (behind["ready"], behind["leased"], behind["delayed"]) == (2, 2, 0)
    assert behind["readyByQueue"] == {"jobs_a": 2, "jobs_b": 0}
    assert behind["oldestAgeSeconds"] >= 0
    assert Query(address, "nothing_*").reading.lag(None) == {
        "ready": 0,
        "leased": 0,
        "delayed": 0,
        "oldestAgeSeconds": 0.0,
        "readyByQueue": {},
    }
    query.stop()


@pytest.mark.parametrize(
    "given", [{"gen": "a", "seq": 1, "n": 1}, {"gen": "a", "queues": {"q": 1}}, {}]
)
def test_a_checkpoint_of_one_queue_is_none_of_several(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption, match="one name to several"):
        QueuesOffset.from_json(given, None)


def test_a_checkpoint_of_several_queues_is_none_of_one() -> None:
    with pytest.raises(InvalidOption, match="one name to several"):
        QueuesOffset.from_json(FIRST.as_json(), "jobs")


def test_the_offset_of_one_queue_has_the_form_that_it_always_had() -> None:
    given = {"gen": "a", "seq": 7, "n": 2}
    assert QueuesOffset.from_json(given, "jobs").as_json() == given


def test_a_look_has_all_queues(address: str, client: spoolrack.Client) -> None:
    fill(client, jobs_a=["a"] * 3, jobs_b=["b"], other=["o"])
    options = read_options({"endpoint": address, "queue": "jobs_*,other"})
    assert options.columns[0] == "queue"
    seen = [
        (share.queue, message.body)
        for share in shares(options.place.caller, options)
        for page in peek(options.place.caller, options, share)
        for message in page
    ]
    assert Counter(seen) == {("jobs_a", b"a"): 3, ("jobs_b", b"b"): 1, ("other", b"o"): 1}
    missing = read_options({"endpoint": address, "queue": "jobs_*,missing"})
    with pytest.raises(QueueNotFound, match="no queue missing"):
        shares(missing.place.caller, missing)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"queue": "a,b/c"}, "'b/c': it may have"),
        ({"queue": "a,b,a"}, "each word may be there once"),
        ({"queue": "../*"}, "'../\\*': it may have"),
        ({"queue": "a,b", "waitSeconds": "1"}, "a query of one queue"),
        ({"queue": " , "}, "a queue's name has"),
    ],
)
def test_wrong_queues_say_what_they_may_be(given: dict[str, str], says: str) -> None:
    with pytest.raises(InvalidOption, match=says):
        read_options({"endpoint": "queues:50051", **given})
