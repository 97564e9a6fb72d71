"""The store's answers reach the event loop, and it is woken once for those that come together."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import Context
from typing import Any

import pytest
from spoolrack_server.app.store_access import answer
from spoolrack_store.model.errors import Draining


class CountingLoop(asyncio.SelectorEventLoop):
    """Counts how often another thread wakes it."""

    woken = 0

    def call_soon_threadsafe(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        self.woken += 1
        return super().call_soon_threadsafe(callback, *args, context=context)


def test_a_crowd_of_answers_wakes_the_loop_once() -> None:
    futures: list[Future[int]] = [Future() for _ in range(100)]

    def tell() -> None:
        for number, future in enumerate(futures):
            future.set_result(number)

    async def crowd() -> list[int]:
        asked = asyncio.gather(*map(answer, futures))
        await asyncio.sleep(0)
        # The loop stands still meanwhile, as it does while it is busy with something else.
        thread = threading.Thread(target=tell)
        thread.start()
        thread.join()
        return await asked

    loop = CountingLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        assert runner.run(crowd()) == list(range(100))
    assert loop.woken == 1


def test_an_answer_that_is_there_already_is_given() -> None:
    done: Future[str] = Future()
    done.set_result("yes")
    assert asyncio.run(answer(done)) == "yes"


def test_an_error_is_raised() -> None:
    failed: Future[None] = Future()
    failed.set_exception(Draining())
    with pytest.raises(Draining):
        asyncio.run(answer(failed))


def test_a_cancelled_caller_withdraws_its_question() -> None:
    async def leave(future: Future[None]) -> None:
        asking = asyncio.create_task(answer(future))
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert asking.cancelled()

    waiting: Future[None] = Future()
    asyncio.run(leave(waiting))
    assert waiting.cancelled()

    begun: Future[None] = Future()
    begun.set_running_or_notify_cancel()
    asyncio.run(leave(begun))
    assert not begun.done(), "a begun request goes on"
    begun.set_result(None)  # Its loop is closed: there is no listener.
