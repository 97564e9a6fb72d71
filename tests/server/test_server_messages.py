"""The RPCs that send, receive, delete, extend and show messages."""

from __future__ import annotations

import grpc
from google.protobuf.duration_pb2 import Duration
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_store.manual_clock import ManualClock

from tests.support import MIB
from tests.support.server_rig import Client
from tests.support.statuses import info_of, reason_of

ID = "0199a000-0000-7000-8000-000000000000"


async def test_invalid_messages_fail_alone_and_the_others_arrive_in_order(client: Client) -> None:
    await client.create(max_message_size=10)
    nameless = pb.OutgoingMessage(body=b"x")
    nameless.attributes[""].string_value = "x"
    empty = pb.OutgoingMessage(body=b"x")
    empty.attributes["a"].SetInParent()
    late = pb.OutgoingMessage(body=b"x", delay=Duration(seconds=-1))
    messages = [
        pb.OutgoingMessage(body=b"1"),
        pb.OutgoingMessage(body=b"x" * 11),
        empty,
        pb.OutgoingMessage(body=b"2"),
        late,
        nameless,
    ]
    response = await client.stub.Send(rpc.SendRequest(queue="q", messages=messages))
    reasons = [reason_of(result.error) for result in response.results]
    assert reasons == [
        "",
        "MESSAGE_TOO_LARGE",
        "INVALID_MESSAGE",
        "",
        "INVALID_REQUEST",
        "INVALID_MESSAGE",
    ]
    error = response.results[1].error
    assert error.code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
    assert info_of(error).metadata == {"queue": "q", "size": "11", "limit": "10"}
    assert [message.body for message in await client.receive(10)] == [b"1", b"2"]


async def test_a_receive_holds_no_more_bytes_than_asked_for_but_one_message(client: Client) -> None:
    await client.create()
    await client.send(b"x" * 100, b"x" * 100, b"x" * 100)
    asked = rpc.ReceiveRequest(queue="q", max_messages=10, max_bytes=50)
    assert len((await client.stub.Receive(asked)).messages) == 1
    asked.max_bytes = 250
    assert len((await client.stub.Receive(asked)).messages) == 2


async def test_a_poll_without_a_wait_answers_at_once_and_one_with_a_wait_when_it_is_over(
    client: Client, clock: ManualClock
) -> None:
    await client.create()
    assert await client.receive() == []
    call = client.stub.Receive(rpc.ReceiveRequest(queue="q", wait=Duration(seconds=20)))
    for _ in range(1_000):
        # The call may reach the store after any of these.
        clock.advance(20_000)
        await client.counts()
        if call.done():
            break
    assert (await call).messages == []


async def test_each_target_of_a_delete_has_its_own_result(client: Client, clock: ManualClock) -> None:
    await client.create()
    one, two, three = await client.send(b"1", b"2", b"3")
    first, second = await client.receive(2)
    clock.advance(31_000)
    await client.receive(1)  # The first again: its old receipt is stale.
    targets = [
        rpc.DeleteTarget(receipt=first.receipt),
        rpc.DeleteTarget(id=three),
        rpc.DeleteTarget(id=ID),
        rpc.DeleteTarget(receipt="nonsense"),
        rpc.DeleteTarget(id="../" + two),
        rpc.DeleteTarget(),
        rpc.DeleteTarget(id=two, last_receive=rpc.LastReceive(receive_count=1)),
        rpc.DeleteTarget(receipt=second.receipt, last_receive=rpc.LastReceive()),
        rpc.DeleteTarget(id=two),
    ]
    response = await client.stub.Delete(rpc.DeleteRequest(queue="q", targets=targets))
    reasons = [reason_of(result.error) for result in response.results]
    assert reasons == [
        "STALE_RECEIPT",
        "",
        "MESSAGE_NOT_FOUND",
        "INVALID_RECEIPT",
        *["INVALID_REQUEST"] * 4,
        "",
    ]
    assert second.id == two
    counts = await client.counts()
    assert (counts.ready_count, counts.leased_count) == (0, 1)
    assert await client.delete(second.receipt) == []
    assert one == first.id


async def test_each_release_has_a_delay_of_its_own_and_a_result(
    client: Client, clock: ManualClock
) -> None:
    await client.create(backoff_initial=Duration(seconds=7), backoff_jitter=0)
    await client.send(b"1", b"2", b"3", b"4")
    leased = await client.receive(4)
    now = leased[0].first_receive_time.ToMilliseconds()
    releases = [
        rpc.MessageRelease(receipt=leased[0].receipt, delay=Duration(seconds=60)),
        rpc.MessageRelease(receipt=leased[1].receipt),
        rpc.MessageRelease(receipt=leased[2].receipt, delay=Duration(), uncounted=True),
        rpc.MessageRelease(receipt=leased[3].receipt, delay=Duration(seconds=-1)),
        rpc.MessageRelease(receipt=leased[3].receipt, reason="x" * 1_025),
        rpc.MessageRelease(receipt="x"),
    ]
    response = await client.stub.Release(rpc.ReleaseRequest(queue="q", releases=releases))
    delayed, backed_off, uncounted, *refused_ones = response.results
    assert delayed.deliver_time.ToMilliseconds() - now == 60_000
    assert backed_off.deliver_time.ToMilliseconds() - now == 7_000
    assert uncounted.deliver_time.ToMilliseconds() == now
    assert [reason_of(each.error) for each in refused_ones] == [
        "INVALID_REQUEST",
        "INVALID_REQUEST",
        "INVALID_RECEIPT",
    ]
    (again,) = await client.receive(10)
    assert (again.id, again.receive_count) == (leased[2].id, 1)
    counts = await client.counts()
    assert (counts.delayed_count, counts.leased_count) == (2, 2)
    clock.advance(7_000)
    (again,) = await client.receive(10)
    assert (again.id, again.receive_count) == (leased[1].id, 2)


async def test_each_rejection_has_a_result_and_a_record(client: Client) -> None:
    await client.stub.CreateQueue(rpc.CreateQueueRequest(queue=pb.Queue(name="dead")))
    await client.create(max_receives=5, dead_letter_queue="dead")
    await client.send(b"1", b"2")
    leased = await client.receive(2)
    rejections = [
        rpc.MessageRejection(receipt=leased[0].receipt, reason="no customer"),
        rpc.MessageRejection(receipt=leased[1].receipt, reason="x" * 1_025),
        rpc.MessageRejection(receipt="x"),
    ]
    response = await client.stub.Reject(rpc.RejectRequest(queue="q", rejections=rejections))
    assert [each.WhichOneof("result") for each in response.results] == ["rejected", "error", "error"]
    request = rpc.GetMessageRequest(queue="dead", id=leased[0].id)
    letter = (await client.stub.GetMessage(request)).message
    (record,) = letter.dead_letter_records
    assert (record.source_queue, record.explanation) == ("q", "no customer")
    assert record.reason == pb.DEAD_LETTER_REASON_REJECTED


async def test_an_extension_tells_the_new_end_and_ends_no_lease(
    client: Client, clock: ManualClock
) -> None:
    await client.create()
    await client.send(b"1")
    (first,) = await client.receive()
    clock.advance(10_000)
    extensions = [
        rpc.LeaseExtension(receipt=first.receipt, visibility_timeout=Duration(seconds=60)),
        rpc.LeaseExtension(receipt="x" * 1_000_000, visibility_timeout=Duration(seconds=60)),
        rpc.LeaseExtension(receipt=first.receipt),
        rpc.LeaseExtension(receipt=first.receipt, visibility_timeout=Duration()),
        rpc.LeaseExtension(receipt=first.receipt, visibility_timeout=Duration(seconds=-1)),
        rpc.LeaseExtension(
            receipt=first.receipt,
            visibility_timeout=Duration(seconds=60),
            last_receive=rpc.LastReceive(),
        ),
    ]
    response = await client.stub.ExtendLeases(rpc.ExtendLeasesRequest(queue="q", extensions=extensions))
    extended, nonsense, *too_short = response.results
    assert (
        extended.lease_expire_time.ToMilliseconds() - first.lease_expire_time.ToMilliseconds() == 40_000
    )
    assert reason_of(nonsense.error) == "INVALID_RECEIPT"
    assert [reason_of(each.error) for each in too_short] == ["INVALID_REQUEST"] * 4
    assert (await client.counts()).leased_count == 1


async def test_a_page_of_large_bodies_fits_into_what_a_client_takes(client: Client) -> None:
    await client.create()
    ids = await client.send(*[bytes(MIB) for _ in range(9)])
    found: list[str] = []
    token = ""
    for _ in range(len(ids)):
        request = rpc.ListMessagesRequest(queue="q", page_token=token, view=rpc.MESSAGE_VIEW_FULL)
        page = await client.stub.ListMessages(request)
        assert page.ByteSize() < 4 * MIB
        found += [message.id for message in page.messages]
        token = page.next_page_token
        if not token:
            break
    assert found == ids
