"""A server and a client for each test, with a clock that only the test moves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from spoolrack_server.process.server import Server
from spoolrack_store.manual_clock import ManualClock

from tests.support.http_rig import Http, http_to
from tests.support.server_rig import Client, connected


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def server(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Server]:
    async with Server(tmp_path / "root", clock=clock) as server:
        yield server


@pytest.fixture
async def http(server: Server) -> AsyncIterator[Http]:
    async with http_to(server) as http:
        yield http


@pytest.fixture
async def client(server: Server) -> AsyncIterator[Client]:
    """The same server over gRPC."""
    async with connected(server) as client:
        yield client
