"""The tests of the client. Being here, this file puts the folder on the import path of those below."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from spoolrack.testing import RunningServer, running_server

from tests.client.lossy_root import LossyRoot, lossy_root
from tests.client.odd_server import CALLERS, Caller, Connect


@pytest.fixture
def root() -> Iterator[LossyRoot]:
    with lossy_root() as root:
        yield root


@pytest.fixture
def server() -> Iterator[RunningServer]:
    with running_server() as server:
        yield server


@pytest.fixture(params=CALLERS)
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Makes a caller, which is closed when the test ends."""
    made: list[Caller] = []

    def make(url: str, **more: Any) -> Caller:
        made.append(CALLERS[request.param](url, **more))
        return made[-1]

    yield make
    for caller in made:
        caller.close()
