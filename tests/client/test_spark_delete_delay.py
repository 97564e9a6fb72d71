"""`deleteDelaySeconds`: an older checkpoint reaches a finished batch until the delay is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from spoolrack.spark._light_client import LightClient
from spoolrack.spark._offsets import QueuesOffset
from spoolrack.spark._options import read_options
from spoolrack.spark._queue_reader import read_slice
from spoolrack.spark._queues_reader import QueuesReading
from spoolrack_store.manual_clock import ManualClock

from tests.support.relayed_server import RelayedServer, relayed_server
from tests.support.spark_reading import bodies_of

DELAY = 20.0
QUEUES = {"one queue": "jobs", "a pattern": "job*"}
BODIES = [str(number).encode() for number in range(6)]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def server(clock: ManualClock) -> Iterator[RelayedServer]:
    with relayed_server("jobs", clock=clock) as server:
        server.put("jobs", BODIES)
        yield server


class Run:
    """A run of a query that goes on from a checkpoint, and has two messages in a batch."""

    def __init__(
        self, server: RelayedServer, clock: ManualClock, queue: str, start: QueuesOffset | None
    ) -> None:
        self.clock = clock
        self.options = read_options(
            {
                "endpoint": server.endpoint,
                "queue": queue,
                "holdSeconds": "60",
                "deleteDelaySeconds": str(DELAY),
            }
        )
        self.caller = LightClient(
            server.endpoint,
            30.0,
            sleep=self.sleep,
            monotonic=lambda: clock.monotonic() / 1_000,
        )
        self.reading = QueuesReading(self.options, self.caller)
        self.start = start or QueuesOffset.initial(self.options.only_queue)

    def sleep(self, seconds: float) -> None:
        self.clock.advance(round(seconds * 1_000))

    def batch(self, *, is_only: bool = False) -> list[bytes]:
        """Return the rows of the next batch, which is finished then; nothing if there is none."""
        start = self.start
        end = self.reading.latest(start, max_messages=2, max_bytes=1 << 20, is_only=is_only)
        self.start = end
        if end == start:
            return []
        return [
            body
            for pieces in self.reading.parts(start, end)
            for piece in pieces
            for page in read_slice(self.caller, piece.stream, piece.sequence_number, piece.part)
            for body in bodies_of(page)
        ]

    def rest(self) -> list[bytes]:
        """Return the rows of all batches up to the first empty one."""
        return [body for found in iter(self.batch, []) for body in found]


@pytest.fixture(params=[*QUEUES.values()], ids=[*QUEUES])
def run(
    request: pytest.FixtureRequest, server: RelayedServer, clock: ManualClock
) -> Iterator[Callable[..., Run]]:
    runs = []

    def begin(start: QueuesOffset | None = None) -> Run:
        runs.append(Run(server, clock, request.param, start))
        return runs[-1]

    yield begin
    for one in runs:
        one.reading.stop()


def test_a_checkpoint_from_before_the_last_batches_has_their_messages_again(
    server: RelayedServer, run: Callable[..., Run]
) -> None:
    """The power cut has taken the last batches from the checkpoint, and their rows from the sink."""
    first = run()
    assert first.batch() == BODIES[:2]
    before = first.start
    assert (first.batch(), first.batch(), first.batch()) == (BODIES[2:4], BODIES[4:], [])
    first.reading.stop()

    again = run(before)
    again.reading.only_what_is_there()
    assert again.rest() == BODIES[2:]
    assert server.left("jobs") == 0


def test_a_batch_is_deleted_when_it_is_finished_for_longer_than_the_delay(
    server: RelayedServer, run: Callable[..., Run]
) -> None:
    query = run()
    query.batch()
    query.batch()  # Only now Spark has written down that the first one is finished.
    query.sleep(DELAY - 1)
    query.batch()
    assert server.left("jobs") == 6
    query.sleep(1)
    assert query.batch() == []
    assert server.left("jobs") == 4
    query.sleep(DELAY)
    assert query.batch() == []
    assert server.left("jobs") == 0


@pytest.mark.parametrize("ends_by_itself", [False, True])
def test_no_more_batches_wait_for_their_delay_than_the_server_remembers_when_they_are_lost(
    server: RelayedServer, run: Callable[..., Run], ends_by_itself: bool
) -> None:
    """A query that is stopped for longer than its hold has no message of a finished batch again."""
    server.put("jobs", [f"more-{number}".encode() for number in range(40)])
    query = run()
    if ends_by_itself:
        query.reading.only_what_is_there()
        assert len(query.rest()) == 46
        assert server.left("jobs") == 0
        return
    assert len(query.rest()) == 32
    query.batch()
    query.sleep(3_600)
    again = run(query.start)
    assert len(again.rest()) == 14
    again.sleep(DELAY)
    assert again.batch() == []
    assert server.left("jobs") == 0


def test_a_run_that_ends_by_itself_waits_and_deletes_its_last_batch(
    server: RelayedServer, run: Callable[..., Run], clock: ManualClock
) -> None:
    query = run()
    query.reading.only_what_is_there()
    began = clock.monotonic()
    assert query.rest() == BODIES
    assert server.left("jobs") == 0
    assert clock.monotonic() - began == DELAY * 1_000


def test_a_run_of_one_batch_waits_and_deletes_that_of_the_run_before(
    server: RelayedServer, run: Callable[..., Run]
) -> None:
    first = run()
    assert first.batch(is_only=True) == BODIES[:2]
    first.reading.stop()
    second = run(first.start)
    assert second.batch(is_only=True) == BODIES[2:4]
    assert server.left("jobs") == 4


def test_a_start_extends_all_batches_that_are_not_deleted(
    server: RelayedServer, run: Callable[..., Run]
) -> None:
    """Else their holds would end within the delay, and other readers would have their messages."""
    first = run()
    first.batch()
    first.batch()
    first.reading.stop()
    first.sleep(50)
    second = run(first.start)
    second.batch()
    second.sleep(19)
    assert all(one.state.name == "HELD" for one in server.client.reservations.list())
    second.sleep(1)
    assert second.batch() == []
    assert server.left("jobs") == 2
