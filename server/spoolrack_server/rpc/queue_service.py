"""`QueueService`: each RPC as a request to the store.

Here are those about queues and messages; those about stages, reservations and redrives are parts of
their own. A handler checks what the contract bounds, submits to the store and awaits the answer; it
never waits for a disk in the event loop. A message that no transport took, because its client was gone,
is released at once.
"""

# ruff: noqa: N802 - the contract names the methods

from __future__ import annotations

from functools import partial
from typing import Final

from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_store.model.clock import Clock
from spoolrack_store.model.errors import InvalidRequest
from spoolrack_store.model.operations import Receive
from spoolrack_store.store import Store

from ..access.authorization import current_caller
from ..access.consumers import consumer_of_call
from ..app.application import Application
from ..app.concurrency import ConcurrencyLimit
from ..app.memory import Budget, MemoryLimiter
from ..app.store_access import SubmittedRequest
from ..metrics.instrumentation import Instrumentation
from ..metrics.observer import Observer
from ..metrics.trace_context import context_in
from ..system.logs import Log
from ..wire import convert
from . import delete_requests, lease_change_requests, send_requests
from .calls import Context, Requests
from .external_scaler import ExternalScaler
from .frames import FrameWriter
from .receive_streams import ReceiveStreams
from .redrive_service import RedriveService
from .reservation_service import ReservationService
from .schedule_service import ScheduleService
from .staging_service import StagingService
from .streams import StreamOperation, Streams

WRITES_ITSELF: Final = frozenset({"Receive", "Reserve"})
"""Unary methods that must know whether their response was taken."""


class QueueService:
    """The handlers of the service. Lives in one event loop."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        log: Log,
        workers: ConcurrencyLimit | None = None,
        watch: Instrumentation | None = None,
        responses: Budget | None = None,
        observer: Observer | None = None,
    ) -> None:
        """`responses` bounds the bytes of messages in unsent responses; `observer` knows the other
        worker processes."""
        self._store = store
        self._workers = workers or ConcurrencyLimit(None)
        self._clock = clock
        self._app = app = Application(
            store,
            clock,
            log,
            self._workers,
            None if observer is None else observer.with_consumers,
        )
        self._frames = FrameWriter(
            responses or MemoryLimiter(log).responses, app.access, app.leases, clock
        )
        self._reserving = ReservationService(app.reservations, self._frames, store.root_id)
        self._scaler = ExternalScaler(app.queues, clock)
        self._streams = Streams(watch)
        self._receive_streams = ReceiveStreams(store, self._frames, self._streams)
        self.parts = (
            self,
            StagingService(app.access, app.stages),
            self._reserving,
            RedriveService(app.redrives),
            ScheduleService(app.schedules),
            self._scaler,
        )
        """The objects that have the handlers, each of them in one."""

    def credits(self) -> tuple[int, int]:
        """Return the number of messages that all receive streams may hold, and that they hold."""
        return self._receive_streams.credits()

    def drain(self) -> None:
        """End the streams: those of receives now, those of requests once all their requests are
        answered."""
        self._receive_streams.drain()
        self._streams.drain()
        self._reserving.drain()
        self._scaler.drain()
        self._frames.drain()

    async def close(self) -> None:
        """Return once all releases are done. No call may be running any more."""
        await self._app.close()

    # Queues.

    async def CreateQueue(
        self, request: rpc.CreateQueueRequest, context: Context
    ) -> rpc.CreateQueueResponse:
        asked = request.queue
        made = await self._app.queues.create(
            current_caller(), asked.name, convert.settings(asked.settings), dict(asked.labels)
        )
        return rpc.CreateQueueResponse(queue=convert.queue(made, self._clock.wall()))

    async def GetQueue(self, request: rpc.GetQueueRequest, context: Context) -> rpc.GetQueueResponse:
        queue = await self._app.queues.get(current_caller(), request.name)
        return rpc.GetQueueResponse(queue=convert.queue(queue, self._clock.wall()))

    async def ListQueues(
        self, request: rpc.ListQueuesRequest, context: Context
    ) -> rpc.ListQueuesResponse:
        page = await self._app.queues.list(
            current_caller(),
            prefix=request.prefix,
            page_size=request.page_size,
            page_token=request.page_token,
        )
        now = self._clock.wall()
        return rpc.ListQueuesResponse(
            queues=[convert.queue(queue, now) for queue in page.items],
            next_page_token=page.next_token,
            root_id=self._store.root_id,
        )

    async def UpdateQueue(
        self, request: rpc.UpdateQueueRequest, context: Context
    ) -> rpc.UpdateQueueResponse:
        changes = convert.update(request.queue, request.update_mask)
        queue = await self._app.queues.update(current_caller(), request.queue.name, changes)
        return rpc.UpdateQueueResponse(queue=convert.queue(queue, self._clock.wall()))

    async def DeleteQueue(
        self, request: rpc.DeleteQueueRequest, context: Context
    ) -> rpc.DeleteQueueResponse:
        await self._app.queues.delete(current_caller(), request.name, if_version=request.version)
        return rpc.DeleteQueueResponse()

    async def PurgeQueue(
        self, request: rpc.PurgeQueueRequest, context: Context
    ) -> rpc.PurgeQueueResponse:
        purged = await self._app.queues.purge(
            current_caller(),
            request.name,
            sent_before=convert.optional_moment(request, "sent_before"),
            states=convert.states(request.states),
        )
        return rpc.PurgeQueueResponse(purged_count=purged)

    # Sends.

    async def Send(self, request: rpc.SendRequest, context: Context) -> bytes:
        async with self._workers.saving():
            send_requests.inherit_context(
                context_in(context.invocation_metadata() or ()), request.messages
            )
            begun = send_requests.start(self._store, request.queue, request.messages)
            del request  # The store has the bodies.
            return await begun.answered()

    async def StreamSend(self, requests: Requests, context: Context) -> None:
        begin = partial(send_requests.start_in_turn, self._store, self._workers)
        await self._streams.serve(requests, context, StreamOperation("StreamSend", begin))

    # Receives.

    async def Receive(self, request: rpc.ReceiveRequest, context: Context) -> None:
        if request.max_bytes < 0:
            raise InvalidRequest(what="max_bytes", value=request.max_bytes, rule="must not be negative")
        max_bytes = request.max_bytes or convert.DEFAULT_RECEIVE_BYTES
        leased = await self._frames.lease_now(
            context,
            Receive(
                queue=convert.queue_name(request.queue),
                max_messages=convert.number(
                    request.max_messages, "max_messages", default=1, most=convert.MAX_COUNT
                ),
                # More than fits into a response is never wanted.
                max_bytes=min(max_bytes, convert.MAX_RECEIVE_BYTES),
                visibility=convert.visibility(request),
                wait=convert.millis(request.wait, "wait", most=convert.MAX_WAIT),
                consumer=consumer_of_call(context),
            ),
        )
        await leased.hand_over()

    async def StreamReceive(self, requests: Requests, context: Context) -> None:
        await self._receive_streams.serve(requests, context)

    # Calls on leases.

    async def Delete(self, request: rpc.DeleteRequest, context: Context) -> bytes:
        return await delete_requests.start(self._store, request.queue, request.targets).answered()

    async def StreamDelete(self, requests: Requests, context: Context) -> None:
        async def begin(request: rpc.DeleteRequest) -> SubmittedRequest:
            return delete_requests.start(self._store, request.queue, request.targets)

        await self._streams.serve(requests, context, StreamOperation("StreamDelete", begin))

    async def ExtendLeases(self, request: rpc.ExtendLeasesRequest, context: Context) -> bytes:
        return await lease_change_requests.extend(self._store, request).answered()

    async def Release(self, request: rpc.ReleaseRequest, context: Context) -> bytes:
        return await lease_change_requests.release(self._store, request).answered()

    async def Reject(self, request: rpc.RejectRequest, context: Context) -> bytes:
        return await lease_change_requests.reject(self._store, request).answered()

    # Looks at messages.

    async def GetMessage(
        self, request: rpc.GetMessageRequest, context: Context
    ) -> rpc.GetMessageResponse:
        message = await self._app.messages.get(current_caller(), request.queue, request.id)
        return rpc.GetMessageResponse(message=convert.message(message))

    async def ListMessages(
        self, request: rpc.ListMessagesRequest, context: Context
    ) -> rpc.ListMessagesResponse:
        page = await self._app.messages.list(
            current_caller(),
            request.queue,
            convert.message_filter(request),
            page_size=request.page_size,
            page_token=request.page_token,
            skip=request.skip,
            max_body_bytes=convert.body_bytes(request),
        )
        return rpc.ListMessagesResponse(
            messages=map(convert.message, page.items), next_page_token=page.next_token
        )
