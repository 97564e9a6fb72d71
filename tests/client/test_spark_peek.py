"""A batch read of a queue looks at each message once, in shares, and takes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
import spoolrack
from spoolrack.spark import _queue_peek
from spoolrack.spark._options import ReadOptions, read_options
from spoolrack.spark._queue_peek import peek, shares
from spoolrack.testing import RunningServer, running_server
from spoolrack.v1 import queue_pb2 as pb


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running_server() as server:
        yield server


@pytest.fixture
def queue(server: RunningServer, request: pytest.FixtureRequest) -> Iterator[spoolrack.Queue]:
    name = f"q{abs(hash(request.node.name))}"
    with server.client() as client:
        client.create_queue(name)
        yield client.queue(name)


def options_of(server: RunningServer, queue: spoolrack.Queue, **options: object) -> ReadOptions:
    texts = {name: str(value) for name, value in options.items()}
    return read_options({"endpoint": server.url, "queue": queue.name, **texts})


def found(options: ReadOptions) -> list[list[pb.Message]]:
    """Return the messages of each share."""
    caller = options.place.caller
    return [
        [message for page in peek(caller, options, share) for message in page]
        for share in shares(caller, options)
    ]


@pytest.mark.parametrize("partitions", [1, 2, 5])
def test_each_message_is_in_one_share_and_shares_are_about_alike(
    server: RunningServer, queue: spoolrack.Queue, partitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_queue_peek, "_MOST_SKIP", 70)
    ids = [sent.id for _ in range(40) for sent in queue.send_many([b"x"] * 10)]
    queue.receive(7)

    looks = [found(options_of(server, queue, numPartitions=partitions)) for _ in range(2)]

    assert [m.id for share in looks[0] for m in share] == ids
    assert [m.id for share in looks[1] for m in share] == ids
    assert len(looks[0]) <= partitions
    # Messages of one millisecond are in one share.
    assert max(map(len, looks[0])) < 400 / partitions + 200
    assert queue.info().counts.ready_count == 393


def test_a_small_queue_is_one_share(server: RunningServer, queue: spoolrack.Queue) -> None:
    queue.send_many([b"x"] * 100)

    assert [len(share) for share in found(options_of(server, queue))] == [100]


def test_a_look_shows_the_states_and_times_that_are_asked_for(
    server: RunningServer, queue: spoolrack.Queue
) -> None:
    queue.send_many([b"x"] * 5)
    queue.send(b"later", delay=3600)
    queue.receive(2)
    now = datetime.now(UTC)

    def count(**options: object) -> int:
        return sum(map(len, found(options_of(server, queue, **options))))

    assert count(states="ready") == 3
    assert count(states="leased, delayed") == 3
    assert count(sentAfter=(now - timedelta(hours=1)).isoformat()) == 6
    assert count(sentBefore=(now - timedelta(hours=1)).isoformat()) == 0
    assert count(sentAfter=(now + timedelta(hours=1)).isoformat()) == 0


def test_without_the_column_no_body_is_sent(server: RunningServer, queue: spoolrack.Queue) -> None:
    queue.send(b"body")

    ((without,),) = found(options_of(server, queue, columns="id, body_size"))
    ((whole,),) = found(options_of(server, queue))

    assert (without.body, without.body_size) == (b"", 4)
    assert whole.body == b"body"
