"""A real server on loopback, asked over HTTP: by aiohttp's client, or by a raw socket where a client
misbehaves. Every answer is held against what `/-/openapi.json` says."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
from multidict import CIMultiDictProxy
from spoolrack_server.app.application import Application
from spoolrack_server.app.health import Health
from spoolrack_server.gateway.gateway import Gateway
from spoolrack_server.gateway.monitoring_endpoints import openapi
from spoolrack_server.process.server import Server
from spoolrack_server.system.logs import Log, make_log
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.store import Store
from yarl import URL

from tests.support import STUCK
from tests.support.faulty_disk import FaultyDisk

DESCRIPTION = json.loads(openapi())
MANY = 10_000


@dataclass(frozen=True, kw_only=True)
class Answer:
    status: int
    headers: CIMultiDictProxy[str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def id(self) -> str:
        return self.headers["X-Message-Id"]

    @property
    def reason(self) -> str:
        """Of a refusal."""
        content = self.json
        assert set(content) == {"reason", "message", "metadata"}
        assert self.headers["Content-Type"] == "application/json; charset=utf-8"
        assert content["message"].endswith("."), "it says what happened, and what to do"
        assert self.status != 503 or int(self.headers["Retry-After"]) >= 1
        reason: str = content["reason"]
        return reason


_TEMPLATES = {path: re.compile(re.sub(r"{\w+}", "[^/]+", path)) for path in DESCRIPTION["paths"]}


def template(path: str) -> str:
    """Return the path in the description that a request's path belongs to; empty: there is none."""
    plain = path.split("?")[0]
    # `/-/` is no queue, and a name of ours goes before a parameter.
    found = [
        each
        for each, pattern in _TEMPLATES.items()
        if pattern.fullmatch(plain) and (each[:3] == "/-/") == (plain[:3] == "/-/")
    ]
    return min(found, key=lambda each: each.count("{"), default="")


def check_described(method: str, path: str, answer: Answer) -> None:
    """Fail if the description doesn't know this answer, or its headers, or what an error looks like."""
    item = DESCRIPTION["paths"].get(template(path), {})
    operation = item.get("get" if method == "HEAD" else method.lower())
    if operation is None or answer.status == 405:
        assert answer.status in (404, 405), f"{method} {path} is not described"
        return
    assert str(answer.status) in operation["responses"], f"{method} {path}: {answer}"
    response = resolved(operation["responses"][str(answer.status)])
    for name, header in response.get("headers", {}).items():
        assert name in answer.headers or not resolved(header).get("required"), name
    if answer.status >= 400 and method != "HEAD" and "health" not in path:
        assert answer.reason


def resolved(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a `$ref` stands for."""
    found: Any = item
    while "$ref" in found:
        path = found["$ref"].removeprefix("#/").split("/")
        found = DESCRIPTION
        for name in path:
            found = found[name]
    assert isinstance(found, Mapping)
    return found


class Http:
    """One connection pool."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | list[tuple[str, str]] | None = None,
        *,
        described: bool = True,
    ) -> Answer:
        """Return the answer, which the description must know. A mistake of ours is not `described`."""
        url = URL(str(self._session._base_url).rstrip("/") + path, encoded=True)
        if isinstance(body, bytes):
            body = BytesIO(body)  # aiohttp warns of large ones in one piece
        async with self._session.request(
            method, url, data=body, headers=headers, skip_auto_headers=["Content-Type"]
        ) as response:
            answer = Answer(
                status=response.status, headers=response.headers, body=await response.read()
            )
        if described:
            check_described(method, path, answer)
        return answer

    async def create(self, queue: str = "q", **settings: Any) -> None:
        answer = await self.ask(
            "PUT", f"/{queue}", json.dumps(settings), {"Content-Type": "application/json"}
        )
        assert answer.status == 201

    async def send(self, body: bytes = b"x", queue: str = "q", **headers: str) -> str:
        answer = await self.ask("POST", f"/{queue}/messages", body, headers)
        assert (answer.status, answer.body) == (201, b"")
        return answer.id

    async def receive(self, query: str = "", queue: str = "q") -> Answer:
        return await self.ask("GET", f"/{queue}/messages{query}")

    async def counts(self, queue: str = "q") -> dict[str, int]:
        counts: dict[str, int] = (await self.ask("GET", f"/{queue}")).json["counts"]
        return counts

    async def until(self, queue: str = "q", **wanted: int) -> None:
        """Return once the queue's counts are these."""
        counts: dict[str, int] = {}
        for _ in range(MANY):
            counts = await self.counts(queue)
            if wanted.items() <= counts.items():
                return
        raise AssertionError(f"never {wanted}: {counts}")


@asynccontextmanager
async def http_to(server: Server) -> AsyncIterator[Http]:
    # No answer is decoded: a body must come back as it was sent.
    async with aiohttp.ClientSession(
        server.http_url, auto_decompress=False, max_field_size=1 << 20
    ) as session:
        yield Http(session)


class Raw:
    """A socket of its own."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def say(self, *lines: str, body: bytes = b"") -> None:
        """Send the lines of a head, if there are any, and `body`."""
        head = "\r\n".join([*lines, "Host: localhost", "", ""]) if lines else ""
        self.writer.write(head.encode(errors="surrogateescape") + body)
        await self.writer.drain()

    async def head(self) -> tuple[int, dict[str, str]]:
        """Return the next answer's status and headers, by their names in lower case."""
        raw = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), STUCK)
        first, *lines = raw.decode().split("\r\n")
        pairs = (line.partition(": ") for line in lines if line)
        return int(first.split()[1]), {name.lower(): value for name, _, value in pairs}

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        status, headers = await self.head()
        body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        return status, headers, body

    async def until_closed(self) -> bytes:
        """Return what still comes until the server closes the connection."""
        try:
            return await asyncio.wait_for(self.reader.read(), STUCK)
        except ConnectionError:
            return b""

    def close(self) -> None:
        self.writer.close()


@asynccontextmanager
async def raw_to(server: Server | Fragile, receive_buffer: int | None = None) -> AsyncIterator[Raw]:
    """Open a connection that holds at most `receive_buffer` unread bytes."""
    assert server.http_port is not None
    made = socket.socket()
    if receive_buffer is not None:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    made.setblocking(False)
    await asyncio.get_running_loop().sock_connect(made, (server.http_host, server.http_port))
    # A reader with no room of its own: unread bytes stay with the kernel.
    reader, writer = await asyncio.open_connection(sock=made, limit=4096)
    try:
        yield Raw(reader, writer)
    finally:
        writer.close()


@dataclass(kw_only=True)
class Fragile:
    """A gateway over a disk that fails when a test wants it to."""

    health: Health
    disk: FaultyDisk
    http: Http
    http_port: int | None
    http_host: str = "127.0.0.1"


@asynccontextmanager
async def fragile(
    root: Path, health: Health | None = None, log: Log | None = None
) -> AsyncIterator[Fragile]:
    root.mkdir()
    health, log = health or Health(), log or make_log()
    disk, clock = FaultyDisk(root), ManualClock()
    with Store.open(root, clock=clock, random=Random(1), disk=disk) as store:
        gateway = Gateway(Application(store, clock, log), health, clock, log)
        port = await gateway.start("127.0.0.1", 0)
        try:
            async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
                yield Fragile(health=health, disk=disk, http=Http(session), http_port=port)
        finally:
            await gateway.stop(0)
