"""The RPCs about stages: messages that are invisible before they are published.

A chunk is stored whole or not at all, so one invalid message fails the request, and the error names it.
"""

# ruff: noqa: N802 - the contract names the methods

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from spoolrack.v1 import staging_service_pb2 as rpc
from spoolrack_store.model import stage_requests as ops
from spoolrack_store.model.errors import InvalidMessage, InvalidRequest
from spoolrack_store.model.stage_requests import Stage

from . import convert
from .access.authorization import queues_for
from .access.list_filter import shown
from .access.permissions import Permission
from .page_tokens import PageTokens, page_size
from .rpc import Context
from .send_requests import columns
from .store_access import StoreAccess

MAX_STAGE_NAME: Final = 64
MAX_WRITER_NAME: Final = 80
MAX_DIGEST: Final = 64


class StagingService:
    """Those handlers. Lives in one event loop."""

    def __init__(self, access: StoreAccess) -> None:
        self._access = access

    async def Stage(self, request: rpc.StageRequest, context: Context) -> rpc.StageResponse:
        chunk = _chunk(request)
        async with self._access.workers.saving():
            staged = await self._access.submit(chunk)
        return rpc.StageResponse(
            message_count=staged.messages,
            duplicate=staged.is_repeated,
            expire_time=convert.timestamp(staged.expires_at),
        )

    async def Publish(self, request: rpc.PublishRequest, context: Context) -> rpc.PublishResponse:
        allowed = queues_for(Permission.SEND)
        published = await self._access.submit(_publication(request, allowed))
        return rpc.PublishResponse(
            message_count=published.messages,
            duplicate=published.is_already,
            last_epoch=published.last_epoch,
        )

    async def AbortStage(
        self, request: rpc.AbortStageRequest, context: Context
    ) -> rpc.AbortStageResponse:
        dropped = await self._access.submit(
            ops.Abort(stage=_stage_name(request.stage), allowed=queues_for(Permission.SEND))
        )
        return rpc.AbortStageResponse(message_count=dropped)

    async def ListStages(
        self, request: rpc.ListStagesRequest, context: Context
    ) -> rpc.ListStagesResponse:
        size = page_size(request.page_size)
        tokens = PageTokens("ListStages")
        after = tokens.after(request.page_token, _stage_name, "")
        look = partial(
            shown,
            self._access.store.stages,
            lambda stage: stage.name,
            lambda stage: stage.messages,
            queues_for(Permission.MONITOR),
            after=after,
            limit=size + 1,
        )
        stages = await self._access.read(look)
        return rpc.ListStagesResponse(
            stages=[_stage(stage) for stage in stages[:size]],
            next_page_token=tokens.token(stages[size - 1].name) if len(stages) > size else "",
        )


def _stage_name(name: str) -> str:
    return convert.word(name, "stage", most=MAX_STAGE_NAME)


def _chunk(request: rpc.StageRequest) -> Stage:
    lives = ops.DEFAULT_TIME_TO_LIVE
    if request.HasField("time_to_live"):
        lives = convert.millis(
            request.time_to_live,
            "time_to_live",
            least=ops.MIN_TIME_TO_LIVE,
            most=ops.MAX_TIME_TO_LIVE,
        )
    empty = Stage(
        stage=_stage_name(request.stage),
        chunk=convert.place(request.chunk_number, "chunk_number", most=ops.MAX_CHUNK),
        queue=convert.queue_name(request.queue),
        bodies=[],
        time_to_live=lives,
    )
    return (
        _with_columns(empty, request) if request.HasField("columns") else _with_messages(empty, request)
    )


def _with_columns(stage: Stage, request: rpc.StageRequest) -> Stage:
    if request.messages:
        raise InvalidRequest(
            what="messages",
            value=f"{len(request.messages)} messages",
            rule="must be empty with columns",
        )
    given = request.columns
    convert.check_count(len(given.body_sizes), "columns")
    return replace(
        stage,
        bodies=convert.bodies(given),
        attributes={
            place: convert.attributes(found.by_name) for place, found in given.attributes.items()
        },
        groups=dict(given.groups),
    )


def _with_messages(stage: Stage, request: rpc.StageRequest) -> Stage:
    convert.check_count(len(request.messages), "messages")
    made = columns(request.messages)
    for position, error in made.refused.items():
        raise _refused(position, error) from error
    delays = [made.delays.get(place) for place in range(len(made.bodies))]
    for position, delay in enumerate(delays):
        if delay != delays[0]:
            raise _refused(position, "its delay is not that of the first message of its chunk")
    priority = made.priorities.get(0, 0)
    for position in range(len(made.bodies)):
        if made.priorities.get(position, 0) != priority:
            raise _refused(position, "its priority is not that of the first message of its chunk")
    for position in made.deliver_at:
        raise _refused(position, "it has a deliver_time, and in a stage messages have delays only")
    for position in made.deduplication_ids:
        raise _refused(position, "it has a deduplication id, and in a stage none can have one")
    return replace(
        stage,
        bodies=made.bodies,
        attributes=made.attributes,
        groups=made.groups,
        delay=delays[0],
        priority=priority,
    )


def _refused(position: int, why: object) -> InvalidMessage:
    return InvalidMessage(why=f"number {position}: {why}")


def _publication(request: rpc.PublishRequest, allowed: Callable[[str], bool] | None) -> ops.Publish:
    convert.place(len(request.stages), "the number of stages", most=ops.MAX_STAGES)
    epoch_retention = ops.DEFAULT_EPOCH_RETENTION
    if request.HasField("epoch_retention"):
        epoch_retention = convert.millis(
            request.epoch_retention,
            "epoch_retention",
            least=ops.MIN_EPOCH_RETENTION,
            most=ops.MAX_EPOCH_RETENTION,
        )
    return ops.Publish(
        writer=convert.word(request.writer, "writer", most=MAX_WRITER_NAME),
        epoch=convert.place(request.epoch, "epoch", most=ops.MAX_EPOCH),
        stages=[_stage_name(stage) for stage in request.stages],
        epoch_retention=epoch_retention,
        digest=request.digest and convert.word(request.digest, "digest", most=MAX_DIGEST),
        allowed=allowed,
    )


def _stage(stage: ops.StageInfo) -> rpc.Stage:
    return rpc.Stage(
        name=stage.name,
        chunk_count=stage.chunks,
        message_counts=stage.messages,
        expire_time=convert.timestamp(stage.expires_at),
    )
