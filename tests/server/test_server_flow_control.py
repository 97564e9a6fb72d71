"""When a stream asks for more: not for each credit, and not too late for any."""

from __future__ import annotations

import asyncio
import threading

from spoolrack_server.rpc.flow_control import FlowControl

from tests.support.server_rig import Client, next_messages

FOR_EVER = 3_600.0


def started(flow_control: FlowControl) -> asyncio.Task[None]:
    return asyncio.create_task(flow_control.wait())


async def turns(count: int = 10) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_stream_asks_at_once_while_a_quarter_of_its_credits_is_free() -> None:
    flow_control = FlowControl(8, FOR_EVER)
    flow_control.credits.charge(6)
    await flow_control.wait()


async def test_a_stream_waits_for_a_quarter_of_its_credits() -> None:
    flow_control = FlowControl(8, FOR_EVER)
    flow_control.credits.charge(8)
    due = started(flow_control)
    await turns()
    flow_control.credits.give_back(1)
    await turns()
    assert not due.done()
    threading.Thread(target=flow_control.credits.give_back, args=(1,)).start()
    await due


async def test_a_stream_waits_for_a_quarter_of_its_bytes() -> None:
    flow_control = FlowControl(8, FOR_EVER, max_bytes=100)
    flow_control.credits.charge(2, 100)
    due = started(flow_control)
    await turns()
    flow_control.credits.give_back(1, 24)
    await turns()
    assert not due.done()
    threading.Thread(target=flow_control.credits.give_back, args=(0, 1)).start()
    await due


async def test_a_few_free_bytes_are_used_when_no_others_come_back() -> None:
    flow_control = FlowControl(8, 0.001, max_bytes=100)
    flow_control.credits.charge(2, 100)
    due = started(flow_control)
    await turns()
    flow_control.credits.give_back(1, 1)
    await due
    assert flow_control.credits.free_bytes == 1


async def test_a_single_credit_is_used_when_no_other_comes_back() -> None:
    flow_control = FlowControl(8, 0.001)
    flow_control.credits.charge(8)
    due = started(flow_control)
    await turns()
    flow_control.credits.give_back(1)
    await due
    assert flow_control.credits.free == 1


async def test_a_stream_of_few_credits_waits_for_no_second_one() -> None:
    flow_control = FlowControl(7, FOR_EVER)
    flow_control.credits.charge(6)
    await flow_control.wait()


async def test_a_stream_that_waits_for_credits_ends_when_it_is_told() -> None:
    for held in (8, 7):
        flow_control = FlowControl(8, FOR_EVER)
        flow_control.credits.charge(held)
        due = started(flow_control)
        await turns()
        flow_control.stop()
        await due


async def test_a_consumer_that_holds_all_but_one_message_gets_the_next(client: Client) -> None:
    await client.create()
    await client.send(*[b"%d" % n for n in range(9)])
    stream = client.stream(8)
    held = await next_messages(stream, 8)
    await client.delete(held[3].receipt)
    assert [message.body for message in await next_messages(stream, 1)] == [b"8"]
