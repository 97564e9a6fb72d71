"""The RPCs about queues and messages.

A handler translates for a use case, and never waits for a disk in the event loop. A message that no
transport took, because its client was gone, is released at once.
"""

# ruff: noqa: N802 - the contract names the methods

from __future__ import annotations

from functools import partial

from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_store.model.clock import Clock
from spoolrack_store.model.errors import InvalidRequest
from spoolrack_store.model.operations import Receive

from ..app.application import Application
from ..app.bounded_receives import BoundedReceives
from ..app.store_access import Submitted
from ..app.trace_context import context_in
from ..wire import convert, outgoing_messages
from .authorized_calls import Context, current_caller, current_consumer
from .calls import Requests
from .message_requests import MessageRequests, hand_over
from .receive_streams import ReceiveStreams
from .streams import StreamOperation, Streams


class QueueService:
    """The handlers of the service. Lives in one event loop."""

    def __init__(
        self,
        app: Application,
        clock: Clock,
        requests: MessageRequests,
        receives: BoundedReceives,
        streams: Streams,
        receive_streams: ReceiveStreams,
    ) -> None:
        self._app = app
        self._shard = "" if app.access.store.shard is None else str(app.access.store.shard)
        self._clock = clock
        self._requests = requests
        self._receives = receives
        self._streams = streams
        self._receive_streams = receive_streams

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
        return rpc.GetQueueResponse(queue=convert.queue(queue, self._clock.wall()), shard=self._shard)

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
            root_id=self._app.access.store.root_id,
            shard=self._shard,
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
        outgoing_messages.inherit_context(
            context_in(context.invocation_metadata() or ()), request.messages
        )
        sent = await self._requests.send(current_caller(), request)
        del request  # The store has the bodies.
        return await sent.answered()

    async def StreamSend(self, requests: Requests, context: Context) -> None:
        begin = partial(self._requests.send, current_caller())
        await self._streams.serve(requests, context, StreamOperation("StreamSend", begin))

    # Receives.

    async def Receive(self, request: rpc.ReceiveRequest, context: Context) -> None:
        if request.max_bytes < 0:
            raise InvalidRequest(what="max_bytes", value=request.max_bytes, rule="must not be negative")
        max_bytes = request.max_bytes or convert.DEFAULT_RECEIVE_BYTES
        leased = await self._receives.lease_now(
            current_caller(),
            Receive(
                queue=convert.queue_name(request.queue),
                max_messages=convert.number(
                    request.max_messages, "max_messages", default=1, most=convert.MAX_COUNT
                ),
                # More than fits into a response is never wanted.
                max_bytes=min(max_bytes, convert.MAX_RECEIVE_BYTES),
                visibility=convert.visibility(request),
                wait=convert.millis(request.wait, "wait", most=convert.MAX_WAIT),
                consumer=current_consumer(context),
            ),
            context.peer(),
        )
        await hand_over(leased, context, self._clock.wall())

    async def StreamReceive(self, requests: Requests, context: Context) -> None:
        await self._receive_streams.serve(requests, context)

    # Calls on leases.

    async def Delete(self, request: rpc.DeleteRequest, context: Context) -> bytes:
        return await self._requests.delete(current_caller(), request).answered()

    async def StreamDelete(self, requests: Requests, context: Context) -> None:
        caller = current_caller()

        async def begin(request: rpc.DeleteRequest) -> Submitted[bytes]:
            return self._requests.delete(caller, request)

        await self._streams.serve(requests, context, StreamOperation("StreamDelete", begin))

    async def ExtendLeases(self, request: rpc.ExtendLeasesRequest, context: Context) -> bytes:
        return await self._requests.extend(current_caller(), request).answered()

    async def Release(self, request: rpc.ReleaseRequest, context: Context) -> bytes:
        return await self._requests.release(current_caller(), request).answered()

    async def Reject(self, request: rpc.RejectRequest, context: Context) -> bytes:
        return await self._requests.reject(current_caller(), request).answered()

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
