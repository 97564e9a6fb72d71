"""The contract's methods over gRPC: the request of a call, and the answer of a response. Pure.

A call's fields have the contract's names, and its class the method's: most requests need no code of
their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from datetime import datetime
from typing import Any, Final

from google.protobuf.timestamp_pb2 import Timestamp

from .. import _call_values as calls
from .._call_values import Answer, Call
from .._redrive_values import Redrive, RedriveState
from .._reservation_values import CommitResult, Reservation, ReservationState
from .._schedule_values import Schedule
from .._stage_values import PublishResult, StageInfo, StageResult
from .._values import Page, moment_of
from ..v1 import queue_service_pb2 as queues
from ..v1 import redrive_service_pb2 as redrives
from ..v1 import reservation_service_pb2 as reservations
from ..v1 import schedule_service_pb2 as schedules
from ..v1 import staging_service_pb2 as staging
from . import grpc_values as convert

_REDRIVE_STATES: Final = {
    redrives.REDRIVE_STATE_RUNNING: RedriveState.RUNNING,
    redrives.REDRIVE_STATE_DONE: RedriveState.DONE,
    redrives.REDRIVE_STATE_CANCELLED: RedriveState.CANCELLED,
}
_RESERVATION_STATES: Final = {
    reservations.RESERVATION_STATE_HELD: ReservationState.HELD,
    reservations.RESERVATION_STATE_LOST: ReservationState.LOST,
}


# Requests.


def request_of(call: Call[Any]) -> Any:
    """Return the request of a call."""
    kind = type(call)
    return _REQUESTS[kind](call) if kind in _REQUESTS else _made(_CLASSES[kind], vars(call))


def _made(kind: Any, values: Mapping[str, Any]) -> Any:
    """Return a message with those values that it has fields for; None leaves one out."""
    return kind(
        **{
            name: _VALUES.get(name, _value)(value)
            for name, value in values.items()
            if value is not None and name in kind.DESCRIPTOR.fields_by_name
        }
    )


def _value(value: Any) -> Any:
    match value:
        case float():
            return convert.duration(value)
        case datetime():
            timestamp = Timestamp()
            timestamp.FromDatetime(value)
            return timestamp
    return value


_VALUES: Final[Mapping[str, Callable[[Any], Any]]] = {
    "attributes": lambda of: {name: convert.attribute(value) for name, value in of.items()},
    "messages": lambda messages: [convert.outgoing(message) for message in messages],
    "states": convert.states,
}
"""By name, the fields whose values are converted one by one."""


def _create_queue(call: calls.CreateQueue) -> queues.CreateQueueRequest:
    return queues.CreateQueueRequest(queue=convert.queue(call.name, call.settings, call.labels))


def _update_queue(call: calls.UpdateQueue) -> queues.UpdateQueueRequest:
    return queues.UpdateQueueRequest(
        queue=convert.queue(call.name, call.settings, call.labels, call.version),
        update_mask=convert.mask(call.settings, call.labels),
    )


def _list_messages(call: calls.ListMessages) -> queues.ListMessagesRequest:
    wanted = {each.name: getattr(call.wanted, each.name) for each in fields(call.wanted)}
    request: queues.ListMessagesRequest = _made(queues.ListMessagesRequest, vars(call) | wanted)
    request.view = queues.MESSAGE_VIEW_BASIC if call.max_body_bytes == 0 else queues.MESSAGE_VIEW_FULL
    return request


def _create_schedule(call: calls.CreateSchedule) -> schedules.CreateScheduleRequest:
    return schedules.CreateScheduleRequest(schedule=_made(schedules.Schedule, vars(call)))


def _update_schedule(call: calls.UpdateSchedule) -> schedules.UpdateScheduleRequest:
    request = schedules.UpdateScheduleRequest(schedule=_made(schedules.Schedule, vars(call)))
    changes = {name: value for name, value in vars(call).items() if name not in ("queue", "name")}
    request.update_mask.paths.extend(name for name, value in changes.items() if value is not None)
    return request


_REQUESTS: Final[Mapping[type[Call[Any]], Callable[[Any], Any]]] = {
    calls.CreateQueue: _create_queue,
    calls.UpdateQueue: _update_queue,
    calls.ListMessages: _list_messages,
    calls.CreateSchedule: _create_schedule,
    calls.UpdateSchedule: _update_schedule,
}
"""Those whose fields are not the call's."""


# Answers.


def answer_of(call: Call[Answer], response: Any) -> Answer:
    """Return the answer in the response to a call."""
    answer: Answer = _ANSWERS[type(call)](response)
    return answer


def _page(items: str, shown: Callable[[Any], Any]) -> Callable[[Any], Page[Any]]:
    return lambda response: Page(
        items=[shown(each) for each in getattr(response, items)], next_token=response.next_page_token
    )


def _redrive(redrive: redrives.Redrive) -> Redrive:
    return Redrive(
        id=redrive.id,
        queue=redrive.queue,
        destination=redrive.destination,
        source_queue=redrive.source_queue,
        max_messages_per_second=redrive.max_messages_per_second,
        # A state that this client doesn't know yet: only the end tells whether it goes on.
        state=_REDRIVE_STATES.get(
            redrive.state, RedriveState.DONE if redrive.HasField("end_time") else RedriveState.RUNNING
        ),
        moved_count=redrive.moved_count,
        failed_count=redrive.failed_count,
        last_failure=redrive.last_failure,
        remaining_count=redrive.remaining_count,
        started_at=moment_of(convert.millis(redrive.start_time)),
        ended_at=convert.optional_moment(redrive, "end_time"),
    )


def _reservation(reservation: reservations.Reservation) -> Reservation:
    return Reservation(
        queue=reservation.queue,
        stream=reservation.stream,
        sequence_number=reservation.sequence_number,
        message_count=reservation.message_count,
        byte_count=reservation.byte_count,
        expires_at=moment_of(convert.millis(reservation.expire_time)),
        state=_RESERVATION_STATES.get(reservation.state, ReservationState.HELD),
        read_count=reservation.read_count,
    )


def _stage(stage: staging.Stage) -> StageInfo:
    return StageInfo(
        name=stage.name,
        chunk_count=stage.chunk_count,
        message_counts=dict(stage.message_counts),
        expires_at=moment_of(convert.millis(stage.expire_time)),
    )


def _staged(response: staging.StageResponse) -> StageResult:
    return StageResult(
        message_count=response.message_count,
        duplicate=response.duplicate,
        expires_at=moment_of(convert.millis(response.expire_time)),
    )


def _published(response: staging.PublishResponse) -> PublishResult:
    return PublishResult(
        message_count=response.message_count,
        duplicate=response.duplicate,
        last_epoch=response.last_epoch,
    )


def _committed(response: reservations.CommitReservationsResponse) -> CommitResult:
    return CommitResult(
        deleted_count=response.deleted_count,
        lost_sequence_numbers=tuple(response.lost_sequence_numbers),
    )


def _schedule(schedule: schedules.Schedule) -> Schedule:
    return Schedule(
        queue=schedule.queue,
        name=schedule.name,
        cron=schedule.cron,
        time_zone=schedule.time_zone,
        body=schedule.body,
        attributes=convert.attributes(schedule),
        group=schedule.group,
        paused=schedule.paused,
        created_at=moment_of(convert.millis(schedule.create_time)),
        last_tick_at=convert.optional_moment(schedule, "last_tick_time"),
        next_tick_at=convert.optional_moment(schedule, "next_tick_time"),
        owner=schedule.owner,
        obstacles=[convert.obstacle(each) for each in schedule.obstacles],
    )


_ANSWERS: Final[Mapping[type[Call[Any]], Callable[[Any], Any]]] = {
    calls.CreateQueue: lambda response: convert.queue_info(response.queue),
    calls.GetQueue: lambda response: replace(convert.queue_info(response.queue), shard=response.shard),
    calls.ListQueues: _page("queues", convert.queue_info),
    calls.UpdateQueue: lambda response: convert.queue_info(response.queue),
    calls.DeleteQueue: lambda response: None,
    calls.PurgeQueue: lambda response: response.purged_count,
    calls.GetMessage: lambda response: convert.envelope(response.message),
    calls.ListMessages: _page("messages", convert.envelope),
    calls.Stage: _staged,
    calls.Publish: _published,
    calls.AbortStage: lambda response: response.message_count,
    calls.GetStage: lambda response: _stage(response.stage),
    calls.ListStages: _page("stages", _stage),
    calls.Reserve: lambda response: (
        _reservation(response.reservation) if response.HasField("reservation") else None
    ),
    calls.ExtendReservation: lambda response: _reservation(response.reservation),
    calls.CommitReservations: _committed,
    calls.ReleaseReservation: lambda response: None,
    calls.GetReservation: lambda response: _reservation(response.reservation),
    calls.ListReservations: _page("reservations", _reservation),
    calls.StartRedrive: lambda response: _redrive(response.redrive),
    calls.GetRedrive: lambda response: _redrive(response.redrive),
    calls.ListRedrives: _page("redrives", _redrive),
    calls.CancelRedrive: lambda response: _redrive(response.redrive),
    calls.CreateSchedule: lambda response: _schedule(response.schedule),
    calls.GetSchedule: lambda response: _schedule(response.schedule),
    calls.UpdateSchedule: lambda response: _schedule(response.schedule),
    calls.ListSchedules: _page("schedules", _schedule),
    calls.PauseSchedule: lambda response: _schedule(response.schedule),
    calls.ResumeSchedule: lambda response: _schedule(response.schedule),
    calls.DeleteSchedule: lambda response: None,
}
"""All calls."""
_CLASSES: Final[Mapping[type[Call[Any]], Callable[..., Any]]] = {
    kind: getattr(service, f"{kind.__name__}Request")
    for service in (queues, staging, reservations, redrives, schedules)
    for kind in (*_ANSWERS, calls.ReadReservation)
    if hasattr(service, f"{kind.__name__}Request")
}
