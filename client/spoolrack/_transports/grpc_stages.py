"""Stages over gRPC, by unary calls: a chunk is as large as a call may be."""

from __future__ import annotations

from collections.abc import Sequence

from .._stage_values import PublishResult, StageInfo, StageResult
from .._values import Outgoing, Page, moment_of
from ..v1 import staging_service_pb2 as pb
from . import grpc_values as convert
from .grpc_calls import ChannelCalls


class GrpcStaging:
    """`transports.StagingTransport` over the calls of a channel."""

    def __init__(self, calls: ChannelCalls) -> None:
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
        request = pb.StageRequest(
            stage=stage,
            chunk_number=chunk,
            queue=queue,
            messages=[convert.outgoing(message) for message in messages],
            time_to_live=convert.optional_duration(time_to_live),
        )
        response = await self._calls.unary(self._calls.stub.Stage, request, timeout)
        return StageResult(
            message_count=response.message_count,
            duplicate=response.duplicate,
            expires_at=moment_of(convert.millis(response.expire_time)),
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
        request = pb.PublishRequest(
            writer=writer,
            epoch=epoch,
            stages=stages,
            queue=queue,
            message_count=message_count,
            epoch_retention=convert.optional_duration(epoch_retention),
        )
        response = await self._calls.unary(self._calls.stub.Publish, request, timeout)
        return PublishResult(
            message_count=response.message_count,
            duplicate=response.duplicate,
            last_epoch=response.last_epoch,
        )

    async def abort(self, stage: str, *, queue: str, timeout: float) -> int:
        request = pb.AbortStageRequest(stage=stage, queue=queue)
        response = await self._calls.unary(self._calls.stub.AbortStage, request, timeout)
        return response.message_count

    async def get(self, stage: str, *, queue: str, timeout: float) -> StageInfo:
        request = pb.GetStageRequest(stage=stage, queue=queue)
        response = await self._calls.unary(self._calls.stub.GetStage, request, timeout)
        return _info(response.stage)

    async def list_stages(self, *, queue: str, token: str, timeout: float) -> Page[StageInfo]:
        request = pb.ListStagesRequest(queue=queue, page_token=token)
        response = await self._calls.unary(self._calls.stub.ListStages, request, timeout)
        return Page(
            items=[_info(stage) for stage in response.stages], next_token=response.next_page_token
        )


def _info(stage: pb.Stage) -> StageInfo:
    return StageInfo(
        name=stage.name,
        chunk_count=stage.chunk_count,
        message_counts=dict(stage.message_counts),
        expires_at=moment_of(convert.millis(stage.expire_time)),
    )
