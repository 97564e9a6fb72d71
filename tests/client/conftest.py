"""The tests of the client. Being here, this file puts the folder on the import path of those below."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from spoolrack._transports import grpc_core
from spoolrack.testing import RunningServer, running_server

from tests.client.lossy_root import LossyRoot, lossy_root
from tests.client.odd_server import CALLERS, Caller, Connect, ThreadCaller


@pytest.fixture
def root() -> Iterator[LossyRoot]:
    with lossy_root() as root:
        yield root


@pytest.fixture
def server() -> Iterator[RunningServer]:
    with running_server() as server:
        yield server


PUBLIC = "threads by gRPC's public calls"


@pytest.fixture(params=[*CALLERS, PUBLIC])
def connect(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connect]:
    """Makes a caller, which is closed when the test ends."""
    if request.param == PUBLIC:
        monkeypatch.setattr(grpc_core, "plain_type", None)
    made: list[Caller] = []

    def make(url: str, **more: Any) -> Caller:
        made.append(CALLERS.get(request.param, ThreadCaller)(url, **more))
        return made[-1]

    yield make
    for caller in made:
        caller.close()
