"""A call lingers for callers in a loop, not long for others, and never for ever."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from itertools import pairwise

from spoolrack._core.batcher import LONGEST, MAX_CALLS, RAREST, SMALL, Batcher, Linger
from spoolrack._runtime import Tasks, Threads, run

from tests.client.client_rig import Number
from tests.support.waiting import until

FAR = 1e9


def test_nobody_is_waited_for_before_two_have_travelled_or_waited() -> None:
    linger = Linger()
    assert not linger.is_missing(1, 0.0)
    linger.answered(1, 0, now=1.0, took=1.0)
    assert not linger.is_missing(1, 1.0)


def test_a_batch_lingers_for_all_recent_callers_for_a_part_of_the_call_s_time() -> None:
    linger = Linger()
    linger.answered(2, 2, now=1.0, took=0.004)
    assert linger.is_missing(3, 1.0)
    assert not linger.is_missing(4, 1.0)
    assert not linger.is_missing(3, 1.001)


def test_nobody_is_waited_for_longer_than_the_longest() -> None:
    linger = Linger()
    linger.answered(2, 0, now=1.0, took=60.0)
    assert linger.until == 1.0 + LONGEST


def test_a_large_crowd_is_not_waited_for() -> None:
    linger = Linger()
    linger.answered(SMALL, 1, now=1.0, took=1.0)
    assert not linger.is_missing(1, 1.0)


def test_callers_that_return_in_time_stay_batched() -> None:
    linger = Linger()
    linger.answered(4, 0, now=1.0, took=1.0)
    linger.begun(3)
    assert linger.keeps_together
    linger.answered(3, 1, now=2.0, took=1.0)
    assert linger.is_missing(3, 2.0)


def test_a_batch_waits_ever_less_often_for_an_absent_caller() -> None:
    linger, tries = Linger(), []
    for call in range(1_000):
        linger.answered(2, 0, now=float(call), took=1.0)
        if linger.is_missing(1, float(call)):
            tries.append(call)
        linger.begun(1)
        assert not linger.keeps_together
    pauses = [after - before for before, after in pairwise(tries)]
    assert pauses[:4] == [2, 3, 5, 9]
    assert max(pauses) == RAREST + 1


def test_a_crowd_that_has_grown_large_keeps_together_no_more() -> None:
    linger = Linger()
    linger.answered(4, 0, now=1.0, took=1.0)
    linger.begun(4)
    assert linger.keeps_together
    linger.answered(4, SMALL, now=2.0, took=1.0)
    assert not linger.keeps_together


class SlowClock(Tasks):
    """Each call takes a second, and whatever else is done next to nothing."""

    now = 0.0

    def monotonic(self) -> float:
        self.now += LONGEST / 1_000
        return self.now


async def test_tasks_in_a_loop_come_to_share_every_call() -> None:
    batches: list[int] = []
    runtime = SlowClock()

    async def call(items: Sequence[int], timeout: float) -> list[Number]:
        batches.append(len(items))
        await asyncio.sleep(0)
        runtime.now += 1.0
        return [Number(item) for item in items]

    merged: Batcher[int, Number] = Batcher(runtime, call, lambda item: 0)

    async def sending() -> None:
        for _ in range(50):
            await merged.submit(1, timeout=FAR)

    await asyncio.gather(*[sending() for _ in range(4)])
    assert sum(batches) == 200
    assert batches.count(4) >= 40, batches


async def test_a_large_crowd_has_two_calls_under_way_also_where_a_few_kept_together() -> None:
    runtime, under_way = SlowClock(), [0]

    async def call(items: Sequence[int], timeout: float) -> list[Number]:
        under_way.append(merged.in_flight)
        await asyncio.sleep(0)
        runtime.now += 1.0
        return [Number(item) for item in items]

    merged: Batcher[int, Number] = Batcher(runtime, call, lambda item: 0, max_batch=8)

    async def sending() -> None:
        for _ in range(20):
            await merged.submit(1, timeout=FAR)

    await asyncio.gather(*[sending() for _ in range(4)])
    assert under_way[-4:] == [1] * 4
    under_way.clear()
    await asyncio.gather(*[sending() for _ in range(4 * SMALL)])
    assert under_way.count(MAX_CALLS) > len(under_way) / 2, under_way


def test_an_absent_caller_delays_the_batch_only_briefly() -> None:
    landing = [threading.Event() for _ in range(3)]
    batches: list[list[int]] = []

    async def call(items: Sequence[int], timeout: float) -> list[Number]:
        batches.append(list(items))
        landing[min(items[0], 2)].wait(60)
        return [Number(item) for item in items]

    merged: Batcher[int, Number] = Batcher(Threads(), call, lambda item: 0)
    threads = [
        threading.Thread(target=lambda item=item: run(merged.submit(item, timeout=FAR)))
        for item in range(4)
    ]
    for number, thread in enumerate(threads):
        thread.start()
        until(lambda number=number: merged.in_flight + merged.waiting == number + 1)
    landing[0].set()  # Three are expected now, and one of them never comes back.
    landing[2].set()
    for thread in (threads[0], threads[2], threads[3]):
        thread.join(60)
        assert not thread.is_alive()
    landing[1].set()
    threads[1].join(60)
    assert batches == [[0], [1], [2, 3]]
