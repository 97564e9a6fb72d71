"""Fuzzing of SQS: any request of either protocol is answered, and none by a mistake of the server.

SPOOLRACK_FUZZ=5000 sends so many requests, and others each time.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final
from urllib.parse import urlencode

import boto3
import pytest
from spoolrack_server.sqs.queue_attributes import NAMES, REDRIVE, REDRIVE_ALLOW

from tests.proof.fuzz.anything import ID
from tests.proof.fuzz.fuzz_rig import Fuzzed
from tests.support.sqs_rig import form_of

TRIES: Final = int(os.environ.get("SPOOLRACK_FUZZ", "2000"))
ROUND: Final = 500
"""Requests after which the server and its log are looked at."""
QUEUES: Final = ("jobs", "letters", "orders.fifo")
ARN: Final = "arn:aws:sqs:us-east-1:000000000000:"
WORDS: Final = (
    *(
        "",
        "a b",
        "é",
        "\0",
        "\ud800",
        "\r\n",
        "x" * 2_000,
        "*",
        "All",
        "a.*",
        "AWS.x",
        "aws:x",
        "..",
        "%",
    ),
    *(
        "-1",
        "0",
        "1",
        "30",
        "43200",
        "9" * 20,
        "1.5",
        "NaN",
        "true",
        "false",
        "null",
        "{}",
        "[]",
        "YQ==",
    ),
    *("String", "Number", "Binary.png", ID, f"jobs:{ID}~0011223344556677*1*1", "jobs:*1*1"),
    *(f"jobs:{ID}~0011223344556677*1*1*1", "[" * 20_000),
    base64.b64encode(json.dumps({"taskId": ID, "sourceArn": f"{ARN}letters"}).encode()).decode(),
    *(f"{ARN}{queue}" for queue in QUEUES),
    *sorted(NAMES),
)
POLICIES: Final = (
    *WORDS,
    *(
        json.dumps({"deadLetterTargetArn": queue, "maxReceiveCount": count})
        for queue in (f"{ARN}letters", f"{ARN}none", 1, None)
        for count in (1, "2", 0, -1, 1_001, 1.5, float("inf"), float("nan"), "x", None, [])
    ),
    *(
        json.dumps({"redrivePermission": permission, "sourceQueueArns": sources})
        for permission in ("allowAll", "byQueue", "denyAll", None, [])
        for sources in ([f"{ARN}jobs"], [], [1], "x", None)
    ),
)
PATHS: Final = ("/", "/", "/000000000000/jobs", "/000000000000/")
WRONG: Final = (None, 0, 10**30, 1.5, float("nan"), True, "x", [], {}, [None], [[]], {"a": None}, [{}])
NUMBERS: Final = (-1, 0, 1, 2, 10, 11, 900, 901, 43_200, 43_201, 10**20)
MODEL: Final = boto3.client("sqs", region_name="us-east-1").meta.service_model


def anything(random: Random, shape: Any) -> Any:
    """Return a value of a shape, or one time in twelve of none."""
    if random.random() < 0.08:
        return random.choice(WRONG)
    match shape.type_name:
        case "integer":
            return random.choice(NUMBERS)
        case "list":
            return [anything(random, shape.member) for _ in range(random.choice((0, 1, 2, 11)))]
        case "map":
            keys = random.sample(WORDS, random.choice((0, 1, 2)))
            return {key: anything(random, shape.value) for key in keys}
        case "structure":
            needed = shape.required_members
            return {
                name: anything(random, member)
                for name, member in shape.members.items()
                if name in needed or random.random() < 0.3
            }
        case _:
            return random.choice(WORDS)


def parameters(random: Random, operation: str) -> dict[str, Any]:
    """Return parameters of which some name what is there, and none waits."""
    members = MODEL.operation_model(operation).input_shape.members
    found = {
        name: anything(random, member) for name, member in members.items() if random.random() < 0.6
    }
    queue = random.choice(QUEUES)
    for name, value in (
        ("QueueUrl", f"/{queue}"),
        ("QueueName", queue),
        ("SourceArn", f"{ARN}{queue}"),
        ("MessageBody", "x"),
    ):
        if name in members and random.random() < 0.9:
            found[name] = value
    if "Attributes" in members and random.random() < 0.5:
        name = (
            random.choice((REDRIVE, REDRIVE_ALLOW))
            if random.random() < 0.3
            else random.choice(sorted(NAMES))
        )
        found["Attributes"] = {name: random.choice(POLICIES if name.startswith("Redrive") else WORDS)}
    if "WaitTimeSeconds" in members:
        found["WaitTimeSeconds"] = 0
    return found


@pytest.fixture
def fuzzed(tmp_path: Path) -> Iterator[Fuzzed]:
    with Fuzzed(tmp_path, QUEUES, ("--sqs", "127.0.0.1:0")) as fuzzed:
        yield fuzzed


@pytest.mark.timeout(120 + TRIES)
def test_any_request_of_sqs_is_answered(fuzzed: Fuzzed) -> None:
    seed = Random().getrandbits(32) if "SPOOLRACK_FUZZ" in os.environ else 1
    random = Random(seed)
    accepted: set[str] = set()
    connection = http.client.HTTPConnection("127.0.0.1", fuzzed.sqs_port, timeout=60)
    for n in range(TRIES):
        operation = random.choice(MODEL.operation_names)
        asked = parameters(random, operation)
        if random.random() < 0.5:
            body = json.dumps(asked)
            headers = {"X-Amz-Target": f"AmazonSQS.{operation}"}
        else:
            body = urlencode(form_of(operation, asked), errors="replace")
            headers = {"Content-Type": "application/x-www-form-urlencoded"}
        if random.random() < 0.3:
            headers["Accept"] = "application/json"
            headers["X-Amzn-Trace-Id"] = random.choice(("Root=1", "é", "x" * 2_000))
        connection.request("POST", random.choice(PATHS), body, headers)
        response = connection.getresponse()
        answer = response.read()
        assert response.status < 500, f"seed {seed}, request {n}: {operation} {body}: {answer!r}"
        if response.status == 200:
            accepted.add(operation)
        if n % ROUND == ROUND - 1:
            fuzzed.check()
            fuzzed.fill()
    connection.close()
    fuzzed.check()
    # The fuzz is one: some requests get through.
    assert len(accepted) > len(MODEL.operation_names) / 2
    fuzzed.check_for_leaks()
    fuzzed.check_folders()
