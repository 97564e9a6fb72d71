"""An error in the background reaches all waiting callers, defects too."""

from __future__ import annotations

import asyncio
import threading

import pytest
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
