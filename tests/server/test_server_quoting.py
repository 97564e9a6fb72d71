"""No part of a request reaches the log, or the text of an error, as it came."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

import aiohttp
import grpc
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from spoolrack_server.process.server import Server
from spoolrack_server.system.logs import make_log
from spoolrack_server.wire.contract import METHODS

from tests.support.server_rig import connected

RAW = "\x1b[2J\x9b31m\nlevel=error event=forged \u202e\x7f"
UNARY = [
    method for method in METHODS.values() if not method.client_streaming and not method.server_streaming
]
DEPTH = 4


def texts_in(kind: Descriptor, depth: int = DEPTH) -> Iterator[Sequence[FieldDescriptor]]:
    """Yield the way to each text in a request."""
    for field in kind.fields:
        if field.type == FieldDescriptor.TYPE_STRING:
            yield (field,)
        elif field.message_type is not None and depth:
            for way in texts_in(field.message_type, depth - 1):
                yield (field, *way)


def asked(kind: Descriptor, way: Sequence[FieldDescriptor]) -> Message:
    """Return a request about the queue "q", with `RAW` at the end of the way."""
    request: Message = GetMessageClass(kind)()
    for field in kind.fields:
        if field.name in ("queue", "name") and field.type == FieldDescriptor.TYPE_STRING:
            setattr(request, field.name, "q")
    put(request, way)
    return request


def put(message: Message, way: Sequence[FieldDescriptor]) -> None:
    field, *rest = way
    value = getattr(message, field.name)
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        is_text = kind.fields_by_name["key"].type == FieldDescriptor.TYPE_STRING
        key: str | int = RAW if is_text else 0
        if kind.fields_by_name["value"].message_type is None:
            value[key] = RAW
        else:
            value[key].SetInParent()
    elif kind is not None:
        put(value.add() if field.is_repeated else value, rest)
    elif field.is_repeated:
        value.append(RAW)
    else:
        setattr(message, field.name, RAW)


async def test_no_text_of_a_call_is_logged_or_quoted_raw(tmp_path: Path) -> None:
    stream = io.StringIO()
    refusals: list[str] = []
    log = make_log(stream=stream)
    async with Server(tmp_path / "root", log=log) as server, connected(server) as client:
        await client.create("q")
        for method in UNARY:
            for way in texts_in(method.input_type):
                try:
                    await getattr(client.stub, method.name)(asked(method.input_type, way))
                except grpc.aio.AioRpcError as error:
                    refusals.append(error.details() or "")
    lines = stream.getvalue().split("\n")
    assert len(refusals) > 20
    assert not [text for text in refusals if not text.isprintable()]
    assert len([line for line in lines if "event=refused" in line]) > 5
    assert all(line.isprintable() for line in lines)
    assert not [line for line in lines if line.startswith("level=error")]


async def test_no_part_of_a_request_over_http_is_logged_raw(tmp_path: Path) -> None:
    stream = io.StringIO()
    text = quote(RAW)
    async with (
        Server(tmp_path / "root", log=make_log(stream=stream)) as server,
        aiohttp.ClientSession(server.http_url) as session,
    ):
        for path in (f"/{text}", f"/q/messages/{text}", f"/q/messages?{text}={text}", f"/-/{text}"):
            async with session.get(path) as answer:
                assert (await answer.json())["message"].isprintable()
        for headers in (
            {"X-Message-Delay": "\u009b31m\u202e"},
            {"Host": "\u009b31m\u202e"},
            {"Origin": "\u009b31m\u202e"},
            {"X-Message-Deduplication-Id": quote(RAW * 10)},
            {f"X-Attribute-{text}": "%ff"},
        ):
            async with session.post("/q/messages", headers=headers) as answer:
                assert (await answer.json())["message"].isprintable()
    lines = stream.getvalue().split("\n")
    assert len([line for line in lines if "event=refused" in line]) > 5
    assert all(line.isprintable() for line in lines)
