"""An error in the background reaches all waiting callers, defects too."""

from __future__ import annotations

import asyncio
import threading

import pytest
from spoolrack._core import several_queues
from spoolrack.errors import ClientClosed

from tests.client.client_rig import until_async
from tests.client.lossy_root import LossyRoot
from tests.support.waiting import until


def test_a_defect_of_the_reader_reaches_all_threads_that_wait(root: LossyRoot) -> None:
    root.fail("stream", *[OverflowError("too much") for _ in range(2)])
    client = root.client()
    stream = client.queue("jobs").messages()
    heard: list[BaseException] = []

    def wait() -> None:
        try:
            next(stream)
        except OverflowError as error:
            heard.append(error)

    threads = [threading.Thread(target=wait, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    until(lambda: len(heard) == 3)
    with pytest.raises(OverflowError, match="too much"):
        client.queue("jobs").work(print)


async def test_a_defect_of_the_reader_reaches_all_tasks_that_wait(root: LossyRoot) -> None:
    root.fail("stream", OverflowError("too much"))
    async with root.aio_client() as client:
        stream = client.queue("jobs").messages()
        waiting = [asyncio.create_task(anext(stream)) for _ in range(3)]  # type: ignore[arg-type]
        done, _ = await asyncio.wait(waiting, timeout=10)
        assert [type(task.exception()) for task in done] == [OverflowError] * 3


async def test_a_cancelled_reader_wakes_the_next_one(root: LossyRoot) -> None:
    async with root.aio_client() as client:
        await client.create_queue("jobs")
        stream = client.queue("jobs").messages()
        waiting = asyncio.create_task(anext(stream))  # type: ignore[arg-type]
        readers: list[asyncio.Task[object]] = []

        def has_begun() -> bool:
            readers[:] = [t for t in asyncio.all_tasks() if t.get_name() == "spoolrack-stream"]
            return bool(readers)

        await until_async(has_begun)
        await asyncio.sleep(0)
        readers[0].cancel()
        with pytest.raises(ClientClosed, match="cancelled"):
            await asyncio.wait_for(waiting, 10)


async def test_a_close_awaits_the_acks_of_a_queue_that_was_deleted_since(
    root: LossyRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(several_queues, "LOOK_EVERY", 0.001)
    is_asked, may_answer = asyncio.Event(), asyncio.Event()

    async def delete() -> None:
        is_asked.set()
        await may_answer.wait()

    root.hooks["delete"] = delete
    async with root.aio_client() as client:
        await (await client.create_queue("jobs")).send("a")
        stream = client.messages("jobs*")
        (await anext(stream)).ack()
        core = stream._core
        assert isinstance(core, several_queues.SeveralStreams)
        try:
            await is_asked.wait()
            await client.delete_queue("jobs")
            await asyncio.to_thread(until, lambda: not core._members)
            core._set_members()  # As the next look does, which drops what is left of the queue.
            closing = asyncio.ensure_future(stream.close())
            assert await asyncio.wait([closing], timeout=0.05) == (set(), {closing})
        finally:
            may_answer.set()
        await closing
