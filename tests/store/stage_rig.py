"""What tests of stages ask of an engine, in few words."""

from __future__ import annotations

from engine_rig import EngineRig
from spoolrack_store.files.disk import Disk
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.operations import Outgoing
from spoolrack_store.model.staging import (
    DEFAULT_MEMORY,
    DEFAULT_TIME_TO_LIVE,
    Publish,
    Published,
    Stage,
    Staged,
)


def chunk(
    stage: str,
    number: int,
    *bodies: bytes,
    queue: str = "q",
    delay: int | None = None,
    time_to_live: int = DEFAULT_TIME_TO_LIVE,
) -> Stage:
    late = None if delay is None else Millis(delay)
    return Stage(
        stage=stage,
        chunk=number,
        queue=queue,
        messages=[Outgoing(body=body, delay=late) for body in bodies],
        time_to_live=Millis(time_to_live),
    )


def publication(writer: str, epoch: int, *stages: str, memory: int = DEFAULT_MEMORY) -> Publish:
    return Publish(writer=writer, epoch=epoch, stages=stages, memory=Millis(memory))


def stage(rig: EngineRig, name: str, number: int, *bodies: bytes, queue: str = "q") -> Staged:
    return rig.ask(chunk(name, number, *bodies, queue=queue))


def publish(rig: EngineRig, writer: str, epoch: int, *stages: str) -> Published:
    return rig.ask(publication(writer, epoch, *stages))


def names_in(disk: Disk, folder: str) -> list[str]:
    return sorted(found.name for found in disk.scan(folder))
