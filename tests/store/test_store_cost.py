"""What an operation costs must not grow with what waits: counted in calls of the disk, not in time."""

from __future__ import annotations

from collections import Counter

import pytest
from engine_rig import EngineRig
from faulty_disk import FaultyDisk
from memory_disk import MemoryDisk
from spoolrack_store.model.operations import ById, ByReceipt, Delete


def calls_with(backlog: int, *, singles: bool) -> list[Counter[str]]:
    """What a receive, a send and two deletes ask of the disk with so many messages waiting."""
    disk = FaultyDisk(MemoryDisk())
    rig = EngineRig(disk)
    rig.create()
    ids: list[str] = []
    if singles:
        for _ in range(backlog):
            ids += rig.send(b"x")
    else:
        for _ in range(backlog // 10):
            ids += rig.send(*[b"x"] * 10)
    counts: list[Counter[str]] = []

    def counted() -> None:
        counts.append(Counter(call.name for call in disk.calls))
        disk.forget()

    disk.forget()
    (one,) = rig.receive(1)
    counted()
    several = rig.receive(5)
    counted()
    rig.ask(Delete(queue="q", targets=[ByReceipt(one.receipt or "")]))
    counted()
    rig.ask(Delete(queue="q", targets=[ById(ids[-1])]))
    counted()
    rig.send(b"y")
    counted()
    assert [message.id for message in several] == ids[1:6]
    return counts


@pytest.mark.parametrize("singles", [True, False])
def test_no_operation_asks_more_of_the_disk_with_a_thousand_times_the_backlog(singles: bool) -> None:
    few = calls_with(10, singles=singles)
    assert all(not counter["scan"] for counter in few), "a folder was listed on the hot path"
    assert calls_with(10_000, singles=singles) == few
