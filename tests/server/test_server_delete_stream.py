"""The stream of deletes: answers in order, several requests on their way, errors that end nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_server.process.server import Server
from spoolrack_server.rpc import streams

from tests.support.server_rig import Client, connected, refused
from tests.support.statuses import info_of, reason_of


def request(number: int, *receipts: str, queue: str = "q") -> rpc.StreamDeleteRequest:
    return rpc.StreamDeleteRequest(
        correlation_id=number,
        request=rpc.DeleteRequest(
            queue=queue, targets=[rpc.DeleteTarget(receipt=receipt) for receipt in receipts]
        ),
    )


async def responses(call: Any) -> list[rpc.StreamDeleteResponse]:
    return [response async for response in call]


async def read_all(call: Any, into: list[rpc.StreamDeleteResponse]) -> None:
    while (response := await call.read()) is not grpc.aio.EOF:
        into.append(response)


async def leased(client: Client, count: int) -> list[str]:
    """Return the receipts of so many messages."""
    await client.create()
    await client.send(*(b"%d" % n for n in range(count)))
    return [message.receipt for message in await client.receive(count)]


async def test_answers_come_in_the_order_of_the_requests(client: Client) -> None:
    count = 3 * streams.WINDOW_REQUESTS
    receipts = await leased(client, 2 * count)

    async def requests() -> AsyncIterator[rpc.StreamDeleteRequest]:
        for n in range(count):
            yield request(-n, *receipts[2 * n : 2 * n + 2])

    found = await responses(client.stub.StreamDelete(requests()))
    assert [response.correlation_id for response in found] == [-n for n in range(count)]
    assert all(not response.HasField("error") for response in found)
    results = [result for response in found for result in response.response.results]
    assert [result.HasField("error") for result in results] == [False] * 2 * count
    counts = await client.counts()
    assert (counts.ready_count, counts.leased_count) == (0, 0)


async def test_an_invalid_request_is_answered_and_its_stream_goes_on(client: Client) -> None:
    first, second, third, stale = await leased(client, 4)
    await client.release(stale)
    (again,) = await client.receive()
    requests = [
        request(1, first),
        request(2, second, queue="a/b"),
        request(3, second, queue="nowhere"),
        request(4),
        request(5, *[second] * 1_001),
        request(6, "no receipt", stale, second),
        rpc.StreamDeleteRequest(
            correlation_id=7,
            request=rpc.DeleteRequest(
                queue="q",
                targets=[
                    rpc.DeleteTarget(),
                    rpc.DeleteTarget(id="no id"),
                    rpc.DeleteTarget(id="0" * 8 + "-0000-7000-8000-" + "0" * 12),
                    rpc.DeleteTarget(id=again.id),
                ],
            ),
        ),
        request(8, third),
    ]
    found = await responses(client.stub.StreamDelete(iter(requests)))
    assert [response.correlation_id for response in found] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [reason_of(response.error) for response in found] == [
        "",
        "INVALID_QUEUE_NAME",
        "QUEUE_NOT_FOUND",
        "INVALID_REQUEST",
        "INVALID_REQUEST",
        "",
        "",
        "",
    ]
    assert found[1].error.code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
    assert info_of(found[2].error).metadata == {"queue": "nowhere"}
    assert not found[2].HasField("response")
    assert [reason_of(result.error) for result in found[5].response.results] == [
        "INVALID_RECEIPT",
        "STALE_RECEIPT",
        "",
    ]
    assert [reason_of(result.error) for result in found[6].response.results] == [
        "INVALID_REQUEST",
        "INVALID_REQUEST",
        "MESSAGE_NOT_FOUND",
        "",
    ]
    counts = await client.counts()
    assert (counts.ready_count, counts.leased_count) == (0, 0)


async def test_a_request_of_a_disconnected_client_is_done_or_not_and_affects_no_other(
    client: Client,
) -> None:
    receipts = await leased(client, 50)
    for n, receipt in enumerate(receipts):
        call = client.stub.StreamDelete()
        await call.write(request(1, receipt))
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
        answered = 0
        await call.write(request(0, receipts[0]))
        assert not (await call.read()).HasField("error")
        answered += 1
        for n, receipt in enumerate(receipts[1 : streams.WINDOW_REQUESTS], start=1):
            await call.write(request(n, receipt))
        await server.stop()
        late: list[rpc.StreamDeleteResponse] = []
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            await read_all(call, late)
        assert ended.value.code() is grpc.StatusCode.UNAVAILABLE
        good = [response for response in late if not response.HasField("error")]
        answered += len(good)
        assert [response.correlation_id for response in good] == list(range(1, answered))
    async with Server(tmp_path) as server, connected(server) as client:
        assert (await client.counts()).leased_count == len(receipts) - answered


async def test_a_stream_of_deletes_that_was_idle_ends_with_a_drain(
    server: Server, client: Client
) -> None:
    (receipt,) = await leased(client, 1)

    def requests() -> Iterator[rpc.StreamDeleteRequest]:
        yield request(1, receipt)

    assert len(await responses(client.stub.StreamDelete(requests()))) == 1
    call = client.stub.StreamDelete()
    await call.write(request(2, receipt))
    assert (await call.read()).correlation_id == 2
    await server.stop()
    no = await refused(call.read())
    assert (no.code, no.reason) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")
