"""`QueueService`: each RPC as a request to the store.

Here are those about queues and messages; those about stages, reservations and redrives are parts of
their own. A handler checks what the contract bounds, submits to the store and awaits the answer; it
never waits for a disk in the event loop. A message that no transport took, because its client was gone,
is released at once.
"""

# ruff: noqa: N802 - the contract names the methods

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_store.model import operations as ops
from spoolrack_store.model.clock import Clock
from spoolrack_store.model.errors import InvalidRequest
from spoolrack_store.model.operations import Receive
from spoolrack_store.store import Store

from . import convert, delete_requests, lease_change_requests, send_requests
from .access.authorization import queues_for
from .access.list_filter import shown
from .access.permissions import Permission
from .concurrency import ConcurrencyLimit
from .consumers import consumer_of_call
from .external_scaler import ExternalScaler
from .frames import FrameWriter
from .lease_requests import LeaseRequests
from .logs import Log
from .memory import Budget, MemoryLimiter
from .observability.instrumentation import Instrumentation
from .observability.observer import Observer
from .observability.trace_context import context_in
from .page_tokens import PageTokens, filter_texts, page_size
from .receive_streams import ReceiveStreams
from .redrive_service import RedriveService
from .reservation_service import ReservationService
from .rpc import Context, Requests
from .schedule_service import ScheduleService
from .staging_service import StagingService
from .store_access import FRAME_BYTES, StoreAccess, SubmittedRequest
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
        self._observer = observer
        self._store = store
        self._workers = workers or ConcurrencyLimit(None)
        self._clock = clock
        self._leases = LeaseRequests(store, log, self._workers)
        self._access = StoreAccess(store, self._workers)
        self._frames = FrameWriter(
            responses or MemoryLimiter(log).responses, self._access, self._leases, clock
        )
        self._reserving = ReservationService(self._access, self._leases, self._frames)
        self._scaler = ExternalScaler(self._access, clock)
        self._streams = Streams(watch)
        self._receive_streams = ReceiveStreams(store, self._frames, self._streams)

    @property
    def parts(self) -> tuple[object, ...]:
        """The objects that have the handlers, each of them in one."""
        return (
            self,
            StagingService(self._access),
            self._reserving,
            RedriveService(self._access),
            ScheduleService(self._access, self._clock),
            self._scaler,
        )

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
        await self._leases.close()
        await self._access.close()

    # Queues.

    async def CreateQueue(
        self, request: rpc.CreateQueueRequest, context: Context
    ) -> rpc.CreateQueueResponse:
        queue = await self._access.submit(convert.creation(request.queue))
        return rpc.CreateQueueResponse(queue=convert.queue(queue, self._clock.wall()))

    async def GetQueue(self, request: rpc.GetQueueRequest, context: Context) -> rpc.GetQueueResponse:
        queue = await self._access.read(self._store.queue, convert.queue_name(request.name))
        if self._observer is not None:
            queue = await self._observer.with_consumers(queue)
        return rpc.GetQueueResponse(queue=convert.queue(queue, self._clock.wall()))

    async def ListQueues(
        self, request: rpc.ListQueuesRequest, context: Context
    ) -> rpc.ListQueuesResponse:
        size = page_size(request.page_size)
        tokens = PageTokens("ListQueues", request.prefix)
        after = tokens.after(request.page_token, convert.queue_name, "")
        queues = await self._access.read(
            partial(
                shown,
                partial(self._store.queues, prefix=request.prefix),
                lambda queue: queue.name,
                lambda queue: (queue.name,),
                queues_for(Permission.MONITOR),
                after=after,
                limit=size + 1,
            )
        )
        now = self._clock.wall()
        return rpc.ListQueuesResponse(
            queues=[convert.queue(queue, now) for queue in queues[:size]],
            next_page_token=tokens.token(queues[size - 1].name) if len(queues) > size else "",
            root_id=self._store.root_id,
        )

    async def UpdateQueue(
        self, request: rpc.UpdateQueueRequest, context: Context
    ) -> rpc.UpdateQueueResponse:
        queue = await self._access.submit(convert.update(request.queue, request.update_mask))
        return rpc.UpdateQueueResponse(queue=convert.queue(queue, self._clock.wall()))

    async def DeleteQueue(
        self, request: rpc.DeleteQueueRequest, context: Context
    ) -> rpc.DeleteQueueResponse:
        name, version = convert.queue_name(request.name), convert.version(request.version)
        await self._access.submit(ops.DeleteQueue(name=name, if_version=version))
        return rpc.DeleteQueueResponse()

    async def PurgeQueue(
        self, request: rpc.PurgeQueueRequest, context: Context
    ) -> rpc.PurgeQueueResponse:
        purged = await self._access.submit(convert.purge(request))
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

    async def ChangeVisibility(self, request: rpc.ChangeVisibilityRequest, context: Context) -> bytes:
        return await lease_change_requests.change_visibility(self._store, request).answered()

    async def Release(self, request: rpc.ReleaseRequest, context: Context) -> bytes:
        return await lease_change_requests.release(self._store, request).answered()

    async def Reject(self, request: rpc.RejectRequest, context: Context) -> bytes:
        return await lease_change_requests.reject(self._store, request).answered()

    # Looks at messages.

    async def GetMessage(
        self, request: rpc.GetMessageRequest, context: Context
    ) -> rpc.GetMessageResponse:
        queue, id = convert.queue_name(request.queue), convert.message_id(request.id)
        message = await self._access.read(self._store.message, queue, id)
        return rpc.GetMessageResponse(message=convert.message(message))

    async def ListMessages(
        self, request: rpc.ListMessagesRequest, context: Context
    ) -> rpc.ListMessagesResponse:
        queue, wanted = convert.queue_name(request.queue), convert.message_filter(request)
        tokens = PageTokens("ListMessages", queue, *filter_texts(wanted))
        messages, last = await self._access.read(
            self._page,
            queue,
            wanted,
            tokens.after(request.page_token, convert.message_id, ""),
            convert.skip(request),
            page_size(request.page_size),
            convert.body_bytes(request),
        )
        return rpc.ListMessagesResponse(
            messages=[convert.message(message) for message in messages],
            next_page_token=last and tokens.token(last),
        )

    def _page(
        self,
        queue: str,
        wanted: ops.MessageFilter,
        after: str,
        skip: int,
        limit: int,
        max_body: int | None,
    ) -> tuple[Sequence[ops.Message], str]:
        """Return a page of at most `FRAME_BYTES`, and after what the next one begins, if there is
        another."""
        look = partial(self._store.page, queue, wanted, after=after, skip=skip)
        # The bodies' sizes first: a thousand bodies of 64 MiB must never be in memory together.
        found = look(limit=limit, max_body_bytes=0)
        size, count = 0, 0
        for message in found.messages:
            size += message.size if max_body is None else min(message.size, max_body)
            size += sum(len(name) + len(value) for name, value in message.attributes.items())
            size += len(message.deaths) * convert.LARGEST_RECORD
            size += sum(len(record.explanation.encode()) for record in message.deaths)
            if count and size > FRAME_BYTES:
                break
            count += 1
        if max_body != 0 and count:
            page = look(limit=count, max_body_bytes=max_body)
            return page.messages, page.last
        is_cut = count < len(found.messages)
        return found.messages[:count], found.messages[count - 1].id if is_cut else found.last
