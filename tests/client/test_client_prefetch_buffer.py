"""Each item is handed out once, in order, and no waiter sleeps beside one."""

from __future__ import annotations

import asyncio
import threading

from spoolrack._core.prefetch_buffer import PrefetchBuffer
from spoolrack._runtime import Tasks, Threads, run

from tests.client.client_rig import until_async


async def waiting(
    buffer: PrefetchBuffer[int], most: int, count: int, deadline: float | None = None
) -> asyncio.Task[list[int]]:
    """Return a task that waits as the `count`th."""
    task = asyncio.create_task(buffer.get_many(most, deadline))
    await until_async(lambda: len(buffer._waiters) == count)
    return task


async def test_a_receive_that_takes_all_messages_wakes_no_other() -> None:
    buffer: PrefetchBuffer[int] = PrefetchBuffer(Tasks())
    first = await waiting(buffer, 3, 1)
    second = await waiting(buffer, 1, 2)
    buffer.put([1, 2, 3])
    assert await first == [1, 2, 3]
    assert len(buffer._waiters) == 1
    buffer.put([4])
    assert await second == [4]


async def test_messages_beyond_one_receive_s_limit_wake_the_others() -> None:
    buffer: PrefetchBuffer[int] = PrefetchBuffer(Tasks())
    tasks = [await waiting(buffer, 2, count) for count in (1, 2, 3)]
    buffer.put([1, 2, 3, 4, 5])
    assert [await task for task in tasks] == [[1, 2], [3, 4], [5]]


async def test_a_message_not_taken_by_the_woken_receive_wakes_all_waiters() -> None:
    buffer: PrefetchBuffer[int] = PrefetchBuffer(Tasks())
    first = await waiting(buffer, 10, 1)
    others = [await waiting(buffer, 1, count) for count in (2, 3)]
    buffer.put([1, 2])
    first.cancel()
    assert [await task for task in others] == [[1], [2]]


async def test_nothing_comes_in_time_and_nothing_is_lost_by_that() -> None:
    runtime = Tasks()
    buffer: PrefetchBuffer[int] = PrefetchBuffer(runtime)
    assert await buffer.get_many(2, runtime.monotonic() + 0.001) == []
    assert not buffer._waiters
    buffer.put([1])
    assert await buffer.get_many(2, runtime.monotonic()) == [1]


def test_threads_that_take_several_share_all_that_comes() -> None:
    buffer: PrefetchBuffer[int] = PrefetchBuffer(Threads())
    taken: list[list[int]] = []

    async def take_all() -> None:
        while found := await buffer.get_many(7):
            taken.append(found)

    takers = [threading.Thread(target=run, args=(take_all(),), daemon=True) for _ in range(4)]
    for taker in takers:
        taker.start()
    for at in range(0, 1_000, 10):
        buffer.put(range(at, at + 10))
    left = buffer.close()
    for taker in takers:
        taker.join(60)
        assert not taker.is_alive()
    assert sorted([number for some in taken for number in some] + left) == list(range(1_000))
