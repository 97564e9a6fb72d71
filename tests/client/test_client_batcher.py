"""Calls that are merged: promises to each caller and about the calls."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence

import pytest
from spoolrack._batcher import Batcher
from spoolrack._runtime import Tasks, Threads, run
from spoolrack.errors import QueueNotFound, SpoolrackError, Timeout, Unreachable

from tests.client.client_rig import Number, until_async
from tests.support.waiting import until

FAR = 1e9


class Wire:
    """Where calls go: each waits until the test lets it land, and answers each item with its double."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.landing: list[asyncio.Future[SpoolrackError | None]] = []
        self.after_landing: Callable[[], object] | None = None

    async def call(self, items: Sequence[int], timeout: float) -> list[Number]:
        self.batches.append(list(items))
        landing: asyncio.Future[SpoolrackError | None] = asyncio.get_running_loop().create_future()
        self.landing.append(landing)
        error = await landing
        if self.after_landing is not None:
            asyncio.get_running_loop().call_soon(self.after_landing)
            self.after_landing = None
        if error is not None:
            raise error
        return [Number(item * 2) for item in items]

    async def land(self, number: int, error: SpoolrackError | None = None) -> None:
        await until_async(lambda: len(self.landing) > number)
        self.landing[number].set_result(error)


def batcher(wire: Wire, **bounds: int) -> Batcher[int, Number]:
    return Batcher(Tasks(), wire.call, lambda item: item, **bounds)


def submit(merged: Batcher[int, Number], items: Sequence[int]) -> list[asyncio.Task[Number]]:
    return [asyncio.create_task(merged.submit(item, timeout=FAR)) for item in items]


async def test_a_lone_item_travels_at_once() -> None:
    wire = Wire()
    (task,) = submit(batcher(wire), [1])
    await wire.land(0)
    assert await task == 2
    assert wire.batches == [[1]]


async def test_items_that_wait_for_two_calls_are_batched_in_order() -> None:
    wire = Wire()
    tasks = submit(batcher(wire), range(10))
    await wire.land(0)
    await wire.land(2)
    await wire.land(1)
    assert await asyncio.gather(*tasks) == [item * 2 for item in range(10)]
    assert wire.batches == [[0], [1], [2, 3, 4, 5, 6, 7, 8, 9]]


async def test_no_more_than_two_calls_are_under_way() -> None:
    wire = Wire()
    merged = batcher(wire, max_batch=2)
    tasks = submit(merged, range(8))

    def in_the_air() -> list[asyncio.Future[SpoolrackError | None]]:
        return [landing for landing in wire.landing if not landing.done()]

    while not all(task.done() for task in tasks):
        await until_async(lambda: bool(in_the_air()) or all(task.done() for task in tasks))
        assert len(in_the_air()) <= 2
        for landing in in_the_air():
            landing.set_result(None)
    assert await asyncio.gather(*tasks) == [item * 2 for item in range(8)]


async def test_a_batch_keeps_to_its_count_and_its_bytes() -> None:
    wire = Wire()
    tasks = submit(batcher(wire, max_batch=3, max_bytes=100), [1, 1, 10, 10, 10, 10, 95, 900, 1])
    for number in range(7):
        await wire.land(number)
        await until_async(lambda number=number: len(wire.batches) > min(number + 2, 6))
    await asyncio.gather(*tasks)
    assert wire.batches == [[1], [1], [10, 10, 10], [10], [95], [900], [1]]


async def test_items_of_one_caller_travel_together_with_those_of_others() -> None:
    wire = Wire()
    merged = batcher(wire, max_batch=8, max_bytes=1_000)
    first = submit(merged, [1, 2])
    many = [
        asyncio.create_task(merged.submit_many(items, timeout=FAR))
        for items in ([3, 4, 5], [6, 7, 8], [9, 10, 11])
    ]
    last = submit(merged, [12])
    for number in range(4):
        await wire.land(number)
    assert await asyncio.gather(*many) == [[6, 8, 10], [12, 14, 16], [18, 20, 22]]
    assert await asyncio.gather(*first, *last) == [2, 4, 24]
    assert wire.batches == [[1], [2], [3, 4, 5, 6, 7, 8], [9, 10, 11, 12]]


@pytest.mark.parametrize("bounds", [{"max_batch": 5}, {"max_bytes": 5}])
async def test_items_that_fill_half_of_a_call_wait_for_no_other(bounds: dict[str, int]) -> None:
    wire = Wire()
    merged = batcher(wire, **bounds)
    tasks = [asyncio.create_task(merged.submit_many([1, 1, 1], timeout=FAR)) for _ in range(4)]
    await until_async(lambda: len(wire.landing) == 4)
    for number in range(4):
        await wire.land(number)
    assert await asyncio.gather(*tasks) == [[2, 2, 2]] * 4


async def test_the_error_of_a_batch_reaches_its_callers_and_no_other() -> None:
    wire = Wire()
    tasks = submit(batcher(wire), range(4))
    await wire.land(0)
    await wire.land(2, QueueNotFound("gone"))
    await wire.land(1)
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert outcomes[:2] == [0, 2]
    assert [type(outcome) for outcome in outcomes[2:]] == [QueueNotFound, QueueNotFound]
    assert outcomes[2] is not outcomes[3], "one exception raised twice mixes its tracebacks"


async def test_a_caller_cancelled_in_time_takes_its_item_back() -> None:
    wire = Wire()
    tasks = submit(batcher(wire), range(5))
    await until_async(lambda: len(wire.landing) == 2)
    tasks[3].cancel()
    await wire.land(0)
    await wire.land(2)
    await wire.land(1)
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(outcomes[3], asyncio.CancelledError)
    assert wire.batches == [[0], [1], [2, 4]]


async def test_a_cancelled_leader_cancels_no_other_caller() -> None:
    wire = Wire()
    tasks = submit(batcher(wire), range(5))
    await wire.land(0)
    await until_async(lambda: len(wire.landing) == 3)
    tasks[2].cancel()
    await until_async(tasks[2].done)
    await wire.land(1)
    await wire.land(2)
    assert await asyncio.gather(*tasks[3:]) == [6, 8]


async def test_a_waiter_cancelled_at_its_turn_hands_the_slot_on() -> None:
    wire = Wire()
    tasks = submit(batcher(wire), range(5))
    await until_async(lambda: len(wire.landing) == 2)
    # Runs after the landing call has chosen the next leader, and before that one runs again.
    wire.after_landing = tasks[2].cancel
    await wire.land(0)
    await wire.land(2)
    await wire.land(1)
    assert await asyncio.gather(*tasks[3:]) == [6, 8]
    assert tasks[2].cancelled()
    assert wire.batches == [[0], [1], [3, 4]]


async def test_a_caller_waits_no_longer_than_its_deadline() -> None:
    wire = Wire()
    merged = batcher(wire)
    tasks = submit(merged, range(2))
    await until_async(lambda: len(wire.landing) == 2)
    with pytest.raises(Timeout, match="was not made"):
        await merged.submit(3, timeout=0.0)
    await wire.land(0)
    await wire.land(1)
    assert await asyncio.gather(*tasks) == [0, 2]


async def test_the_error_of_one_item_is_raised_for_its_caller_alone() -> None:
    refused = Number(2)
    refused.error = QueueNotFound("gone")

    async def call(items: Sequence[int], timeout: float) -> list[Number]:
        await asyncio.sleep(0)
        return [refused if item == 1 else Number(item * 2) for item in items]

    merged: Batcher[int, Number] = Batcher(Tasks(), call, lambda item: 0)
    tasks = submit(merged, range(5))
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert outcomes == [0, refused.error, 4, 6, 8]
    with pytest.raises(QueueNotFound):
        await merged.submit(1, timeout=FAR)
    assert await merged.submit_many([1, 2], timeout=FAR) == [refused, 4]
    assert merged.in_flight == 0


async def test_an_answer_of_another_length_is_an_error_for_all() -> None:
    async def call(items: Sequence[int], timeout: float) -> list[Number]:
        return []

    with pytest.raises(ValueError, match="0 results for 1 items"):
        await Batcher(Tasks(), call, lambda item: 0).submit(1, timeout=FAR)


def test_threads_share_calls_without_a_thread_of_its_own() -> None:
    free = threading.Event()
    batches: list[list[int]] = []
    threads_of_calls: set[threading.Thread] = set()

    async def call(items: Sequence[int], timeout: float) -> list[Number]:
        batches.append(list(items))
        threads_of_calls.add(threading.current_thread())
        free.wait(60)
        return [Number(item * 2) for item in items]

    merged: Batcher[int, Number] = Batcher(Threads(), call, lambda item: 0)
    answers: dict[int, int] = {}

    def submit_one(item: int) -> None:
        answers[item] = run(merged.submit(item, timeout=FAR))

    threads = [threading.Thread(target=submit_one, args=(item,)) for item in range(50)]
    for thread in threads:
        thread.start()
    until(lambda: merged.waiting == 48)
    free.set()
    for thread in threads:
        thread.join(60)
    assert answers == {item: item * 2 for item in range(50)}
    assert sorted(map(len, batches))[:2] == [1, 1]
    assert len(batches) <= 4
    assert threads_of_calls <= set(threads)


def test_an_interrupt_is_for_the_leader_and_a_retryable_error_for_the_others() -> None:
    free = [threading.Event(), threading.Event()]

    async def call(items: Sequence[int], timeout: float) -> list[Number]:
        if 2 in items:
            raise KeyboardInterrupt
        free[items[0]].wait(60)
        return [Number(item) for item in items]

    merged: Batcher[int, Number] = Batcher(Threads(), call, lambda item: 0)
    outcomes: dict[int, BaseException | int] = {}

    def submit_one(item: int) -> None:
        try:
            outcomes[item] = run(merged.submit(item, timeout=FAR))
        except BaseException as error:  # noqa: BLE001  # what the caller gets is what is tested
            outcomes[item] = error

    threads = [threading.Thread(target=submit_one, args=(item,)) for item in range(4)]
    for number, thread in enumerate(threads):
        thread.start()
        until(lambda number=number: merged.in_flight + merged.waiting == number + 1)
    free[0].set()
    until(lambda: len(outcomes) == 3)
    free[1].set()
    for thread in threads:
        thread.join(60)
    assert outcomes[0] == 0
    assert outcomes[1] == 1
    assert isinstance(outcomes[2], KeyboardInterrupt)
    assert isinstance(outcomes[3], Unreachable)
    assert merged.in_flight == 0
