"""How a thread of the store wakes a coroutine."""

from __future__ import annotations

import asyncio
import threading

from spoolrack_server.loop_event import LoopEvent


async def test_a_ring_from_another_thread_is_heard() -> None:
    bell = LoopEvent()
    threading.Thread(target=bell.ring).start()
    await bell.rung()


async def test_every_change_before_a_ring_is_seen_after_it() -> None:
    bell, rings, heard = LoopEvent(), 1_000, 0
    rung = 0

    def ring() -> None:
        nonlocal rung
        for _ in range(rings):
            rung += 1
            bell.ring()

    thread = threading.Thread(target=ring)
    thread.start()
    while heard < rings:
        await bell.rung()
        heard = rung
    thread.join()


def test_a_ring_after_the_loop_has_ended_does_no_harm() -> None:
    async def make() -> LoopEvent:
        return LoopEvent()

    asyncio.run(make()).ring()


async def test_a_muffled_bell_is_not_heard() -> None:
    bell = LoopEvent()
    bell.muffle()
    bell.ring()
    listening = asyncio.ensure_future(bell.rung())
    for _ in range(10):
        await asyncio.sleep(0)
    assert not listening.done()
    listening.cancel()
