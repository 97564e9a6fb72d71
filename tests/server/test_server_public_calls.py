"""Calls that need no credentials are answered, and cost a bounded number of places."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from spoolrack_server.process.server import Server
from spoolrack_server.system.limits import Limits
from spoolrack_server.system.logs import make_log

from tests import CHECKOUT

SERVING = health_pb2.HealthCheckResponse.SERVING
REQUEST = health_pb2.HealthCheckRequest()


@contextlib.asynccontextmanager
async def connection(server: Server) -> AsyncIterator[Any]:
    """Return the health of a server, over a connection of its own."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.insecure_channel(server.grpc_address, options=options) as channel:
        yield health_pb2_grpc.HealthStub(channel)  # type: ignore[no-untyped-call]


async def code_of(call: Any) -> grpc.StatusCode:
    """Return the status with which a call ends."""
    with contextlib.suppress(grpc.aio.AioRpcError):
        while await call.read() is not grpc.aio.EOF:
            pass
    return await call.code()


async def watching(stub: Any) -> Any:
    watch = stub.Watch(REQUEST)
    assert (await watch.read()).status == SERVING
    return watch


async def test_one_connection_has_a_few_of_them_and_others_are_not_affected(tmp_path: Path) -> None:
    async with (
        Server(tmp_path / "root", limits=Limits(public=3)) as server,
        connection(server) as stub,
        connection(server) as other,
    ):
        watches = [await watching(stub) for _ in range(3)]
        assert await code_of(stub.Watch(REQUEST)) == grpc.StatusCode.RESOURCE_EXHAUSTED
        with pytest.raises(grpc.aio.AioRpcError):
            await stub.Check(REQUEST)
        assert (await other.Check(REQUEST)).status == SERVING
        watches[0].cancel()
        while True:  # The place is free as soon as the server has heard of the end.
            with contextlib.suppress(grpc.aio.AioRpcError):
                assert (await stub.Check(REQUEST)).status == SERVING
                break


async def test_a_new_call_takes_the_place_of_the_oldest_of_all(tmp_path: Path) -> None:
    async with (
        Server(tmp_path / "root", limits=Limits(all_public=3)) as server,
        contextlib.AsyncExitStack() as stack,
    ):
        stubs = [await stack.enter_async_context(connection(server)) for _ in range(5)]
        watches = [await watching(stub) for stub in stubs[:4]]
        assert (await stubs[4].Check(REQUEST)).status == SERVING
        for oldest in watches[:2]:
            assert await code_of(oldest) == grpc.StatusCode.UNAVAILABLE
        assert not any(watch.done() for watch in watches[2:])


async def test_a_call_without_a_request_ends_and_so_does_a_stream_in_time(tmp_path: Path) -> None:
    limits = Limits(public_request=0.05, public_lifetime=0.1)
    async with Server(tmp_path / "root", limits=limits) as server, connection(server) as stub:

        async def nothing() -> AsyncIterator[bytes]:
            await asyncio.Event().wait()
            yield b""

        async with grpc.aio.insecure_channel(server.grpc_address) as channel:
            for method in ("Check", "List", "Watch"):
                silent = channel.stream_stream(f"/grpc.health.v1.Health/{method}")(nothing())
                assert await code_of(silent) == grpc.StatusCode.UNAVAILABLE
        assert await code_of(await watching(stub)) == grpc.StatusCode.UNAVAILABLE


async def test_every_health_call_is_answered_and_none_leaves_a_line_in_the_log(tmp_path: Path) -> None:
    lines = io.StringIO()
    async with (
        Server(tmp_path / "root", log=make_log(stream=lines)) as server,
        connection(server) as stub,
    ):
        await watching(stub)
        listed = (await stub.List(health_pb2.HealthListRequest())).statuses  # type: ignore[attr-defined]
        assert "spoolrack.v1.QueueService" in listed
        for name, each in listed.items():
            asked = health_pb2.HealthCheckRequest(service=name)
            assert (await stub.Check(asked)).status == each.status == SERVING
    assert [line for line in lines.getvalue().splitlines() if "event=serving" not in line][:-1] == []


def test_no_service_inherits_methods_that_it_does_not_have() -> None:
    """A generated servicer answers each of its methods, also new ones, by an error with a traceback."""
    for path in (CHECKOUT / "server").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                bases = [ast.unparse(base) for base in node.bases]
                assert not any(base.endswith("Servicer") for base in bases), (path, node.name)
