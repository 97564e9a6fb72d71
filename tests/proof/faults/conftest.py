"""A server for each test, over a folder or a disk of its own, which ends with it."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.loop_disk import LoopDisk, why_not
from tests.support.real_server import MakeDisk, RealServer, why_not_traced


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[MakeDisk]:
    """Makes disks; skips where there can be none."""
    with ExitStack() as stack:

        def make(kind: str, *, size: int = 0, making: tuple[str, ...] = ()) -> LoopDisk:
            reason = why_not(kind)
            if reason is not None:
                pytest.skip(reason)
            return stack.enter_context(LoopDisk(kind, tmp_path / "disk", size=size, making=making))

        yield make
        # A store of this process leaves its root when it is garbage-collected.
        gc.collect()


@pytest.fixture
def serve(tmp_path: Path, disk: MakeDisk) -> Iterator[Callable[..., RealServer]]:
    """Starts servers, which are dead before their disk is unmounted."""
    servers: list[RealServer] = []

    def serve(
        root: Path = tmp_path / "root", *, before: tuple[str, ...] = (), after: tuple[str, ...] = ()
    ) -> RealServer:
        log = tmp_path / f"server-{len(servers)}.log"
        server = RealServer(root, log, before=before, after=after)
        servers.append(server)
        server.start()
        return server

    yield serve
    for server in servers:
        server.kill()


@pytest.fixture
def traced() -> None:
    """For tests that let system calls fail."""
    reason = why_not_traced()
    if reason is not None:
        pytest.skip(reason)
