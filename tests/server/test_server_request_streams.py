"""Streams of sends and of deletes: answers in order, several requests on their way, errors that end
nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any

import grpc
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_server.process.server import Server
from spoolrack_server.rpc import streams

from tests.support.server_rig import Client, connected, refused
from tests.support.statuses import info_of, reason_of

MANY = 3 * streams.WINDOW_REQUESTS


def send(number: int, *bodies: bytes, queue: str = "q") -> rpc.StreamSendRequest:
    messages = [pb.OutgoingMessage(body=body) for body in bodies]
    return rpc.StreamSendRequest(
        correlation_id=number, request=rpc.SendRequest(queue=queue, messages=messages)
    )


def delete(number: int, *receipts: str, queue: str = "q") -> rpc.StreamDeleteRequest:
    targets = [rpc.DeleteTarget(receipt=receipt) for receipt in receipts]
    return rpc.StreamDeleteRequest(
        correlation_id=number, request=rpc.DeleteRequest(queue=queue, targets=targets)
    )


async def responses(call: Any, requests: Iterable[Any]) -> list[Any]:
    async def written() -> AsyncIterator[Any]:
        for request in requests:
            yield request

    return [response async for response in call(written())]


async def read_to_the_end(call: Any) -> tuple[list[Any], grpc.StatusCode | None]:
    """Return what the call still answers and the status that ends it, `None` if it ends well."""
    read: list[Any] = []
    try:
        while (response := await call.read()) is not grpc.aio.EOF:
            read.append(response)
    except grpc.aio.AioRpcError as error:
        return read, error.code()
    return read, None


async def leased(client: Client, count: int) -> list[str]:
    """Return the receipts of so many messages."""
    await client.create()
    await client.send(*(b"%d" % n for n in range(count)))
    return [message.receipt for message in await client.receive(count)]


async def test_sends_are_answered_in_their_order_which_the_messages_have(client: Client) -> None:
    await client.create()
    requests = (send(-n, b"%d" % n, b"and %d" % n) for n in range(MANY))
    found = await responses(client.stub.StreamSend, requests)
    assert [response.correlation_id for response in found] == [-n for n in range(MANY)]
    ids = [result.sent.id for response in found for result in response.response.results]
    messages = await client.receive(1_000)
    assert [message.id for message in messages] == ids
    assert [message.body for message in messages[:4]] == [b"0", b"and 0", b"1", b"and 1"]


async def test_deletes_are_answered_in_their_order(client: Client) -> None:
    receipts = await leased(client, 2 * MANY)
    requests = (delete(-n, *receipts[2 * n : 2 * n + 2]) for n in range(MANY))
    found = await responses(client.stub.StreamDelete, requests)
    assert [response.correlation_id for response in found] == [-n for n in range(MANY)]
    assert all(not response.HasField("error") for response in found)
    results = [result for response in found for result in response.response.results]
    assert [result.HasField("error") for result in results] == [False] * 2 * MANY
    counts = await client.counts()
    assert (counts.ready_count, counts.leased_count) == (0, 0)


async def check_invalid(call: Any, request: Callable[..., Any], one: Any, more: Iterable[Any]) -> Any:
    """Send requests that are wrong as a whole between a good one with `one` and `more`, which aren't;
    return the responses to those."""
    requests = [
        request(1, one),
        request(2, one, queue="a/b"),
        request(3, one, queue="nowhere"),
        request(4),
        request(5, *[one] * 1_001),
        *more,
    ]
    first, *wrong = found = await responses(call, requests)
    assert [response.correlation_id for response in found] == list(range(1, len(requests) + 1))
    assert reason_of(first.error) == ""
    assert [reason_of(response.error) for response in wrong[:4]] == [
        "INVALID_QUEUE_NAME",
        "QUEUE_NOT_FOUND",
        "INVALID_REQUEST",
        "INVALID_REQUEST",
    ]
    assert wrong[0].error.code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
    assert info_of(wrong[1].error).metadata == {"queue": "nowhere"}
    assert not wrong[1].HasField("response")
    assert not any(response.HasField("error") for response in wrong[4:])
    return [[reason_of(each.error) for each in response.response.results] for response in wrong[4:]]


async def test_an_invalid_send_is_answered_and_its_stream_goes_on(client: Client) -> None:
    await client.create(max_message_size=3)
    more = send(6, b"long", b"2"), send(7, b"3")
    reasons = await check_invalid(client.stub.StreamSend, send, b"1", more)
    assert reasons == [["MESSAGE_TOO_LARGE", ""], [""]]
    assert [message.body for message in await client.receive(10)] == [b"1", b"2", b"3"]


async def test_an_invalid_delete_is_answered_and_its_stream_goes_on(client: Client) -> None:
    first, second, third, stale = await leased(client, 4)
    await client.release(stale)
    (again,) = await client.receive()
    by_id = rpc.StreamDeleteRequest(correlation_id=7, request=rpc.DeleteRequest(queue="q"))
    for id in (None, "no id", "00000000-0000-7000-8000-000000000000", again.id):
        by_id.request.targets.add(**({} if id is None else {"id": id}))
    more = delete(6, "no receipt", stale, second), by_id, delete(8, third)
    assert await check_invalid(client.stub.StreamDelete, delete, first, more) == [
        ["INVALID_RECEIPT", "STALE_RECEIPT", ""],
        ["INVALID_REQUEST", "INVALID_REQUEST", "MESSAGE_NOT_FOUND", ""],
        [""],
    ]
    counts = await client.counts()
    assert (counts.ready_count, counts.leased_count) == (0, 0)


async def test_messages_of_a_disconnected_client_are_whole_or_absent(client: Client) -> None:
    await client.create()
    for n in range(50):
        call = client.stub.StreamSend()
        await call.write(send(1, *[b"%d" % n] * 5))
        for _ in range(n % 5):
            await client.counts()
        call.cancel()
    await client.send(b"last")
    bodies = [message.body for message in await client.receive(1_000)]
    assert {bodies.count(b"%d" % n) for n in range(50)} <= {0, 5}


async def test_a_delete_of_a_disconnected_client_is_done_or_not_and_affects_no_other(
    client: Client,
) -> None:
    receipts = await leased(client, 50)
    for n, receipt in enumerate(receipts):
        call = client.stub.StreamDelete()
        await call.write(delete(1, receipt))
        for _ in range(n % 5):
            await client.counts()
        call.cancel()
    assert await client.delete(*receipts) == []
    assert (await client.counts()).leased_count == 0


async def test_a_drain_answers_what_it_took_and_what_has_no_answer_is_still_there(
    tmp_path: Path,
) -> None:
    async with Server(tmp_path) as server, connected(server) as client:
        receipts = await leased(client, 1_000)
        call = client.stub.StreamDelete()
        await call.write(delete(0, receipts[0]))
        assert not (await call.read()).HasField("error")
        for n, receipt in enumerate(receipts[1 : streams.WINDOW_REQUESTS], start=1):
            await call.write(delete(n, receipt))
        await server.stop()
        late, code = await read_to_the_end(call)
        assert code is grpc.StatusCode.UNAVAILABLE
        good = [response.correlation_id for response in late if not response.HasField("error")]
        answered = 1 + len(good)
        assert good == list(range(1, answered))
    async with Server(tmp_path) as server, connected(server) as client:
        assert (await client.counts()).leased_count == len(receipts) - answered


async def test_a_stream_that_was_idle_ends_with_a_drain(server: Server, client: Client) -> None:
    (receipt,) = await leased(client, 1)
    assert len(await responses(client.stub.StreamDelete, [delete(1, receipt)])) == 1
    call = client.stub.StreamDelete()
    await call.write(delete(2, receipt))
    assert (await call.read()).correlation_id == 2
    await server.stop()
    no = await refused(call.read())
    assert (no.code, no.reason) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")


async def test_large_requests_go_one_after_the_other_through_the_window(client: Client) -> None:
    await client.create(max_message_size=streams.WINDOW_BYTES)
    body = bytes(streams.WINDOW_BYTES)
    found = await responses(client.stub.StreamSend, (send(n, body) for n in range(4)))
    assert [len(response.response.results) for response in found] == [1, 1, 1, 1]


async def test_the_window_lets_in_no_more_than_its_bounds() -> None:
    window = streams.FlowWindow(requests=2, bytes=10)
    await window.wait()
    for sizes in ((10,), (1, 1)):
        for size in sizes:
            window.enter(size)
        waiting = asyncio.ensure_future(window.wait())
        await asyncio.sleep(0)
        assert not waiting.done()
        window.leave(sizes[0])
        await waiting
