"""What there is to see of messages, without changing anything. No sync is waited for."""

from __future__ import annotations

import heapq
import io
import logging
from collections.abc import Iterator
from typing import Final

from spoolrack_store.model.errors import InvalidRequest, MessageDamaged, MessageNotFound, StoreError
from spoolrack_store.model.ids import is_id, sent_at
from spoolrack_store.model.operations import Message, OpenMessage
from spoolrack_store.model.transitions import State

from .batch import Entry
from .content import Damaged
from .engine import Engine
from .index import COUNTED
from .members import indexes

log = logging.getLogger(__name__)

_PAGE_BYTES: Final = 4 * 1024 * 1024


class Questions:
    """Not thread-safe: each call is made while no commit changes the index."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def message(self, queue: str, id: str) -> Message:
        """Return a message; raise `MessageNotFound`, `MessageDamaged`, `DiskError`."""
        self._engine.catalog.require(queue)
        if not is_id(id):
            raise InvalidRequest(what="id", value=id, rule="must be a UUID in lower case")
        found = self._engine.index.holder(id)
        if found is None or found[0].name.queue != queue or found[0].name.state not in COUNTED:
            raise MessageNotFound(queue=queue, id=id)
        return self._shown(*found, None)

    def open_message(self, queue: str, id: str) -> OpenMessage:
        """Return the same with the body as a file."""
        message = self.message(queue, id)
        return OpenMessage(message=message, file=io.BytesIO(message.body))

    def messages(
        self, queue: str, states: frozenset[State], after: str, limit: int, most: int | None
    ) -> list[Message]:
        """Return up to `limit` messages above the id `after`, in order, with `most` bytes of each body.

        Fewer if their bodies get too many bytes; none only if there are no more.
        """
        self._engine.catalog.require(queue)
        found: list[Message] = []
        bytes_left = _PAGE_BYTES
        entries = self._engine.index.queue(queue).entries
        runs = [
            self._above(entry, after) for entry in entries if entry.name.state in (states or COUNTED)
        ]
        for _, entry, index in heapq.merge(*runs, key=lambda each: each[0]):
            if len(found) >= limit or bytes_left <= 0:
                break
            try:
                message = self._shown(entry, index, most)
            except StoreError as error:
                log.warning("a list passes over a message: %s", error)
                continue
            found.append(message)
            bytes_left -= len(message.body)
        return found

    @staticmethod
    def _above(entry: Entry, after: str) -> Iterator[tuple[str, Entry, int]]:
        for index in indexes(entry.held):
            id = entry.batch.stem.message_id(index)
            if id > after:
                yield id, entry, index

    def _shown(self, entry: Entry, index: int, most: int | None) -> Message:
        name, id = entry.name, entry.batch.stem.message_id(index)
        try:
            body, attributes = self._engine.reader.message(entry, index)
        except Damaged as error:
            raise MessageDamaged(queue=name.queue, id=id, why=str(error)) from error
        return Message(
            queue=name.queue,
            id=id,
            state=name.state,
            body=body if most is None else body[:most],
            attributes=attributes,
            size=len(body),
            sent_at=sent_at(id),
            receives=name.receives,
            first_receive=name.first,
            due=name.due,
            receipt=None,
        )
