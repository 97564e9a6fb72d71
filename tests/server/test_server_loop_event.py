"""How a thread of the store wakes a coroutine."""

from __future__ import annotations

import asyncio
import threading

from spoolrack_server.rpc.loop_event import LoopEvent


async def test_a_set_from_another_thread_wakes_the_loop() -> None:
    event = LoopEvent()
    threading.Thread(target=event.set).start()
    await event.wait()


async def test_every_change_before_a_ring_is_seen_after_it() -> None:
    event, rings, heard = LoopEvent(), 1_000, 0
    rung = 0

    def ring() -> None:
        nonlocal rung
        for _ in range(rings):
            rung += 1
            event.set()

    thread = threading.Thread(target=ring)
    thread.start()
    while heard < rings:
        await event.wait()
        heard = rung
    thread.join()


def test_a_ring_after_the_loop_has_ended_does_no_harm() -> None:
    async def make() -> LoopEvent:
        return LoopEvent()

    asyncio.run(make()).set()


async def test_a_disabled_event_wakes_nothing() -> None:
    event = LoopEvent()
    event.disable()
    event.set()
    listening = asyncio.ensure_future(event.wait())
    for _ in range(10):
        await asyncio.sleep(0)
    assert not listening.done()
    listening.cancel()
