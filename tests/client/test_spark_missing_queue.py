"""Streaming queries of a queue that isn't there: over a real server, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import spoolrack
from spoolrack.errors import QueueNotFound
from spoolrack.spark._options import read_options
from spoolrack_server.access.security import Security

from tests.support.access_rig import in_a_thread
from tests.support.spark_reading import JobsReading, initial


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    with in_a_thread(tmp_path / "root", Security()) as address:
        yield address


@pytest.fixture
def client(address: str) -> Iterator[spoolrack.Client]:
    with spoolrack.connect(address) as client:
        yield client


def reading(address: str, missing: str) -> JobsReading:
    given = {"endpoint": address, "queue": "jobs", "onMissingQueue": missing, "onUnreadBatch": "delete"}
    options = read_options({**given, "retrySeconds": "30"})
    return JobsReading(options, options.place.caller)


def test_a_query_of_a_queue_that_does_not_exist_fails_at_once(address: str) -> None:
    one = reading(address, "fail")
    with pytest.raises(QueueNotFound, match="no queue jobs"):
        one.latest(initial(), max_messages=10, max_bytes=1 << 20)
    with pytest.raises(QueueNotFound, match="no queue jobs"):
        one.only_what_is_there()
    one.stop()


def test_a_query_waits_for_its_queue_and_again_when_it_is_deleted(
    address: str, client: spoolrack.Client
) -> None:
    one, start = reading(address, "wait"), initial()
    for _ in range(3):
        assert one.latest(start, max_messages=10, max_bytes=1 << 20) == start
    behind = one.lag(start)
    assert behind is not None
    assert (behind["ready"], behind["readyByQueue"]) == (0, {})

    for number in range(1, 4):
        client.create_queue("jobs")
        client.queue("jobs").send_many(["x"] * number)
        end = one.latest(start, max_messages=10, max_bytes=1 << 20)
        assert end.n == number
        client.queue("jobs").send("left when the queue was deleted")
        client.delete_queue("jobs")
        # The batch that Spark has done is gone with the queue.
        assert one.latest(end, max_messages=10, max_bytes=1 << 20) == end
        start = end
    one.stop()


def test_a_query_of_what_is_there_ends_where_there_is_no_queue(address: str) -> None:
    one, start = reading(address, "wait"), initial()
    one.only_what_is_there()
    assert one.latest(start, max_messages=10, max_bytes=1 << 20) == start
    one.stop()
