"""`QueueService`: each RPC as a request to the store.

Here are those about queues and messages; those about stages, reservations and redrives are parts of
their own. A handler checks what the contract bounds, submits to the store and awaits the answer; it
never waits for a disk in the event loop. What no transport took, because its client was gone, is given
back at once. MemoryLimiter is bounded by call: a stream holds two frames at most, one that the
transport takes and the next.
"""

# ruff: noqa: N802 - the contract names the methods

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Final

from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_store.model import operations as ops
from spoolrack_store.model.clock import Clock, Millis
from spoolrack_store.model.dead_letter_records import check_explanation
from spoolrack_store.model.errors import Draining, InvalidRequest, StoreError
from spoolrack_store.model.operations import (
    ChangeVisibility,
    LastReceive,
    Receive,
    RejectMessages,
    ReleaseMessages,
)
from spoolrack_store.model.settings import MAX_DELAY, MAX_VISIBILITY
from spoolrack_store.store import Store

from . import convert, delete_requests, encoding, send_requests
from .access.authorization import queues_for
from .access.list_filter import shown
from .access.permissions import Permission
from .concurrency import ConcurrencyLimit
from .external_scaler import ExternalScaler
from .flow_control import FlowControl
from .frames import FrameWriter
from .lease_requests import LeaseRequests
from .logs import Log
from .loop_answers import answer
from .memory import Budget, MemoryLimiter
from .observability.instrumentation import Instrumentation
from .observability.trace_context import context_in
from .pages import PageTokens, filter_texts, page_size
from .redrive_service import RedriveService
from .reservation_service import ReservationService
from .rpc import Context, Requests, outlast
from .schedule_service import ScheduleService
from .staging_service import StagingService
from .status import status_of
from .store_access import FRAME_BYTES, StoreAccess
from .streams import Streams

WRITES_ITSELF: Final = frozenset({"Receive", "Reserve"})
"""Unary methods that must know whether their response was taken."""


class QueueService:
    """The handlers. Lives in one event loop."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        log: Log,
        workers: ConcurrencyLimit | None = None,
        watch: Instrumentation | None = None,
        responses: Budget | None = None,
    ) -> None:
        """`responses` bounds the bytes of the messages that are on their way out."""
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
        self._draining = False
        self._flow_controls: set[FlowControl] = set()
        self._streams = Streams(watch)

    @property
    def parts(self) -> tuple[object, ...]:
        """The parts that have the handlers, each of them in one."""
        return (
            self,
            StagingService(self._access),
            self._reserving,
            RedriveService(self._access),
            ScheduleService(self._access, self._clock),
            self._scaler,
        )

    def credits(self) -> tuple[int, int]:
        """How many messages all streams of receives may hold, and how many they hold."""
        held = [flow_control.credits for flow_control in self._flow_controls]
        return sum(each.limit for each in held), sum(each.in_flight for each in held)

    def drain(self) -> None:
        """End the streams: those of receives now, those of requests when all they took is answered."""
        self._draining = True
        for flow_control in self._flow_controls:
            flow_control.stop()
        self._streams.drain()
        self._reserving.drain()
        self._scaler.drain()
        self._frames.drain()

    async def close(self) -> None:
        """Return once every lease that goes back is back. No call may be running any more."""
        await self._leases.close()
        self._access.close()

    # Queues.

    async def CreateQueue(
        self, request: rpc.CreateQueueRequest, context: Context
    ) -> rpc.CreateQueueResponse:
        queue = await self._access.submit(convert.creation(request.queue))
        return rpc.CreateQueueResponse(queue=convert.queue(queue, self._clock.wall()))

    async def GetQueue(self, request: rpc.GetQueueRequest, context: Context) -> rpc.GetQueueResponse:
        queue = await self._access.read(self._store.queue, convert.queue_name(request.name))
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
            send_requests.lend(context_in(context.invocation_metadata() or ()), request.messages)
            begun = send_requests.start(self._store, request.queue, request.messages)
            del request  # The store has the bodies.
            await answer(begun.future)
            return encoding.send_response(begun.stored())

    async def StreamSend(self, requests: Requests, context: Context) -> None:
        begin = partial(send_requests.start_in_turn, self._store, self._workers)
        await self._streams.serve(requests, context, begin, "StreamSend")

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
            ),
        )
        await leased.hand_over()

    async def StreamReceive(self, request: rpc.StreamReceiveRequest, context: Context) -> None:
        queue = convert.queue_name(request.queue)
        visibility = convert.visibility(request)
        limit = convert.number(
            request.max_in_flight,
            "max_in_flight",
            default=convert.DEFAULT_IN_FLIGHT,
            most=convert.MAX_IN_FLIGHT,
        )
        flow_control = FlowControl(limit)
        credits = flow_control.credits
        self._flow_controls.add(flow_control)
        writing: deque[asyncio.Task[None]] = deque()
        try:
            # Tells a client of an empty queue that it is connected.
            await context.send_initial_metadata(())
            while True:
                if len(writing) > 1:
                    await asyncio.shield(writing[0])
                    writing.popleft()
                await flow_control.wait()
                if self._draining:
                    raise Draining
                leased = await self._frames.lease(
                    context,
                    Receive(
                        queue=queue,
                        max_messages=min(credits.free, convert.MAX_COUNT),
                        max_bytes=FRAME_BYTES,
                        visibility=visibility,
                        wait=None,
                        credits=credits,
                    ),
                )
                if leased is not None:
                    # While it is written, the next receive waits in the store, where the next commit
                    # finds it: what that commit sends, it leases, too.
                    before = writing[-1] if writing else None
                    writing.append(asyncio.create_task(leased.hand_over(before)))
                    # Nothing of it is held while the next is awaited.
                    del leased
        finally:
            try:
                # A write that is cancelled couldn't give its leases back.
                await outlast(writing)
            finally:
                # The leases live on until they are due, and their credits still wake the stream.
                self._flow_controls.discard(flow_control)
                flow_control.disable()

    # What holders of messages do.

    async def Delete(self, request: rpc.DeleteRequest, context: Context) -> bytes:
        begun = delete_requests.start(self._store, request.queue, request.targets)
        await answer(begun.future)
        return encoding.delete_response(begun.results())

    async def StreamDelete(self, requests: Requests, context: Context) -> None:
        async def begin(request: rpc.DeleteRequest) -> delete_requests.SubmittedDelete:
            return delete_requests.start(self._store, request.queue, request.targets)

        await self._streams.serve(requests, context, begin, "StreamDelete")

    async def ChangeVisibility(
        self, request: rpc.ChangeVisibilityRequest, context: Context
    ) -> rpc.ChangeVisibilityResponse:
        queue = convert.queue_name(request.queue)
        convert.check_count(len(request.changes), "changes")
        results: dict[int, Millis | StoreError] = {}
        alike: dict[Millis, list[int]] = {}
        last: dict[int, LastReceive] = {}
        for position, change in enumerate(request.changes):
            try:
                visibility = convert.millis(
                    change.visibility_timeout, "visibility_timeout", most=MAX_VISIBILITY
                )
                if change.HasField("last_receive"):
                    last[position] = convert.last_receive(change.last_receive)
                alike.setdefault(visibility, []).append(position)
            except StoreError as error:
                results[position] = error
        asked = [
            (
                positions,
                self._store.submit(
                    ChangeVisibility(
                        queue=queue,
                        receipts=[request.changes[position].receipt for position in positions],
                        visibility=visibility,
                        last_receives={
                            place: last[position]
                            for place, position in enumerate(positions)
                            if position in last
                        },
                    )
                ),
            )
            for visibility, positions in alike.items()
        ]
        for positions, future in asked:
            ends = await answer(future)
            results.update(zip(positions, ends, strict=True))
        response = rpc.ChangeVisibilityResponse()
        for position in range(len(request.changes)):
            result = results[position]
            if isinstance(result, StoreError):
                response.results.add(error=status_of(result))
            elif result:
                response.results.add(lease_expire_time=convert.timestamp(result))
            else:
                response.results.add().released.SetInParent()
        return response

    async def Release(self, request: rpc.ReleaseRequest, context: Context) -> rpc.ReleaseResponse:
        queue = convert.queue_name(request.queue)
        convert.check_count(len(request.releases), "releases")
        results: dict[int, Millis | StoreError] = {}
        alike: dict[tuple[Millis | None, str, bool], list[int]] = {}
        for position, release in enumerate(request.releases):
            try:
                delay = None
                if release.HasField("delay"):
                    delay = convert.millis(release.delay, "delay", most=MAX_DELAY)
                check_explanation(release.reason)
                wanted = delay, release.reason, release.uncounted
                alike.setdefault(wanted, []).append(position)
            except StoreError as error:
                results[position] = error
        asked = [
            (
                positions,
                self._store.submit(
                    ReleaseMessages(
                        queue=queue,
                        receipts=[request.releases[position].receipt for position in positions],
                        delay=delay,
                        explanation=reason,
                        is_uncounted=is_uncounted,
                    )
                ),
            )
            for (delay, reason, is_uncounted), positions in alike.items()
        ]
        for positions, future in asked:
            found = await answer(future)
            results.update(zip(positions, found, strict=True))
        response = rpc.ReleaseResponse()
        for position in range(len(request.releases)):
            result = results[position]
            if isinstance(result, StoreError):
                response.results.add(error=status_of(result))
            else:
                response.results.add(deliver_time=convert.timestamp(result))
        return response

    async def Reject(self, request: rpc.RejectRequest, context: Context) -> rpc.RejectResponse:
        queue = convert.queue_name(request.queue)
        convert.check_count(len(request.rejections), "rejections")
        results: dict[int, StoreError | None] = {}
        alike: dict[str, list[int]] = {}
        for position, rejection in enumerate(request.rejections):
            try:
                check_explanation(rejection.reason)
                alike.setdefault(rejection.reason, []).append(position)
            except StoreError as error:
                results[position] = error
        asked = [
            (
                positions,
                self._store.submit(
                    RejectMessages(
                        queue=queue,
                        receipts=[request.rejections[position].receipt for position in positions],
                        explanation=reason,
                    )
                ),
            )
            for reason, positions in alike.items()
        ]
        for positions, future in asked:
            found = await answer(future)
            results.update(zip(positions, found, strict=True))
        response = rpc.RejectResponse()
        for position in range(len(request.rejections)):
            result = results[position]
            if result is None:
                response.results.add().rejected.SetInParent()
            else:
                response.results.add(error=status_of(result))
        return response

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
            size += len(message.deaths) * convert.LARGEST_DEATH
            size += sum(len(death.explanation.encode()) for death in message.deaths)
            if count and size > FRAME_BYTES:
                break
            count += 1
        if max_body != 0 and count:
            page = look(limit=count, max_body_bytes=max_body)
            return page.messages, page.last
        is_cut = count < len(found.messages)
        return found.messages[:count], found.messages[count - 1].id if is_cut else found.last
