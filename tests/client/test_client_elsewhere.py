"""A message in another process, and a client in another event loop than its own."""

from __future__ import annotations

import asyncio
import copy
import logging
import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest
import spoolrack
from spoolrack import MessageFacts, aio
from spoolrack.errors import InvalidRequest, WrongEventLoop
from spoolrack.testing import RunningServer


def work_on(url: str, message: MessageFacts) -> tuple[str, object]:
    """What a process of a pool does, which has a client of its own."""
    with spoolrack.connect(url) as client, client.message(message) as mine:
        return mine.text, mine.attributes["kind"]


def test_a_process_of_a_pool_gets_a_message_and_ends_its_lease(server: RunningServer) -> None:
    with server.client() as client:
        jobs = client.create_queue("jobs")
        jobs.send("one", attributes={"kind": "small"})
        (message,) = jobs.receive()
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            done = pool.submit(work_on, server.url, message).result()
        assert done == ("one", "small")
        counts = jobs.info().counts
        assert (counts.ready_count, counts.leased_count) == (0, 0)


async def test_a_pickled_message_has_its_facts_and_each_kind_of_client_acts_on_it(
    server: RunningServer,
) -> None:
    async with aio.connect(server.url) as client:
        jobs = await client.create_queue("jobs")
        await jobs.send("one")
        (message,) = await jobs.receive()
        for twin in (pickle.loads(pickle.dumps(message)), copy.copy(message)):
            assert type(twin) is MessageFacts
            assert twin == message
            assert (twin.text, twin.receipt) == ("one", message.receipt)
            assert (twin.sent_at, twin.lease_expires_at) == (message.sent_at, message.lease_expires_at)
        bound = client.message(pickle.loads(pickle.dumps(message)))
        assert isinstance(bound, aio.Message)
        await bound.release(delay=60)
        assert (await jobs.info()).counts.delayed_count == 1
        with pytest.raises(InvalidRequest, match="pickled"):
            client.message("receipt")  # type: ignore[arg-type]


def test_a_client_for_tasks_is_made_in_an_event_loop(server: RunningServer) -> None:
    with pytest.raises(WrongEventLoop, match="in a coroutine"):
        aio.connect(server.url)


def test_a_client_for_tasks_says_that_it_belongs_to_another_loop(server: RunningServer) -> None:
    clients: list[aio.Client] = []

    async def first() -> None:
        clients.append(aio.connect(server.url))
        await clients[0].create_queue("jobs")

    async def second() -> None:
        jobs = clients[0].queue("jobs")
        for call in (jobs.send(b"1"), jobs.info(), jobs.receive(), anext(jobs.messages())):
            with pytest.raises(WrongEventLoop, match="connect in each loop"):
                await call

    asyncio.run(first())
    asyncio.run(second())


async def test_a_cancelled_worker_waits_for_the_releases_of_its_handlers(
    server: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with aio.connect(server.url) as client:
        jobs = await client.create_queue("jobs")
        await jobs.send("one")
        begun = asyncio.Event()

        async def handle(message: aio.Message) -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                # As long as a release takes at a server with much to do.
                await asyncio.sleep(0.3)

        working = asyncio.create_task(jobs.work(handle, grace=0.0))
        await begun.wait()
        with caplog.at_level(logging.WARNING, "spoolrack"):
            working.cancel()
            with pytest.raises(asyncio.CancelledError):
                await working
        assert caplog.messages == []
        assert (await jobs.info()).counts.ready_count == 1
