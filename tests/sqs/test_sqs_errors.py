"""Each operation has the errors of SQS in both protocols: shape, code, status, side."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from io import BytesIO
from typing import Any, Final
from urllib.parse import urlencode

import aiohttp
import boto3
import pytest
from spoolrack_server.process.server import Server

from tests.support.sqs_rig import NO_REDRIVE, Sqs, form_of, raw, task_of

PREFIX: Final = "AWS.SimpleQueueService."
ARN: Final = "arn:aws:sqs:eu-west-1:000000000000:"
Q: Final = {"QueueUrl": "/q"}
FIFO: Final = {"QueueUrl": "/q.fifo"}
HANDLE: Final = "not a handle"
ENTRY: Final = {"Id": "a", "ReceiptHandle": HANDLE, "VisibilityTimeout": 1}

CALLS: Final[Mapping[str, dict[str, Any]]] = {
    "AddPermission": {**Q, "Label": "l", "AWSAccountIds": ["1"], "Actions": ["*"]},
    "CancelMessageMoveTask": {"TaskHandle": task_of("q")},
    "ChangeMessageVisibility": {**Q, "ReceiptHandle": HANDLE, "VisibilityTimeout": 1},
    "ChangeMessageVisibilityBatch": {**Q, "Entries": [ENTRY]},
    "CreateQueue": {"QueueName": "q"},
    "DeleteMessage": {**Q, "ReceiptHandle": HANDLE},
    "DeleteMessageBatch": {**Q, "Entries": [ENTRY]},
    "DeleteQueue": Q,
    "GetQueueAttributes": Q,
    "GetQueueUrl": {"QueueName": "q"},
    "ListDeadLetterSourceQueues": Q,
    "ListMessageMoveTasks": {"SourceArn": f"{ARN}q"},
    "ListQueueTags": Q,
    "ListQueues": {},
    "PurgeQueue": Q,
    "ReceiveMessage": Q,
    "RemovePermission": {**Q, "Label": "l"},
    "SendMessage": {**Q, "MessageBody": "x"},
    "SendMessageBatch": {**Q, "Entries": [{"Id": "a", "MessageBody": "x"}]},
    "SetQueueAttributes": {**Q, "Attributes": {"DelaySeconds": "1"}},
    "StartMessageMoveTask": {"SourceArn": f"{ARN}q"},
    "TagQueue": {**Q, "Tags": {"a": "b"}},
    "UntagQueue": {**Q, "TagKeys": ["a"]},
}
"""A request of each operation, with all that it requires."""
MODEL: Final = boto3.client("sqs", region_name="eu-west-1").meta.service_model


def required(operation: str) -> list[str]:
    shape = MODEL.operation_model(operation).input_shape
    names: list[str] = [] if shape is None else shape.required_members
    return names


async def errors(
    server: Server, operation: str, parameters: Mapping[str, Any]
) -> tuple[tuple[str, str, int, str], tuple[str, int, str]]:
    """Return the shape, code, status and side in JSON, and the last three in Query."""
    answer = await raw(server, operation, dict(parameters))
    content = answer.json
    assert answer.headers["x-amzn-RequestId"]
    assert answer.headers["Content-Type"] == "application/x-amz-json-1.0"
    assert sorted(content) == ["__type", "message"], content
    assert content["message"]
    service, _, shape = content["__type"].partition("#")
    assert service == "com.amazonaws.sqs"
    code, _, side = answer.headers["x-amzn-query-error"].partition(";")
    async with (
        aiohttp.ClientSession() as session,
        session.post(
            f"{server.sqs_url}/",
            data=BytesIO(urlencode(form_of(operation, parameters)).encode()),
            headers={"Content-Type": "application/x-www-form-urlencoded"},
        ) as response,
    ):
        text = await response.text()
    found = re.search("<Type>(.*)</Type><Code>(.*)</Code><Message>(.+)</Message>", text, re.DOTALL)
    assert found is not None, text
    return (shape, code, answer.status, side), (found[2], response.status, found[1])


async def require_error(
    server: Server, operation: str, parameters: Mapping[str, Any], error: tuple[str, str, int]
) -> None:
    case = (operation, str(parameters)[:200])
    in_json, in_query = await errors(server, operation, parameters)
    assert (case, in_json) == (case, (*error, "Sender"))
    assert (case, in_query) == (case, (*error[1:], "Sender"))


def test_each_operation_is_asked_with_what_it_requires() -> None:
    assert sorted(CALLS) == sorted(MODEL.operation_names)
    for operation, parameters in CALLS.items():
        assert parameters.keys() >= set(required(operation))


async def test_a_required_parameter_that_is_missing_is_named(server: Server, sqs: Sqs) -> None:
    await sqs.create("q")
    await sqs.send("/q", "x")
    (message,) = await sqs.receive("/q")
    for operation, call in CALLS.items():
        for parameter in required(operation):
            parameters = {name: value for name, value in call.items() if name != parameter}
            if parameter == "VisibilityTimeout":
                parameters["ReceiptHandle"] = message["ReceiptHandle"]
            if parameter == "AWSAccountIds":  # Amazon takes none for a principal that is unknown.
                await require_error(server, operation, parameters, INVALID)
                continue
            if parameter == "Entries":
                await require_error(server, operation, parameters, prefixed("EmptyBatchRequest"))
                continue
            await require_error(server, operation, parameters, MISSING)
            assert parameter in (await raw(server, operation, parameters)).json["message"]


async def test_a_queue_that_isnt_there_is_the_first_error(server: Server) -> None:
    for operation, call in CALLS.items():
        if "QueueUrl" in call:
            for url in ("/000000000000/none", "http://localhost/", "/000000000000/a b"):
                await require_error(server, operation, {**call, "QueueUrl": url}, NO_QUEUE)


def same(shape: str, status: int = 400) -> tuple[str, str, int]:
    return shape, shape, status


def prefixed(shape: str) -> tuple[str, str, int]:
    return shape, PREFIX + shape, 400


NO_QUEUE: Final = ("QueueDoesNotExist", f"{PREFIX}NonExistentQueue", 400)
MISSING: Final = ("MissingRequiredParameterException", "MissingParameter", 400)
INVALID: Final = ("InvalidParameterValueException", "InvalidParameterValue", 400)
ATTRIBUTE: Final = same("InvalidAttributeValue")
NAME: Final = same("InvalidAttributeName")
NO_HANDLE: Final = same("ReceiptHandleIsInvalid", 404)
NOT_FOUND: Final = same("ResourceNotFoundException", 404)
UNSUPPORTED: Final = prefixed("UnsupportedOperation")
OVER_LIMIT: Final = same("OverLimit", 403)


def policy(queue: str, count: object = 1, **more: object) -> dict[str, str]:
    told = {"deadLetterTargetArn": ARN + queue, "maxReceiveCount": count, **more}
    return {"RedrivePolicy": json.dumps(told)}


def body_of(kind: str, text: str) -> dict[str, Any]:
    return {
        **Q,
        "MessageBody": "x",
        "MessageAttributes": {"a": {"DataType": kind, "StringValue": text}},
    }


NO_TASKS: Final = ("x", NO_REDRIVE, "ä", "W10=", "e30=", base64.b64encode(b"[" * 100_000).decode())
TEXT: Final = {"DataType": "String", "StringValue": "x"}
BATCHES: Final = ("SendMessageBatch", "DeleteMessageBatch", "ChangeMessageVisibilityBatch")

ERRORS: Final[list[tuple[str, dict[str, Any], tuple[str, str, int]]]] = [
    *(("CreateQueue", {"QueueName": name}, INVALID) for name in ("a b", "x" * 81, "x.fifo", "_x")),
    ("CreateQueue", {"QueueName": "x", "Attributes": {"FifoQueue": "true"}}, INVALID),
    ("CreateQueue", {"QueueName": "x", "Attributes": {"ContentBasedDeduplication": "true"}}, NAME),
    ("CreateQueue", {"QueueName": "x", "Attributes": {"Nope": "1"}}, NAME),
    ("CreateQueue", {"QueueName": "x", "Attributes": {"DelaySeconds": "901"}}, ATTRIBUTE),
    (
        "CreateQueue",
        {"QueueName": "q", "Attributes": {"DelaySeconds": "9"}},
        ("QueueNameExists", "QueueAlreadyExists", 400),
    ),
    *(("GetQueueUrl", {"QueueName": name}, NO_QUEUE) for name in ("none", "a b")),
    ("ListQueues", {"MaxResults": 1_001}, INVALID),
    ("ListQueues", {"MaxResults": 0}, INVALID),
    ("ListQueues", {"MaxResults": 1, "NextToken": "x"}, INVALID),
    *(
        ("CreateQueue", {"QueueName": "x", "Attributes": {"RedriveAllowPolicy": text}}, error)
        for text, error in (
            *((text, ATTRIBUTE) for text in ("x", "[]", "{}", '{"redrivePermission": "some"}')),
            ('{"redrivePermission": "allowAll", "x": 1}', ATTRIBUTE),
            ('{"redrivePermission": "byQueue", "sourceQueueArns": "arn"}', ATTRIBUTE),
            ('{"redrivePermission": "byQueue", "sourceQueueArns": [1]}', ATTRIBUTE),
            ('{"redrivePermission": "byQueue"}', INVALID),
            ('{"redrivePermission": "byQueue", "sourceQueueArns": []}', INVALID),
            ('{"redrivePermission": "denyAll", "sourceQueueArns": ["arn"]}', INVALID),
            (json.dumps({"redrivePermission": "byQueue", "sourceQueueArns": ["arn"] * 11}), INVALID),
        )
    ),
    (
        "CreateQueue",
        {"QueueName": "x.fifo", "Attributes": {"FifoQueue": "true", **policy("q")}},
        INVALID,
    ),
    ("GetQueueAttributes", {**Q, "AttributeNames": ["Nope"]}, NAME),
    *(
        ("SetQueueAttributes", {**Q, "Attributes": {name: wrong}}, ATTRIBUTE)
        for name, wrong in (
            ("VisibilityTimeout", "43201"),
            ("VisibilityTimeout", "-1"),
            ("DelaySeconds", "x"),
            ("MaximumMessageSize", "1023"),
            ("MaximumMessageSize", "1048577"),
            ("MessageRetentionPeriod", "59"),
            ("MessageRetentionPeriod", "1209601"),
            ("ReceiveMessageWaitTimeSeconds", "21"),
            ("KmsDataKeyReusePeriodSeconds", "59"),
            ("SqsManagedSseEnabled", "x"),
            ("Policy", "x"),
            ("Policy", "[" * 100_000),
            ("RedriveAllowPolicy", "[" * 100_000),
            ("RedriveAllowPolicy", '{"redrivePermission": ["byQueue"]}'),
        )
    ),
    *(
        ("SetQueueAttributes", {**Q, "Attributes": {name: "1"}}, NAME)
        for name in ("Nope", "QueueArn", "CreatedTimestamp", "ApproximateNumberOfMessages")
    ),
    ("SetQueueAttributes", {**Q, "Attributes": {"FifoQueue": "true"}}, NAME),
    *(
        ("SetQueueAttributes", {**Q, "Attributes": attributes}, INVALID)
        for attributes in (
            *(policy("none"), policy("q.fifo"), policy("other", 0), policy("other", "x")),
            *(policy("a b"), policy("other", more=1)),
        )
    ),
    *(
        ("SetQueueAttributes", {**Q, "Attributes": {"RedrivePolicy": text}}, INVALID)
        for text in ("x", "[]", "{}", "[" * 100_000)
    ),
    ("SendMessage", {**Q, "MessageBody": ""}, MISSING),
    *(
        ("SendMessage", {**Q, "MessageBody": "x", "MessageAttributes": {name: TEXT}}, INVALID)
        for name in ("aWs.x", "AMAZON.x", ".x", "x.", "x..y", "x!", 'x"', "x§", "x(", "x" * 257, "")
    ),
    ("SendMessage", {**Q, "MessageBody": "\ufffe"}, same("InvalidMessageContents")),
    ("SendMessage", {"QueueUrl": "/small", "MessageBody": "x" * 1_025}, INVALID),
    ("SendMessage", {**Q, "MessageBody": "x", "DelaySeconds": 901}, INVALID),
    ("SendMessage", {**Q, "MessageBody": "x", "DelaySeconds": -1}, INVALID),
    (
        "SendMessage",
        {**Q, "MessageBody": "x", "MessageAttributes": {f"x{n}": TEXT for n in range(11)}},
        INVALID,
    ),
    ("SendMessage", {**Q, "MessageBody": "x", "MessageDeduplicationId": "d"}, INVALID),
    ("SendMessage", {**Q, "MessageBody": "x", "MessageGroupId": "g" * 129}, INVALID),
    ("SendMessage", body_of("Nope", "x"), INVALID),
    ("SendMessage", body_of("String", ""), INVALID),
    ("SendMessage", body_of("Number", "x"), INVALID),
    ("SendMessage", body_of("String", "\x01"), INVALID),
    (
        "SendMessage",
        {**Q, "MessageBody": "x", "MessageAttributes": {"a": {"DataType": "Binary"}}},
        INVALID,
    ),
    ("SendMessage", {**Q, "MessageBody": "x", "MessageSystemAttributes": {"X": TEXT}}, INVALID),
    ("SendMessage", {**FIFO, "MessageBody": "x"}, MISSING),
    ("SendMessage", {**FIFO, "MessageBody": "x", "MessageGroupId": "g"}, INVALID),
    (
        "SendMessage",
        {
            **FIFO,
            "MessageBody": "x",
            "MessageGroupId": "g",
            "MessageDeduplicationId": "d",
            "DelaySeconds": 1,
        },
        INVALID,
    ),
    *(
        (operation, {**CALLS[operation], "Entries": entries}, prefixed(shape))
        for operation in BATCHES
        for one in CALLS[operation]["Entries"]
        for entries, shape in (
            ([one, one], "BatchEntryIdsNotDistinct"),
            ([{**one, "Id": str(number)} for number in range(11)], "TooManyEntriesInBatchRequest"),
            ([{**one, "Id": "a b"}], "InvalidBatchEntryId"),
            ([{**one, "Id": ""}], "InvalidBatchEntryId"),
            ([{**one, "Id": "x" * 81}], "InvalidBatchEntryId"),
        )
    ),
    *(
        ("SendMessageBatch", {**Q, "Entries": entries}, prefixed("BatchRequestTooLong"))
        for entries in (
            [{"Id": f"{n}", "MessageBody": "x" * 600_000} for n in range(2)],
            [{"Id": "a", "MessageBody": "x" * 1_048_577}, {"Id": "b", "MessageBody": "x"}],
        )
    ),
    *((operation, {**Q, "Entries": [{"MessageBody": "x"}]}, MISSING) for operation in BATCHES),
    *(
        ("ReceiveMessage", {**Q, name: wrong}, INVALID)
        for name, wrong in (
            ("MaxNumberOfMessages", 0),
            ("MaxNumberOfMessages", 11),
            ("VisibilityTimeout", 43_201),
            ("WaitTimeSeconds", 21),
        )
    ),
    ("ReceiveMessage", {**Q, "AttributeNames": ["Nope"]}, NAME),
    ("ReceiveMessage", {**Q, "MessageSystemAttributeNames": ["Nope"]}, NAME),
    ("ReceiveMessage", {**FIFO, "ReceiveRequestAttemptId": "a" * 129}, INVALID),
    *(
        ("DeleteMessage", {**Q, "ReceiptHandle": handle}, NO_HANDLE)
        for handle in (HANDLE, "q:00000000-0000-7000-8000-000000000000~*1*1")
    ),
    ("ChangeMessageVisibility", CALLS["ChangeMessageVisibility"], NO_HANDLE),
    ("StartMessageMoveTask", {"SourceArn": "q"}, INVALID),
    ("StartMessageMoveTask", {"SourceArn": f"{ARN}none"}, NOT_FOUND),
    ("StartMessageMoveTask", {"SourceArn": f"{ARN}q", "DestinationArn": f"{ARN}none"}, NOT_FOUND),
    ("StartMessageMoveTask", {"SourceArn": f"{ARN}q", "MaxNumberOfMessagesPerSecond": 501}, INVALID),
    ("ListMessageMoveTasks", {"SourceArn": "q"}, INVALID),
    ("ListMessageMoveTasks", {"SourceArn": f"{ARN}none"}, NOT_FOUND),
    ("ListMessageMoveTasks", {"SourceArn": f"{ARN}q", "MaxResults": 11}, INVALID),
    ("StartMessageMoveTask", {"SourceArn": f"{ARN}q", "DestinationArn": f"{ARN}other"}, INVALID),
    *(("CancelMessageMoveTask", {"TaskHandle": handle}, INVALID) for handle in NO_TASKS),
    ("CancelMessageMoveTask", {"TaskHandle": task_of("none")}, NOT_FOUND),
    ("CancelMessageMoveTask", {"TaskHandle": task_of("q")}, NOT_FOUND),
    ("TagQueue", {**Q, "Tags": {str(number): "x" for number in range(51)}}, INVALID),
    ("TagQueue", {**Q, "Tags": {"aws:x": "x"}}, INVALID),
    ("TagQueue", {**Q, "Tags": {"x" * 129: "x"}}, INVALID),
    ("TagQueue", {**Q, "Tags": {"x": "x" * 257}}, INVALID),
    ("AddPermission", {**CALLS["AddPermission"], "AWSAccountIds": []}, INVALID),
    ("AddPermission", {**CALLS["AddPermission"], "Actions": []}, MISSING),
    ("AddPermission", {**CALLS["AddPermission"], "Actions": ["RemovePermission"]}, INVALID),
    ("AddPermission", {**CALLS["AddPermission"], "Actions": ["*"] * 8}, OVER_LIMIT),
    ("RemovePermission", CALLS["RemovePermission"], INVALID),
    ("CreateQueue", {"QueueName": "a.b"}, INVALID),
    ("CreateQueue", {"QueueName": "x", "Attributes": policy("q", count="\uff15")}, INVALID),
    (
        "SendMessage",
        {
            **CALLS["SendMessage"],
            "MessageAttributes": {"n": {"DataType": "Number", "StringValue": "\uff15"}},
        },
        INVALID,
    ),
    (
        "SendMessage",
        {**CALLS["SendMessage"], "MessageAttributes": {"a": {**TEXT, "StringListValues": ["x"]}}},
        UNSUPPORTED,
    ),
]


async def test_each_operation_has_the_errors_of_sqs_in_both_protocols(server: Server, sqs: Sqs) -> None:
    for name in ("q", "other"):
        await sqs.create(name)
    await sqs.create("q.fifo", FifoQueue="true")
    await sqs.create("small", MaximumMessageSize="1024")
    for operation, parameters, error in ERRORS:
        await require_error(server, operation, parameters, error)
    assert len((await sqs.list_queues())["QueueUrls"]) == 4
    shown = await sqs.attributes("/q")
    assert (shown["ApproximateNumberOfMessages"], shown["DelaySeconds"]) == ("0", "0")


def attribute(**value: str) -> dict[str, Any]:
    return {**Q, "MessageBody": "x", "MessageAttributes": {"a": value}}


NAMES: Final = "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
BOUND: Final = "Value {} for parameter {} is invalid. Reason: {}"
WORDS: Final[list[tuple[str, dict[str, Any], str]]] = [
    *(("CreateQueue", {"QueueName": name}, NAMES) for name in ("a b", "a" * 81, "ø")),
    ("ReceiveMessage", {"QueueUrl": "/none"}, "The specified queue does not exist."),
    (
        "ReceiveMessage",
        {**Q, "WaitTimeSeconds": 21},
        BOUND.format(21, "WaitTimeSeconds", "Must be >= 0 and <= 20, if provided."),
    ),
    (
        "ReceiveMessage",
        {**Q, "VisibilityTimeout": 43_201},
        BOUND.format(43201, "VisibilityTimeout", "Must be >= 0 and <= 43200, if provided."),
    ),
    (
        "ReceiveMessage",
        {**Q, "MaxNumberOfMessages": 11},
        BOUND.format(11, "MaxNumberOfMessages", "Must be between 1 and 10, if provided."),
    ),
    (
        "SendMessage",
        {**Q, "MessageBody": "x", "DelaySeconds": 901},
        BOUND.format(901, "DelaySeconds", "DelaySeconds must be >= 0 and <= 900."),
    ),
    ("SendMessage", {**Q, "MessageBody": ""}, "The request must contain the parameter MessageBody."),
    (
        "SendMessage",
        attribute(DataType="String", StringValue=""),
        "Message (user) attribute 'a' must contain a non-empty value of type 'String'.",
    ),
    (
        "SendMessage",
        attribute(DataType="Binary", BinaryValue="?"),
        "The BinaryValue of 'a' is not base64.",
    ),
    (
        "SendMessage",
        {**Q, "MessageBody": "x" * 1_048_577},
        "One or more parameters are invalid. Reason: Message must be shorter than 1048576 bytes.",
    ),
    *(
        (
            operation,
            {**Q, "Entries": [{"MessageBody": "x"}]},
            "The request must contain the parameter Id.",
        )
        for operation in BATCHES
    ),
    (
        "DeleteMessageBatch",
        {**Q, "Entries": [{"Id": "a:b", "ReceiptHandle": "x"}]},
        "A batch entry id can only contain alphanumeric characters, hyphens and underscores. It can be "
        "at most 80 letters long.",
    ),
    ("CancelMessageMoveTask", {"TaskHandle": "x"}, "Value for parameter TaskHandle is invalid."),
    (
        "ListMessageMoveTasks",
        {"SourceArn": f"{ARN}none"},
        "The resource that you specified for the SourceArn parameter doesn't exist.",
    ),
    (
        "StartMessageMoveTask",
        {"SourceArn": f"{ARN}q", "DestinationArn": f"{ARN}other"},
        "Source queue must be configured as a Dead Letter Queue.",
    ),
]


async def test_errors_have_the_words_of_sqs(server: Server, sqs: Sqs) -> None:
    for name in ("q", "other"):
        await sqs.create(name)
    for operation, parameters, message in WORDS:
        answer = await raw(server, operation, parameters)
        assert (operation, answer.json["message"]) == (operation, message)


@pytest.mark.parametrize(
    ("operation", "parameters", "told"),
    [
        ("CreateQueue", {"QueueName": "x", "Attributes": policy("none")}, "does not exist"),
        ("CreateQueue", {"QueueName": "-a"}, "a digit must be the first."),
    ],
)
async def test_an_error_that_sqs_does_not_have_says_what_to_do(
    server: Server, sqs: Sqs, operation: str, parameters: dict[str, Any], told: str
) -> None:
    await sqs.create("q")
    assert told in (await raw(server, operation, parameters)).json["message"]
