"""The endpoints of messages: send, receive, get, list, extend, release, reject, delete, purge.

Owns the leases between the store and the client: a message whose response could not be written, or
whose client was gone before, is released at once. A large body is never in memory: the kernel sends it
from the file.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import Any, Final

from aiohttp import web
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import (
    InvalidRequest,
    MessageNotFound,
    StoreError,
)
from spoolrack_store.model.message_ids import sent_at
from spoolrack_store.model.operations import (
    Delete,
    Message,
    OpenMessage,
    Receive,
    Send,
    WrittenBody,
    messages_of,
)

from ..app.bounds import MAX_WAIT, message_id, place
from ..app.trace_context import context_in, inherit_context
from ..http import request_bodies
from ..http.http_context import HttpContext, answer
from ..http.request_checks import CALLER, consumer_of_request, peer_of
from ..wire import convert, lease_requests
from ..wire.contract_calls import paging
from ..wire.json_form import parsed, rendered, time_text
from ..wire.lease_requests import Item
from . import headers
from .queue_endpoints import queue_of

SMALL: Final = 64 * 1024
"""Bytes of a body that may come before the queue is asked how many it takes."""
IN_MEMORY: Final = 1024 * 1024
"""Bytes up to which a body is sent from memory. A larger one is written to the disk as it comes."""
MOST_SHOWN: Final = 64 * 1024
"""Bytes of a body in JSON."""
BLOCK: Final = 256 * 1024
"""Bytes of a larger one that are written at once."""


class MessageEndpoints:
    """The handlers of messages. Lives in one event loop."""

    def __init__(self, context: HttpContext) -> None:
        self._context = context
        self._app = context.app
        self._messages = context.app.messages

    async def send(self, request: web.Request) -> web.StreamResponse:
        queue = queue_of(request)
        headers.require_known(request.headers)
        wait = _wait_of(parsed(request.query, rpc.ReceiveRequest))
        self._context.memory.require()
        attributes = headers.attributes_of(request.headers)
        inherit_context(context_in(request.headers.items()), attributes)
        delay = headers.delay(request.headers)
        deduplication_id = headers.deduplication_id(request.headers)
        group = headers.group(request.headers)
        priority = headers.priority(request.headers)
        deliver_at = headers.deliver_at(request.headers)
        limit = SMALL
        if request.content_length is None or request.content_length > SMALL:
            limit = (await self._app.queues.settings(queue)).max_message_size
        async with AsyncExitStack() as stack:
            share = stack.enter_context(self._context.upload_memory.share())
            body, written = await self._received_body(request, queue, limit, share, stack)
            send = Send(
                queue=queue,
                bodies=[body],
                written=written,
                attributes={0: attributes} if attributes else {},
                deduplication_ids={0: deduplication_id} if deduplication_id else {},
                delays={} if delay is None else {0: delay},
                groups={0: group} if group else {},
                priorities={0: priority} if priority else {},
                deliver_at={} if deliver_at is None else {0: deliver_at},
            )
            stored, id = await self._app.sends.send_with_room(
                request[CALLER], send, wait, partial(self._pause, request)
            )
        found_at = {
            "X-Message-Id": id,
            "X-Message-Send-Time": time_text(sent_at(id)),
            "Location": f"/{queue}/messages/{id}",
        }
        if stored.duplicates:
            found_at["X-Message-Duplicate"] = "true"
        return web.Response(status=201, headers=found_at)

    async def _pause(self, request: web.Request, seconds: float) -> None:
        """Return after so many seconds, if the client is there and the server doesn't drain."""
        await self._context.sleep(seconds)
        if request.transport is None:
            raise ConnectionError("the client is gone")

    async def _received_body(
        self,
        request: web.Request,
        queue: str,
        limit: int,
        share: request_bodies.UploadShare,
        stack: AsyncExitStack,
    ) -> tuple[bytes, WrittenBody | None]:
        """Return the body, or where it was written: one above `IN_MEMORY` goes to the disk as it comes.
        The file is discarded at the end of `stack`, unless it is a message's by then."""
        buffer = bytearray()
        expected = request.content_length
        is_large = expected is not None and expected > IN_MEMORY
        pieces = request_bodies.pieces(
            request, queue=queue, limit=limit, http_limits=self._context.http_limits, share=share
        )
        async for piece in pieces:
            buffer += piece
            if is_large or len(buffer) > IN_MEMORY:
                break
        else:
            return bytes(buffer), None
        file = await self._app.sends.begin_body(expected)
        in_thread = self._app.in_thread
        stack.push_async_callback(in_thread, file.discard)
        async for piece in pieces:
            buffer += piece
            if len(buffer) >= BLOCK:
                await in_thread(file.write, bytes(buffer))
                share.free(len(buffer))
                buffer.clear()
        await in_thread(file.write, bytes(buffer))
        return b"", await in_thread(file.finish)

    async def receive(self, request: web.Request) -> web.StreamResponse:
        call = parsed(request.query, rpc.ReceiveRequest)
        receive = Receive(
            queue=queue_of(request),
            wait=_wait_of(call),
            visibility_timeout=convert.visibility(call),
            with_large_bodies=False,
            consumer=consumer_of_request(request, request[CALLER]),
        )
        while True:
            leased = await self._app.receives.receive(request[CALLER], receive, peer_of(request))
            if not leased.receipts:
                return web.Response(status=204, headers={"Cache-Control": "no-store"})
            with leased.handing_over():
                (message,) = messages_of(leased.deliveries)
                response_headers = headers.message_headers(message)
                if len(message.body) == message.body_size:
                    response = web.Response(body=message.body, headers=response_headers)
                    return await request_bodies.write(request, response, self._context.http_limits)
                try:
                    opened = await self._messages.open(request[CALLER], message.queue, message.id)
                except MessageNotFound:
                    continue  # Deleted since, by its id.
                try:
                    return await self._send(
                        request, web.StreamResponse(headers=response_headers), opened
                    )
                finally:
                    self._messages.close(opened)

    async def get(self, request: web.Request) -> web.StreamResponse:
        queue, id = queue_of(request), id_of(request)
        opened = await self._messages.open(request[CALLER], queue, id)
        try:
            response_headers = headers.message_headers(opened.message)
            response_headers |= {"ETag": headers.tag(id), "Accept-Ranges": "bytes"}
            size = opened.message.body_size
            part = headers.part(request, id, size)
            if part is None:
                return await self._send(request, web.StreamResponse(headers=response_headers), opened)
            response_headers |= headers.part_headers(*part, size)
            response = web.StreamResponse(status=206, headers=response_headers)
            return await self._send(request, response, opened, *part)
        finally:
            self._messages.close(opened)

    async def _send(
        self,
        request: web.Request,
        response: web.StreamResponse,
        open_message: OpenMessage,
        first: int = 0,
        count: int | None = None,
    ) -> web.StreamResponse:
        size = open_message.message.body_size if count is None else count
        begin = open_message.offset + first
        await request_bodies.send(
            request, response, open_message.file, begin, size, self._context.http_limits
        )
        return response

    async def list_messages(self, request: web.Request) -> web.StreamResponse:
        call = await self._context.call_in(
            request, rpc.ListMessagesRequest, without=headers.ATTRIBUTE_FILTERS
        )
        wanted = convert.message_filter(call)
        page = await self._messages.list(
            request[CALLER],
            call.queue,
            replace(wanted, attributes=headers.attribute_filter(request.query)),
            **paging(call),
        )
        bodies: Sequence[bytes | None] = [None] * len(page.items)
        if call.max_body_bytes:
            most = place(call.max_body_bytes, "max_body_bytes", most=MOST_SHOWN)
            bodies = await self._messages.beginnings(page.items, most)
        # A thousand messages: not in the event loop.
        shown = await self._app.in_thread(lambda: list(map(_message_json, page.items, bodies)))
        return answer({"messages": shown, "next_page_token": page.next_token})

    async def show(self, request: web.Request) -> web.StreamResponse:
        """Return a message as JSON, with the beginning of its body."""
        call = await self._context.call_in(request, rpc.ListMessagesRequest, without=("id",))
        most = place(call.max_body_bytes, "max_body_bytes", most=MOST_SHOWN) or MOST_SHOWN
        opened = await self._messages.open(request[CALLER], call.queue, id_of(request))
        try:
            body = await self._app.in_thread(_beginning, opened, most)
        finally:
            self._messages.close(opened)
        return answer(_message_json(opened.message, body))

    async def delete(self, request: web.Request) -> web.StreamResponse:
        queue, id = queue_of(request), id_of(request)
        receipt = headers.receipt(request.headers, id)
        last = headers.last_receive(request.query, request.headers)
        if receipt is not None:
            last_receives = {} if last is None else {0: last}
            delete = Delete(queue=queue, receipts=[receipt], last_receives=last_receives)
            (error,) = await self._app.leases.delete(request[CALLER], delete).answered()
        elif last is None:
            (error,) = await self._messages.delete(request[CALLER], queue, [id])
        else:
            raise InvalidRequest(
                what="the parameter allow_expired", value="true", rule="goes with If-Match: RECEIPT"
            )
        # One that isn't there is what the caller wants; softlayer/mq says the same.
        if error is not None and not isinstance(error, MessageNotFound):
            raise error
        return web.Response(status=202)

    async def extend(self, request: web.Request) -> web.StreamResponse:
        queue, last = queue_of(request), headers.last_receive(request.query, request.headers)
        item = _change_in(request, rpc.LeaseExtension, without=("allow_expired",))
        if not item.HasField("visibility_timeout"):
            rule = "must be given: the seconds from now to the end of the lease"
            raise InvalidRequest(what="the parameter visibility_timeout", value="", rule=rule)
        changes, _ = lease_requests.extensions([item])
        last_receives = {} if last is None else {0: last}
        extended = self._app.leases.extend(request[CALLER], queue, changes, last_receives)
        (end,) = await extended.answered()
        if isinstance(end, StoreError):
            raise end
        return web.json_response({"lease_expire_time": time_text(end)})

    async def release(self, request: web.Request) -> web.StreamResponse:
        changes = lease_requests.releases([_change_in(request, rpc.MessageRelease)])
        released = self._app.leases.release(request[CALLER], queue_of(request), changes)
        (result,) = await released.answered()
        if isinstance(result, StoreError):
            raise result
        return web.json_response({"deliver_time": time_text(result)})

    async def reject(self, request: web.Request) -> web.StreamResponse:
        changes = lease_requests.rejections([_change_in(request, rpc.MessageRejection)])
        rejected = self._app.leases.reject(request[CALLER], queue_of(request), changes)
        (error,) = await rejected.answered()
        if error is not None:
            raise error
        return web.Response(status=204)

    async def purge(self, request: web.Request) -> web.StreamResponse:
        call = await self._context.call_in(request, rpc.PurgeQueueRequest, without=("queue", "name"))
        purged = await self._app.queues.purge(
            request[CALLER],
            queue_of(request),
            sent_before=convert.optional_moment(call, "sent_before"),
            states=convert.states(call.states),
        )
        return web.json_response({"purged_count": purged})


def id_of(request: web.Request) -> str:
    return message_id(request.match_info["id"])


def _wait_of(call: rpc.ReceiveRequest) -> Millis:
    return convert.millis(call.wait, "wait", most=MAX_WAIT)


def _change_in(request: web.Request, kind: type[Item], *, without: Collection[str] = ()) -> Item:
    """Return the change that a query asks for, of the lease in If-Match; names in `without` are no
    fields of it."""
    query = {name: value for name, value in request.query.items() if name not in without}
    change = parsed(query, kind, without=("receipt", "last_receive"))
    change.receipt = headers.required_receipt(request.headers, id_of(request))
    return change


def _beginning(open_message: OpenMessage, most: int) -> bytes:
    open_message.file.seek(open_message.offset)
    return open_message.file.read(min(most, open_message.message.body_size))


def _message_json(message: Message, body: bytes | None) -> dict[str, Any]:
    """Return a message as JSON with the beginning of its body; None: without it."""
    without = ("receipt",) if body is not None else ("body", "receipt")
    return rendered(convert.message(replace(message, body=body or b"")), without=without)
