"""Redrives over gRPC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .._redrive_values import Redrive, RedriveState
from .._values import Page, moment_of
from ..v1 import redrive_service_pb2 as pb
from . import grpc_values as convert
from .grpc_calls import ChannelCalls

_STATES: Final = {
    pb.REDRIVE_STATE_RUNNING: RedriveState.RUNNING,
    pb.REDRIVE_STATE_DONE: RedriveState.DONE,
    pb.REDRIVE_STATE_CANCELLED: RedriveState.CANCELLED,
}


class GrpcRedrives:
    """`transports.RedriveTransport` over the calls of a channel."""

    def __init__(self, calls: ChannelCalls) -> None:
        self._calls = calls

    async def start(
        self,
        queue: str,
        *,
        destination: str,
        ids: Sequence[str],
        source_queue: str,
        max_messages_per_second: int,
        timeout: float,
    ) -> Redrive:
        request = pb.StartRedriveRequest(
            queue=queue,
            destination=destination,
            message_ids=ids,
            source_queue=source_queue,
            max_messages_per_second=max_messages_per_second,
        )
        response = await self._calls.unary(self._calls.stub.StartRedrive, request, timeout)
        return _redrive(response.redrive)

    async def get(self, id: str, *, queue: str, timeout: float) -> Redrive:
        response = await self._calls.unary(
            self._calls.stub.GetRedrive, pb.GetRedriveRequest(id=id, queue=queue), timeout
        )
        return _redrive(response.redrive)

    async def list_redrives(self, *, queue: str, token: str, timeout: float) -> Page[Redrive]:
        request = pb.ListRedrivesRequest(queue=queue, page_token=token)
        response = await self._calls.unary(self._calls.stub.ListRedrives, request, timeout)
        return Page(
            items=[_redrive(each) for each in response.redrives],
            next_token=response.next_page_token,
        )

    async def cancel(self, id: str, *, queue: str, timeout: float) -> Redrive:
        request = pb.CancelRedriveRequest(id=id, queue=queue)
        response = await self._calls.unary(self._calls.stub.CancelRedrive, request, timeout)
        return _redrive(response.redrive)


def _redrive(redrive: pb.Redrive) -> Redrive:
    return Redrive(
        id=redrive.id,
        queue=redrive.queue,
        destination=redrive.destination,
        source_queue=redrive.source_queue,
        max_messages_per_second=redrive.max_messages_per_second,
        # A state that this client doesn't know yet: only the end tells whether it goes on.
        state=_STATES.get(
            redrive.state, RedriveState.DONE if redrive.HasField("end_time") else RedriveState.RUNNING
        ),
        moved_count=redrive.moved_count,
        failed_count=redrive.failed_count,
        last_failure=redrive.last_failure,
        remaining_count=redrive.remaining_count,
        started_at=moment_of(convert.millis(redrive.start_time)),
        ended_at=moment_of(convert.millis(redrive.end_time)) if redrive.HasField("end_time") else None,
    )
