"""Queries over shards: each message is read once and written once, wherever its queue lies. Over real
servers, without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

import pytest
import spoolrack
from spoolrack._shards import shard_of
from spoolrack.errors import StageIncomplete, WrongShard
from spoolrack.spark._light_client import LightClient
from spoolrack.spark._offsets import QueuesOffset
from spoolrack.spark._options import InvalidOption, queue_address, read_options
from spoolrack.spark._queue_peek import peek, shares
from spoolrack.spark._queue_reader import OtherServer, read_slice
from spoolrack.spark._queues_reader import QueuesReading
from spoolrack.spark._row_sender import publish, stage
from spoolrack.spark._rows import chunks, message_of
from spoolrack.testing import RunningShards, manual_clock, running_shards

from tests.support.spark_reading import bodies_of

QUEUES = [f"jobs-{number}" for number in range(9)]


@pytest.fixture
def shards() -> Iterator[RunningShards]:
    """Three shards, with a message in each queue, whose body is the queue's name."""
    with running_shards(3) as shards:
        with shards.client() as client:
            fill(client, *QUEUES)
        assert {shard_of(queue, 3) for queue in QUEUES} == {0, 1, 2}
        yield shards


def fill(client: spoolrack.Client, *queues: str) -> None:
    for queue in queues:
        client.create_queue(queue)
        client.queue(queue).send(queue)


class Run:
    """A run of a query, from a checkpoint that it writes as Spark does."""

    def __init__(
        self,
        endpoint: str,
        checkpoint: dict[str, Any] | None = None,
        *,
        queue: str = "jobs-*",
        **calls: Any,
    ) -> None:
        self.options = read_options({"endpoint": endpoint, "queue": queue})
        self.caller: LightClient = replace(self.options.place.caller, **calls)
        self.reading = QueuesReading(self.options, self.caller)
        begun = QueuesOffset.initial(self.options.only_queue, self.options.shards).as_json()
        self.at = self.offset(checkpoint or begun)

    def offset(self, given: dict[str, Any]) -> QueuesOffset:
        told = json.loads(json.dumps(given))
        return QueuesOffset.from_json(told, self.options.only_queue, self.options.shards)

    def plan(self) -> dict[str, Any]:
        return self.reading.latest(self.at, max_messages=1_000, max_bytes=1 << 26).as_json()

    def read(self, end: dict[str, Any]) -> list[str]:
        """Return the messages of a batch, as the tasks read them."""
        start, self.at = self.at, self.offset(end)
        return sorted(
            body.decode()
            for piece in chain(*self.reading.parts(start, self.at))
            for page in read_slice(
                self.caller.of(piece.queue).to(piece.root),
                *(piece.stream, piece.sequence_number, piece.part),
                queue=piece.queue,
            )
            for body in bodies_of(page)
        )


def left(shards: RunningShards) -> int:
    with shards.client() as client:
        counts = [queue.counts for queue in client.list_queues()]
    return sum(one.ready_count + one.leased_count for one in counts)


def test_a_pattern_has_the_queues_of_all_shards_and_each_message_once(shards: RunningShards) -> None:
    first = Run(shards.url)
    checkpoint = first.plan()
    assert first.read(checkpoint) == QUEUES
    first.reading.stop()
    assert len(set(checkpoint["roots"])) == 3

    second = Run(shards.url, checkpoint)
    assert second.plan() == checkpoint
    assert left(shards) == 0
    with shards.client() as client:
        client.queue("jobs-4").send("more")
    following = second.plan()
    assert second.read(following) == ["more"]
    second.reading.stop()
    assert following["roots"] == checkpoint["roots"]


def test_a_query_of_one_queue_is_of_its_shard_alone(shards: RunningShards) -> None:
    first = Run(shards.url, queue="jobs-4")
    checkpoint = first.plan()
    first.reading.stop()

    alone = Run(shards.servers[shard_of("jobs-4", 3)].url, queue="jobs-4")
    assert alone.read(checkpoint) == ["jobs-4"]
    alone.reading.stop()


def test_a_look_has_the_messages_of_all_shards(shards: RunningShards) -> None:
    options = read_options({"endpoint": shards.url, "queue": "jobs-*", "numPartitions": "4"})
    caller = options.place.caller
    found = [
        message.body.decode()
        for share in shares(caller, options)
        for page in peek(caller, options, share)
        for message in page
    ]
    assert sorted(found) == QUEUES


def test_what_is_there_is_that_of_all_shards(shards: RunningShards) -> None:
    query = Run(shards.url)
    query.reading.only_what_is_there()
    with shards.client() as client:
        for queue in QUEUES:
            client.queue(queue).send("later")
    end = query.plan()
    assert query.read(end) == QUEUES
    assert query.plan() == end
    lag = query.reading.lag(query.at)
    assert lag is not None
    assert lag["ready"] == len(QUEUES)
    query.reading.stop()


def test_a_batch_waits_for_a_shard_that_is_down_and_then_has_all_messages(
    shards: RunningShards,
) -> None:
    planned = Run(shards.url)
    checkpoint = planned.plan()
    planned.reading.stop()
    shards.servers[1].stop()

    query = Run(shards.url, checkpoint, sleep=lambda seconds: start(shards.servers[1]))
    query.at = QueuesOffset.initial(None, 3)
    assert query.read(checkpoint) == QUEUES
    query.reading.stop()


def start(server: Any) -> None:
    if "stopped" in repr(server):
        server.start()


def test_all_shards_hold_a_query_s_messages_while_it_runs_and_when_it_stops() -> None:
    clock = manual_clock()
    with running_shards(3, clock=clock) as shards:
        with shards.client() as client:
            fill(client, *QUEUES)
        first = Run(shards.url)
        checkpoint = first.plan()
        clock.advance(500_000)
        first.reading.stop()  # Holds them for 600 s from now on.
        clock.advance(500_000)
        second = Run(shards.url)
        assert second.read(checkpoint) == QUEUES
        second.reading.stop()


def test_shards_in_a_wrong_order_or_too_few_are_refused_before_anything_is_read(
    shards: RunningShards,
) -> None:
    one, two, three = (server.url for server in shards.servers)
    with pytest.raises(WrongShard, match="order"):
        Run(f"{two},{one},{three}").plan()
    for endpoint in (f"{two},{one},{three}", f"{one},{two}"):
        # Without a queue there the lists of all servers are all that is asked for.
        with pytest.raises(WrongShard, match="order"):
            Run(endpoint, queue="none-*").reading.only_what_is_there()
    with pytest.raises(WrongShard):
        stage(queue_address(f"{two},{three},{one}", "jobs-0").caller, "jobs-0", rows("a"))
    assert left(shards) == len(QUEUES)


def test_another_number_of_shards_is_refused_for_a_checkpoint(shards: RunningShards) -> None:
    first = Run(shards.url)
    checkpoint = first.plan()
    first.reading.stop()
    for urls in (shards.servers[:2], shards.servers[:1]):
        with pytest.raises(InvalidOption, match="checkpoint is of 3 shards, and the option endpoint"):
            Run(",".join(server.url for server in urls), checkpoint)


def test_a_shard_with_another_root_is_refused_for_a_checkpoint(shards: RunningShards) -> None:
    first = Run(shards.url)
    checkpoint = first.plan()
    first.reading.stop()
    with running_shards(3) as others:
        with others.client() as client:
            fill(client, *QUEUES)
        urls = [server.url for server in shards.servers]
        urls[2] = others.servers[2].url
        with pytest.raises(OtherServer, match="endpoint of the server that it began with"):
            Run(",".join(urls), checkpoint).plan()
        assert left(others) == len(QUEUES)


def test_a_batch_is_published_once_on_the_shard_of_its_queue(shards: RunningShards) -> None:
    place = queue_address(shards.url, "jobs-4")
    parts = [stage(place.caller, "jobs-4", rows("a", "b")), stage(place.caller, "jobs-4", rows("c"))]
    for _ in range(2):
        publish(place.caller, "jobs-4", parts, "query", 0)
    with spoolrack.connect(shards.servers[shard_of("jobs-4", 3)].url) as client:
        assert client.queue("jobs-4").info().counts.ready_count == 4


def test_a_publication_that_lacks_a_part_is_refused(shards: RunningShards) -> None:
    place = queue_address(shards.url, "jobs-4")
    staged = stage(place.caller, "jobs-4", rows("a", "b"))
    with pytest.raises(StageIncomplete):
        publish(place.caller, "jobs-4", [replace(staged, messages=3)], "query", 0)
    assert left(shards) == len(QUEUES)


def rows(*bodies: str) -> Any:
    return chunks(map(message_of, bodies), is_staged=True)


@pytest.mark.parametrize("endpoint", ["a:1,a:1", "a:1,", "grpcs://a:1,grpc://b:1", "a:1;b:1"])
def test_addresses_that_are_no_shards_are_refused(endpoint: str) -> None:
    with pytest.raises(InvalidOption, match="endpoint is"):
        queue_address(endpoint, "jobs")
