"""Crowds of callers that come, wait, time out and are cancelled at random: invariants of each.

Tasks run in a time of their own, which stands still while a task has something to do. So each
state that is checked is one in which every task waits, and a lost wake-up is seen at once. A wait
for a server that never answers is measured in that time.
"""

from __future__ import annotations

import asyncio
import contextlib
import selectors
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count
from random import Random
from typing import Any, cast

import pytest
from spoolrack._core.acks import Ack, Acks
from spoolrack._core.batcher import LONGEST, MAX_CALLS, SMALL, Batcher
from spoolrack._core.client_context import ClientContext
from spoolrack._runtime import Tasks, Threads, run
from spoolrack.errors import SpoolrackError, Timeout, Unreachable

from tests.client.client_rig import Number

FAR = 1e9
BUSY = 2_000
"""Rounds of the event loop at one moment that only a loop without an end takes."""


class IdleSelector(selectors.DefaultSelector):
    """Where an event loop waits: instead, its time moves on."""

    def __init__(self, on_idle: Callable[[float], None]) -> None:
        super().__init__()
        self.now = 0.0
        self._on_idle = on_idle
        self._rounds = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "all tasks wait, and none will wake them"
        self._rounds = 0 if timeout > 1e-9 else self._rounds + 1
        assert self._rounds < BUSY, "a task checks again and again, and waits for nothing"
        if timeout > 0:
            self._on_idle(timeout)
        self.now += timeout
        return super().select(0)


class IdleLoop(asyncio.SelectorEventLoop):
    def __init__(self, on_idle: Callable[[float], None]) -> None:
        self._idle = IdleSelector(on_idle)
        super().__init__(self._idle)

    def time(self) -> float:
        return self._idle.now


class Sent:
    """The calls that were made, and their answers by task."""

    def __init__(self) -> None:
        self.items: Counter[int] = Counter()
        self.calls = 0
        self.most = 0
        self.not_sent: list[int] = []
        self.lock = threading.Lock()

    def begin(self, items: Sequence[int]) -> None:
        with self.lock:
            self.items.update(items)
            self.calls += 1
            self.most = max(self.most, self.calls)

    def end(self) -> None:
        with self.lock:
            self.calls -= 1

    def tell_not_sent(self, item: int) -> None:
        """Note that the item must not be sent from now on."""
        with self.lock:
            self.not_sent.append(item)

    def tell_not_sent_yet(self, item: int) -> None:
        if not self.items[item]:
            self.tell_not_sent(item)

    def check(self, merged: Batcher[int, Number]) -> None:
        assert merged.in_flight == merged.waiting == 0
        assert set(self.items.values()) <= {1}, "an item was sent twice"
        told = [item for item in self.not_sent if self.items[item]]
        assert not told, "it was sent, and its caller was told that it was not"
        assert 1 <= self.most <= MAX_CALLS


async def submit_one(merged: Batcher[int, Number], sent: Sent, item: int, timeout: float) -> None:
    try:
        assert await merged.submit(item, timeout=timeout) == item * 2
        assert item in sent.items
    except Timeout as error:
        if "was not made" in str(error):
            sent.tell_not_sent(item)
    except SpoolrackError:
        assert item in sent.items
    except asyncio.CancelledError:
        if item not in sent.items:
            # With others in its call, it may be just about to set off.
            asyncio.get_running_loop().call_later(LONGEST, sent.tell_not_sent_yet, item)
        raise


@pytest.mark.parametrize("seed", range(60))
def test_tasks_cancelled_at_random_get_true_answers(seed: int) -> None:
    random = Random(seed)
    sent = Sent()
    crowd = random.choice([2, 3, 4, SMALL, 3 * SMALL])
    max_batch = random.choice([2, 8, 1_000])
    merged: Batcher[int, Number]

    def everybody_waits(seconds: float) -> None:
        # One call may carry all where callers keep together; and then that is under way.
        if merged.waiting and merged.in_flight < (1 if merged.keeps_together else MAX_CALLS):
            assert seconds <= LONGEST + 1e-6, "a place is free, and no waiter keeps the time"

    async def call(items: Sequence[int], timeout: float) -> list[Number]:
        sent.begin(items)
        try:
            assert len(items) <= max_batch
            await asyncio.sleep(random.choice([0.0, 0.0001, 0.004, 0.004, 0.004, 0.1]))
            if random.random() < 0.05:
                raise Unreachable("by chance")
            return [Number(item * 2) for item in items]
        finally:
            sent.end()

    numbers = count()

    async def calling(at: int) -> None:
        for _ in range(10 + 10 * at % 40):
            item = next(numbers)
            timeout = FAR if random.random() < 0.7 else random.choice([0.0, 0.001, 0.005])
            task = asyncio.create_task(submit_one(merged, sent, item, timeout))
            if random.random() < 0.2:
                await asyncio.sleep(random.choice([0.0, 0.0005, 0.002, 0.004]))
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            if random.random() < 0.1:
                await asyncio.sleep(random.choice([0.001, 0.01]))

    async def story() -> None:
        nonlocal merged
        # One in three fills a call nearly by itself, and leaves those out who wait.
        bounds = {"max_batch": max_batch, "max_bytes": random.choice([100, 100_000])}
        merged = Batcher(Tasks(), call, lambda item: 1 if item % 3 else 99, **bounds)
        await asyncio.gather(*[calling(at) for at in range(crowd)])
        # A call of its leader may still be in flight.
        await asyncio.sleep(10)

    with asyncio.Runner(loop_factory=lambda: IdleLoop(everybody_waits)) as runner:
        # Nothing is there yet while the loop begins.
        merged = Batcher(Threads(), call, lambda item: 0)
        runner.run(story())
    sent.check(merged)


@pytest.mark.parametrize("seed", range(4))
def test_threads_that_time_out_at_random_get_true_answers(seed: int) -> None:
    sent = Sent()
    chance = Random(seed)
    crowd = chance.choice([3, 6, SMALL + 4])
    faults: list[BaseException] = []
    pause = threading.Event()

    async def call(items: Sequence[int], timeout: float) -> list[Number]:
        sent.begin(items)
        try:
            pause.wait(Random(items[0]).choice([0.0, 0.0, 0.0005, 0.002]))
            if items[0] % 19 == 0:
                raise Unreachable("by chance")
            if items[0] % 23 == 0 and threading.current_thread() in threads:
                raise KeyboardInterrupt  # Not in a thread beside the callers.
            return [Number(item * 2) for item in items]
        finally:
            sent.end()

    runtime = Threads()
    merged: Batcher[int, Number] = Batcher(runtime, call, lambda item: 0, max_batch=8)

    def calling(at: int) -> None:
        random = Random(1_000 * seed + at)
        try:
            for number in range(60 + 10 * at % 70):
                timeout = FAR if random.random() < 0.7 else random.choice([0.0, 0.0005, 0.002])
                with contextlib.suppress(KeyboardInterrupt):
                    run(submit_one(merged, sent, 1_000 * at + number, timeout))
        except BaseException as fault:  # noqa: BLE001  # told by the thread of the test
            faults.append(fault)

    threads = [threading.Thread(target=calling, args=(at,), daemon=True) for at in range(crowd)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a task waits for ever"
    assert not faults
    sent.check(merged)


def test_acks_that_the_server_does_not_answer_hold_up_their_end_for_ten_seconds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class DeafTransport:
        async def delete(self, *_: object, timeout: float) -> None:
            await asyncio.sleep(FAR)

    async def story() -> float:
        now = asyncio.get_running_loop().time
        acks = Acks(ClientContext(cast(Any, DeafTransport()), Tasks()), "jobs", max_in_flight=1)
        acks.add(Ack("receipt"))
        began = now()
        await acks.close()
        return now() - began

    with asyncio.Runner(loop_factory=lambda: IdleLoop(lambda _: None)) as runner:
        assert runner.run(story()) == 10.0
    assert "acks of jobs are still in flight" in caplog.text
