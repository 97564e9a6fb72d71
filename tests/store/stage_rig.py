"""One root with engines on it, and what tests of stages ask of them, in few words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spoolrack_store.engine.engine import Engine
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.message_content import Attributes
from spoolrack_store.model.operations import Receive
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.stage_requests import (
    DEFAULT_EPOCH_RETENTION,
    DEFAULT_TIME_TO_LIVE,
    Publish,
    Published,
    Stage,
    Staged,
)

from tests.support.engine_rig import EngineRig
from tests.support.linked_disk import RefusingDisk, made
from tests.support.power_disk import Model

START = 1_700_000_000_000
SETTINGS = {"q": QueueSettings(), "other": QueueSettings()}


class Rig(EngineRig):
    def __init__(self, *, can_sync_all: bool = True) -> None:
        disk = made(
            tuple(SETTINGS), can_sync_all=can_sync_all, model=Model.ANY_SUBSET, kind=RefusingDisk
        )
        super().__init__(SETTINGS, disk=disk, clock=ManualClock(wall=Millis(START)))

    def receive(self, queue: str = "q", engine: Engine | None = None) -> list[bytes]:
        deliveries = self.ask(Receive(queue=queue, max_messages=100), engine)
        return [body for delivery in deliveries for body in delivery.bodies]

    def stage(self, stage: str, number: int, *bodies: bytes, queue: str = "q", **named: Any) -> Staged:
        staged = self.ask(chunk(stage, number, *bodies, queue=queue, **named))
        assert isinstance(staged, Staged)
        return staged

    def publish(self, writer: str, epoch: int, *stages: str, **named: Any) -> Published:
        published = self.ask(publication(writer, epoch, *stages, **named))
        assert isinstance(published, Published)
        return published

    def staged(self) -> list[str]:
        return [info.name for info in self.engine.stages.listed("", 99)]


def chunk(
    stage: str,
    number: int,
    *bodies: bytes,
    queue: str = "q",
    delay: int | None = None,
    time_to_live: int = DEFAULT_TIME_TO_LIVE,
    attributes: Mapping[int, Attributes] | None = None,
) -> Stage:
    return Stage(
        stage=stage,
        chunk_number=number,
        queue=queue,
        bodies=bodies,
        attributes=attributes or {},
        delay=None if delay is None else Millis(delay),
        time_to_live=Millis(time_to_live),
    )


def publication(
    writer: str,
    epoch: int,
    *stages: str,
    epoch_retention: int = DEFAULT_EPOCH_RETENTION,
    digest: str = "",
    queue: str = "",
    messages: int = 0,
) -> Publish:
    return Publish(
        writer=writer,
        epoch=epoch,
        stages=stages,
        epoch_retention=Millis(epoch_retention),
        digest=digest,
        queue=queue,
        message_count=messages,
    )
