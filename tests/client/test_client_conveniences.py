"""What a user of other queues looks for: results that raise, queues as declared, workers beside the
program, and JSON."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future

import pytest
import spoolrack
from spoolrack import aio
from spoolrack._call_values import Call, UpdateQueue
from spoolrack.errors import MessageTooLarge, QueueNotFound, StaleReceipt
from spoolrack.testing import RunningServer

from tests.support.waiting import until


def test_results_raise_the_first_error_if_they_are_asked_to(server: RunningServer) -> None:
    with server.client() as client:
        jobs = client.create_queue("jobs", max_message_size=2)
        results = jobs.send_many(["a", "too large", "b", "large as well"])
        assert [result.ok for result in results] == [True, False, True, False]
        with pytest.raises(MessageTooLarge) as raised:
            results.raise_for_errors()
        assert raised.value.__notes__ == ["2 of 4 messages failed: this is the first."]
        sent = jobs.send_many(["c", "d"])
        assert sent.raise_for_errors() is sent
        leased = jobs.receive(4)
        jobs.release_many(leased[:1]).raise_for_errors()
        with pytest.raises(StaleReceipt):
            jobs.release_many(leased[:1]).raise_for_errors()
        with pytest.raises(StaleReceipt):
            jobs.extend_many(leased[:1], 60).raise_for_errors()
        jobs.delete_many(leased[1:]).raise_for_errors()


def test_a_queue_is_ensured_to_be_as_declared(server: RunningServer) -> None:
    with server.client() as client:
        jobs = client.ensure_queue("jobs", max_messages=3, labels={"team": "a"})
        assert type(jobs) is spoolrack.Queue
        client.ensure_queue("jobs", visibility_timeout=60, labels={"kind": "b"})
        info = jobs.info()
        # Settings that aren't named stay as they are; the labels are all there are.
        assert (info.settings.max_messages, info.settings.visibility_timeout) == (3, 60)
        assert info.labels == {"kind": "b"}
        client.ensure_queue("jobs", max_messages=3)
        again = jobs.info()
        assert (again.labels, again.settings) == (info.labels, info.settings)


async def test_a_queue_that_is_deleted_while_it_is_ensured_is_created_again(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with aio.connect(server.url) as client:
        await client.create_queue("jobs")
        transport = client._context.transport
        call = transport.call
        deleted: list[str] = []

        async def call_late(request: Call[object], *, timeout: float) -> object:
            if isinstance(request, UpdateQueue) and not deleted:
                deleted.append(request.name)
                raise QueueNotFound
            return await call(request, timeout=timeout)

        monkeypatch.setattr(transport, "call", call_late)
        jobs = await client.ensure_queue("jobs", max_messages=3)
        assert (await jobs.info()).settings.max_messages == 3


def test_a_worker_runs_beside_the_program_until_the_block_ends(server: RunningServer) -> None:
    handled: list[str] = []
    with server.client() as client:
        jobs = client.create_queue("jobs")
        with jobs.worker(lambda message: handled.append(message.text)):
            jobs.send("one")
            until(lambda: handled == ["one"])
        jobs.send("two")
        assert jobs.info().counts.ready_count == 1
        worker = jobs.worker(lambda message: handled.append(message.text))
        running = worker.start()
        assert isinstance(running, Future)
        until(lambda: handled == ["one", "two"])
        assert not running.done()
        worker.stop()
        assert running.result() is None
        with pytest.raises(RuntimeError, match="has run already"):
            worker.start().result()


def until_failed(worker: spoolrack.Worker) -> None:
    until(lambda: worker._running is not None and worker._running.done())


def test_the_failure_of_a_worker_in_the_background_is_its_futures_and_its_blocks(
    server: RunningServer,
) -> None:
    with server.client() as client:
        running = client.queue("missing").worker(print).start()
        with pytest.raises(QueueNotFound):
            running.result()
        with pytest.raises(QueueNotFound), client.queue("missing").worker(print) as worker:
            until_failed(worker)
        # The block's own error matters more.
        with pytest.raises(KeyError), client.queue("missing").worker(print) as worker:
            raise KeyError(until_failed(worker))


async def test_a_worker_for_tasks_runs_beside_the_program(server: RunningServer) -> None:
    async with aio.connect(server.url) as client:
        jobs = await client.create_queue("jobs")
        handled = asyncio.Event()

        async def handle(message: aio.Message) -> None:
            handled.set()

        async with jobs.worker(handle):
            await jobs.send("one")
            await handled.wait()
        assert (await jobs.info()).counts.leased_count == 0
        with pytest.raises(QueueNotFound):
            await client.queue("missing").worker(handle).start()
        worker = client.queue("missing").worker(handle)
        with pytest.raises(QueueNotFound):
            async with worker:
                await asyncio.wait([worker._running])


def test_the_close_of_a_client_stops_a_worker_in_the_background_in_order(
    server: RunningServer,
) -> None:
    held, handled = threading.Event(), []

    def handle(message: spoolrack.Message) -> None:
        held.wait()
        handled.append(message.text)

    with server.client() as client:
        jobs = client.create_queue("jobs")
        jobs.send_many([str(number) for number in range(30)])
        jobs.worker(handle, concurrency=2, prefetch=3).start()
        until(lambda: jobs.info().counts.leased_count == 5)
        threading.Timer(0.1, held.set).start()
    # What had begun was handled and deleted, and the rest was released.
    with server.client() as client:
        counts = client.queue("jobs").info().counts
        assert (counts.leased_count, counts.ready_count) == (0, 30 - len(handled))
        assert 2 <= len(handled) <= 5


@pytest.mark.parametrize("value", [{"name": "Zoë", "sizes": [1, 2.5, None]}, [], "text", 7, None])
def test_a_value_is_sent_and_read_as_json(server: RunningServer, value: object) -> None:
    with server.client() as client:
        jobs = client.create_queue("jobs")
        jobs.send_json(value, group="a")
        (message,) = jobs.receive()
        assert message.json() == value
        assert message.group == "a"
        jobs.send(b"\xff")
        (message,) = jobs.receive()
        with pytest.raises(ValueError, match="decode"):
            message.json()


async def test_what_json_does_not_have_is_not_sent(server: RunningServer) -> None:
    async with aio.connect(server.url) as client:
        jobs = await client.create_queue("jobs")
        for wrong, error in ((object(), TypeError), (float("nan"), ValueError)):
            with pytest.raises(error):
                await jobs.send_json(wrong)
        await jobs.send_json({"a": 1})
        (message,) = await jobs.receive()
        assert (message.body, message.json()) == (b'{"a":1}', {"a": 1})
