"""The RPCs about stages: messages that are invisible before they are published.

A chunk is stored whole or not at all, so one invalid message fails the request, and the error names it.
"""

# ruff: noqa: N802 - the contract names the methods

from __future__ import annotations

from dataclasses import replace

from spoolrack.v1 import staging_service_pb2 as rpc
from spoolrack_store.model.errors import InvalidMessage, InvalidRequest
from spoolrack_store.model.stage_requests import DEFAULT_TIME_TO_LIVE, Stage

from ..app.stages import Stages
from ..wire import convert
from ..wire.outgoing_messages import columns
from .authorized_calls import Context, current_caller


class StagingService:
    """Those handlers. Lives in one event loop."""

    def __init__(self, stages: Stages, root_id: str) -> None:
        self._stages = stages
        self._root_id = root_id

    async def Stage(self, request: rpc.StageRequest, context: Context) -> rpc.StageResponse:
        staged = await self._stages.stage(current_caller(), _chunk(request))
        return rpc.StageResponse(
            message_count=staged.messages,
            duplicate=staged.is_repeated,
            expire_time=convert.timestamp(staged.expires_at),
            root_id=self._root_id,
        )

    async def Publish(self, request: rpc.PublishRequest, context: Context) -> rpc.PublishResponse:
        published = await self._stages.publish(
            current_caller(),
            writer=request.writer,
            epoch=request.epoch,
            stages=request.stages,
            epoch_retention=convert.optional_span(request, "epoch_retention", None),
            digest=request.digest,
            queue=request.queue,
            messages=request.message_count,
        )
        return rpc.PublishResponse(
            message_count=published.messages,
            duplicate=published.is_already,
            last_epoch=published.last_epoch,
        )

    async def AbortStage(
        self, request: rpc.AbortStageRequest, context: Context
    ) -> rpc.AbortStageResponse:
        dropped = await self._stages.abort(current_caller(), request.stage, queue=request.queue)
        return rpc.AbortStageResponse(message_count=dropped)

    async def GetStage(self, request: rpc.GetStageRequest, context: Context) -> rpc.GetStageResponse:
        found = await self._stages.get(current_caller(), request.stage, queue=request.queue)
        return rpc.GetStageResponse(stage=convert.stage(found))

    async def ListStages(
        self, request: rpc.ListStagesRequest, context: Context
    ) -> rpc.ListStagesResponse:
        page = await self._stages.list(
            current_caller(),
            queue=request.queue,
            page_size=request.page_size,
            page_token=request.page_token,
        )
        return rpc.ListStagesResponse(
            stages=map(convert.stage, page.items), next_page_token=page.next_token
        )


def _chunk(request: rpc.StageRequest) -> Stage:
    empty = Stage(
        stage=request.stage,
        chunk=request.chunk_number,
        queue=request.queue,
        bodies=[],
        time_to_live=convert.optional_span(request, "time_to_live", DEFAULT_TIME_TO_LIVE),
    )
    with_bodies = _with_columns if request.HasField("columns") else _with_messages
    return with_bodies(empty, request)


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
