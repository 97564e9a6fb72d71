"""The contract's unary calls over the use cases, and the permission of each method.

gRPC and HTTP share them: a front adds its form of requests and responses. Calls on messages and leases
are the fronts' own, because their responses are encoded by column, or given back if no transport takes
them.

The permission is that of the method's use case. A call is refused before its request is read if its
caller has the permission on no queue, and before its handler runs if it hasn't it on the queue that is
named here. Further queues the use case checks: those that only the store knows, and those that messages
are sent to.
"""

# ruff: noqa: N802 - the contract names the methods

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, TypedDict

from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as queues
from spoolrack.v1 import redrive_service_pb2 as redrives
from spoolrack.v1 import reservation_service_pb2 as reservations
from spoolrack.v1 import schedule_service_pb2 as schedules
from spoolrack.v1 import staging_service_pb2 as staging
from spoolrack_store.model.clock import Clock
from spoolrack_store.model.operations import Queue
from spoolrack_store.model.reservation_requests import Page, Reservation

from ..app.application import Application
from ..app.bounds import MAX_WAIT
from ..app.caller import Caller, Permission, permission_of
from ..app.leases import Leases
from ..app.messages import Messages
from ..app.queues import Queues
from ..app.redrives import Redrives
from ..app.reservations import Reservations
from ..app.schedules import Schedules
from ..app.sends import Sends
from ..app.stages import Stages
from . import convert
from .contract import METHODS
from .outgoing_messages import stage_of

ContractCall = Callable[[Caller, Any], Awaitable[Message | None]]
"""Takes a request of the contract; raises the `StoreError` of the call. Returns the response, or the
resource that is all of it, or None for an empty one."""


@dataclass(frozen=True, slots=True)
class MethodPermission:
    """The permission that a method needs on some queue, and on the one that its request names."""

    use_case: Callable[..., Any]
    permission: Permission
    """That of the use case."""
    queue: Callable[[Any], str]
    """Returns the queue that a request names; empty: it names none, or the handler refuses it."""


def needs_on(
    use_case: Callable[..., Any], queue: str | Callable[[Any], str] = lambda request: ""
) -> MethodPermission:
    """Return the permission of a use case, with the path of the field that names the queue."""
    named = attrgetter(queue) if isinstance(queue, str) else queue
    return MethodPermission(use_case, permission_of(use_case), named)


PERMISSIONS: Final[Mapping[str, MethodPermission]] = {
    "CreateQueue": needs_on(Queues.create, "queue.name"),
    "GetQueue": needs_on(Queues.get, "name"),
    "ListQueues": needs_on(Queues.list),
    "UpdateQueue": needs_on(Queues.update, "queue.name"),
    "DeleteQueue": needs_on(Queues.delete, "name"),
    "PurgeQueue": needs_on(Queues.purge, "name"),
    "Send": needs_on(Sends.send, "queue"),
    "StreamSend": needs_on(Sends.send, "request.queue"),
    "Receive": needs_on(Leases.receive, "queue"),
    "StreamReceive": needs_on(Leases.receive, "start.queue"),
    "Delete": needs_on(Leases.delete, "queue"),
    "StreamDelete": needs_on(Leases.delete, "request.queue"),
    "ExtendLeases": needs_on(Leases.extend, "queue"),
    "Release": needs_on(Leases.release, "queue"),
    "Reject": needs_on(Leases.reject, "queue"),
    "GetMessage": needs_on(Messages.get, "queue"),
    "ListMessages": needs_on(Messages.list, "queue"),
    "Stage": needs_on(Stages.stage, "queue"),
    "Publish": needs_on(Stages.publish),
    "AbortStage": needs_on(Stages.abort),
    "GetStage": needs_on(Stages.get),
    "ListStages": needs_on(Stages.list),
    "Reserve": needs_on(Reservations.reserve, "queue"),
    "ExtendReservation": needs_on(Reservations.extend),
    "ReadReservation": needs_on(Reservations.read),
    "CommitReservations": needs_on(Reservations.commit),
    "ReleaseReservation": needs_on(Reservations.release),
    "GetReservation": needs_on(Reservations.get),
    "ListReservations": needs_on(Reservations.list),
    "StartRedrive": needs_on(Redrives.start, "queue"),
    "GetRedrive": needs_on(Redrives.get),
    "ListRedrives": needs_on(Redrives.list),
    "CancelRedrive": needs_on(Redrives.cancel),
    "CreateSchedule": needs_on(Schedules.create, "schedule.queue"),
    "GetSchedule": needs_on(Schedules.get, "queue"),
    "UpdateSchedule": needs_on(Schedules.update, "schedule.queue"),
    "ListSchedules": needs_on(Schedules.list),
    "PauseSchedule": needs_on(Schedules.pause, "queue"),
    "ResumeSchedule": needs_on(Schedules.pause, "queue"),
    "DeleteSchedule": needs_on(Schedules.delete, "queue"),
}
"""The permissions of all methods of the contract, by name."""


def response_of(name: str, answer: Message | None) -> Message:
    """Return the response of a method whose call has returned `answer`."""
    kind = GetMessageClass(METHODS[name].output_type)
    if isinstance(answer, kind):
        return answer
    return kind() if answer is None else kind(**{kind.DESCRIPTOR.fields[0].name: answer})


class Paging(TypedDict):
    """The page that a list asks for, as all lists name it."""

    page_size: int
    page_token: str


def paging(request: Any) -> Paging:
    return Paging(page_size=request.page_size, page_token=request.page_token)


class ContractCalls:
    """The calls by their names in the contract. Lives in one event loop."""

    def __init__(self, app: Application, clock: Clock) -> None:
        self._app = app
        self._clock = clock
        self._root_id = app.root_id
        self._shard = "" if app.shard is None else str(app.shard)

    def find(self, name: str) -> ContractCall | None:
        """Return a call by its name; None: it is a front's own."""
        found: ContractCall | None = getattr(self, name, None)
        return found

    # Queues.

    async def CreateQueue(self, caller: Caller, request: queues.CreateQueueRequest) -> Message:
        name, settings = request.queue.name, convert.settings(request.queue.settings)
        labels = dict(request.queue.labels)
        return self._queue(await self._app.queues.create(caller, name, settings, labels))

    async def GetQueue(self, caller: Caller, request: queues.GetQueueRequest) -> Message:
        queue = await self._app.queues.get(caller, request.name)
        return queues.GetQueueResponse(queue=self._queue(queue), shard=self._shard)

    async def ListQueues(self, caller: Caller, request: queues.ListQueuesRequest) -> Message:
        page = await self._app.queues.list(caller, prefix=request.prefix, **paging(request))
        return queues.ListQueuesResponse(
            queues=map(self._queue, page.items),
            next_page_token=page.next_token,
            root_id=self._root_id,
            shard=self._shard,
        )

    async def UpdateQueue(self, caller: Caller, request: queues.UpdateQueueRequest) -> Message:
        changes = convert.update(request.queue, request.update_mask)
        return self._queue(await self._app.queues.update(caller, request.queue.name, changes))

    async def DeleteQueue(self, caller: Caller, request: queues.DeleteQueueRequest) -> None:
        await self._app.queues.delete(caller, request.name, if_version=request.version)

    async def PurgeQueue(self, caller: Caller, request: queues.PurgeQueueRequest) -> Message:
        purged = await self._app.queues.purge(
            caller,
            request.name,
            sent_before=convert.optional_moment(request, "sent_before"),
            states=convert.states(request.states),
        )
        return queues.PurgeQueueResponse(purged_count=purged)

    def _queue(self, queue: Queue) -> pb.Queue:
        return convert.queue(queue, self._clock.wall())

    # Looks at messages.

    async def GetMessage(self, caller: Caller, request: queues.GetMessageRequest) -> Message:
        return convert.message(await self._app.messages.get(caller, request.queue, request.id))

    async def ListMessages(self, caller: Caller, request: queues.ListMessagesRequest) -> Message:
        page = await self._app.messages.list(
            caller,
            request.queue,
            convert.message_filter(request),
            **paging(request),
            skip=request.skip,
            max_body_bytes=convert.body_bytes(request),
        )
        return queues.ListMessagesResponse(
            messages=map(convert.message, page.items), next_page_token=page.next_token
        )

    # Stages.

    async def Stage(self, caller: Caller, request: staging.StageRequest) -> Message:
        staged = await self._app.stages.stage(caller, stage_of(request))
        return staging.StageResponse(
            message_count=staged.messages,
            duplicate=staged.is_repeated,
            expire_time=convert.timestamp(staged.expires_at),
            root_id=self._root_id,
        )

    async def Publish(self, caller: Caller, request: staging.PublishRequest) -> Message:
        published = await self._app.stages.publish(
            caller,
            writer=request.writer,
            epoch=request.epoch,
            stages=request.stages,
            epoch_retention=convert.optional_span(request, "epoch_retention", None),
            digest=request.digest,
            queue=request.queue,
            messages=request.message_count,
        )
        return staging.PublishResponse(
            message_count=published.messages,
            duplicate=published.is_already,
            last_epoch=published.last_epoch,
        )

    async def AbortStage(self, caller: Caller, request: staging.AbortStageRequest) -> Message:
        dropped = await self._app.stages.abort(caller, request.stage, queue=request.queue)
        return staging.AbortStageResponse(message_count=dropped)

    async def GetStage(self, caller: Caller, request: staging.GetStageRequest) -> Message:
        return convert.stage(await self._app.stages.get(caller, request.stage, queue=request.queue))

    async def ListStages(self, caller: Caller, request: staging.ListStagesRequest) -> Message:
        page = await self._app.stages.list(caller, queue=request.queue, **paging(request))
        return staging.ListStagesResponse(
            stages=map(convert.stage, page.items), next_page_token=page.next_token
        )

    # Reservations.

    async def reserve(self, caller: Caller, request: reservations.ReserveRequest) -> Reservation | None:
        """Reserve messages; None if none is ready in time. The front gives a reservation that no
        transport took to `Reservations.undo`."""
        return await self._app.reservations.reserve(
            caller,
            request.queue,
            stream=request.stream,
            sequence_number=request.sequence_number,
            max_messages=request.max_messages,
            max_bytes=request.max_bytes,
            visibility_timeout=convert.optional_span(request, "visibility_timeout", None),
            wait=convert.millis(request.wait, "wait", most=MAX_WAIT),
        )

    def reserved_pages(
        self, caller: Caller, request: reservations.ReadReservationRequest
    ) -> AsyncIterator[Page]:
        """Yield the messages of a reservation by pages, one of them in memory."""
        return self._app.reservations.read(
            caller,
            request.stream,
            request.sequence_number,
            queue=request.queue,
            begin=request.begin_index,
            end=request.end_index,
            mark_read=request.mark_read,
        )

    def reservation(self, reservation: Reservation) -> reservations.Reservation:
        """Return a reservation as the contract has it."""
        return convert.reservation(reservation, self._root_id)

    async def ExtendReservation(
        self, caller: Caller, request: reservations.ExtendReservationRequest
    ) -> Message:
        extended = await self._app.reservations.extend(
            caller,
            request.stream,
            request.sequence_number,
            queue=request.queue,
            visibility_timeout=convert.optional_span(request, "visibility_timeout", None),
        )
        return self.reservation(extended)

    async def CommitReservations(
        self, caller: Caller, request: reservations.CommitReservationsRequest
    ) -> Message:
        committed = await self._app.reservations.commit(
            caller,
            request.stream,
            request.last_sequence_number,
            queue=request.queue,
            only_read=request.only_read,
        )
        return reservations.CommitReservationsResponse(
            deleted_count=committed.messages, lost_sequence_numbers=committed.lost
        )

    async def ReleaseReservation(
        self, caller: Caller, request: reservations.ReleaseReservationRequest
    ) -> None:
        await self._app.reservations.release(
            caller, request.stream, request.sequence_number, queue=request.queue
        )

    async def GetReservation(
        self, caller: Caller, request: reservations.GetReservationRequest
    ) -> Message:
        found = await self._app.reservations.get(
            caller, request.stream, request.sequence_number, queue=request.queue
        )
        return self.reservation(found)

    async def ListReservations(
        self, caller: Caller, request: reservations.ListReservationsRequest
    ) -> Message:
        page = await self._app.reservations.list(
            caller, queue=request.queue, stream=request.stream, **paging(request)
        )
        return reservations.ListReservationsResponse(
            reservations=map(self.reservation, page.items), next_page_token=page.next_token
        )

    # Redrives.

    async def StartRedrive(self, caller: Caller, request: redrives.StartRedriveRequest) -> Message:
        started = await self._app.redrives.start(
            caller,
            request.queue,
            destination=request.destination,
            source_queue=request.source_queue,
            ids=request.message_ids,
            rate=request.max_messages_per_second,
        )
        return convert.redrive(started)

    async def GetRedrive(self, caller: Caller, request: redrives.GetRedriveRequest) -> Message:
        return convert.redrive(await self._app.redrives.get(caller, request.id, queue=request.queue))

    async def ListRedrives(self, caller: Caller, request: redrives.ListRedrivesRequest) -> Message:
        page = await self._app.redrives.list(caller, queue=request.queue, **paging(request))
        return redrives.ListRedrivesResponse(
            redrives=map(convert.redrive, page.items), next_page_token=page.next_token
        )

    async def CancelRedrive(self, caller: Caller, request: redrives.CancelRedriveRequest) -> Message:
        return convert.redrive(await self._app.redrives.cancel(caller, request.id, queue=request.queue))

    # Schedules.

    async def CreateSchedule(self, caller: Caller, request: schedules.CreateScheduleRequest) -> Message:
        schedule = request.schedule
        created = await self._app.schedules.create(
            caller,
            schedule.queue,
            schedule.name,
            cron_text=schedule.cron,
            time_zone=schedule.time_zone,
            body=schedule.body,
            attributes=convert.attributes(schedule.attributes),
            group=schedule.group,
        )
        return convert.schedule(created)

    async def GetSchedule(self, caller: Caller, request: schedules.GetScheduleRequest) -> Message:
        return convert.schedule(await self._app.schedules.get(caller, request.queue, request.name))

    async def UpdateSchedule(self, caller: Caller, request: schedules.UpdateScheduleRequest) -> Message:
        queue, name = request.schedule.queue, request.schedule.name
        changes = convert.schedule_changes(request.schedule, request.update_mask)
        return convert.schedule(await self._app.schedules.update(caller, queue, name, changes))

    async def ListSchedules(self, caller: Caller, request: schedules.ListSchedulesRequest) -> Message:
        page = await self._app.schedules.list(caller, queue=request.queue, **paging(request))
        return schedules.ListSchedulesResponse(
            schedules=map(convert.schedule, page.items), next_page_token=page.next_token
        )

    async def PauseSchedule(self, caller: Caller, request: schedules.PauseScheduleRequest) -> Message:
        paused = await self._app.schedules.pause(caller, request.queue, request.name, is_paused=True)
        return convert.schedule(paused)

    async def ResumeSchedule(self, caller: Caller, request: schedules.ResumeScheduleRequest) -> Message:
        resumed = await self._app.schedules.pause(caller, request.queue, request.name, is_paused=False)
        return convert.schedule(resumed)

    async def DeleteSchedule(self, caller: Caller, request: schedules.DeleteScheduleRequest) -> None:
        await self._app.schedules.delete(caller, request.queue, request.name)
