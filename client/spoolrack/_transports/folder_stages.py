"""Stages in a root on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from spoolrack_store.model import stage_requests as ops
from spoolrack_store.model.clock import Millis
from spoolrack_store.store import Store

from .._stage_values import PublishResult, StageInfo, StageResult
from .._values import Outgoing, Page, moment_of
from . import folder_values as convert
from .folder_calls import FolderCalls


class FolderStaging:
    """`transports.StagingTransport` over the calls of a root."""

    def __init__(self, calls: FolderCalls) -> None:
        self._calls = calls

    async def stage(
        self,
        stage: str,
        chunk: int,
        queue: str,
        messages: Sequence[Outgoing],
        *,
        time_to_live: float | None,
        timeout: float,
    ) -> StageResult:
        lives = _span(time_to_live, ops.DEFAULT_TIME_TO_LIVE)
        with convert.errors():
            request = convert.stage(stage, chunk, queue, messages, lives)
        staged = await self._calls.submit(request, timeout)
        return StageResult(
            message_count=staged.message_count,
            duplicate=staged.duplicate,
            expires_at=moment_of(staged.expires_at),
        )

    async def publish(
        self,
        writer: str,
        epoch: int,
        stages: Sequence[str],
        *,
        queue: str,
        message_count: int,
        epoch_retention: float | None,
        timeout: float,
    ) -> PublishResult:
        request = ops.Publish(
            writer=writer,
            epoch=epoch,
            stages=stages,
            queue=queue,
            message_count=message_count,
            epoch_retention=_span(epoch_retention, ops.DEFAULT_EPOCH_RETENTION),
        )
        published = await self._calls.submit(request, timeout)
        return PublishResult(
            message_count=published.message_count,
            duplicate=published.duplicate,
            last_epoch=published.last_epoch,
        )

    async def abort(self, stage: str, *, queue: str, timeout: float) -> int:
        return await self._calls.submit(ops.Abort(stage=stage, queue=queue), timeout)

    async def get(self, stage: str, *, queue: str, timeout: float) -> StageInfo:
        return _info(await self._calls.work(lambda store: store.stage(stage, queue), timeout))

    async def list_stages(self, *, queue: str, token: str, timeout: float) -> Page[StageInfo]:
        return await self._calls.page(
            partial(Store.stages, queue=queue, after=token), _info, lambda stage: stage.name, timeout
        )


def _span(seconds: float | None, default: Millis) -> Millis:
    return default if seconds is None else convert.millis(seconds)


def _info(stage: ops.StageInfo) -> StageInfo:
    return StageInfo(
        name=stage.name,
        chunk_count=stage.chunk_count,
        message_counts=stage.message_counts,
        expires_at=moment_of(stage.expires_at),
    )
