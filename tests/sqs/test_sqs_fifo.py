"""FIFO queues over SQS, by boto3: the order of each group, deduplication, and what is closed when."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from spoolrack_server.process.server import Server
from spoolrack_server.sqs.sqs_endpoint import SqsEndpoint
from spoolrack_store.manual_clock import ManualClock

from tests.support.sqs_rig import Sqs, refused


async def fifo(sqs: Sqs, name: str = "q.fifo", **attributes: str) -> str:
    return await sqs.create(name, FifoQueue="true", **attributes)


async def put(sqs: Sqs, url: str, body: str, group: str, id: str | None = None) -> Any:
    more = {} if id is None else {"MessageDeduplicationId": id}
    return await sqs.send(url, body, MessageGroupId=group, **more)


def bodies(messages: list[Any]) -> list[str]:
    return [message["Body"] for message in messages]


async def test_a_fifo_queue_shows_its_attributes(sqs: Sqs) -> None:
    shown = await sqs.attributes(await fifo(sqs))
    assert shown["FifoQueue"] == "true"
    assert shown["ContentBasedDeduplication"] == "false"
    assert shown["DeduplicationScope"] == "queue"
    assert shown["FifoThroughputLimit"] == "perQueue"


async def test_a_group_comes_in_order_and_is_closed_while_a_message_is_in_flight(sqs: Sqs) -> None:
    url = await fifo(sqs, ContentBasedDeduplication="true")
    for body in ("a1", "b1", "a2", "b2"):
        await put(sqs, url, body, body[0])
    (first,) = await sqs.receive(url, MaxNumberOfMessages=1)
    assert first["Body"] == "a1"
    others = await sqs.receive(url)
    assert bodies(others) == ["b1", "b2"]
    assert await sqs.receive(url) == []
    await sqs.delete(url, first)
    assert bodies(await sqs.receive(url)) == ["a2"]


async def test_sequence_numbers_rise_and_are_those_of_the_receive(sqs: Sqs) -> None:
    url = await fifo(sqs)
    sent = [await put(sqs, url, str(n), "g", str(n)) for n in range(3)]
    entries = [
        {"Id": str(n), "MessageBody": str(n), "MessageGroupId": "g", "MessageDeduplicationId": str(n)}
        for n in range(3, 6)
    ]
    batch = await sqs.send_message_batch(QueueUrl=url, Entries=entries)
    numbers = [each["SequenceNumber"] for each in [*sent, *batch["Successful"]]]
    assert numbers == sorted(set(numbers))
    received = [message["Attributes"] for message in await sqs.receive(url)]
    assert [each["SequenceNumber"] for each in received] == numbers
    assert {each["MessageGroupId"] for each in received} == {"g"}
    assert [each["MessageDeduplicationId"] for each in received] == [str(n) for n in range(6)]


async def test_a_repeated_send_within_five_minutes_is_the_first_one(
    sqs: Sqs, clock: ManualClock
) -> None:
    url = await fifo(sqs)
    first = await put(sqs, url, "x", "g", "id")
    clock.advance(299_000)
    second = await put(sqs, url, "other", "h", "id")
    assert second["MessageId"] == first["MessageId"]
    assert second["SequenceNumber"] == first["SequenceNumber"]
    assert bodies(await sqs.receive(url)) == ["x"]
    clock.advance(2_000)
    third = await put(sqs, url, "x", "g", "id")
    assert third["MessageId"] != first["MessageId"]


async def test_a_purge_forgets_what_was_sent_and_changes_no_attribute(sqs: Sqs) -> None:
    url = await fifo(sqs)
    before = await sqs.attributes(url)
    for _ in range(2):
        first = await put(sqs, url, "x", "g", "id")
        await sqs.purge_queue(QueueUrl=url)
        assert await sqs.attributes(url) == before
        second = await put(sqs, url, "x", "g", "id")
        assert second["MessageId"] != first["MessageId"]
        assert (await put(sqs, url, "x", "g", "id"))["MessageId"] == second["MessageId"]
    (message,) = await sqs.receive(url)
    assert message["Attributes"]["MessageDeduplicationId"] == "id"
    assert "Tags" not in await sqs.list_queue_tags(QueueUrl=url)


async def test_a_purge_that_another_overtakes_brings_no_forgotten_id_back(
    server: Server, sqs: Sqs, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = await fifo(sqs)
    operations = next(front._operations for front in server._fronts if isinstance(front, SqsEndpoint))
    update, begun, goes_on = operations._update, asyncio.Event(), asyncio.Event()

    async def slow(*arguments: Any) -> None:
        if not begun.is_set():
            begun.set()
            await goes_on.wait()
        await update(*arguments)

    monkeypatch.setattr(operations, "_update", slow)
    overtaken = asyncio.create_task(sqs.purge_queue(QueueUrl=url))
    await begun.wait()
    await sqs.purge_queue(QueueUrl=url)
    sent = [await put(sqs, url, "x", "g", "id")]
    await sqs.purge_queue(QueueUrl=url)
    goes_on.set()
    await overtaken
    # It would be taken for the one that was purged, and be lost.
    sent.append(await put(sqs, url, "x", "g", "id"))
    assert sent[0]["MessageId"] != sent[1]["MessageId"]
    assert bodies(await sqs.receive(url)) == ["x"]


async def test_the_content_is_the_deduplication_id_where_the_queue_says_so(sqs: Sqs) -> None:
    url = await fifo(sqs, ContentBasedDeduplication="true")
    first = await put(sqs, url, "x", "g")
    assert (await put(sqs, url, "x", "h"))["MessageId"] == first["MessageId"]
    assert (await put(sqs, url, "y", "g"))["MessageId"] != first["MessageId"]
    assert (await put(sqs, url, "x", "g", "own"))["MessageId"] != first["MessageId"]


async def test_content_based_deduplication_counts_as_soon_as_it_is_set(sqs: Sqs) -> None:
    url = await fifo(sqs)
    refusal = await refused(put(sqs, url, "x", "g"))
    assert refusal.code == "InvalidParameterValue"
    assert "ContentBasedDeduplication" in refusal.message
    attributes = {"ContentBasedDeduplication": "true"}
    await sqs.set_queue_attributes(QueueUrl=url, Attributes=attributes)
    await put(sqs, url, "x", "g")


async def test_a_deduplication_scope_of_groups_takes_the_same_id_in_each_group(sqs: Sqs) -> None:
    url = await fifo(sqs, DeduplicationScope="messageGroup", FifoThroughputLimit="perMessageGroupId")
    first = await put(sqs, url, "x", "g", "id")
    assert (await put(sqs, url, "x", "h", "id"))["MessageId"] != first["MessageId"]
    assert (await put(sqs, url, "x", "g", "id"))["MessageId"] == first["MessageId"]


def entry(id: str, **more: str) -> dict[str, str]:
    return {"Id": id, "MessageBody": id, **more}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            entry("b", MessageDeduplicationId="b"),
            "The request must contain the parameter MessageGroupId.",
        ),
        (
            entry("b", MessageGroupId="g"),
            "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId "
            "provided explicitly",
        ),
    ],
)
async def test_a_batch_of_which_an_entry_lacks_an_id_is_refused_as_a_whole(
    sqs: Sqs, wrong: dict[str, str], message: str
) -> None:
    url = await fifo(sqs)
    right = entry("a", MessageGroupId="g", MessageDeduplicationId="a")
    refusal = await refused(sqs.send_message_batch(QueueUrl=url, Entries=[right, wrong]))
    assert (refusal.code, refusal.message) == ("InvalidParameterValue", message)
    assert (await sqs.attributes(url))["ApproximateNumberOfMessages"] == "0"


@pytest.mark.parametrize("text", ["True", "TRUE", "tRuE"])
async def test_a_boolean_has_any_case(sqs: Sqs, text: str) -> None:
    url = await sqs.create("q.fifo", FifoQueue=text, ContentBasedDeduplication=text)
    shown = await sqs.attributes(url)
    assert (shown["FifoQueue"], shown["ContentBasedDeduplication"]) == ("true", "true")
    assert await sqs.create("q.fifo", FifoQueue="true") == url


async def test_the_kind_of_a_queue_stays(sqs: Sqs) -> None:
    standard, url = await sqs.create("q"), await fifo(sqs)
    for value in ("true", "false"):
        change = sqs.set_queue_attributes(QueueUrl=standard, Attributes={"FifoQueue": value})
        refusal = await refused(change)
        assert (refusal.code, refusal.message) == (
            "InvalidAttributeName",
            "Unknown Attribute FifoQueue.",
        )
    assert (await refused(sqs.create("other", FifoQueue="false"))).code == "InvalidAttributeName"
    await sqs.set_queue_attributes(QueueUrl=url, Attributes={"FifoQueue": "true"})
    refusal = await refused(sqs.set_queue_attributes(QueueUrl=url, Attributes={"FifoQueue": "false"}))
    assert (refusal.code, refusal.message) == (
        "InvalidAttributeValue",
        "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported.",
    )


async def test_a_limit_for_each_group_needs_deduplication_by_group(sqs: Sqs) -> None:
    by_group = {"FifoThroughputLimit": "perMessageGroupId"}
    assert (await refused(fifo(sqs, **by_group))).code == "InvalidAttributeValue"
    url = await fifo(sqs)
    refusal = await refused(sqs.set_queue_attributes(QueueUrl=url, Attributes=by_group))
    assert refusal.code == "InvalidAttributeValue"
    assert "DeduplicationScope must be messageGroup" in refusal.message
    scope = {"DeduplicationScope": "messageGroup"}
    await sqs.set_queue_attributes(QueueUrl=url, Attributes=scope)
    await sqs.set_queue_attributes(QueueUrl=url, Attributes=by_group)
    back = {"DeduplicationScope": "queue"}
    refusal = await refused(sqs.set_queue_attributes(QueueUrl=url, Attributes=back))
    assert refusal.code == "InvalidAttributeValue"
    await sqs.set_queue_attributes(QueueUrl=url, Attributes={**back, "FifoThroughputLimit": "perQueue"})


async def test_a_fifo_message_needs_a_group_and_takes_no_delay_of_its_own(sqs: Sqs) -> None:
    url = await fifo(sqs, ContentBasedDeduplication="true")
    assert (await refused(sqs.send(url, "x"))).code == "MissingParameter"
    refusal = await refused(sqs.send(url, "x", MessageGroupId="g", DelaySeconds=5))
    assert refusal.code == "InvalidParameterValue"
    for wrong in ("", "a b", "x" * 129, "ä"):
        refusal = await refused(sqs.send(url, "x", MessageGroupId=wrong))
        assert refusal.code in ("InvalidParameterValue", "MissingParameter")


@pytest.mark.parametrize("end", ["delete", "change"])
async def test_a_receipt_whose_lease_is_over_is_refused(sqs: Sqs, clock: ManualClock, end: str) -> None:
    url = await fifo(sqs, ContentBasedDeduplication="true", VisibilityTimeout="5")
    await put(sqs, url, "x", "g")
    (message,) = await sqs.receive(url)
    clock.advance(5_000)
    handle = message["ReceiptHandle"]
    call = (
        sqs.delete_message(QueueUrl=url, ReceiptHandle=handle)
        if end == "delete"
        else sqs.change(url, handle, 9)
    )
    refusal = await refused(call)
    assert refusal.code == "InvalidParameterValue"
    assert "expired" in refusal.message


async def test_dead_letters_and_their_redrive_keep_the_order_of_their_group(sqs: Sqs) -> None:
    dead = await fifo(sqs, "dead.fifo")
    arn = (await sqs.attributes(dead))["QueueArn"]
    policy = await sqs.redrive_policy(dead)
    url = await fifo(sqs, RedrivePolicy=policy, ContentBasedDeduplication="true")
    for body in ("1", "2", "3", "4"):
        await put(sqs, url, body, "g")
    for message in await sqs.receive(url, MaxNumberOfMessages=2):
        await sqs.change(url, message["ReceiptHandle"], 0)
    rest = await sqs.receive(url, WaitTimeSeconds=20)
    assert bodies(rest) == ["3", "4"]
    for message in rest:
        await sqs.delete(url, message)
    while (await sqs.attributes(dead))["ApproximateNumberOfMessages"] != "2":
        await asyncio.sleep(0)
    (first,) = await sqs.receive(dead, MaxNumberOfMessages=1)
    assert first["Body"] == "1"
    assert first["Attributes"]["MessageGroupId"] == "g"
    # The deduplication id of a dead letter is the message's own, as with SQS.
    assert first["Attributes"]["MessageDeduplicationId"] == first["MessageId"]
    assert await sqs.receive(dead) == []
    await sqs.change(dead, first["ReceiptHandle"], 0)
    await sqs.start_message_move_task(SourceArn=arn)
    while (await sqs.list_message_move_tasks(SourceArn=arn))["Results"][0]["Status"] != "COMPLETED":
        await asyncio.sleep(0)
    assert bodies(await sqs.receive(url)) == ["1", "2"]


async def test_a_repeated_receive_attempt_gets_the_same_messages_and_receipts(
    sqs: Sqs, clock: ManualClock
) -> None:
    url = await fifo(sqs, ContentBasedDeduplication="true")
    for body in ("a", "b"):
        await put(sqs, url, body, body)
    attempt = {"ReceiveRequestAttemptId": "try", "MaxNumberOfMessages": 1, "VisibilityTimeout": 100}
    first = await sqs.receive(url, **attempt)
    clock.advance(1_000)
    assert await sqs.receive(url, **attempt) == first
    assert bodies(await sqs.receive(url)) == ["b"]
    await sqs.delete(url, first[0])
    other = await sqs.receive(url, **{**attempt, "ReceiveRequestAttemptId": "other"})
    assert other == []


async def test_a_receive_attempt_is_forgotten_after_five_minutes(sqs: Sqs, clock: ManualClock) -> None:
    url = await fifo(sqs, ContentBasedDeduplication="true")
    await put(sqs, url, "a", "g")
    attempt = {"ReceiveRequestAttemptId": "try", "VisibilityTimeout": 43_200}
    first = await sqs.receive(url, **attempt)
    clock.advance(299_000)
    assert await sqs.receive(url, **attempt) == first
    clock.advance(300_000)
    assert await sqs.receive(url, **attempt) == []


async def test_a_message_of_a_standard_queue_may_have_a_group_which_takes_its_turn(sqs: Sqs) -> None:
    url = await sqs.create("q")
    for body in ("a1", "a2", "b1"):
        await sqs.send(url, body, MessageGroupId=body[0])
    received = await sqs.receive(url, MaxNumberOfMessages=2)
    told = [(message["Body"], message["Attributes"]["MessageGroupId"]) for message in received]
    assert sorted(told) == [("a1", "a"), ("b1", "b")]
