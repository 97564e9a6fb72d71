"""One root with engines on it, and what tests of stages ask of them, in few words."""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from typing import Any

from spoolrack_store.engine.engine import Engine
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.message_content import Attributes
from spoolrack_store.model.operations import Receive, Request
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.stage_requests import (
    DEFAULT_EPOCH_RETENTION,
    DEFAULT_TIME_TO_LIVE,
    Publish,
    Published,
    Stage,
    Staged,
)

from tests.support.engines import commit, start
from tests.support.linked_disk import LinkedDisk, Memory, made, reap
from tests.support.power_disk import Model

START = 1_700_000_000_000


class Rig:
    def __init__(self) -> None:
        self.disk = made(["q", "other"], can_sync_all=True, model=Model.ANY_SUBSET)
        self.disk.__class__ = RefusingDisk
        self.clock = ManualClock(wall=Millis(START))
        self.settings = {"q": QueueSettings(), "other": QueueSettings()}
        self.engines: dict[str, Engine] = {}
        self.engine = self.open("p1")

    def open(self, owner: str) -> Engine:
        """Start a process on the root."""
        engine = start(
            self.disk,
            Memory(self.disk),
            clock=self.clock,
            owner=owner,
            is_living=self.engines.__contains__,
            queues=self.settings,
        )
        self.engines[owner] = engine
        return engine

    def restart(self) -> None:
        """End all processes without a word, and start one."""
        self.engines.clear()
        self.disk.free_locks()
        self.engine = self.open("p2")
        self.ticks()

    def commit(
        self, *requests: Request[Any], engine: Engine | None = None, tick: bool = False
    ) -> list[Any]:
        engine = engine or self.engine
        outcomes = commit(engine, *requests, tick=tick)
        reap(engine)
        return outcomes

    def ask(self, request: Request[Any], engine: Engine | None = None) -> Any:
        (outcome,) = self.commit(request, engine=engine)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def ticks(self, count: int = 4) -> None:
        """Let what waits for syncs be done."""
        for _ in range(count):
            self.commit(tick=True)

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

    def names(self, folder: str) -> list[str]:
        return sorted(found.name for found in self.disk.scan(folder))

    def staged(self) -> list[str]:
        return [info.name for info in self.engine.stages.listed("", 99)]


class RefusingDisk(LinkedDisk):
    """Refuses some calls with an error of the disk."""

    refused: Sequence[str] = ()
    """Beginnings of the calls that are refused."""

    def _refuse(self, call: str) -> None:
        if call.startswith(tuple(self.refused)):
            raise OSError(errno.EIO, "refused", call)

    def create(self, path: str, parts: Sequence[bytes], *, sync: bool) -> None:
        self._refuse(f"create {path}")
        super().create(path, parts, sync=sync)

    def rename_new(self, source: str, target: str) -> None:
        self._refuse(f"rename {source}")
        super().rename_new(source, target)

    def read(self, path: str, limit: int | None = None, *, afresh: bool = False) -> bytes:
        self._refuse(f"read {path}")
        return super().read(path, limit, afresh=afresh)


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
        chunk=number,
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
        messages=messages,
    )
