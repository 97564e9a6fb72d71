"""Messages over SQS, by boto3: messages come back as they were sent, leases end as with SQS, nothing is
lost."""

from __future__ import annotations

import asyncio
import hashlib
import json

import aiohttp
import pytest
from spoolrack_server.process.server import Server
from spoolrack_server.sqs.messages import outgoing, received
from spoolrack_server.sqs.parameters import Parameters
from spoolrack_server.sqs.sqs_errors import SqsError
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.operations import Message, Receive, Send, UpdateQueue, messages_of
from spoolrack_store.model.transitions import State

from tests.support.server_rig import until_waiting
from tests.support.sqs_rig import Sqs, raw, refused, until_ended


async def test_a_message_comes_back_with_its_attributes_and_their_md5(sqs: Sqs) -> None:
    url = await sqs.create("q")
    attributes = {
        "text.1øßä": {"DataType": "String", "StringValue": "ä"},
        "number": {"DataType": "Number.int", "StringValue": "7"},
        "bytes": {"DataType": "Binary", "BinaryValue": b"\0\xff"},
    }
    sent = await sqs.send(url, "hällo", MessageAttributes=attributes)
    (message,) = await sqs.receive(url)
    assert message["Body"] == "hällo"
    assert message["MessageAttributes"] == attributes
    assert message["MessageId"] == sent["MessageId"]
    assert message["MD5OfBody"] == sent["MD5OfMessageBody"] == hashlib.md5("hällo".encode()).hexdigest()
    assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]


def test_a_body_has_the_characters_that_xml_has_and_no_other() -> None:
    allowed = {0x9, 0xA, 0xD, 0x20, 0x7F, 0x80, 0xD7FF, 0xE000, 0xFFFD, 0x1_0000, 0x10_FFFF}
    for code in {*range(0x21), 0xD800, 0xDFFF, 0xFFFE, 0xFFFF, *allowed}:
        for text in ("some text", "some téxt"):
            body = Parameters({"MessageBody": text + chr(code)})
            if code in allowed:
                assert outgoing(body, "").body == (text + chr(code)).encode()
            else:
                with pytest.raises(SqsError, match=f"#x{code:X}'"):
                    outgoing(body, "")


async def test_the_md5_of_attributes_is_the_one_that_sqs_computes(sqs: Sqs) -> None:
    url = await sqs.create("q")
    attributes = {"timestamp": {"DataType": "Number", "StringValue": "1493147359900"}}
    sent = await sqs.send(url, "x", MessageAttributes=attributes)
    # Recorded of the real service.
    assert sent["MD5OfMessageAttributes"] == "235c5c510d26fb653d073faed50ae77c"


async def test_a_receive_gets_the_attributes_that_it_names(sqs: Sqs) -> None:
    url = await sqs.create("q")
    attributes = {name: {"DataType": "String", "StringValue": "v"} for name in ("a.x", "a.y", "b")}
    for wanted, names in (
        ([], []),
        (["a.x"], ["a.x"]),
        (["a.*"], ["a.x", "a.y"]),
        *(([each], ["a.x", "a.y", "b"]) for each in ("All", ".*", "*")),
        (["AWS.", "..foo", "None"], []),
    ):
        await sqs.send(url, "x", MessageAttributes=attributes)
        (message,) = await sqs.receive(url, MessageAttributeNames=wanted)
        assert (wanted, sorted(message.get("MessageAttributes", {}))) == (wanted, names)
        assert ("MD5OfMessageAttributes" in message) == bool(names), wanted


async def test_a_receive_tells_when_it_was_sent_and_how_often_it_was_received(
    sqs: Sqs, clock: ManualClock
) -> None:
    url = await sqs.create("q", VisibilityTimeout="5")
    await sqs.send(
        url,
        "x",
        MessageSystemAttributes={"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1"}},
    )
    sent_at = clock.wall()
    await sqs.receive(url)
    first = clock.wall()
    clock.advance(5_000)
    (message,) = await sqs.receive(url, WaitTimeSeconds=1)
    assert message["Attributes"] == {
        "SenderId": "000000000000",
        "SentTimestamp": str(sent_at),
        "ApproximateReceiveCount": "2",
        "ApproximateFirstReceiveTimestamp": str(first),
        "AWSTraceHeader": "Root=1",
    }


async def test_a_batch_of_ten_is_stored_whole_and_in_order(sqs: Sqs) -> None:
    url = await sqs.create("q")
    entries = [{"Id": f"e{n}", "MessageBody": f"m{n}"} for n in range(10)]
    sent = await sqs.send_message_batch(QueueUrl=url, Entries=entries)
    assert [each["Id"] for each in sent["Successful"]] == [f"e{n}" for n in range(10)]
    assert "Failed" not in sent
    messages = await sqs.receive(url)
    assert [message["Body"] for message in messages] == [f"m{n}" for n in range(10)]
    deleted = await sqs.delete_message_batch(
        QueueUrl=url,
        Entries=[
            {"Id": f"e{n}", "ReceiptHandle": message["ReceiptHandle"]}
            for n, message in enumerate(messages)
        ],
    )
    assert len(deleted["Successful"]) == 10
    assert (await sqs.attributes(url))["ApproximateNumberOfMessagesNotVisible"] == "0"


async def test_a_receive_that_names_no_number_gets_one_message(sqs: Sqs) -> None:
    url = await sqs.create("q")
    for body in ("a", "b"):
        await sqs.send(url, body)
    received = await sqs.receive_message(QueueUrl=url)
    assert [message["Body"] for message in received["Messages"]] == ["a"]


async def test_a_delayed_message_is_hidden_until_its_time(sqs: Sqs, clock: ManualClock) -> None:
    url = await sqs.create("q", DelaySeconds="60")
    await sqs.send(url, "late")
    await sqs.send(url, "now", DelaySeconds=0)
    now = await sqs.receive(url, VisibilityTimeout=3_600)
    assert [message["Body"] for message in now] == ["now"]
    assert (await sqs.attributes(url))["ApproximateNumberOfMessagesDelayed"] == "1"
    clock.advance(60_000)
    assert [message["Body"] for message in await sqs.receive(url, WaitTimeSeconds=1)] == ["late"]


async def test_a_change_of_a_deleted_message_is_refused(sqs: Sqs) -> None:
    url = await sqs.create("q")
    await sqs.send(url, "x")
    (message,) = await sqs.receive(url)
    await sqs.delete(url, message)
    refusal = await refused(sqs.change(url, message["ReceiptHandle"], 9))
    assert refusal.code == "InvalidParameterValue"


async def test_a_long_poll_whose_client_has_gone_leases_nothing(sqs: Sqs, server: Server) -> None:
    url = await sqs.create("q")
    body = json.dumps({"QueueUrl": url, "WaitTimeSeconds": 20}).encode()
    headers = {"X-Amz-Target": "AmazonSQS.ReceiveMessage"}
    async with aiohttp.ClientSession() as session:
        waiting = asyncio.create_task(session.post(f"{server.sqs_url}/", data=body, headers=headers))
        await until_waiting(server, 1)
        waiting.cancel()
    await until_ended(server, "ReceiveMessage", "cancelled")
    await sqs.send(url, "x")
    (message,) = await sqs.receive(url)
    assert message["Attributes"]["ApproximateReceiveCount"] == "1"


@pytest.mark.parametrize(("body", "shown"), [(b"\xff\0", "/wA="), (b"a\1", "YQE=")])
async def test_a_body_that_isnt_text_of_xml_comes_as_base64_and_says_so(
    sqs: Sqs, server: Server, body: bytes, shown: str
) -> None:
    url = await sqs.create("q")
    await asyncio.wrap_future(server.store.submit(Send(queue="q", bodies=[body])))
    (message,) = await sqs.receive(url, MessageAttributeNames=[])
    assert message["Body"] == shown
    assert message["MessageAttributes"]["body-encoding"]["StringValue"] == "base64"


def test_a_body_that_has_no_place_in_memory_is_shown_by_its_path_over_http() -> None:
    large = Message(
        queue="q",
        id="7",
        state=State.LEASED,
        body=b"",
        attributes={},
        body_size=1 << 30,
        sent_at=Millis(0),
        receive_count=1,
        first_received_at=Millis(0),
        due=Millis(1),
        receipt="r",
    )
    shown = received(large, Millis(0), set(), [], "region")
    assert json.loads(shown["Body"]) == {"spoolrack_body": {"path": "/q/messages/7", "size": 1 << 30}}


async def test_an_attribute_that_sqs_cant_carry_is_binary_or_left_out(sqs: Sqs, server: Server) -> None:
    url = await sqs.create("q")
    attributes = {0: {"text": "a\1", "na\1me": "x", "fine": "x", "raw": b"2"}}
    await asyncio.wrap_future(
        server.store.submit(Send(queue="q", bodies=[b"x"], attributes=attributes))
    )
    (message,) = await sqs.receive(url)
    shown = {
        "fine": {"DataType": "String", "StringValue": "x"},
        "text": {"DataType": "Binary", "BinaryValue": b"a\1"},
        "raw": {"DataType": "Binary", "BinaryValue": b"2"},
    }
    assert message["MessageAttributes"] == shown
    sent = await sqs.send(url, "x", MessageAttributes=shown)
    assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]


async def test_data_types_that_sqs_has_not_written_are_ignored(sqs: Sqs, server: Server) -> None:
    url = await sqs.create("q")
    for types in ("[" * 20_000, "[]", '{"a": "\\ud800"}', '{"a": "Nope"}', '{"a": "Binary", "b": 1}'):
        attributes = {0: {"a": "x", "AWS.DataTypes": types}}
        send = Send(queue="q", bodies=[b"x"], attributes=attributes)
        await asyncio.wrap_future(server.store.submit(send))
        (message,) = await sqs.receive(url)
        shown = {"a": {"DataType": "String", "StringValue": "x"}}
        assert message["MessageAttributes"] == shown, types[:40]


async def test_a_message_that_is_sent_over_sqs_is_the_same_over_grpc(sqs: Sqs, server: Server) -> None:
    url = await sqs.create("q")
    attributes = {"color": {"DataType": "String", "StringValue": "red"}}
    sent = await sqs.send(url, "x", MessageAttributes=attributes)
    leased = await asyncio.wrap_future(server.store.submit(Receive(queue="q")))
    (message,) = messages_of(leased)
    assert (message.id, message.body) == (sent["MessageId"], b"x")
    assert message.attributes == {"color": "red"}


async def test_surrogates_and_wrong_types_are_the_clients_fault(server: Server, sqs: Sqs) -> None:
    url = await sqs.create("q")
    for body, code in (
        (b'{"QueueUrl": "%s", "MessageBody": "\\ud800"}' % url.encode(), "InvalidMessageContents"),
        (b'{"QueueUrl": "%s", "MessageBody": 1}' % url.encode(), "SerializationException"),
        (b'{"QueueUrl": "%s", "MessageBody": "x", "DelaySeconds": "1"}' % url.encode(), "Serial"),
        (b"[]", "SerializationException"),
        (b"{", "SerializationException"),
        (b"[" * 100_000, "SerializationException"),
        (b"{}", "MissingParameter"),
    ):
        answer = await raw(server, "SendMessage", body)
        assert answer.status == 400
        assert answer.headers["x-amzn-query-error"].startswith(code), answer.body
        assert answer.json["__type"].startswith("com.amazonaws.sqs#")


async def test_a_released_message_is_deleted_by_the_receipt_that_released_it(sqs: Sqs) -> None:
    url = await sqs.create("q")
    await sqs.send(url, "x")
    (message,) = await sqs.receive(url)
    handle = message["ReceiptHandle"]
    await sqs.change(url, handle, 0)
    await sqs.delete_message(QueueUrl=url, ReceiptHandle=handle)
    assert await sqs.receive(url) == []


async def test_a_lease_that_is_over_is_extended_and_deleted_by_its_receipt(
    sqs: Sqs, clock: ManualClock
) -> None:
    url = await sqs.create("q", VisibilityTimeout="5")
    await sqs.send(url, "x")
    (message,) = await sqs.receive(url)
    clock.advance(5_000)
    handle = message["ReceiptHandle"]
    await sqs.change(url, handle, 100)
    assert await sqs.receive(url) == []
    await sqs.change(url, handle, 200)
    clock.advance(150_000)
    assert await sqs.receive(url) == []
    await sqs.delete(url, message)
    assert (await sqs.attributes(url))["ApproximateNumberOfMessagesNotVisible"] == "0"


async def test_the_receipt_of_an_earlier_receive_changes_the_visibility_of_the_current_lease(
    sqs: Sqs, clock: ManualClock
) -> None:
    url = await sqs.create("q", VisibilityTimeout="5")
    await sqs.send(url, "x")
    (first,) = await sqs.receive(url)
    clock.advance(5_000)
    (second,) = await sqs.receive(url, WaitTimeSeconds=1)

    async def change(seconds: int) -> None:
        handle = first["ReceiptHandle"]
        await sqs.change(url, handle, seconds)

    await change(9)
    clock.advance(6_000)
    assert await sqs.receive(url) == []
    await change(0)
    (third,) = await sqs.receive(url)
    assert third["Attributes"]["ApproximateReceiveCount"] == "3"
    # Its own deletes go by the last receive alone.
    await sqs.delete(url, second)
    assert (await sqs.attributes(url))["ApproximateNumberOfMessagesNotVisible"] == "1"
    await sqs.delete(url, third)
    assert (await sqs.attributes(url))["ApproximateNumberOfMessagesNotVisible"] == "0"


async def test_a_receipt_from_before_a_message_was_a_dead_letter_changes_nothing(
    sqs: Sqs, clock: ManualClock
) -> None:
    dead = await sqs.create("dead")
    arn = (await sqs.attributes(dead))["QueueArn"]
    policy = await sqs.redrive_policy(dead)
    url = await sqs.create("q", RedrivePolicy=policy)
    await sqs.send(url, "x")
    (first,) = await sqs.receive(url, VisibilityTimeout=5)
    clock.advance(5_000)
    while (await sqs.attributes(dead))["ApproximateNumberOfMessages"] == "0":
        assert await sqs.receive(url) == []
    await sqs.start_message_move_task(SourceArn=arn)
    (second,) = await sqs.receive(url, WaitTimeSeconds=20)
    assert second["MessageId"] == first["MessageId"]
    refusal = await refused(sqs.change(url, first["ReceiptHandle"], 9))
    assert refusal.shape == "MessageNotInflight"


async def test_a_visibility_ends_twelve_hours_after_its_receive(sqs: Sqs, clock: ManualClock) -> None:
    url = await sqs.create("q", VisibilityTimeout="43200")
    await sqs.send(url, "x")
    (message,) = await sqs.receive(url)
    handle = message["ReceiptHandle"]
    clock.advance(100_000)
    refusal = await refused(sqs.change(url, handle, 43_101))
    assert refusal.code == "InvalidParameterValue"
    assert refusal.message == (
        "Value 43101 for parameter VisibilityTimeout is invalid. Reason: Total VisibilityTimeout for "
        "the message is beyond the limit [43200 seconds]"
    )
    entries = [{"Id": "a", "ReceiptHandle": handle, "VisibilityTimeout": 43_101}]
    batch = await sqs.change_message_visibility_batch(QueueUrl=url, Entries=entries)
    assert [each["Code"] for each in batch["Failed"]] == ["InvalidParameterValue"]
    await sqs.change(url, handle, 43_100)
    clock.advance(43_100_000)
    (again,) = await sqs.receive(url, WaitTimeSeconds=1)
    # Each receive has twelve hours of its own, and an end is never too late.
    await sqs.change(url, again["ReceiptHandle"], 43_200)
    await sqs.change(url, handle, 0)


async def test_a_handle_of_the_first_beta_still_deletes(sqs: Sqs) -> None:
    url = await sqs.create("q")
    await sqs.send(url, "x")
    (message,) = await sqs.receive(url)
    await sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"].rpartition("*")[0])
    assert (await sqs.attributes(url))["ApproximateNumberOfMessagesNotVisible"] == "0"


async def test_a_batch_to_a_full_queue_tells_each_entry_that_the_sender_is_not_at_fault(
    sqs: Sqs, server: Server
) -> None:
    url = await sqs.create("q")
    change = UpdateQueue(name="q", changes={"max_messages": 1})
    await asyncio.wrap_future(server.store.submit(change))
    await sqs.send(url, "x")
    entries = [{"Id": id, "MessageBody": id} for id in "ab"]
    sent = await sqs.send_message_batch(QueueUrl=url, Entries=entries)
    failed = {each["Id"]: (each["Code"], each["SenderFault"]) for each in sent["Failed"]}
    assert failed == dict.fromkeys("ab", ("RequestThrottled", False))
    refusal = await refused(sqs.send(url, "y"))
    assert (refusal.code, refusal.status) == ("RequestThrottled", 403)


TRACE_HEADER = "Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=1"


async def test_the_trace_header_of_a_call_is_that_of_its_messages(server: Server, sqs: Sqs) -> None:
    url = await sqs.create("q")
    header = {"X-Amzn-Trace-Id": TRACE_HEADER}
    await raw(server, "SendMessage", {"QueueUrl": url, "MessageBody": "0"}, **header)
    own = {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-own"}}
    entries = [
        {"Id": "a", "MessageBody": "1"},
        {"Id": "b", "MessageBody": "2", "MessageSystemAttributes": own},
    ]
    await raw(server, "SendMessageBatch", {"QueueUrl": url, "Entries": entries}, **header)
    too_long = {"X-Amzn-Trace-Id": "x" * 1_025}
    await raw(server, "SendMessage", {"QueueUrl": url, "MessageBody": "3"}, **too_long)
    received = [message["Attributes"].get("AWSTraceHeader") for message in await sqs.receive(url)]
    assert received == [TRACE_HEADER, TRACE_HEADER, "Root=1-own", None]


async def test_the_trace_context_of_a_call_is_no_message_attribute(server: Server, sqs: Sqs) -> None:
    # SDKs compare the MD5 of a receive with its attributes, and a forwarder sends all of them again:
    # an eleventh would be refused.
    url = await sqs.create("q")
    trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    context = {"traceparent": f"00-{trace}-{span}-01", "tracestate": "vendor=1"}
    given = {f"a{n}": {"DataType": "String", "StringValue": "x"} for n in range(9)}
    given["tracestate"] = {"DataType": "String.own", "StringValue": "the sender's own"}
    ten = {"QueueUrl": url, "MessageBody": "ten", "MessageAttributes": given}
    sent = (await raw(server, "SendMessage", ten, **context)).json
    entries = [{"Id": "a", "MessageBody": "none"}]
    await raw(server, "SendMessageBatch", {"QueueUrl": url, "Entries": entries}, **context)
    first, second = await sqs.receive(url)
    assert first["MessageAttributes"] == given
    assert first["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
    forwarded = await sqs.send(url, "again", MessageAttributes=first["MessageAttributes"])
    assert forwarded["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
    assert second.keys().isdisjoint({"MessageAttributes", "MD5OfMessageAttributes"})
    header = f"Root=1-{trace[:8]}-{trace[8:]};Parent={span};Sampled=1"
    assert second["Attributes"]["AWSTraceHeader"] == header
