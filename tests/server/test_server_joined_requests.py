"""Joined requests of a stream: one message for several, each with its own outcome, in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import grpc
import pytest
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_server.app.store_access import ALONE
from spoolrack_server.process.server import Server
from spoolrack_server.rpc import streams
from spoolrack_store.store import Store

from tests.support.server_rig import Client, refused
from tests.support.statuses import reason_of


def send(number: int, body: bytes, *, queue: str = "q") -> rpc.StreamSendRequest:
    return rpc.StreamSendRequest(
        correlation_id=number,
        request=rpc.SendRequest(queue=queue, messages=[pb.OutgoingMessage(body=body)]),
    )


def joined(first: rpc.StreamSendRequest, *more: rpc.StreamSendRequest) -> rpc.StreamSendRequest:
    first.accepts_more = True
    first.more.extend(more)
    return first


async def answered(call: Any, count: int) -> list[Sequence[Any]]:
    """Return the responses to `count` requests, those of one message together."""
    found: list[Sequence[Any]] = []
    while sum(map(len, found)) < count:
        response = await call.read()
        found.append([response, *response.more])
    return found


async def test_joined_requests_are_done_and_answered_in_their_order(client: Client) -> None:
    await client.create()
    call = client.stub.StreamSend()
    await call.write(joined(*(send(n, b"%d" % n) for n in range(streams.WINDOW_REQUESTS))))
    # Those that one commit has done are answered in one message.
    answers = await answered(call, streams.WINDOW_REQUESTS)
    found = [each for responses in answers for each in responses]
    assert [each.correlation_id for each in found] == list(range(streams.WINDOW_REQUESTS))
    messages = await client.receive(100)
    assert [message.id for message in messages] == [
        result.sent.id for each in found for result in each.response.results
    ]
    assert [message.body for message in messages] == [b"%d" % n for n in range(streams.WINDOW_REQUESTS)]


async def test_joined_requests_are_left_to_share_a_commit_and_a_lone_one_may_have_its_own(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    await client.create()
    tried: list[object] = []
    monkeypatch.setattr(Store, "try_now", lambda _, request, within: tried.append(request))
    call = client.stub.StreamSend()
    await call.write(joined(*(send(n, b"x") for n in range(20))))
    await answered(call, 20)
    assert tried == []
    for n in range(ALONE + 1):
        await call.write(send(20 + n, b"x"))
        await answered(call, 1)
    assert len(tried) == 2, "a stream is alone after some lone requests in a row"


async def test_a_server_says_that_it_reads_joined_requests_and_joins_for_no_other_client(
    client: Client,
) -> None:
    await client.create()
    call = client.stub.StreamSend()
    for n in range(streams.WINDOW_REQUESTS):
        await call.write(send(n, b"x"))
    found = await answered(call, streams.WINDOW_REQUESTS)
    assert [len(each) for each in found] == [1] * streams.WINDOW_REQUESTS
    assert not any(response.accepts_more for (response,) in found)
    await call.write(joined(send(50, b"x")))
    ((response,),) = await answered(call, 1)
    assert response.accepts_more


async def test_answers_that_are_ready_together_are_one_message(client: Client) -> None:
    # A name that none can have is refused without the store: no answer waits for another commit.
    call = client.stub.StreamSend()
    await call.write(joined(*(send(n, b"x", queue="no/name") for n in range(streams.WINDOW_REQUESTS))))
    (found,) = await answered(call, streams.WINDOW_REQUESTS)
    assert [each.correlation_id for each in found] == list(range(streams.WINDOW_REQUESTS))
    assert {reason_of(each.error) for each in found} == {"INVALID_QUEUE_NAME"}


async def test_joined_deletes_are_done(client: Client) -> None:
    await client.create()
    await client.send(b"1", b"2")
    first, second = (
        rpc.StreamDeleteRequest(
            correlation_id=n,
            request=rpc.DeleteRequest(queue="q", targets=[rpc.DeleteTarget(receipt=message.receipt)]),
        )
        for n, message in enumerate(await client.receive(2))
    )
    first.accepts_more = True
    first.more.append(second)
    call = client.stub.StreamDelete()
    await call.write(first)
    found = [each for responses in await answered(call, 2) for each in responses]
    assert [len(each.response.results) for each in found] == [1, 1]
    assert not any(result.HasField("error") for each in found for result in each.response.results)
    assert (await client.counts()).leased_count == 0


async def test_an_invalid_request_harms_none_that_it_is_joined_with(client: Client) -> None:
    await client.create()
    call = client.stub.StreamSend()
    await call.write(joined(send(1, b"1"), send(2, b"2", queue="nowhere"), send(3, b"3")))
    await call.done_writing()
    found = [each for responses in await answered(call, 3) for each in responses]
    assert [each.correlation_id for each in found] == [1, 2, 3]
    assert [reason_of(each.error) for each in found] == ["", "QUEUE_NOT_FOUND", ""]
    assert await call.read() is grpc.aio.EOF


@pytest.mark.parametrize(
    "more",
    [[send(n, b"x") for n in range(streams.WINDOW_REQUESTS)], [joined(send(1, b"x"), send(2, b"y"))]],
    ids=["too many", "nested"],
)
async def test_too_many_joined_requests_and_nested_ones_end_the_stream(
    client: Client, more: Sequence[rpc.StreamSendRequest]
) -> None:
    await client.create()
    call = client.stub.StreamSend()
    await call.write(joined(send(0, b"x"), *more))
    no = await refused(call.read())
    assert (no.code, no.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST")
    assert (await client.counts()).ready_count == 0


async def test_the_memory_of_joined_requests_is_given_back_with_the_last_answer(
    server: Server, client: Client
) -> None:
    await client.create()
    budget = server._memory.requests
    call = client.stub.StreamSend()
    for _ in range(3):
        await call.write(joined(send(1, bytes(streams.WINDOW_BYTES // 2)), send(2, bytes(1024 * 1024))))
        await answered(call, 2)
    # A response is read before the server notes that it is written: the next is asked for after that.
    await call.write(send(3, b"x"))
    await answered(call, 1)
    assert budget.used == 0


async def test_responses_are_joined_up_to_a_size(client: Client) -> None:
    await client.create()
    call = client.stub.StreamSend()
    count = 2_000
    requests = [send(n, b"") for n in range(4)]
    for each in requests:
        each.request.messages.extend([pb.OutgoingMessage(body=b"x")] * (count // 2 - 1))
    await call.write(joined(*requests))
    for responses in await answered(call, 4):
        assert sum(each.response.ByteSize() for each in responses[:-1]) <= streams.JOINED_BYTES
