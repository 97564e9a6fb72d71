"""A server in a small container takes sends; the start says which container is too small."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
from spoolrack_server.app.memory import LEAST_LIMIT

from tests.proof.e2e import memory_cage
from tests.proof.e2e.memory_cage import MemoryCage
from tests.support import MIB
from tests.support.real_server import RealServer

MESSAGES: Final = 50_000
"""More than a watermark by resident memory took in a container of 160 MiB."""
TOO_SMALL: Final = "the memory limit of this container is too small"

pytestmark = pytest.mark.skipif(memory_cage.why_not() is not None, reason=str(memory_cage.why_not()))

Caged = Callable[[int], tuple[RealServer, MemoryCage]]


@pytest.fixture
def caged(tmp_path: Path) -> Iterator[Caged]:
    with ExitStack() as stack:

        def start(limit: int) -> tuple[RealServer, MemoryCage]:
            cage = MemoryCage(limit)
            stack.callback(cage.remove)
            server = RealServer(tmp_path / "root", tmp_path / "log", before=cage.entering())
            stack.callback(server.kill)
            server.start()
            return server, cage

        yield start


def test_a_container_of_the_least_size_takes_a_backlog(caged: Caged) -> None:
    server, cage = caged(LEAST_LIMIT)
    server.client.create_queue("q")
    for _ in range(MESSAGES // 500):
        assert all(result.error is None for result in server.queue().send_many([b"x" * 100] * 500))
    assert server.queue().info().counts.ready_count == MESSAGES
    assert cage.kills == 0
    assert TOO_SMALL not in server.log


def test_a_container_below_the_least_size_is_told_of_at_the_start(caged: Caged) -> None:
    server, _ = caged(LEAST_LIMIT - 16 * MIB)
    assert server.log.count(TOO_SMALL) == 1
    assert f"least={LEAST_LIMIT}" in server.log
