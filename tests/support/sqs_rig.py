"""A real server on loopback, asked by boto3 as a program of its user would, or by raw requests."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import aiohttp
import boto3
from botocore.config import Config
from botocore.exceptions import ClientError
from spoolrack_server.process.serve_settings import LOOPBACK, ServeSettings
from spoolrack_server.process.server import Server
from spoolrack_store.manual_clock import ManualClock

REGION = "eu-west-1"
MANY = 10_000
_MAPS = ("Attributes", "MessageAttributes", "MessageSystemAttributes", "Tags", "tags")


@cache
def _session() -> boto3.session.Session:
    """Return the session of all clients: each session reads the descriptions of all services anew."""
    return boto3.session.Session(region_name=REGION)


class Sqs:
    """boto3's client of SQS; each call in a thread of its own, because the server runs in this loop."""

    def __init__(self, url: str, **options: Any) -> None:
        config = Config(retries={"total_max_attempts": 1}, max_pool_connections=20)
        keys = {"aws_access_key_id": "any", "aws_secret_access_key": "any"}
        self.client = _session().client("sqs", endpoint_url=url, config=config, **{**keys, **options})

    def __getattr__(self, operation: str) -> Any:
        call = getattr(self.client, operation)

        async def run(**parameters: Any) -> Any:
            return await asyncio.to_thread(lambda: call(**parameters))

        return run

    async def create(self, name: str, **attributes: str) -> str:
        """Return the URL of a new queue."""
        created = await self.create_queue(QueueName=name, Attributes=attributes)
        url: str = created["QueueUrl"]
        return url

    async def attributes(self, url: str, *names: str) -> dict[str, str]:
        found = await self.get_queue_attributes(QueueUrl=url, AttributeNames=[*names] or ["All"])
        attributes: dict[str, str] = found.get("Attributes", {})
        return attributes

    async def redrive_policy(self, dead: str, count: int = 1) -> str:
        """Return a policy with the queue at the URL `dead` as its dead-letter queue."""
        arn = (await self.attributes(dead, "QueueArn"))["QueueArn"]
        return json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": count})

    async def send(self, url: str, body: str, **more: Any) -> Any:
        return await self.send_message(QueueUrl=url, MessageBody=body, **more)

    async def receive(self, url: str, **more: Any) -> list[Any]:
        """Return up to ten messages, with all attributes."""
        wanted = {
            "MaxNumberOfMessages": 10,
            "MessageSystemAttributeNames": ["All"],
            "MessageAttributeNames": ["All"],
        }
        received = await self.receive_message(QueueUrl=url, **{**wanted, **more})
        messages: list[Any] = received.get("Messages", [])
        return messages

    async def delete(self, url: str, message: Any) -> None:
        await self.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])

    async def change(self, url: str, handle: str, seconds: int) -> None:
        """Change the visibility of a message."""
        await self.change_message_visibility(
            QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=seconds
        )


@dataclass(frozen=True, kw_only=True)
class Refusal:
    code: str
    shape: str
    status: int
    message: str


async def refused(call: Any) -> Refusal:
    """Return what `call` is refused with, which it must be."""
    try:
        await call
    except ClientError as error:
        told, meta = error.response["Error"], error.response["ResponseMetadata"]
        return Refusal(
            code=told["Code"],
            shape=told.get("QueryErrorCode", ""),
            status=meta["HTTPStatusCode"],
            message=told["Message"],
        )
    raise AssertionError("it was not refused")


@asynccontextmanager
async def serving_sqs(root: Path, **options: Any) -> AsyncIterator[Server]:
    """Serve with a clock that only the test moves, unless another is given."""
    chosen = {"sqs": (LOOPBACK, 0), **options.pop("settings", {})}
    settings = ServeSettings(root=str(root), **chosen)
    options.setdefault("clock", ManualClock())
    async with Server(settings, **options) as server:
        yield server


@dataclass(frozen=True, kw_only=True)
class RawAnswer:
    status: int
    headers: Any
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


async def raw(
    server: Server, operation: str, body: bytes | dict[str, Any], **headers: str
) -> RawAnswer:
    """Send a request of AWS JSON 1.0, unsigned."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = {
        "Content-Type": "application/x-amz-json-1.0",
        "X-Amz-Target": f"AmazonSQS.{operation}",
        **headers,
    }
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{server.sqs_url}/", data=BytesIO(content), headers=sent) as response,
    ):
        return RawAnswer(status=response.status, headers=response.headers, body=await response.read())


def form_of(operation: str, parameters: Mapping[str, Any]) -> dict[str, str]:
    """Return a request as the form of AWS Query."""
    return {"Action": operation, **dict(_fields("", dict(parameters), operation))}


def _fields(prefix: str, value: Any, operation: str) -> Iterator[tuple[str, str]]:
    """Yield the fields of a form, flattened as AWS Query has them."""
    name = prefix.rpartition(".")[2]
    match value:
        case list():
            element = "ActionName" if name == "Actions" else name.removesuffix("s")
            element = f"{operation}RequestEntry" if name == "Entries" else element
            for number, each in enumerate(value, 1):
                path = prefix.removesuffix(name) + element
                yield from _fields(f"{path}.{number}", each, operation)
        case dict() if name in _MAPS:
            element, key = (
                name.removesuffix("s").replace("tag", "Tag"),
                "Key" if name in ("Tags", "tags") else "Name",
            )
            path = prefix.removesuffix(name) + element
            for number, (each, inner) in enumerate(value.items(), 1):
                yield f"{path}.{number}.{key}", each
                yield from _fields(f"{path}.{number}.Value", inner, operation)
        case dict():
            for each, inner in value.items():
                yield from _fields(f"{prefix}.{each}" if prefix else each, inner, operation)
        case _:
            yield prefix, str(value)


NO_REDRIVE = "01890000-0000-7000-8000-000000000000"


def task_of(queue: str) -> str:
    """Return the handle of a move task that was never started."""
    told = {"taskId": NO_REDRIVE, "sourceArn": f"arn:aws:sqs:{REGION}:000000000000:{queue}"}
    return base64.b64encode(json.dumps(told).encode()).decode()


async def ended(server: Server, operation: str, code: str) -> int:
    """Return how many requests for an operation have ended with a code, by the server's metrics."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{server.http_url}/-/metrics") as response,
    ):
        text = await response.text()
    for line in text.splitlines():
        name, _, rest = line.partition("{")
        if (
            name == "spoolrack_operation_duration_seconds_count"
            and f'operation="SQS {operation}"' in rest
            and f'code="{code}"' in rest
        ):
            return int(float(line.rpartition(" ")[2]))
    return 0


async def until_ended(server: Server, operation: str, code: str, count: int = 1) -> None:
    for _ in range(MANY):
        if await ended(server, operation, code) == count:
            return
    raise AssertionError(f"not {count} of {operation} have ended with {code}")
