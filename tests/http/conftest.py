"""A server and a client for each test, with a clock that only the test moves."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from spoolrack_server.process.server import Server

from tests.support.http_rig import Http, http_to
from tests.support.server_rig import client, clock, server

__all__ = ["client", "clock", "http", "server"]


@pytest.fixture
async def http(server: Server) -> AsyncIterator[Http]:
    async with http_to(server) as http:
        yield http
