"""Promises of every transport about stages: all of a batch appears, or none of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial

import pytest
import spoolrack
from spoolrack import Batch, MessageState, Outgoing, PublishResult, Queue, aio
from spoolrack.errors import (
    ChunkDiffers,
    InvalidMessage,
    InvalidRequest,
    QueueFull,
    QueueNotFound,
    StageNotFound,
)

from tests.client.contract.conftest import World
from tests.support import MIB
from tests.support.waiting import until

pytestmark = pytest.mark.needs("stages")

DAY = 24 * 60 * 60


class Refused(Exception):
    """The error of a block."""


def fill(batch: Batch, bodies: Iterable[str], then_raise: Exception | None = None) -> None:
    with batch:
        for body in bodies:
            batch.send(body)
        if then_raise is not None:
            raise then_raise


def fill_all(batch: Batch, messages: Iterable[tuple[str, str]]) -> None:
    with batch:
        for queue, body in messages:
            batch.send_to(queue, body)


def names(client: spoolrack.Client) -> list[str]:
    return [stage.name for stage in client.staging.list()]


def bodies(queue: Queue, most: int = 1_000) -> list[str]:
    return [message.text for message in queue.receive(most)]


def test_a_batch_appears_at_its_end_and_not_before(jobs: Queue) -> None:
    with jobs.batch() as batch:
        batch.send("a", attributes={"colour": "red"})
        batch.send("b")
        assert jobs.receive(10) == []
    assert batch.published is not None
    assert (batch.published.message_count, batch.published.duplicate) == (2, False)
    first, second = jobs.receive(10)
    assert (first.text, first.attributes, second.text) == ("a", {"colour": "red"}, "b")


def test_a_batch_whose_block_raises_leaves_nothing(client: spoolrack.Client, jobs: Queue) -> None:
    batch = jobs.batch()
    with pytest.raises(Refused):
        fill(batch, map(str, range(1_500)), then_raise=Refused())
    assert batch.published is None
    assert jobs.receive() == []
    assert list(client.staging.list()) == []


def test_a_large_batch_keeps_its_order(client: spoolrack.Client, jobs: Queue) -> None:
    with jobs.batch() as batch:
        for number in range(3_500):
            batch.send(str(number))
        (stage,) = client.staging.list()
        assert stage.name == batch.stage
        assert client.staging.get(batch.stage).name == batch.stage
    assert batch.published is not None
    assert batch.published.message_count == batch.message_count == 3_500
    found = [text for _ in range(4) for text in bodies(jobs)]
    assert found == [str(number) for number in range(3_500)]
    assert list(client.staging.list()) == []
    with pytest.raises(StageNotFound):
        client.staging.get(batch.stage)


def test_large_messages_are_staged_in_chunks_of_their_own(client: spoolrack.Client) -> None:
    client.create_queue("jobs", max_message_size=4 * MIB)
    jobs = client.queue("jobs")
    with jobs.batch(in_flight=3, publish=False) as batch:
        for size in (3 * MIB, MIB // 2, MIB // 2, 1):
            batch.send(b"x" * size)
    (stage,) = client.staging.list()
    assert (stage.chunk_count, stage.message_counts) == (3, {"jobs": 4})
    assert client.staging.publish("me", 0, [batch.stage]).message_count == 4
    assert Counter(message.body_size for message in jobs.peek(max_body_bytes=0)) == {
        3 * MIB: 1,
        MIB // 2: 2,
        1: 1,
    }


def test_stages_are_listed_by_queue(client: spoolrack.Client, jobs: Queue) -> None:
    mail = client.create_queue("jobs--mail")
    stages = []
    for queue in (jobs, mail, jobs):
        with queue.batch(publish=False) as batch:
            batch.send("a")
        stages.append(batch.stage)
    assert [stage.name for stage in client.staging.list("jobs")] == sorted(stages[::2])
    assert [stage.name for stage in client.staging.list(queue="jobs--mail")] == stages[1:2]
    assert len(list(client.staging.list())) == 3


def test_a_batch_appears_in_several_queues(client: spoolrack.Client, jobs: Queue) -> None:
    client.create_queue("jobs--mail")
    with client.batch() as batch:
        batch.send_to("jobs--mail", "m")
        batch.send_to(jobs, "j")
        batch.send_to("jobs--mail", "n")
    assert batch.published is not None
    assert batch.published.message_count == 3
    assert bodies(jobs) == ["j"]
    assert bodies(client.queue("jobs--mail")) == ["m", "n"]


def test_a_delay_counts_from_the_publication(
    client: spoolrack.Client, jobs: Queue, world: World
) -> None:
    with jobs.batch(publish=False) as batch:
        batch.send("later", delay=10)
        batch.send("now")
    world.advance(60)
    client.staging.publish("me", 0, [batch.stage])
    assert [message.state for message in jobs.peek()] == [MessageState.DELAYED, MessageState.READY]
    assert bodies(jobs) == ["now"]
    world.advance(10)
    assert bodies(jobs) == ["later"]


def test_the_queue_s_own_delay_holds_for_a_batch(client: spoolrack.Client, world: World) -> None:
    client.create_queue("jobs", delivery_delay=5)
    with client.queue("jobs").batch() as batch:
        batch.send("a")
        batch.send("b", delay=0)
    assert bodies(client.queue("jobs")) == ["b"]
    world.advance(5)
    assert bodies(client.queue("jobs")) == ["a"]


def test_an_epoch_is_published_once(client: spoolrack.Client, jobs: Queue) -> None:
    for _ in range(2):
        with jobs.batch(writer="job", epoch=7) as batch:
            batch.send("a")
    assert batch.published is not None
    assert (batch.published.message_count, batch.published.duplicate) == (0, True)
    assert batch.published.last_epoch == 7
    with jobs.batch(writer="job", epoch=6) as older:
        older.send("b")
    assert older.published is not None
    assert (older.published.duplicate, older.published.last_epoch) == (True, 7)
    with jobs.batch(writer="job", epoch=8) as newer:
        newer.send("c")
    assert newer.published is not None
    assert not newer.published.duplicate
    assert bodies(jobs) == ["a", "c"]
    assert list(client.staging.list()) == []


def test_an_empty_batch_is_no_fault(client: spoolrack.Client, jobs: Queue) -> None:
    with jobs.batch() as batch:
        pass
    assert batch.published == PublishResult(message_count=0, last_epoch=0), "nothing was published"
    with jobs.batch(writer="job", epoch=3):
        pass
    assert client.staging.publish("job", 3, []).duplicate
    assert client.staging.publish("job", 4, []).last_epoch == 4


def test_a_batch_can_be_staged_here_and_published_there(
    client: spoolrack.Client, other: spoolrack.Client, jobs: Queue
) -> None:
    stages = []
    for body in ("a", "b"):
        with jobs.batch(publish=False) as batch:
            batch.send(body)
        assert batch.published is None
        stages.append(batch.stage)
    assert jobs.receive() == []
    assert other.staging.publish("driver", 1, stages).message_count == 2
    assert bodies(jobs) == ["a", "b"]
    again = other.staging.publish("driver", 1, stages)
    assert (again.message_count, again.duplicate) == (0, True)


def test_a_chunk_that_is_there_is_not_stored_again(client: spoolrack.Client, jobs: Queue) -> None:
    first = client.staging.stage("s", 5, "jobs", ["a", Outgoing(body=b"b", attributes={"n": b"v"})])
    again = client.staging.stage("s", 5, "jobs", ["a", Outgoing(body=b"b", attributes={"n": b"v"})])
    assert (first.message_count, first.duplicate) == (2, False)
    assert (again.message_count, again.duplicate, again.expires_at) == (2, True, first.expires_at)
    client.create_queue("jobs--mail")
    for queue, messages in (("jobs", ["quite", "another"]), ("jobs--mail", ["a", "b"])):
        with pytest.raises(ChunkDiffers):
            client.staging.stage("s", 5, queue, messages)
    assert client.staging.publish("me", 0, ["s"]).message_count == 2
    assert bodies(jobs) == ["a", "b"]


def test_a_chunk_is_stored_whole_or_not_at_all(client: spoolrack.Client) -> None:
    client.create_queue("jobs", max_message_size=10)
    jobs = client.queue("jobs")
    with pytest.raises(InvalidMessage):
        client.staging.stage("s", 0, "jobs", ["fine", "much too long", "fine"])
    assert list(client.staging.list()) == []
    with pytest.raises(InvalidMessage):
        fill(jobs.batch(), ["fine"] * 1_000 + ["much too long"])
    assert jobs.receive() == []
    assert list(client.staging.list()) == []


def test_nothing_is_published_if_a_stage_is_missing(client: spoolrack.Client, jobs: Queue) -> None:
    client.staging.stage("here", 0, "jobs", ["a"])
    with pytest.raises(StageNotFound):
        client.staging.publish("me", 0, ["here", "missing"])
    assert jobs.receive() == []
    assert client.staging.publish("me", 0, ["here"]).message_count == 1


def test_nothing_is_published_if_it_does_not_fit(client: spoolrack.Client, jobs: Queue) -> None:
    client.create_queue("jobs--small", max_messages=1)
    batch = client.batch(timeout=1)
    with pytest.raises(QueueFull):
        fill_all(batch, [("jobs", "a"), ("jobs--small", "b"), ("jobs--small", "c")])
    assert batch.published is None
    assert jobs.receive() == []
    assert client.queue("jobs--small").receive() == []
    assert list(client.staging.list()) == []


def test_nothing_is_staged_for_a_queue_that_is_not_there(client: spoolrack.Client) -> None:
    client.create_queue("jobs")
    with pytest.raises(QueueNotFound):
        fill_all(client.batch(), [("jobs", "a"), ("jobs--nowhere", "b")])
    assert list(client.staging.list()) == []


def test_an_aborted_batch_never_appears(client: spoolrack.Client, jobs: Queue) -> None:
    client.staging.stage("s", 0, "jobs", ["a", "b"])
    client.staging.stage("s", 1, "jobs", ["c"])
    assert client.staging.abort("s") == 3
    with pytest.raises(StageNotFound):
        client.staging.abort("s")
    with pytest.raises(StageNotFound):
        client.staging.publish("me", 0, ["s"])
    assert jobs.receive() == []


def test_a_batch_that_is_repeated_after_its_memory_is_published_once(
    client: spoolrack.Client, jobs: Queue, world: World
) -> None:
    """Its epoch is remembered for ten minutes; its stage is gone with the publication."""
    batch = jobs.batch()
    fill(batch, ["a"])
    repeated = partial(client.staging.publish, batch.writer, batch.epoch, [batch.stage])
    assert repeated().duplicate
    world.advance(601)
    with pytest.raises(StageNotFound):
        repeated()
    assert bodies(jobs) == ["a"]


def test_an_unpublished_stage_expires(client: spoolrack.Client, jobs: Queue, world: World) -> None:
    client.staging.stage("short", 0, "jobs", ["a"], time_to_live=10)
    client.staging.stage("long", 0, "jobs", ["b"])
    world.advance(5)
    client.staging.stage("short", 1, "jobs", ["c"], time_to_live=1_000)  # The first chunk's counts.
    world.advance(5.1)
    until(lambda: names(client) == ["long"])
    with pytest.raises(StageNotFound):
        client.staging.publish("me", 0, ["short"])
    world.advance(DAY - 11)
    assert client.staging.publish("me", 0, ["long"]).message_count == 1
    assert bodies(jobs) == ["b"]


def test_a_batch_that_outlives_its_stage_is_not_published_in_part(
    client: spoolrack.Client, jobs: Queue, world: World
) -> None:
    def outlived() -> Iterator[str]:
        yield from map(str, range(1_000))
        until(lambda: names(client) == [batch.stage])
        world.advance(11)
        until(lambda: names(client) == [])
        yield "in the next chunk"

    batch = jobs.batch(time_to_live=10)
    with pytest.raises(StageNotFound):
        fill(batch, outlived())
    assert batch.published is None
    assert jobs.receive() == []


def test_the_stages_are_listed(client: spoolrack.Client, jobs: Queue, world: World) -> None:
    client.create_queue("jobs--mail")
    client.staging.stage("b", 0, "jobs", ["x"], time_to_live=60)
    made = client.staging.stage("a", 0, "jobs", ["x", "y"])
    client.staging.stage("a", 3, "jobs--mail", ["z"])
    for number in range(120):
        client.staging.stage(f"more{number:03}", 0, "jobs", ["x"])
    stages = list(client.staging.list())
    assert [stage.name for stage in stages] == [
        "a",
        "b",
        *(f"more{number:03}" for number in range(120)),
    ]
    assert (stages[0].chunk_count, stages[0].message_counts) == (2, {"jobs": 2, "jobs--mail": 1})
    assert stages[0].expires_at == made.expires_at
    assert (stages[0].expires_at - stages[1].expires_at).total_seconds() == DAY - 60


@pytest.mark.needs("validation")
def test_a_name_that_can_be_no_stage_is_refused(client: spoolrack.Client, jobs: Queue) -> None:
    for name in ("", "a/b", "..", "ä", "x" * 65, "a.b", "a\0b"):
        with pytest.raises(InvalidRequest):
            client.staging.stage(name, 0, "jobs", ["a"])
        with pytest.raises(InvalidRequest):
            client.staging.abort(name)
        with pytest.raises(InvalidRequest):
            client.staging.publish("me", 0, [name])


@pytest.mark.needs("validation")
def test_numbers_and_spans_out_of_bounds_are_refused(client: spoolrack.Client, jobs: Queue) -> None:
    for wrong in (-1, 1_000_000_000):
        with pytest.raises(InvalidRequest):
            client.staging.stage("s", wrong, "jobs", ["a"])
    for span in (0.5, 15 * DAY):
        with pytest.raises(InvalidRequest):
            client.staging.stage("s", 0, "jobs", ["a"], time_to_live=span)
    with pytest.raises(InvalidRequest):
        client.staging.stage("s", 0, "jobs", [])
    with pytest.raises(InvalidRequest):
        client.staging.stage("s", 0, "jobs", ["a"] * 1_001)
    with pytest.raises(InvalidRequest):
        client.staging.publish("me", -1, [])
    with pytest.raises(InvalidRequest):
        client.staging.publish("", 0, [])
    with pytest.raises(InvalidRequest):
        client.staging.publish("me", 0, [], epoch_retention=30)
    with pytest.raises(InvalidMessage):
        client.staging.stage("s", 0, "jobs", [Outgoing(body="a", delay=1), Outgoing(body="b", delay=2)])
    with pytest.raises(InvalidMessage):
        client.staging.stage("s", 0, "jobs", [Outgoing(body="a", deduplication_id="x")])
    assert list(client.staging.list()) == []


async def dropped(client: aio.Client, jobs: aio.Queue) -> None:
    async with client.batch() as batch:
        await batch.send_to(jobs, "x")
        await batch.send_to("jobs", "y")
        raise Refused


async def test_tasks_have_batches_too(aio_client: aio.Client, aio_jobs: aio.Queue) -> None:
    async with aio_jobs.batch(in_flight=2) as batch:
        for number in range(2_100):
            await batch.send(str(number))
    assert batch.published is not None
    assert batch.published.message_count == 2_100
    with pytest.raises(Refused):
        await dropped(aio_client, aio_jobs)
    assert (await aio_client.queue("jobs").info()).counts.ready_count == 2_100
    staged = await aio_client.staging.stage("s", 0, "jobs", ["a"])
    assert [stage.name async for stage in aio_client.staging.list()] == ["s"]
    assert (await aio_client.staging.stage("s", 0, "jobs", ["a"])).expires_at == staged.expires_at
    assert (await aio_client.staging.publish("me", 0, ["s"])).message_count == 1
    with pytest.raises(StageNotFound):
        await aio_client.staging.abort("s")
