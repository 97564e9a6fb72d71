"""One suite of promises over every transport: a new one is added to `WORLDS` and to nothing else.

A test says by `@pytest.mark.needs(...)` what not everything has that a transport leads to. It is left
out, not skipped, where `LACKS` names that: the folders of vsqs hold less than ours.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from uuid import uuid4

import pytest
import spoolrack
from spoolrack import aio, vsqs
from spoolrack.testing import manual_clock, open_root, running_server, running_shards
from spoolrack_server.process.serve_settings import ServeSettings
from spoolrack_server.process.server import Server
from spoolrack_store.engine import context
from spoolrack_store.store import Store

from tests.ceph.cluster import HOSTS, VARIABLE, Cluster
from tests.client.contract.blocking_tasks import Loop
from tests.client.contract.http_bridge import bridged


@dataclass(frozen=True, kw_only=True)
class World:
    """A store, reached by one transport, in time that stands still until a test moves it."""

    connect: Callable[[], spoolrack.Client]
    connect_aio: Callable[[], aio.Client]
    """For the event loop that runs."""
    advance_millis: Callable[[int], None]

    def advance(self, seconds: float) -> None:
        self.advance_millis(round(seconds * 1_000))


@contextlib.contextmanager
def grpc_world() -> Iterator[World]:
    clock = manual_clock()
    with running_server(clock=clock) as server:
        yield World(
            connect=server.client,
            connect_aio=lambda: aio.connect(server.url),
            advance_millis=clock.advance,
        )


@contextlib.contextmanager
def tasks_world() -> Iterator[World]:
    """The client of asyncio, in the same calls as the one for threads."""
    loop = Loop()
    with contextlib.closing(loop), grpc_world() as world:
        yield replace(world, connect=lambda: loop.call(world.connect_aio))


@contextlib.contextmanager
def http_world() -> Iterator[World]:
    """A server's HTTP, behind a bridge from gRPC."""
    clock = manual_clock()

    async def serve() -> str:
        anywhere = ("127.0.0.1", 0)
        settings = ServeSettings(root=name, grpc=anywhere, http=anywhere, grace=1.0)
        server = await serving.enter_async_context(Server(settings, clock=clock))
        return await serving.enter_async_context(bridged(server))

    serving = contextlib.AsyncExitStack()
    with tempfile.TemporaryDirectory() as name, contextlib.closing(Loop()) as loop:
        url = loop.call(serve)
        try:
            yield World(
                connect=lambda: spoolrack.connect(url),
                connect_aio=lambda: aio.connect(url),
                advance_millis=clock.advance,
            )
        finally:
            loop.call(serving.aclose)


@contextlib.contextmanager
def shards_world() -> Iterator[World]:
    """Three servers, each with the queues of a shard."""
    clock = manual_clock()
    with running_shards(3, clock=clock) as shards:
        yield World(
            connect=shards.client,
            connect_aio=lambda: aio.connect(shards.url),
            advance_millis=clock.advance,
        )


@contextlib.contextmanager
def folder_world() -> Iterator[World]:
    clock = manual_clock()
    with open_root(clock=clock) as root:
        yield World(
            connect=root.client, connect_aio=lambda: aio.connect(root.url), advance_millis=clock.advance
        )


@contextlib.contextmanager
def vsqs_world() -> Iterator[World]:
    now = 1_700_000_000_000_000

    def advance(millis: int) -> None:
        nonlocal now
        now += millis * 1_000
        # No test moves a folder's clock: a waiting call reads it when something happens.
        (folder / "moved").touch()
        (folder / "moved").unlink()

    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patched:
        folder = Path(name, "jobs")
        folder.mkdir()
        patched.setattr(vsqs, "micros", lambda: now)
        yield World(
            connect=lambda: spoolrack.connect(f"vsqs://{folder}"),
            connect_aio=lambda: aio.connect(f"vsqs://{folder}"),
            advance_millis=advance,
        )


@contextlib.contextmanager
def hosts_world() -> Iterator[World]:
    """Two servers at two hosts serve one root on CephFS; each client takes the next one."""
    clock, cluster, name = manual_clock(), Cluster(os.environ[VARIABLE]), uuid4().hex
    with contextlib.ExitStack() as stack:
        # A server ends leases of the other one late by the margin, and tests by a clock that both have.
        stack.enter_context(pytest.MonkeyPatch.context()).setattr(context, "MARGIN", 0)
        Store.open(cluster.at(HOSTS[0]) / name, hosts="several").close()
        servers = [
            stack.enter_context(running_server(cluster.at(host) / name, clock=clock)) for host in HOSTS
        ]
        turns = cycle(servers)
        yield World(
            connect=lambda: next(turns).client(),
            connect_aio=lambda: aio.connect(next(turns).url),
            advance_millis=clock.advance,
        )


WORLDS = {
    "grpc": grpc_world,
    "tasks": tasks_world,
    "http": http_world,
    "shards": shards_world,
    "file": folder_world,
    "vsqs": vsqs_world,
}
if VARIABLE in os.environ:
    WORLDS["hosts"] = hosts_world
LACKS = {
    # A server looks every 20 ms for what another one has done, by its own clock.
    "hosts": {"news in still time", "answers within 50 ms"},
    "http": {
        *("streams", "stages", "calls of many", "filters by several attributes"),
        "a client",  # What ours does by itself.
        "missing deletions",  # A DELETE of what isn't there succeeds.
    },
    "file": {"calls of limited size", "schedules"},
    "vsqs": {
        *("attributes", "delays", "receive counts", "settings", "several queues"),
        *("cancelled calls", "deduplication", "stages", "reservations", "validation"),
        "dead letters",
        *("groups", "limits", "priorities", "schedules"),
        *("last receives", "limits of bytes in flight", "uncounted prefetch"),
    },
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "world" in metafunc.fixturenames:
        needs = {need for mark in metafunc.definition.iter_markers("needs") for need in mark.args}
        worlds = [name for name in WORLDS if not needs & LACKS.get(name, set())]
        if "aio_client" in metafunc.fixturenames:
            worlds = [name for name in worlds if name not in ("tasks", "http")]  # As in the world grpc.
        metafunc.parametrize("world", worlds, indirect=True)


@pytest.fixture
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with WORLDS[request.param]() as world:
        yield world


@pytest.fixture
def client(world: World) -> Iterator[spoolrack.Client]:
    with world.connect() as client:
        yield client


@pytest.fixture
async def aio_client(world: World) -> AsyncIterator[aio.Client]:
    async with world.connect_aio() as client:
        yield client


@pytest.fixture
async def aio_jobs(aio_client: aio.Client) -> aio.Queue:
    """An empty queue with default settings."""
    await aio_client.create_queue("jobs")
    return aio_client.queue("jobs")


@pytest.fixture
def other(world: World) -> Iterator[spoolrack.Client]:
    """A client of another process, as it were."""
    with world.connect() as client:
        yield client


@pytest.fixture
def jobs(client: spoolrack.Client) -> spoolrack.Queue:
    """An empty queue with default settings."""
    client.create_queue("jobs")
    return client.queue("jobs")
