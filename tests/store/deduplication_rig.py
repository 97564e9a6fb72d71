"""What the tests of deduplication share: a root, sends with ids, and the reaper's work."""

from __future__ import annotations

from engine_rig import EngineRig
from memory_disk import MemoryDisk
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.operations import CreateQueue, Outgoing, Send, Sent
from spoolrack_store.model.settings import QueueSettings

WINDOW = 60_000


def a_root(**changes: object) -> EngineRig:
    rig = EngineRig(MemoryDisk())
    create(rig, "q", deduplication_window=Millis(WINDOW), **changes)
    return rig


def create(rig: EngineRig, queue: str, **changes: object) -> None:
    rig.commit(CreateQueue(name=queue, settings=QueueSettings().changed(changes)))


def send(rig: EngineRig, *ids: str, queue: str = "q", body: bytes = b"x") -> list[Sent]:
    messages = [Outgoing(body=body, deduplication_id=id) for id in ids]
    (results,) = rig.commit(Send(queue=queue, messages=messages))
    return list(results)


def reap(rig: EngineRig) -> None:
    while rig.engine.reaper.reap(100):
        pass
    assert rig.disk.scan("remove") == []


def waiting(rig: EngineRig, queue: str = "q") -> int:
    return rig.engine.ready(queue) or 0


def names_in(rig: EngineRig, folder: str) -> list[str]:
    return sorted(found.name for found in rig.disk.scan(folder))
