"""Messages: looking at them without leasing them, and deleting them by their ids."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from spoolrack_store.model.errors import (
    DiskError,
    InvalidRequest,
    MessageDamaged,
    MessageNotFound,
    StoreError,
)
from spoolrack_store.model.operations import Delete, Message, MessageFilter, MessagePage, OpenMessage

from . import bounds, pages
from .caller import Caller, Permission, on_queue
from .pages import Page, PageTokens
from .store_access import FRAME_BYTES, StoreAccess

LARGEST_RECORD: Final = 256
"""Bytes that a dead-letter record takes in a message, without its explanation."""
SMALL: Final = 64 * 1024
"""The beginning of a body is read up to this many bytes of it: to read a body, all of it is checked."""


class Messages:
    """The use cases of messages that lease nothing. Lives in one event loop."""

    def __init__(self, access: StoreAccess) -> None:
        self._access = access
        self._store = access.store

    @on_queue(Permission.RECEIVE)
    async def get(self, caller: Caller, queue: str, id: str) -> Message:
        return await self._access.read(self._store.message, queue, bounds.message_id(id))

    @on_queue(Permission.RECEIVE)
    async def open(self, caller: Caller, queue: str, id: str) -> OpenMessage:
        """Open a message's file, which the caller gives to `close`."""
        return await self._access.open(queue, bounds.message_id(id))

    def close(self, message: OpenMessage) -> None:
        self._access.close_message(message)

    @on_queue(Permission.RECEIVE)
    async def delete(
        self, caller: Caller, queue: str, ids: Sequence[str]
    ) -> Sequence[StoreError | None]:
        """Delete messages by their ids; return the error of each, or None."""
        ids = [bounds.message_id(id) for id in ids]
        return await self._access.submit(Delete(queue=queue, ids=ids))

    @on_queue(Permission.RECEIVE)
    async def list(
        self,
        caller: Caller,
        queue: str,
        message_filter: MessageFilter,
        *,
        page_size: int = 0,
        page_token: str = "",
        skip: int = 0,
        max_body_bytes: int | None = 0,
    ) -> Page[Message]:
        """Return a page of messages, by id, of at most `FRAME_BYTES`, but always one.

        Of each body no more than `max_body_bytes`; None: all. The first `skip` messages are passed
        over.
        """
        if len(message_filter.attributes) > bounds.MAX_FILTERS:
            rule = f"must be {bounds.MAX_FILTERS} at most"
            raise InvalidRequest(what="attributes", value=len(message_filter.attributes), rule=rule)
        if skip and (message_filter.group or message_filter.attributes):
            rule = "goes with neither group nor attributes"
            raise InvalidRequest(what="skip", value=skip, rule=rule)
        bounds.place(skip, "skip", most=bounds.MAX_SKIP)
        tokens = PageTokens("ListMessages", queue, *_texts(message_filter))
        page = await self._access.read(
            self._page,
            queue,
            message_filter,
            tokens.after(page_token, bounds.message_id, ""),
            skip,
            pages.page_size(page_size),
            max_body_bytes,
        )
        return Page(page.messages, page.last and tokens.token(page.last))

    def _page(
        self,
        queue: str,
        message_filter: MessageFilter,
        after: str,
        skip: int,
        limit: int,
        max_body: int | None,
    ) -> MessagePage:
        look = partial(self._store.page, queue, message_filter, after=after, skip=skip)
        # The bodies' sizes first: a thousand bodies of 64 MiB must never be in memory together.
        page = look(limit=limit, max_body_bytes=0)
        size, count = 0, 0
        for message in page.messages:
            size += message.body_size if max_body is None else min(message.body_size, max_body)
            size += sum(len(name) + len(value) for name, value in message.attributes.items())
            size += len(message.dead_letter_records) * LARGEST_RECORD
            size += sum(len(record.explanation.encode()) for record in message.dead_letter_records)
            if count and size > FRAME_BYTES:
                break
            count += 1
        if max_body != 0 and count:
            return look(limit=count, max_body_bytes=max_body)
        if count < len(page.messages):
            return MessagePage(messages=page.messages[:count], last=page.messages[count - 1].id)
        return page

    async def beginnings(self, messages: Sequence[Message], most: int) -> Sequence[bytes | None]:
        """Return the first bytes of each body that can be read cheaply, of messages that the caller was
        shown."""
        return await self._access.read(lambda: [self._beginning(each, most) for each in messages])

    def _beginning(self, message: Message, most: int) -> bytes | None:
        if message.body_size > SMALL:
            return None
        try:
            return self._store.message(message.queue, message.id).body[:most]
        except (MessageNotFound, MessageDamaged, DiskError):
            return None  # It has gone since, or its own page says what is wrong with it.


def _texts(message_filter: MessageFilter) -> Sequence[object]:
    """Return texts that are different for lists of messages with different filters."""
    return [
        sorted(state.value for state in message_filter.states),
        message_filter.sent_since,
        message_filter.sent_before,
        message_filter.group,
        sorted(message_filter.attributes.items()),
    ]
