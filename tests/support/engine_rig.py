"""Engines on one disk in memory, with a clock that tests move, whose commits are synced at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spoolrack_store.engine.engine import Engine
from spoolrack_store.model.operations import Request
from spoolrack_store.model.settings import QueueSettings

from tests.support.engine_story import Clock
from tests.support.engines import commit, start
from tests.support.linked_disk import Memory, RefusingDisk, made, reap
from tests.support.power_disk import Model


class EngineRig:
    """One process at first; `join` starts another."""

    def __init__(
        self,
        queues: Mapping[str, QueueSettings],
        *,
        disk: Any = None,
        model: Model = Model.ANY_SUBSET,
        clock: Any = None,
        changes: Any = None,
        **options: Any,
    ) -> None:
        self.queues = dict(queues)
        self.options = options
        """What engines are made with."""
        self.disk: Any = disk or made(tuple(queues), can_sync_all=True, model=model, kind=RefusingDisk)
        self.clock: Any = clock or Clock()
        self.changes = changes or Memory(self.disk)
        self.living: set[str] = set()
        self.starts = 0
        self.engine = self.join()

    def join(self) -> Engine:
        self.starts += 1
        owner = f"p{self.starts}"
        self.living.add(owner)
        return start(
            self.disk,
            self.changes,
            clock=self.clock,
            owner=owner,
            is_living=self.living.__contains__,
            queues=self.queues,
            **self.options,
        )

    def restart(self) -> None:
        """End all processes without a word, and let another one take the root over."""
        self.living.clear()
        self.disk.free_locks()
        self.engine = self.join()
        self.settle()

    def commit(
        self,
        *requests: Request[Any],
        engine: Engine | None = None,
        tick: bool = False,
        reaps: bool = True,
    ) -> list[Any]:
        engine = engine or self.engine
        outcomes = commit(engine, *requests, tick=tick)
        if reaps:
            reap(engine)
        return outcomes

    def ask(self, request: Request[Any], engine: Engine | None = None) -> Any:
        """Return the answer, or raise the error that is it."""
        (outcome,) = self.commit(request, engine=engine)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def tick(self, engine: Engine | None = None) -> None:
        self.commit(engine=engine, tick=True)

    def settle(self, engine: Engine | None = None) -> None:
        """Do what waits for a sync or a tick."""
        for _ in range(8):
            self.tick(engine)

    def names(self, folder: str) -> list[str]:
        return sorted(each.name for each in self.disk.scan(folder))
