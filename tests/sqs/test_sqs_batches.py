"""Batches of SQS of which some entries fail, and parameters of a wrong type."""

from __future__ import annotations

import json
from typing import Any

import pytest
from spoolrack_server.process.server import Server
from spoolrack_store.manual_clock import ManualClock

from tests.support.sqs_rig import Sqs, raw, refused

TEXT = {"DataType": "String", "StringValue": "x"}


def told(batch: dict[str, Any]) -> tuple[list[str], dict[str, str]]:
    """Return the ids that succeeded, and those that failed with their codes."""
    failed = batch.get("Failed", [])
    assert all(each["SenderFault"] and each["Message"] for each in failed)
    return [each["Id"] for each in batch["Successful"]], {each["Id"]: each["Code"] for each in failed}


async def test_of_a_batch_of_sends_each_wrong_entry_fails_and_a_repeated_one_is_stored_once(
    sqs: Sqs,
) -> None:
    url = await sqs.create("q.fifo", FifoQueue="true")
    same = {"MessageGroupId": "g", "MessageDeduplicationId": "d"}
    batch = await sqs.send_message_batch(
        QueueUrl=url,
        Entries=[
            {"Id": "first", "MessageBody": "1", **same},
            {"Id": "delayed", "MessageBody": "2", **same, "DelaySeconds": 901},
            {"Id": "binary", "MessageBody": "\x01", **same},
            {"Id": "repeated", "MessageBody": "3", **same},
            {"Id": "named", "MessageBody": "4", **same, "MessageAttributes": {"AWS.a": TEXT}},
            {"Id": "last", "MessageBody": "5", **same, "MessageDeduplicationId": "e"},
        ],
    )
    invalid = "InvalidParameterValue"
    assert told(batch) == (
        ["first", "repeated", "last"],
        {"delayed": invalid, "binary": "InvalidMessageContents", "named": invalid},
    )
    first, repeated, last = [each["MessageId"] for each in batch["Successful"]]
    assert first == repeated != last
    assert [each["Body"] for each in await sqs.receive(url)] == ["1", "5"]


async def test_of_a_batch_of_changes_and_of_deletes_the_right_entries_succeed_whatever_the_others_are(
    sqs: Sqs, server: Server, clock: ManualClock
) -> None:
    url = await sqs.create("q", VisibilityTimeout="30")
    for body in "ab":
        await sqs.send(url, body)
    first, second = [each["ReceiptHandle"] for each in await sqs.receive(url)]
    entries = [
        {"Id": "long", "ReceiptHandle": first, "VisibilityTimeout": 43_201},
        {"Id": "right", "ReceiptHandle": first, "VisibilityTimeout": 90},
        {"Id": "handle", "ReceiptHandle": "x", "VisibilityTimeout": 1},
        {"Id": "lacking", "ReceiptHandle": second},
        {"Id": "empty", "ReceiptHandle": "", "VisibilityTimeout": 1},
        {"Id": "other", "ReceiptHandle": second, "VisibilityTimeout": 60},
    ]
    asked = {"QueueUrl": url, "Entries": entries}
    batch = (await raw(server, "ChangeMessageVisibilityBatch", asked)).json
    failed = {
        "long": "InvalidParameterValue",
        "handle": "ReceiptHandleIsInvalid",
        "lacking": "MissingParameter",
        "empty": "MissingParameter",
    }
    assert told(batch) == (["right", "other"], failed)
    clock.advance(60_000)
    assert [each["Body"] for each in await sqs.receive(url, VisibilityTimeout=0)] == ["b"]

    entries = [
        {"Id": "handle", "ReceiptHandle": "x"},
        {"Id": "right", "ReceiptHandle": first},
        {"Id": "again", "ReceiptHandle": first},
        {"Id": "lacking"},
    ]
    batch = (await raw(server, "DeleteMessageBatch", {"QueueUrl": url, "Entries": entries})).json
    failed = {"handle": "ReceiptHandleIsInvalid", "lacking": "MissingParameter"}
    assert told(batch) == (["right", "again"], failed)
    clock.advance(30_000)
    assert [each["Body"] for each in await sqs.receive(url)] == ["b"]


WRONG_TYPES: list[tuple[str, dict[str, Any], str]] = [
    ("CreateQueue", {"QueueName": 1}, "a string"),
    ("CreateQueue", {"QueueName": "x", "Attributes": ["DelaySeconds"]}, "a map of strings"),
    ("CreateQueue", {"QueueName": "x", "tags": {"a": 1}}, "a map of strings"),
    ("SetQueueAttributes", {"Attributes": {"DelaySeconds": 1}}, "a map of strings"),
    ("TagQueue", {"Tags": "a"}, "a map of strings"),
    ("UntagQueue", {"TagKeys": "a"}, "a list of strings"),
    ("GetQueueAttributes", {"AttributeNames": "All"}, "a list of strings"),
    ("ReceiveMessage", {"MessageAttributeNames": [1]}, "a list of strings"),
    ("ReceiveMessage", {"MaxNumberOfMessages": True}, "an integer"),
    ("ReceiveMessage", {"WaitTimeSeconds": 1.5}, "an integer"),
    ("SendMessage", {"MessageBody": "x", "MessageAttributes": {"a": "b"}}, "a map of structures"),
    ("SendMessage", {"MessageBody": "x", "MessageAttributes": [TEXT]}, "a map of structures"),
    ("SendMessage", {"MessageBody": "x", "MessageSystemAttributes": {"a": 1}}, "a map of structures"),
    ("SendMessage", {"MessageBody": "x", "MessageGroupId": []}, "a string"),
    ("SendMessageBatch", {"Entries": {"Id": "a"}}, "a list of structures"),
    ("DeleteMessageBatch", {"Entries": ["a"]}, "a list of structures"),
    ("ChangeMessageVisibilityBatch", {"Entries": [None]}, "a list of structures"),
]


async def test_a_parameter_of_a_wrong_type_is_refused_by_its_name_and_nothing_is_done(
    server: Server, sqs: Sqs
) -> None:
    url = await sqs.create("q")
    before = await sqs.attributes(url)
    for operation, parameters, kind in WRONG_TYPES:
        answer = await raw(server, operation, {"QueueUrl": url, **parameters})
        refusal = answer.status, answer.json["__type"], answer.json["message"]
        told = f"The parameter {next(reversed(parameters))} must be {kind}."
        assert refusal == (400, "com.amazonaws.sqs#SerializationException", told), operation
        assert (await sqs.list_queues())["QueueUrls"] == [url], operation
        assert await sqs.attributes(url) == before, operation


async def test_a_receive_shows_the_system_attributes_that_it_names(sqs: Sqs) -> None:
    url = await sqs.create("q")
    await sqs.send(url, "x")
    (message,) = await sqs.receive(url, MessageSystemAttributeNames=["SentTimestamp"])
    assert message["Attributes"].keys() == {"SentTimestamp"}


async def test_the_sources_of_a_dead_letter_queue_come_by_page(sqs: Sqs) -> None:
    dead = await sqs.create("dead")
    arn = (await sqs.attributes(dead, "QueueArn"))["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    urls = [await sqs.create(name, RedrivePolicy=policy) for name in ("a", "b")]
    first = await sqs.list_dead_letter_source_queues(QueueUrl=dead, MaxResults=1)
    rest = await sqs.list_dead_letter_source_queues(
        QueueUrl=dead, MaxResults=1, NextToken=first["NextToken"]
    )
    assert [*first["queueUrls"], *rest["queueUrls"]] == urls
    assert "NextToken" not in rest


@pytest.mark.parametrize("more", [0, 1])
async def test_names_types_and_values_of_attributes_count_as_bytes_of_the_message(
    sqs: Sqs, more: int
) -> None:
    url = await sqs.create("q", MaximumMessageSize="1024")
    given = {
        "äb": {"DataType": "String.x", "StringValue": "ö" * 4},
        "n": {"DataType": "Number", "StringValue": "12"},
        "raw": {"DataType": "Binary", "BinaryValue": bytes(5)},
    }
    size = 3 + 8 + 8 + 1 + 6 + 2 + 3 + 6 + 5
    sending = sqs.send(url, "x" * (1024 - size + more), MessageAttributes=given)
    if not more:
        await sending
        (got,) = await sqs.receive(url)
        assert got["MessageAttributes"] == given
        return
    refusal = await refused(sending)
    assert refusal.message.endswith("Message must be shorter than 1024 bytes.")
    assert await sqs.receive(url) == []


async def test_a_batch_that_is_too_long_is_refused_in_sqs_own_words(sqs: Sqs) -> None:
    """The text as it was recorded at Amazon, with the limit of today."""
    url = await sqs.create("q")
    entries = [{"Id": id, "MessageBody": "x" * 524_289} for id in ("a", "b")]
    refusal = await refused(sqs.send_message_batch(QueueUrl=url, Entries=entries))
    assert refusal.code == "AWS.SimpleQueueService.BatchRequestTooLong"
    assert refusal.message == (
        "Batch requests cannot be longer than 1048576 bytes. You have sent 1048578 bytes."
    )
