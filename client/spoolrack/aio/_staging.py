"""Stages: messages that are stored and invisible until they are published."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any

from .. import _arguments as arguments
from .._call_values import AbortStage, GetStage, ListStages, Publish, Stage
from .._core.outgoing import outgoing_of_all
from .._core.pagination import items
from .._core.resource import Resource
from .._stage_values import PublishResult, StageInfo, StageResult
from .._values import MAX_BATCH, Outgoing, Seconds


class Staging(Resource[Any]):
    """The stages of a server; `client.staging` is one. `client.batch` does all this by itself."""

    async def stage(
        self,
        stage: str,
        chunk_number: int,
        queue: str,
        messages: Iterable[bytes | str | Outgoing],
        *,
        time_to_live: Seconds | None = None,
        timeout: Seconds | None = None,
    ) -> StageResult:
        """Store 1 to 1,000 messages for a queue as one chunk of a stage, all of them or none.

        They are invisible until `publish`. A chunk that the stage has already is not stored again;
        another one under its number is a `ChunkDiffers`, another caller's stage a `NameTaken`. All have
        one delay, and none a deduplication id. The first chunk makes the stage, which lives for
        `time_to_live` (1 day) unless it is published. Staged messages count for the queue's limits:
        raises `QueueFull` if they don't fit.
        """
        arguments.text("stage", stage)
        arguments.integer("chunk_number", chunk_number)
        arguments.text("queue", queue)
        outgoing = list(outgoing_of_all(messages))
        arguments.integer("the number of messages", len(outgoing), 1, MAX_BATCH)
        lives = arguments.optional_span("time_to_live", time_to_live)
        request = Stage(
            stage=stage, chunk_number=chunk_number, queue=queue, messages=outgoing, time_to_live=lives
        )
        return await self._context.ask(request, timeout)

    async def publish(
        self,
        writer: str,
        epoch: int,
        stages: Iterable[str],
        *,
        queue: str = "",
        epoch_retention: Seconds | None = None,
        timeout: Seconds | None = None,
    ) -> PublishResult:
        """Make all messages of up to 10,000 stages appear, or none, also after a crash.

        If the writer has published this epoch or a later one before, nothing is done, and the answer
        says `duplicate`: so it may be repeated. That is remembered for `epoch_retention` (30 days).
        Raises `StageNotFound` if one of the stages isn't there, and `NameTaken` for a stage or a writer
        of another caller. `queue`, one that the stages have
        messages for, tells a client of several shards which one they are on; epochs are kept by shard.
        """
        arguments.text("writer", writer)
        arguments.text("queue", queue)
        arguments.integer("epoch", epoch)
        names = [arguments.text("a stage", name) for name in arguments.some("stages", stages, "names")]
        retention = arguments.optional_span("epoch_retention", epoch_retention)
        request = Publish(
            writer=writer, epoch=epoch, stages=names, queue=queue, epoch_retention=retention
        )
        return await self._context.ask(request, timeout)

    async def abort(self, stage: str, *, queue: str = "", timeout: Seconds | None = None) -> int:
        """Drop a stage; returns how many messages it had.

        Raises `StageNotFound` if there is none, and `NameTaken` for another caller's.
        """
        arguments.text("stage", stage)
        arguments.text("queue", queue)
        return await self._context.ask(AbortStage(stage=stage, queue=queue), timeout)

    async def get(self, stage: str, *, queue: str = "", timeout: Seconds | None = None) -> StageInfo:
        """Return a stage that isn't published; raises `StageNotFound`, for another caller's too."""
        arguments.text("stage", stage)
        arguments.text("queue", queue)
        return await self._context.ask(GetStage(stage=stage, queue=queue), timeout)

    def list(self, queue: str = "", *, timeout: Seconds | None = None) -> AsyncIterator[StageInfo]:
        """Return the stages with messages for a queue, or all, by name. `timeout` is for each page of
        them."""
        arguments.text("queue", queue)
        return items(self._context, ListStages(queue=queue), arguments.timeout(timeout))
