"""The endpoints of messages: send, receive, get, list, release, reject, delete, purge.

Owns the leases between the store and the client: a message whose response could not be written, or
whose client was gone before, is released at once. A large body is in memory only until its first byte
is sent; from then on the kernel sends it from the file.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Final

from aiohttp import web
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.dead_letter_records import DeadLetterRecord
from spoolrack_store.model.errors import (
    DiskFull,
    InvalidRequest,
    MessageNotFound,
    QueueFull,
    StoreError,
)
from spoolrack_store.model.message_ids import sent_at
from spoolrack_store.model.operations import (
    Delete,
    Message,
    MessageFilter,
    OpenMessage,
    Purge,
    Receive,
    RejectMessages,
    ReleaseMessages,
    Send,
    SendResults,
    WrittenBody,
    messages_of,
)
from spoolrack_store.model.settings import MAX_ATTRIBUTES_SIZE
from spoolrack_store.model.transitions import State

from .. import convert
from ..consumers import consumer_of_request
from ..lease_requests import receipts_of
from ..observability.trace_context import context_in, inherit_context
from ..page_tokens import PageTokens, filter_texts
from . import headers, request_bodies
from .context import GatewayContext
from .queue_endpoints import name_of
from .request_checks import IDENTITY
from .schedule_endpoints import attributes_as_json

SMALL: Final = 64 * 1024
"""Bytes of a body that may come before the queue is asked how many it takes."""
IN_MEMORY: Final = 1024 * 1024
"""Bytes up to which a body is sent from memory. A larger one is written to the disk as it comes."""
FIRST_PAUSE: Final = 0.02
"""Seconds until a send that waits for room is tried again; twice as many after each try."""
LAST_PAUSE: Final = 0.5
BLOCK: Final = 256 * 1024
"""Bytes of a larger one that are written at once."""


class MessageEndpoints:
    """The handlers of messages. Lives in one event loop."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context

    async def send(self, request: web.Request) -> web.StreamResponse:
        queue = name_of(request)
        headers.require_known(request.headers)
        wait = headers.wait(request.query)
        self._context.memory.require()
        attributes = headers.attributes_of(request.headers)
        inherit_context(context_in(request.headers.items()), attributes, MAX_ATTRIBUTES_SIZE)
        delay = headers.delay(request.headers)
        deduplication_id = headers.deduplication_id(request.headers)
        group = headers.group(request.headers)
        priority = headers.priority(request.headers)
        deliver_at = headers.deliver_at(request.headers)
        limit = SMALL
        if request.content_length is None or request.content_length > SMALL:
            found = await self._context.read(self._context.store.queue, queue)
            limit = found.settings.max_message_size
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
            stored, id = await self._stored(request, send, wait)
        found_at = {
            "X-Message-Id": id,
            "X-Message-Send-Time": headers.time_text(sent_at(id)),
            "Location": f"/{queue}/messages/{id}",
        }
        if stored.duplicates:
            found_at["X-Message-Duplicate"] = "true"
        return web.Response(status=201, headers=found_at)

    async def _stored(self, request: web.Request, send: Send, wait: Millis) -> tuple[SendResults, str]:
        """Return the result and the id; raise the error of the message.

        A full queue or disk is waited for, as long as the client is there and the server doesn't drain.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + wait / 1_000
        pause = FIRST_PAUSE
        while True:
            try:
                async with self._context.workers.saving():
                    stored = await self._context.submit(send)
                (id,) = stored.results
                if isinstance(id, StoreError):
                    raise id
            except (QueueFull, DiskFull):
                left = end - loop.time()
                if left <= 0:
                    raise
            else:
                return stored, id
            await self._context.sleep(min(pause, left))
            if request.transport is None:
                raise ConnectionError("the client is gone")
            pause = min(2 * pause, LAST_PAUSE)

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
        kept = bytearray()
        expected = request.content_length
        is_large = expected is not None and expected > IN_MEMORY
        found = request_bodies.pieces(
            request, queue=queue, limit=limit, http_limits=self._context.http_limits, share=share
        )
        async for piece in found:
            kept += piece
            if is_large or len(kept) > IN_MEMORY:
                break
        else:
            return bytes(kept), None
        begin = partial(self._context.store.begin_body, expected=expected)
        file = await self._context.read(begin)
        stack.push_async_callback(self._context.read, file.discard)
        async for piece in found:
            kept += piece
            if len(kept) >= BLOCK:
                await self._context.read(file.write, bytes(kept))
                share.free(len(kept))
                kept.clear()
        await self._context.read(file.write, bytes(kept))
        return b"", await self._context.read(file.finish)

    async def receive(self, request: web.Request) -> web.StreamResponse:
        wanted = Receive(
            queue=name_of(request),
            wait=headers.wait(request.query),
            visibility=headers.visibility(request.query),
            consumer=consumer_of_request(request, request[IDENTITY]),
        )
        deliveries = await self._context.leases.lease(wanted)
        if not deliveries:
            return web.Response(status=204, headers={"Cache-Control": "no-store"})
        receipts = receipts_of(deliveries)
        messages = messages_of(deliveries)
        del deliveries
        try:
            return await self._hand_over(request, messages)
        except BaseException:
            self._context.leases.release(wanted.queue, receipts)
            raise

    async def _hand_over(self, request: web.Request, messages: list[Message]) -> web.StreamResponse:
        # Taken out of the caller's hands: of a large body no reference may be left.
        message = messages.pop()
        found = headers.message_headers(message)
        if message.size > request_bodies.BLOCK:
            opened = await self._open(message)
            if opened is not None:
                del message
                try:
                    return await self._send(request, web.StreamResponse(headers=found), opened)
                finally:
                    self._context.close_message(opened)
        response = web.Response(body=message.body, headers=found)
        await request_bodies.write(request, response, self._context.http_limits)
        return response

    async def _open(self, message: Message) -> OpenMessage | None:
        try:
            return await self._context.open(message.queue, message.id)
        except StoreError:
            if len(message.body) < message.size:
                raise
            return None  # Deleted already, by its id; but the body is here.

    async def get(self, request: web.Request) -> web.StreamResponse:
        queue, id = name_of(request), id_of(request)
        opened = await self._context.open(queue, id)
        try:
            found = headers.message_headers(opened.message)
            found |= {"ETag": headers.tag(id), "Accept-Ranges": "bytes"}
            size = opened.message.size
            part = headers.part(request, id, size)
            if part is None:
                return await self._send(request, web.StreamResponse(headers=found), opened)
            found |= headers.part_headers(*part, size)
            response = web.StreamResponse(status=206, headers=found)
            return await self._send(request, response, opened, *part)
        finally:
            self._context.close_message(opened)

    async def _send(
        self,
        request: web.Request,
        response: web.StreamResponse,
        opened: OpenMessage,
        first: int = 0,
        count: int | None = None,
    ) -> web.StreamResponse:
        size = opened.message.size if count is None else count
        begin = opened.offset + first
        await request_bodies.send(
            request, response, opened.file, begin, size, self._context.http_limits
        )
        return response

    async def list_messages(self, request: web.Request) -> web.StreamResponse:
        queue, query = name_of(request), request.query
        wanted = MessageFilter(
            states=headers.states(query),
            sent_since=headers.moment(query, "sent_since"),
            sent_before=headers.moment(query, "sent_before"),
            group=query.get("group", ""),
            attributes=headers.attribute(query),
        )
        tokens = PageTokens("messages", queue, *filter_texts(wanted))
        look = partial(
            self._context.store.page,
            queue,
            wanted,
            after=tokens.after(query.get("page_token", ""), convert.message_id, ""),
            limit=headers.page_size(query),
            max_body_bytes=0,
        )
        page = await self._context.read(look)
        content = {
            "messages": [_described(message) for message in page.messages],
            "next_page_token": page.last and tokens.token(page.last),
        }
        return web.json_response(content, headers={"Cache-Control": "no-store"})

    async def delete(self, request: web.Request) -> web.StreamResponse:
        queue, id = name_of(request), id_of(request)
        receipt = headers.receipt(request.headers, id)
        last = headers.last_receive(request.query, request.headers)
        if receipt is not None:
            last_receives = {} if last is None else {0: last}
            delete = Delete(queue=queue, receipts=[receipt], last_receives=last_receives)
        elif last is None:
            delete = Delete(queue=queue, ids=[id])
        else:
            raise InvalidRequest(
                what="the parameter allow_expired", value="true", rule="goes with If-Match: RECEIPT"
            )
        (error,) = await self._context.submit(delete)
        # One that isn't there is what the caller wants; softlayer/mq says the same.
        if error is not None and not isinstance(error, MessageNotFound):
            raise error
        return web.Response(status=202)

    async def release(self, request: web.Request) -> web.StreamResponse:
        release = ReleaseMessages(
            queue=name_of(request),
            receipts=[headers.required_receipt(request.headers, id_of(request))],
            delay=headers.release_delay(request.query),
            explanation=headers.reason(request.query),
            is_uncounted=headers.flag(request.query, "uncounted"),
        )
        (result,) = await self._context.submit(release)
        if isinstance(result, StoreError):
            raise result
        return web.json_response({"deliver_time": headers.time_text(result)})

    async def reject(self, request: web.Request) -> web.StreamResponse:
        rejection = RejectMessages(
            queue=name_of(request),
            receipts=[headers.required_receipt(request.headers, id_of(request))],
            explanation=headers.reason(request.query),
        )
        (error,) = await self._context.submit(rejection)
        if error is not None:
            raise error
        return web.Response(status=204)

    async def purge(self, request: web.Request) -> web.StreamResponse:
        purge = Purge(
            queue=name_of(request),
            sent_before=headers.moment(request.query, "sent_before"),
            states=headers.states(request.query),
        )
        return web.json_response({"purged_count": await self._context.submit(purge)})


def _described(message: Message) -> dict[str, Any]:
    """Return a message as JSON has it, without its body."""
    is_leased = message.state is State.LEASED
    found: dict[str, Any] = {
        "id": message.id,
        "state": message.state.value,
        "body_size": message.size,
        "send_time": headers.time_text(message.sent_at),
        "receive_count": message.receives,
        "group": message.group,
        "priority": message.priority,
        **attributes_as_json(message.attributes),
    }
    if message.first_receive is not None:
        found["first_receive_time"] = headers.time_text(message.first_receive)
    if message.due is not None:
        name = "lease_expire_time" if is_leased else "deliver_time"
        found[name] = headers.time_text(message.due)
    if message.deaths:
        found["dead_letter_records"] = [_record(record) for record in message.deaths]
    return found


def _record(record: DeadLetterRecord) -> dict[str, Any]:
    return {
        "source_queue": record.source_queue,
        "reason": record.reason,
        "explanation": record.explanation,
        "receive_count": record.receives,
        "first_receive_time": _time_or_none(record.first_receive),
        "dead_letter_time": headers.time_text(record.dead_lettered_at),
        "redrive_queue": record.redriven_to,
        "redrive_time": _time_or_none(record.redriven_at),
    }


def _time_or_none(moment: Millis | None) -> str | None:
    return None if moment is None else headers.time_text(moment)


def id_of(request: web.Request) -> str:
    return convert.message_id(request.match_info["id"])
