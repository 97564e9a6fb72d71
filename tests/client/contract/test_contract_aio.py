"""The surface for asyncio keeps the same promises: each method once, and what is special to tasks."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from spoolrack import ById, MessageState, Outgoing, QueueSettings, aio
from spoolrack.errors import ClientClosed, MessageNotFound, QueueNotFound, StaleReceipt

from tests.client.client_rig import until_true
from tests.client.contract.conftest import World


async def take(stream: aio.MessageStream, count: int) -> list[aio.Message]:
    return [await anext(stream) for _ in range(count)]


async def leased(client: aio.Client) -> int:
    return (await client.queue("jobs").info()).counts.leased_count


async def _are_leased(client: aio.Client, count: int) -> bool:
    return await leased(client) == count


async def delayed(client: aio.Client) -> int:
    return (await client.queue("jobs").info()).counts.delayed_count


@pytest.mark.needs("settings", "several queues")
async def test_queues_are_made_changed_listed_and_deleted(aio_client: aio.Client) -> None:
    await aio_client.create_queue("b", max_messages=3)
    await aio_client.create_queue("a")
    assert [info.name async for info in aio_client.list_queues()] == ["a", "b"]
    info = await aio_client.update_queue("b", max_messages=None, visibility_timeout=5)
    assert info.settings == QueueSettings(visibility_timeout=5.0)
    await aio_client.delete_queue("b")
    with pytest.raises(QueueNotFound):
        await aio_client.queue("b").info()
    await aio_client.queue("a").send("x")
    assert await aio_client.queue("a").purge() == 1


@pytest.mark.needs("attributes", "delays")
async def test_a_message_lives_its_life(aio_jobs: aio.Queue, world: World) -> None:
    id = await aio_jobs.send("a", attributes={"n": b"v"}, delay=5)
    assert (await aio_jobs.get(id)).state is MessageState.DELAYED
    world.advance(5)
    (message,) = await aio_jobs.receive(wait=1)
    assert (message.id, message.text, message.attributes) == (id, "a", {"n": b"v"})
    assert await message.extend(60) == message.lease_expires_at
    await message.release()
    with pytest.raises(StaleReceipt):
        await message.delete()
    (message,) = await aio_jobs.receive()
    await aio_jobs.delete(message)
    with pytest.raises(MessageNotFound):
        await aio_jobs.get(id)


@pytest.mark.needs("receive counts")
async def test_messages_that_a_closed_stream_did_not_hand_out_are_not_counted(
    aio_client: aio.Client, aio_jobs: aio.Queue
) -> None:
    await aio_jobs.send_many(["a", "b", "c"])
    for _ in range(3):
        async with aio_jobs.messages() as stream:
            (first,) = await take(stream, 1)
            await until_true(lambda: _are_leased(aio_client, 3))
            await first.release()
            await stream.close()
        await until_true(lambda: _are_leased(aio_client, 0))
    assert [message.receive_count for message in await aio_jobs.receive(3)] == [4, 1, 1]


@pytest.mark.needs("uncounted prefetch")
async def test_prefetched_messages_whose_leases_expire_are_not_counted_and_come_again(
    aio_client: aio.Client, aio_jobs: aio.Queue, world: World
) -> None:
    await aio_jobs.send_many(["a", "b", "c"])
    async with aio_jobs.messages() as stream:
        await take(stream, 1)
        await until_true(lambda: _are_leased(aio_client, 3))
        world.advance(30)
        await until_true(lambda: _are_leased(aio_client, 0))
        found = [(message.text, message.receive_count) for message in await take(stream, 5)]
        assert found == [("b", 1), ("c", 1), ("a", 2), ("b", 1), ("c", 1)]


@pytest.mark.needs("delays")
async def test_many_at_once_have_a_result_each(aio_jobs: aio.Queue) -> None:
    results = await aio_jobs.send_many(["a", b"b", Outgoing(body="c"), Outgoing(body="d", delay=9)])
    assert all(result.ok for result in results)
    assert [message.text async for message in aio_jobs.peek()] == ["a", "b", "c", "d"]
    a, b, c = await aio_jobs.receive(10)
    assert all(result.ok for result in await aio_jobs.extend_many([a, b], 60))
    assert all(result.ok for result in await aio_jobs.release_many([c]))
    deleted = await aio_jobs.delete_many([a, b.receipt, ById(results[3].id or "")])
    assert all(result.ok for result in deleted)
    assert [message.text async for message in aio_jobs.peek(["ready", "leased", "delayed"])] == ["c"]


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


async def test_a_stream_for_tasks_gives_what_has_come(aio_jobs: aio.Queue) -> None:
    await aio_jobs.send_many(["a", "b", "c"])
    async with aio_jobs.messages() as stream:
        found: list[str] = []
        while len(found) < 3:
            found += [message.text for message in await stream.receive(2)]
        assert found == ["a", "b", "c"]
        assert await stream.receive(2, wait=0) == []
    assert await stream.receive(2) == []


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


async def test_a_closed_client_ends_its_streams(world: World, aio_jobs: aio.Queue) -> None:
    client = world.connect_aio()
    waiting = asyncio.create_task(_all(client.queue("jobs").messages()))
    await asyncio.sleep(0)
    await client.close()
    assert await asyncio.wait_for(waiting, 60) == []
    with pytest.raises(ClientClosed):
        await client.queue("jobs").send("b")


async def _all(stream: aio.MessageStream) -> list[aio.Message]:
    return [message async for message in stream]


@pytest.mark.needs("receive counts")
async def test_a_worker_deletes_what_succeeds_and_puts_off_what_fails(
    world: World, aio_client: aio.Client, aio_jobs: aio.Queue
) -> None:
    await aio_jobs.send_many(str(number) for number in range(30))
    failures: list[str] = []

    async def work_on(message: aio.Message) -> None:
        if message.receive_count == 1 and int(message.text) % 3 == 0:
            raise ValueError(message.text)

    worker = aio_jobs.worker(work_on, on_error=lambda message, error: failures.append(str(error)))
    running = asyncio.create_task(worker.run())

    async def all_are_worked_on() -> bool:
        return await delayed(aio_client) == 10 == len(failures)

    await until_true(all_are_worked_on)
    world.advance(1)

    async def all_are_gone() -> bool:
        return not [message async for message in aio_jobs.peek(max_body_bytes=0)]

    await until_true(all_are_gone)
    worker.stop()
    await asyncio.wait_for(running, 60)
    assert sorted(map(int, failures)) == list(range(0, 30, 3))


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
