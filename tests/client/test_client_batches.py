"""Batches when things go wrong, over a root whose calls and answers can be lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import partial
from pathlib import Path
from threading import Event, Thread

import pytest
import spoolrack
from spoolrack import Batch, Queue, RetryPolicy, aio
from spoolrack._core.batch_base import CHUNK_BYTES, HELD_BYTES, MESSAGE_BYTES
from spoolrack._runtime import Started, ThreadSignal, Work, run
from spoolrack.errors import (
    DiskFull,
    InvalidMessage,
    InvalidRequest,
    OutcomeUnknown,
    SpoolrackError,
    Timeout,
    Unreachable,
    Unsupported,
)

from tests.client.client_rig import until_true
from tests.client.lossy_root import LossyRoot, RootTime
from tests.support import STUCK


@pytest.fixture
def client(root: LossyRoot) -> spoolrack.Client:
    client = root.client()
    client.create_queue("jobs")
    return client


@pytest.fixture
def jobs(client: spoolrack.Client) -> Queue:
    return client.queue("jobs")


def fill(batch: Batch, bodies: Iterable[str | bytes]) -> Batch:
    with batch:
        for body in bodies:
            batch.send(body)
    return batch


def calls(root: LossyRoot, name: str) -> list[int]:
    return [items for called, items in root.calls if called == name]


def test_a_chunk_whose_answer_was_lost_is_there_once(root: LossyRoot, jobs: Queue) -> None:
    root.lose("stage", Unreachable(), Unreachable())
    fill(jobs.batch(), map(str, range(1_500)))
    assert calls(root, "stage") == [1_000, 1_000, 1_000, 500]
    assert [m.text for m in jobs.peek()] == [str(number) for number in range(1_500)]


def test_a_publication_whose_answer_was_lost_took_place_once(root: LossyRoot, jobs: Queue) -> None:
    root.lose("publish", Unreachable(), Unreachable())
    batch = fill(jobs.batch(), ["a", "b"])
    assert batch.published is not None
    assert (batch.published.message_count, batch.published.duplicate) == (2, False)
    assert len(calls(root, "publish")) == 3
    assert [m.text for m in jobs.peek()] == ["a", "b"]


@pytest.mark.parametrize("took_place", [False, True])
@pytest.mark.parametrize("doubt", [Unreachable, Timeout, OutcomeUnknown])
def test_a_publication_in_doubt_can_be_made_sure_of(
    root: LossyRoot, doubt: type[SpoolrackError], took_place: bool
) -> None:
    client = root.client(retry=RetryPolicy(attempts=1))
    client.create_queue("jobs")
    (root.lose if took_place else root.fail)("publish", doubt())
    batch = client.queue("jobs").batch(writer="job", epoch=3)
    with pytest.raises(doubt):
        fill(batch, ["a"])
    assert batch.published is None
    assert batch.in_doubt
    assert client.staging.publish(batch.writer, batch.epoch, [batch.stage]).duplicate is took_place
    assert [m.text for m in client.queue("jobs").peek()] == ["a"]


def test_a_failure_in_the_background_is_raised_to_the_caller(
    root: LossyRoot, client: spoolrack.Client, jobs: Queue
) -> None:
    root.fail("stage", InvalidMessage("no"))
    with pytest.raises(InvalidMessage):
        fill(jobs.batch(), map(str, range(5_000)))
    assert list(client.staging.list()) == []
    assert calls(root, "publish") == []


def test_a_defect_beside_the_caller_is_raised_too(root: LossyRoot, jobs: Queue) -> None:
    root.fail("stage", ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        fill(jobs.batch(), map(str, range(1_500)))
    assert calls(root, "publish") == []


def test_a_full_disk_is_waited_for(root: LossyRoot, jobs: Queue) -> None:
    root.fail("stage", *[DiskFull(retry_delay=timedelta(0)) for _ in range(3)])
    fill(jobs.batch(), ["a"])
    assert [m.text for m in jobs.peek()] == ["a"]


def test_a_stage_that_can_not_be_dropped_is_told_of(
    root: LossyRoot, jobs: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    root.fail("publish", InvalidMessage("no"))
    root.fail("abort_stage", OutcomeUnknown("unknown"))
    with caplog.at_level(logging.WARNING, "spoolrack"), pytest.raises(InvalidMessage):
        fill(jobs.batch(), ["a"])
    assert "until it expires" in caplog.text


def test_a_batch_of_one_chunk_needs_two_calls(root: LossyRoot, jobs: Queue) -> None:
    root.calls.clear()
    fill(jobs.batch(), ["a", "b"])
    assert root.calls == [("stage", 2), ("publish", 1)]


def test_a_batch_ends_with_its_block(jobs: Queue) -> None:
    batch = fill(jobs.batch(), ["a"])
    with pytest.raises(InvalidRequest, match="has ended"):
        batch.send("b")


def test_an_invalid_batch_is_refused(client: spoolrack.Client, jobs: Queue) -> None:
    with pytest.raises(InvalidRequest, match="go together"):
        jobs.batch(writer="job")
    with pytest.raises(InvalidRequest, match="go together"):
        client.batch(epoch=1)
    with pytest.raises(InvalidRequest, match="from 1"):
        client.batch(in_flight=0)
    with pytest.raises(InvalidRequest, match="bytes or str"):
        fill(jobs.batch(), [5])  # type: ignore[list-item]


def test_a_batch_for_many_queues_holds_no_more_than_it_says(root: LossyRoot) -> None:
    client = root.client()
    body = b"x" * (CHUNK_BYTES // 4)
    with client.batch() as batch:
        for number in range(100):
            client.create_queue(f"jobs{number}")
            batch.send_to(f"jobs{number}", body)
            staged = sum(items for items in calls(root, "stage"))
            on_its_way = 1
            held = (number + 1 - staged - on_its_way) * (len(body) + MESSAGE_BYTES)
            assert held <= HELD_BYTES
    assert len(calls(root, "stage")) == 100


async def test_a_cancelled_task_drops_its_batch(root: LossyRoot) -> None:
    client = root.aio_client()
    await client.create_queue("jobs")

    async def has_staged() -> bool:
        return bool([each async for each in client.staging.list()])

    async def work() -> None:
        async with client.queue("jobs").batch() as batch:
            for number in range(1_500):
                await batch.send(str(number))
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await until_true(has_staged)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [each async for each in client.staging.list()] == []
    assert [each async for each in client.queue("jobs").peek()] == []


class Slow:
    """Stages in several turns of the event loop, and counts how many do so at one time."""

    under_way = most = 0

    async def stage(self) -> None:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        for _ in range(5):
            await asyncio.sleep(0)
        self.under_way -= 1


class Interrupting(RootTime):
    """A signal comes when a thread is being started: it runs, and its starter doesn't have it."""

    def __init__(self, root: LossyRoot) -> None:
        super().__init__(root)
        self.begun: list[Callable[[], None]] = []

    def start(self, work: Work[None], name: str) -> Started:
        self.begun.append(partial(run, work))
        raise KeyboardInterrupt


def test_a_chunk_that_begins_after_an_interrupt_is_not_staged(root: LossyRoot) -> None:
    time = Interrupting(root)
    client = root.client(runtime=time)
    client.create_queue("jobs")
    with pytest.raises(KeyboardInterrupt):
        fill(client.queue("jobs").batch(), ["x"] * 1_000)
    for begin in time.begun:
        begin()
    assert len(time.begun) == 1
    assert (calls(root, "stage"), list(client.staging.list())) == ([], [])


class InterruptingWithin(Interrupting):
    """The signal comes while the thread stages its chunk, which ends when it is waited for."""

    def __init__(self, root: LossyRoot) -> None:
        super().__init__(root)
        self.has_begun, self.may_end = Event(), Event()

    def start(self, work: Work[None], name: str) -> Started:
        Thread(target=partial(run, work), daemon=True).start()
        assert self.has_begun.wait(STUCK)
        raise KeyboardInterrupt

    async def hold(self) -> None:
        self.has_begun.set()
        assert self.may_end.wait(STUCK)

    def signal(self) -> ThreadSignal:
        may_end = self.may_end

        class Opening(ThreadSignal):
            async def wait(self, timeout: float | None = None) -> bool:
                may_end.set()
                return await super().wait(timeout)

        return Opening()


def test_an_interrupted_batch_is_dropped_after_a_chunk_that_is_under_way(root: LossyRoot) -> None:
    time = InterruptingWithin(root)
    client = root.client(runtime=time)
    client.create_queue("jobs")
    time.may_end.clear()
    root.hooks["stage"] = time.hold
    with pytest.raises(KeyboardInterrupt):
        fill(client.queue("jobs").batch(), ["x"] * 1_000)
    assert calls(root, "stage") == [1_000]
    assert list(client.staging.list()) == []


@pytest.mark.parametrize("in_flight", [1, 3])
async def test_no_more_chunks_are_on_their_way_than_said(root: LossyRoot, in_flight: int) -> None:
    client = root.aio_client()
    await client.create_queue("jobs")
    slow = Slow()
    root.hooks["stage"] = slow.stage
    async with client.queue("jobs").batch(in_flight=in_flight) as batch:
        for number in range(10_000):
            await batch.send(str(number))
    assert slow.most == in_flight


def test_a_vsqs_folder_says_that_it_has_no_such_things(tmp_path: Path) -> None:
    with spoolrack.connect(f"vsqs://{tmp_path}/jobs") as client:
        client.create_queue("jobs")
        jobs = client.queue("jobs")
        for refused in (
            lambda: fill(jobs.batch(), ["a"]),
            lambda: client.staging.publish("me", 0, []),
            lambda: client.staging.abort("s"),
            lambda: list(client.staging.list()),
            lambda: jobs.reserve("s", 0),
            lambda: client.reservations.extend("s", 0),
            lambda: list(client.reservations.read("s", 0)),
            lambda: client.reservations.commit("s", 0),
            lambda: client.reservations.release("s", 0),
            lambda: list(client.reservations.list()),
            lambda: jobs.send("a", deduplication_id="1"),
        ):
            with pytest.raises(Unsupported):
                refused()
        assert jobs.receive() == []


async def test_tasks_and_threads_share_the_rules(root: LossyRoot) -> None:
    client = root.aio_client()
    await client.create_queue("jobs")
    root.lose("publish", Unreachable())
    async with client.queue("jobs").batch() as batch:
        await batch.send("a")
    assert isinstance(batch, aio.Batch)
    assert batch.published is not None
    assert (batch.published.message_count, batch.published.duplicate) == (1, False)
