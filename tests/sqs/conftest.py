"""A server of SQS and boto3's client for each test, with a clock that only the test moves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from spoolrack_server.process.server import Server
from spoolrack_store.manual_clock import ManualClock

from tests.support.server_rig import clock
from tests.support.sqs_rig import Sqs, serving_sqs

__all__ = ["clock", "server", "sqs"]


@pytest.fixture
async def server(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Server]:
    async with serving_sqs(tmp_path / "root", clock=clock) as server:
        yield server


@pytest.fixture
def sqs(server: Server) -> Sqs:
    assert server.sqs_url is not None
    return Sqs(server.sqs_url)
