"""Calls that are merged: promises to each caller and about the calls."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence

import pytest
from spoolrack._core.batcher import Batcher
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


async def test_a_cancelled_caller_of_a_call_in_flight_cancels_no_other_one() -> None:
    wire = Wire()
    tasks = submit(batcher(wire), range(5))
    await wire.land(0)
    await until_async(lambda: len(wire.landing) == 3)
    tasks[2].cancel()
    await until_async(tasks[2].done)
    await wire.land(1)
    await wire.land(2)
    assert await asyncio.gather(*tasks[3:]) == [6, 8]


async def test_a_caller_cancelled_while_a_place_gets_free_leaves_it_to_the_next() -> None:
    wire = Wire()
    tasks = submit(batcher(wire), range(5))
    await until_async(lambda: len(wire.landing) == 2)
    # Runs as soon as the first call has landed.
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


def test_threads_share_calls() -> None:
    free = threading.Event()
    batches: list[list[int]] = []

    async def call(items: Sequence[int], timeout: float) -> list[Number]:
        batches.append(list(items))
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


def test_an_interrupt_is_for_the_caller_that_makes_the_call_and_a_retryable_error_for_the_others() -> (
    None
):
    async def call(items: Sequence[int], timeout: float) -> list[Number]:
        raise KeyboardInterrupt

    merged: Batcher[int, Number] = Batcher(Threads(), call, lambda item: 0)
    outcomes: dict[int, BaseException | int] = {}

    def submit_one(item: int) -> None:
        try:
            outcomes[item] = run(merged.submit(item, timeout=FAR))
        except BaseException as error:  # noqa: BLE001  # what the caller gets is what is tested
            outcomes[item] = error

    # The call lingers for a second caller, which then makes it.
    merged._linger.expected, merged._linger.until = 2, FAR
    other = threading.Thread(target=submit_one, args=(3,))
    other.start()
    until(lambda: merged.waiting == 1)
    submit_one(2)
    other.join(60)
    assert isinstance(outcomes[2], KeyboardInterrupt)
    assert isinstance(outcomes[3], Unreachable)
    assert merged.in_flight == 0


class Line:
    """A stream: a test ends its calls."""

    target = "the test"
    max_bytes = 100

    def __init__(self) -> None:
        self.calls: list[tuple[list[int], Callable[..., object]]] = []
        self.abandoned: list[list[int]] = []

    def begin(self, items: Sequence[int], done: Callable[..., object]) -> Callable[[], object]:
        self.calls.append((list(items), done))
        return lambda: self.abandoned.append(list(items))


async def never(items: Sequence[int], timeout: float) -> list[Number]:
    raise AssertionError("a call on a stream is no call by itself")


def test_the_end_of_a_call_on_a_stream_begins_the_next_one_and_wakes_its_callers() -> None:
    line = Line()
    merged: Batcher[int, Number] = Batcher(Threads(), never, lambda item: 0, stream=line)
    answers: dict[int, int] = {}

    def submit_one(item: int) -> None:
        answers[item] = run(merged.submit(item, timeout=FAR))

    threads = [threading.Thread(target=submit_one, args=(item,)) for item in range(10)]
    for number, thread in enumerate(threads):
        thread.start()
        until(lambda number=number: merged.in_flight + merged.waiting == number + 1)
    for number in range(3):
        until(lambda number=number: len(line.calls) > number)
        items, done = line.calls[number]
        done([Number(item * 2) for item in items], None)
    for thread in threads:
        thread.join(60)
    assert [items for items, _ in line.calls] == [[0], [1], list(range(2, 10))]
    assert answers == {item: item * 2 for item in range(10)}


async def test_a_call_on_a_stream_that_every_caller_has_left_is_abandoned_and_gives_its_place() -> None:
    line = Line()
    merged: Batcher[int, Number] = Batcher(Tasks(), never, lambda item: 0, stream=line)
    tasks = submit(merged, [1, 2, 3])
    await until_async(lambda: len(line.calls) == 2)
    with pytest.raises(Timeout, match="No answer from the test within 0 s: it may have taken place"):
        await Batcher(Tasks(), never, lambda item: 0, stream=line).submit(9, timeout=0.0)
    tasks[0].cancel()
    await until_async(lambda: len(line.calls) == 4)
    assert line.abandoned == [[9], [1]]
    for items, done in line.calls[1:]:
        done([Number(item) for item in items], None)
    assert await asyncio.gather(*tasks[1:]) == [2, 3]
    assert merged.in_flight == 0


async def test_each_caller_of_a_refused_stream_makes_its_call_by_itself() -> None:
    line, alone = Line(), []

    async def call(items: Sequence[int], timeout: float) -> list[Number]:
        alone.append(list(items))
        return [Number(item) for item in items]

    merged: Batcher[int, Number] = Batcher(Tasks(), call, lambda item: 0, stream=line)
    tasks = submit(merged, [1, 2, 3, 4])
    await until_async(lambda: len(line.calls) == 2)
    for number in range(3):
        await until_async(lambda number=number: len(line.calls) > number)
        line.calls[number][1](None, None)
    assert await asyncio.gather(*tasks) == [1, 2, 3, 4]
    assert sorted(alone) == [[1], [2], [3], [4]]


async def test_what_is_too_large_for_a_stream_is_a_call_by_itself() -> None:
    line, wire = Line(), Wire()
    merged: Batcher[int, Number] = Batcher(Tasks(), wire.call, lambda item: item, stream=line)
    (task,) = submit(merged, [100])
    await wire.land(0)
    assert await task == 200
    assert not line.calls
