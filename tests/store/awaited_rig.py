"""What the tests share that are about messages leased by the commit that sends them."""

from __future__ import annotations

from engine_rig import EngineRig
from faulty_disk import FaultyDisk
from memory_disk import MemoryDisk
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.operations import ByReceipt, Delete, Message, Outgoing, Send


def awaited_rig() -> EngineRig:
    rig = EngineRig(FaultyDisk(MemoryDisk()))
    rig.create(visibility_timeout=30_000)
    return rig


def sending(*bodies: bytes, delay: int | None = None, queue: str = "q") -> Send:
    late = None if delay is None else Millis(delay)
    return Send(queue=queue, messages=[Outgoing(body=body, delay=late) for body in bodies])


def delete(rig: EngineRig, *messages: Message) -> None:
    targets = [ByReceipt(str(message.receipt)) for message in messages]
    assert rig.ask(Delete(queue="q", targets=targets)) == [None] * len(targets)


def disk_of(rig: EngineRig) -> FaultyDisk:
    assert isinstance(rig.disk, FaultyDisk)
    return rig.disk
