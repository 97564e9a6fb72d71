"""When a stream asks for more: not for each credit, and not too late for any."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any

import pytest
from spoolrack_server.app.flow_control import FlowControl
from spoolrack_server.rpc.calls import Requests

from tests.support.server_rig import Client, next_messages

FOR_EVER = 3_600.0


def started(flow_control: FlowControl) -> asyncio.Task[None]:
    return asyncio.create_task(flow_control.wait())


async def turns(count: int = 10) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize(("credits", "held"), [(8, 6), (7, 6)], ids=["a quarter is free", "few"])
async def test_a_stream_asks_at_once_while_enough_of_its_credits_are_free(
    credits: int, held: int
) -> None:
    flow_control = FlowControl(credits, FOR_EVER)
    flow_control.credits.charge(held)
    await flow_control.wait()


Back = tuple[int, int]
"""Credits and bytes that come back."""


@pytest.mark.parametrize(
    ("held", "first", "rest"),
    [((8, 0), (1, 0), (1, 0)), ((2, 100), (1, 24), (0, 1))],
    ids=["credits", "bytes"],
)
async def test_a_stream_waits_for_a_quarter_of_its_credits_and_bytes(
    held: Back, first: Back, rest: Back
) -> None:
    flow_control = FlowControl(8, FOR_EVER, max_bytes=100)
    flow_control.credits.charge(*held)
    due = started(flow_control)
    await turns()
    flow_control.credits.give_back(*first)
    await turns()
    assert not due.done()
    threading.Thread(target=flow_control.credits.give_back, args=rest).start()
    await due


@pytest.mark.parametrize("held", [(8, 0), (2, 100)], ids=["credits", "bytes"])
async def test_a_few_free_credits_and_bytes_are_used_when_no_others_come_back(held: Back) -> None:
    flow_control = FlowControl(8, 0.001, max_bytes=100)
    flow_control.credits.charge(*held)
    due = started(flow_control)
    await turns()
    flow_control.credits.give_back(1, 1)
    await due
    assert flow_control.credits.free == 9 - held[0]


async def test_a_stream_that_waits_for_credits_ends_when_it_is_told() -> None:
    for held in (8, 7):
        flow_control = FlowControl(8, FOR_EVER)
        flow_control.credits.charge(held)
        due = started(flow_control)
        await turns()
        flow_control.stop()
        await due


async def test_every_credit_that_comes_back_in_another_thread_is_seen() -> None:
    flow_control, returns = FlowControl(1, FOR_EVER), 1_000

    def give_back() -> None:
        for _ in range(returns):
            charged.acquire()
            flow_control.credits.give_back(1)

    charged = threading.Semaphore(0)
    thread = threading.Thread(target=give_back)
    thread.start()
    for _ in range(returns):
        flow_control.credits.charge(1)
        charged.release()
        await flow_control.wait()
    thread.join()


def test_a_credit_that_comes_back_after_the_loop_has_ended_does_no_harm() -> None:
    async def make() -> FlowControl:
        return FlowControl(1)

    asyncio.run(make()).credits.give_back(0)


async def test_a_closed_stream_is_not_woken_by_its_leases() -> None:
    flow_control = FlowControl(1, FOR_EVER)
    flow_control.credits.charge(1)
    due = started(flow_control)
    await turns()
    flow_control.close()
    flow_control.credits.give_back(1)
    await turns()
    assert not due.done()
    due.cancel()


async def test_a_stream_that_has_ended_leaves_no_garbage_to_collect(client: Client) -> None:
    await client.create()
    kinds = FlowControl, Requests
    gc.collect()
    before = [each for each in gc.get_objects() if isinstance(each, kinds)]

    def left() -> list[Any]:
        found = (each for each in gc.get_objects() if isinstance(each, kinds))
        return [each for each in found if not any(each is other for other in before)]

    gc.disable()
    try:
        stream = client.stream(1)
        await client.send(b"x")
        await next_messages(stream, 1)
        assert {type(each) for each in left()} == set(kinds)
        stream.cancel()
        async with asyncio.timeout(20):
            while left():
                await asyncio.sleep(0.01)
    finally:
        gc.enable()


async def test_a_consumer_that_holds_all_but_one_message_gets_the_next(client: Client) -> None:
    await client.create()
    await client.send(*[b"%d" % n for n in range(9)])
    stream = client.stream(8)
    held = await next_messages(stream, 8)
    await client.delete(held[3].receipt)
    assert [message.body for message in await next_messages(stream, 1)] == [b"8"]
