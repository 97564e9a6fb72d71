"""The surface for asyncio keeps the same promises: each method once, and what is special to tasks."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from spoolrack import aio

from tests.client.client_rig import until_true


async def take(stream: aio.MessageStream, count: int) -> list[aio.Message]:
    return [await anext(stream) for _ in range(count)]


async def leased(client: aio.Client) -> int:
    return (await client.queue("jobs").info()).counts.leased_count


async def test_a_thousand_tasks_send_each_its_message(aio_jobs: aio.Queue) -> None:
    ids = await asyncio.gather(*(aio_jobs.send(str(number)) for number in range(1_000)))
    assert len(set(ids)) == 1_000
    received = await aio_jobs.receive(1_000)
    assert {message.id: message.text for message in received} == {
        id: str(number) for number, id in enumerate(ids)
    }


async def test_a_stream_is_iterated_and_gives_back_the_rest(
    aio_client: aio.Client, aio_jobs: aio.Queue
) -> None:
    await aio_jobs.send_many(str(number) for number in range(10))
    seen = []

    async def four_are_leased() -> bool:
        return await leased(aio_client) == 4

    async with aio_jobs.messages(max_in_flight=4) as stream:
        async for message in stream:
            async with message:
                seen.append(message.text)
            if len(seen) == 3:
                break
        # A message in flight when a stream ends comes only when its lease is over. A message sent
        # before an answer has come with it.
        await until_true(four_are_leased)
        assert await leased(aio_client) == 4
    assert seen == ["0", "1", "2"]

    async def nothing_is_leased() -> bool:
        return await leased(aio_client) == 0

    await until_true(nothing_is_leased)
    assert [message.text for message in await aio_jobs.receive(10)] == list("3456789")


async def test_a_forgotten_stream_gives_back_the_rest(
    aio_client: aio.Client, aio_jobs: aio.Queue
) -> None:
    await aio_jobs.send_many(["a", "b"])
    async for message in aio_jobs.messages():
        await message.delete()
        break

    async def one_is_ready() -> bool:
        return (await aio_client.queue("jobs").info()).counts.ready_count == 1

    await until_true(one_is_ready)


async def test_a_cancelled_task_loses_no_message_of_a_shared_stream(aio_jobs: aio.Queue) -> None:
    async with aio_jobs.messages() as stream:
        first = asyncio.create_task(take(stream, 1))
        second = asyncio.create_task(take(stream, 1))
        await asyncio.sleep(0)
        first.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await first
        await aio_jobs.send("a")
        (message,) = await asyncio.wait_for(second, 60)
        assert message.text == "a"


async def test_handlers_that_outlast_the_grace_are_cancelled_and_their_messages_released(
    aio_client: aio.Client, aio_jobs: aio.Queue
) -> None:
    await aio_jobs.send_many(["a", "b", "c"])
    begun = asyncio.Event()

    async def work_on(message: aio.Message) -> None:
        begun.set()
        await asyncio.Event().wait()

    worker = aio_jobs.worker(work_on, concurrency=1, grace=0)
    running = asyncio.create_task(worker.run())
    await asyncio.wait_for(begun.wait(), 60)
    worker.stop()
    await asyncio.wait_for(running, 60)
    assert await leased(aio_client) == 0
    assert [message.text for message in await aio_jobs.receive(10)] == ["a", "b", "c"]


async def test_a_cancelled_worker_ends_in_order(aio_client: aio.Client, aio_jobs: aio.Queue) -> None:
    await aio_jobs.send_many(["a", "b", "c"])
    begun, free = asyncio.Event(), asyncio.Event()
    done = []

    async def work_on(message: aio.Message) -> None:
        begun.set()
        await free.wait()
        done.append(message.text)

    running = asyncio.create_task(aio_jobs.work(work_on, concurrency=1))
    await asyncio.wait_for(begun.wait(), 60)
    running.cancel()
    free.set()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 60)
    assert done[0] == "a"
    assert await leased(aio_client) == 0
