"""Two stores share a root on each kind of file system that the documentation says may hold one."""

from __future__ import annotations

import gc
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.operations import (
    CreateQueue,
    Delete,
    DeleteQueue,
    Message,
    Receive,
    Request,
    Send,
    messages_of,
)
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.store import Store

from tests.support.loop_disk import LoopDisk, why_not

Answer = TypeVar("Answer")
KINDS = ("ext4", "xfs", "tmpfs", "overlayfs")
PATIENCE = 60.0
ROUNDS = 20


@pytest.fixture(params=KINDS)
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A folder on a file system of its own."""
    kind: str = request.param
    if kind in ("tmpfs", "overlayfs"):
        if os.geteuid() != 0:
            pytest.skip("needs root, to mount file systems: run it as root, or in CI")
        with Mounted(kind, tmp_path) as mounted:
            yield mounted
            gc.collect()
        return
    missing = why_not(kind)
    if missing is not None:
        pytest.skip(missing)
    with LoopDisk(kind, tmp_path / "disk") as loop:
        yield loop.mount_point
        # A closed store keeps its folder open until no read can be in flight.
        gc.collect()


class Mounted:
    """A tmpfs, or an overlay on one, until the context ends."""

    def __init__(self, kind: str, folder: Path) -> None:
        self._at = folder / "mounted"
        # An overlay can't lie on another one, which a container's own disk may be: hence on tmpfs.
        self._below = folder / "below"
        self._is_overlay = kind == "overlayfs"

    def __enter__(self) -> Path:
        self._at.mkdir()
        if not self._is_overlay:
            _run("mount", "-t", "tmpfs", "tmpfs", str(self._at))
            return self._at
        self._below.mkdir()
        _run("mount", "-t", "tmpfs", "tmpfs", str(self._below))
        for name in ("lower", "upper", "work"):
            (self._below / name).mkdir()
        layers = ",".join(
            f"{option}={self._below}/{name}"
            for option, name in (("lowerdir", "lower"), ("upperdir", "upper"), ("workdir", "work"))
        )
        _run("mount", "-t", "overlay", "overlay", "-o", layers, str(self._at))
        return self._at

    def __exit__(self, *_: object) -> None:
        _run("umount", str(self._at))
        if self._is_overlay:
            _run("umount", str(self._below))


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def ask(store: Store, request: Request[Answer]) -> Answer:
    return store.submit(request).result(PATIENCE)


def receive(store: Store, most: int, wait: Millis | None) -> list[Message]:
    return messages_of(ask(store, Receive(queue="q", max_messages=most, wait=wait)))


def test_two_stores_share_a_root(disk: Path) -> None:
    root = disk / "root"
    with Store.open(root) as one, Store.open(root) as other:
        ask(one, CreateQueue(name="q", settings=QueueSettings()))
        for n in range(ROUNDS):
            bodies = [b"%d" % m for m in range(1 + n % 4)]
            ask((one, other)[n % 2], Send(queue="q", bodies=bodies))
            (first,) = receive((other, one)[n % 2], 1, None)
            rest = receive(one, 10, Millis(0)) + receive(other, 10, Millis(0))
            found = [first, *rest]
            assert sorted(message.body for message in found) == sorted(bodies)
            # With whom it didn't lease it.
            for store, mine in ((other, found[::2]), (one, found[1::2])):
                receipts = [str(message.receipt) for message in mine]
                assert ask(store, Delete(queue="q", receipts=receipts)) == [None] * len(mine)
        ask(other, DeleteQueue(name="q"))
    with Store.open(root) as alone:
        assert alone.queues() == []
        assert alone.metrics.quarantined_count == 0
