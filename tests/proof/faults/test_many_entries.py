"""A folder of very many entries: system calls of a receive, a send, a delete and a start.

Counted in calls and not in seconds: a start lists each folder once and reads no message, and nothing
else lists anything.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.operations import (
    CreateQueue,
    Delete,
    Message,
    Receive,
    Request,
    Send,
    messages_of,
)
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.store import Store

from tests.support import STUCK
from tests.support.faulty_disk import Call, FaultyDisk
from tests.support.loop_disk import KINDS, MEBIBYTE
from tests.support.real_server import MakeDisk, RealServer

Answer = TypeVar("Answer")
MANY = 30_000
VERY_MANY = 1_000_000
LOOKED_AT = [("new",), ("staged",), ("config",), ("archive",)]
"""By the first ticks, too: for what was put there or removed by hand, and for what has expired."""
COUNTED = ("scan", "read", "open", "create")
"""Moves and syncs of the store's own work come when they come."""
MAKING = {"ext4": ("-N", "1100000"), "xfs": ("-i", "maxpct=90")}
SIZE = {"ext4": 800 * MEBIBYTE, "xfs": 1400 * MEBIBYTE}


class Rig:
    def __init__(self, root: Path) -> None:
        self.disk = FaultyDisk(root)
        self.store = Store.open(root, clock=ManualClock(), disk=self.disk)

    def ask(self, request: Request[Answer]) -> Answer:
        return self.store.submit(request).result(STUCK)

    def receive(self, most: int) -> list[Message]:
        return messages_of(self.ask(Receive(queue="q", max_messages=most)))


@contextmanager
def opened(root: Path) -> Iterator[Rig]:
    rig = Rig(root)
    with rig.store:
        yield rig


def id_of(number: int) -> str:
    return f"018bcfe5-6700-7000-8000-{number << 12:012x}"


def prepare(root: Path, count: int) -> None:
    """Make a queue of `count` ready messages, without bodies."""
    root.mkdir()
    with opened(root) as rig:
        rig.ask(CreateQueue(name="q", settings=QueueSettings(visibility_timeout=Millis(600_000))))
    folder = os.open(root / "queues/q", os.O_RDONLY | os.O_DIRECTORY)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    for number in range(count):
        os.close(os.open(f"{id_of(number)},s0,c00000000", flags, 0o600, dir_fd=folder))
    os.close(folder)


def asked(rig: Rig) -> Counter[str]:
    """Return what was asked of the disk since the last time, but for what the mover and the reaper
    do."""
    calls = rig.disk.calls.copy()
    rig.disk.forget()
    return Counter(
        call.name for call in calls if call.name in COUNTED and not is_of_the_background(call)
    )


def is_of_the_background(call: Call) -> bool:
    if call.name == "scan" and call.paths in LOOKED_AT:
        return True
    return any("remove/" in path for path in call.paths)


def use(root: Path) -> list[Counter[str]]:
    """Return what a start and one of each operation ask of the disk."""
    costs: list[Counter[str]] = []
    with opened(root) as rig:
        costs.append(asked(rig))
        held = rig.receive(1)
        assert [message.id for message in held] == [id_of(0)]
        costs.append(asked(rig))
        rig.ask(Delete(queue="q", receipts=[str(held[0].receipt)]))
        costs.append(asked(rig))
        rig.ask(Send(queue="q", bodies=[b"one"]))
        costs.append(asked(rig))
        rig.ask(Send(queue="q", bodies=[b"a", b"batch"]))
        costs.append(asked(rig))
        several = rig.receive(10)
        assert [message.id for message in several] == [id_of(number) for number in range(1, 11)]
        costs.append(asked(rig))
    return costs


def check(few: Path, many: Path, count: int) -> None:
    prepare(few, 20)
    prepare(many, count)
    costs = use(many)
    assert costs == use(few), "it costs more with more that waits"
    start, *operations = costs
    assert start["scan"] < 20
    assert start["read"] <= 6, "its format, settings, identity and shard, and no message"
    assert all(cost["scan"] == 0 for cost in operations)
    with opened(many) as rig:
        counts = rig.store.queue("q").counts
        assert (counts.ready_count, counts.leased_count) == (count - 11 + 3, 10)


def test_nothing_costs_more_with_thirty_thousand_entries(tmp_path: Path) -> None:
    many = tmp_path / "many"
    try:
        check(tmp_path / "few", many, MANY)
    finally:
        shutil.rmtree(many)  # Else pytest keeps it for three runs.


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_costs_more_with_a_million_entries(kind: str, disk: MakeDisk) -> None:
    made = disk(kind, size=SIZE[kind], making=MAKING[kind])
    check(made.mount_point / "few", made.mount_point / "many", VERY_MANY)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", KINDS)
def test_a_server_over_a_million_entries_serves_and_starts_again(
    kind: str, disk: MakeDisk, serve: Callable[..., RealServer]
) -> None:
    made = disk(kind, size=SIZE[kind], making=MAKING[kind])
    root = made.mount_point / "root"
    prepare(root, VERY_MANY)
    server = serve(root)
    for _ in range(2):
        queue = server.queue()
        held = queue.receive(100, visibility_timeout=600)
        assert len(held) == 100
        queue.delete_many(held[:50])
        queue.send("more")
        server.kill()
        server.start()
    counts = server.client.queue("q").info(timeout=STUCK).counts
    assert (counts.ready_count, counts.leased_count) == (VERY_MANY - 200 + 2, 100)
    assert server.client.queue("q").purge() == VERY_MANY - 100 + 2
    server.kill()
    server.start()
    assert server.client.queue("q").info().counts.ready_count == 0
