"""The contract's methods, each with its use case and permission, and its unary calls of use cases.

gRPC and HTTP share the calls: a front adds its form of requests and responses. Calls on messages and
leases are the fronts' own, because their responses are encoded by column, or given back if no transport
takes them.

The permission is that of the method's use case. A call is refused before its request is read if its
caller has the permission on no queue, and before its handler runs if it hasn't it on the queue that is
named here. Further queues the use case checks: those that only the store knows, and those that messages
are sent to.
"""

# ruff: noqa: N802 - the contract names the methods

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any, Final, TypedDict, TypeVar

from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as queues
from spoolrack.v1 import reservation_service_pb2 as reservations
from spoolrack.v1 import schedule_service_pb2 as schedules
from spoolrack.v1 import staging_service_pb2 as staging
from spoolrack_store.model.clock import Clock
from spoolrack_store.model.operations import CreateQueue, Queue
from spoolrack_store.model.redrive_requests import StartRedrive
from spoolrack_store.model.reservation_requests import (
    CommitReservations,
    Committed,
    ExtendReservation,
    Page,
    Release,
    Reservation,
    Reserve,
)
from spoolrack_store.model.schedule_requests import CreateSchedule
from spoolrack_store.model.stage_requests import Abort, Publish, Published, Staged

from ..app.application import Application
from ..app.bounds import MAX_WAIT
from ..app.caller import Caller, Permission, permission_of
from ..app.leases import Leases
from ..app.messages import Messages
from ..app.pages import Page as ListPage
from ..app.queues import Queues
from ..app.receives import Receives
from ..app.redrives import Redrives
from ..app.reservations import Reservations
from ..app.schedules import Schedules
from ..app.sends import Sends
from ..app.stages import Stages
from . import convert
from .contract import METHODS
from .outgoing_messages import stage_of

Contract = TypeVar("Contract", bound=Message)
ContractCall = Callable[[Caller, Any], Awaitable[Message | None]]
"""Takes a request of the contract; raises the `StoreError` of the call. Returns the response, or the
resource that is all of it, or None for an empty one."""
Arguments = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ContractRow:
    """A call that the table says in full: no front has a handler of its own."""

    render: Callable[[Any], Message]
    """Returns the resource, or the response, of the use case's answer, or of an item of its page."""
    read: Callable[[Any], Arguments]
    """Returns the arguments of the use case in a request."""


@dataclass(frozen=True, slots=True)
class ContractMethod:
    """A method's use case, with the permission that it needs on some queue, and on the one that its
    request names."""

    use_case: Callable[..., Any]
    permission: Permission
    """That of the use case."""
    queue: Callable[[Any], str]
    """Returns the queue that a request names; empty: it names none, or the handler refuses it."""
    row: ContractRow | None = None
    """None: the method has a handler."""


def uses(
    use_case: Callable[..., Any],
    queue: str | Callable[[Any], str] = lambda request: "",
    row: ContractRow | None = None,
) -> ContractMethod:
    """Return a method by its use case, with the path of the field that names the queue."""
    named = attrgetter(queue) if isinstance(queue, str) else queue
    return ContractMethod(use_case, permission_of(use_case), named, row)


def _row(
    use_case: Callable[..., Any],
    render: Callable[[Any], Message],
    queue: str | Callable[[Any], str] = lambda request: "",
    read: Callable[[Any], Arguments] = convert.fields_of,
) -> ContractMethod:
    """Return a method that needs no handler."""
    return uses(use_case, queue, ContractRow(render, read))


def _as(kind: Callable[..., Any]) -> Callable[[Message], Arguments]:
    """Return the reader of a use case that takes a request of the store with the same fields."""
    return lambda request: {"request": kind(**convert.fields_of(request))}


def _paused(request: Message, *, paused: bool) -> Arguments:
    return {**convert.fields_of(request), "paused": paused}


def _created_schedule(request: schedules.CreateScheduleRequest) -> Arguments:
    return {"request": CreateSchedule(**convert.fields_of(request.schedule))}


def _updated_schedule(request: schedules.UpdateScheduleRequest) -> Arguments:
    return {"request": convert.schedule_update(request.schedule, request.update_mask)}


def _staged(staged: Staged) -> Message:
    return staging.StageResponse(
        message_count=staged.message_count,
        duplicate=staged.duplicate,
        expire_time=convert.timestamp(staged.expires_at),
    )


def _published(published: Published) -> Message:
    return staging.PublishResponse(
        message_count=published.message_count,
        duplicate=published.duplicate,
        last_epoch=published.last_epoch,
    )


def _committed(committed: Committed) -> Message:
    return reservations.CommitReservationsResponse(
        deleted_count=committed.deleted_count, lost_sequence_numbers=committed.lost_sequence_numbers
    )


CONTRACT: Final[Mapping[str, ContractMethod]] = {
    "CreateQueue": uses(Queues.create, "queue.name"),
    "GetQueue": uses(Queues.get, "name"),
    "ListQueues": uses(Queues.list),
    "UpdateQueue": uses(Queues.update, "queue.name"),
    "DeleteQueue": uses(Queues.delete, "name"),
    "PurgeQueue": uses(Queues.purge, "name"),
    "Send": uses(Sends.send, "queue"),
    "StreamSend": uses(Sends.send, "request.queue"),
    "Receive": uses(Receives.receive, "queue"),
    "StreamReceive": uses(Receives.stream, "start.queue"),
    "Delete": uses(Leases.delete, "queue"),
    "StreamDelete": uses(Leases.delete, "request.queue"),
    "ExtendLeases": uses(Leases.extend, "queue"),
    "Release": uses(Leases.release, "queue"),
    "Reject": uses(Leases.reject, "queue"),
    "GetMessage": _row(Messages.get, convert.message, "queue"),
    "ListMessages": uses(Messages.list, "queue"),
    "Stage": _row(Stages.stage, _staged, "queue", lambda request: {"chunk": stage_of(request)}),
    "Publish": _row(Stages.publish, _published, read=_as(Publish)),
    "AbortStage": _row(
        Stages.abort,
        lambda dropped: staging.AbortStageResponse(message_count=dropped),
        read=_as(Abort),
    ),
    "GetStage": _row(Stages.get, convert.stage),
    "ListStages": _row(Stages.list, convert.stage),
    "Reserve": uses(Reservations.reserve, "queue"),
    "ExtendReservation": _row(Reservations.extend, convert.reservation, read=_as(ExtendReservation)),
    "ReadReservation": uses(Reservations.read),
    "CommitReservations": _row(Reservations.commit, _committed, read=_as(CommitReservations)),
    "ReleaseReservation": _row(Reservations.release, convert.reservation, read=_as(Release)),
    "GetReservation": _row(Reservations.get, convert.reservation),
    "ListReservations": _row(Reservations.list, convert.reservation),
    "StartRedrive": _row(Redrives.start, convert.redrive, "queue", _as(StartRedrive)),
    "GetRedrive": _row(Redrives.get, convert.redrive),
    "ListRedrives": _row(Redrives.list, convert.redrive),
    "CancelRedrive": _row(Redrives.cancel, convert.redrive),
    "CreateSchedule": _row(Schedules.create, convert.schedule, "schedule.queue", _created_schedule),
    "GetSchedule": _row(Schedules.get, convert.schedule, "queue"),
    "UpdateSchedule": _row(Schedules.update, convert.schedule, "schedule.queue", _updated_schedule),
    "ListSchedules": _row(Schedules.list, convert.schedule),
    "PauseSchedule": _row(Schedules.pause, convert.schedule, "queue", partial(_paused, paused=True)),
    "ResumeSchedule": _row(Schedules.pause, convert.schedule, "queue", partial(_paused, paused=False)),
    "DeleteSchedule": _row(Schedules.delete, convert.schedule, "queue"),
}
"""All methods of the contract, by name."""


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
        self._root = {"root_id": app.root_id, "shard": "" if app.shard is None else str(app.shard)}

    def call_of(self, name: str) -> ContractCall | None:
        """Return a call by its name; None: it is a front's own."""
        method = CONTRACT[name]
        if method.row is not None:
            return partial(self._call, method, method.row, name)
        found: ContractCall | None = getattr(self, name, None)
        return found

    async def _call(
        self, method: ContractMethod, row: ContractRow, name: str, caller: Caller, request: Message
    ) -> Message | None:
        answer = await self._app.bound(method.use_case)(caller, **row.read(request))
        if isinstance(answer, ListPage):
            kind = GetMessageClass(METHODS[name].output_type)
            items = [self._in_root(row.render(each)) for each in answer.items]
            items_field = kind.DESCRIPTOR.fields[0].name
            return kind(**{items_field: items}, next_page_token=answer.next_token)
        return None if answer is None else self._in_root(row.render(answer))

    def _in_root(self, message: Contract) -> Contract:
        """Name the root and its shard, where a message has a field for it."""
        for name, value in self._root.items():
            if name in message.DESCRIPTOR.fields_by_name:
                setattr(message, name, value)
        return message

    # Queues.

    async def CreateQueue(self, caller: Caller, request: queues.CreateQueueRequest) -> Message:
        name, settings = request.queue.name, convert.settings(request.queue.settings)
        labels = dict(request.queue.labels)
        created = CreateQueue(name=name, settings=settings, labels=labels)
        return self._queue(await self._app.queues.create(caller, created))

    async def GetQueue(self, caller: Caller, request: queues.GetQueueRequest) -> Message:
        queue = await self._app.queues.get(caller, request.name)
        return self._in_root(queues.GetQueueResponse(queue=self._queue(queue)))

    async def ListQueues(self, caller: Caller, request: queues.ListQueuesRequest) -> Message:
        page = await self._app.queues.list(caller, prefix=request.prefix, **paging(request))
        shown = map(self._queue, page.items)
        return self._in_root(queues.ListQueuesResponse(queues=shown, next_page_token=page.next_token))

    async def UpdateQueue(self, caller: Caller, request: queues.UpdateQueueRequest) -> Message:
        changes = convert.queue_update(request.queue, request.update_mask)
        return self._queue(await self._app.queues.update(caller, changes))

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

    # Reservations.

    async def reserve(self, caller: Caller, request: reservations.ReserveRequest) -> Reservation | None:
        """Reserve messages; None if none is ready in time. The front gives a reservation that no
        transport took to `Reservations.undo`."""
        wait = convert.millis(request.wait, "wait", most=MAX_WAIT)
        fields = {**convert.fields_of(request), "wait": wait}
        return await self._app.reservations.reserve(caller, Reserve(**fields))

    def reserved_pages(
        self, caller: Caller, request: reservations.ReadReservationRequest
    ) -> AsyncIterator[Page]:
        """Yield the messages of a reservation by pages, one of them in memory."""
        fields = convert.fields_of(request)
        del fields["by_column"]
        return self._app.reservations.read(caller, **fields)

    def reservation(self, reservation: Reservation) -> reservations.Reservation:
        """Return a reservation as the contract has it."""
        return self._in_root(convert.reservation(reservation))
