"""Reads the messages of a reserved set, a page at a time, as often as it is asked.

Where each message is, is asked again for each page: a hold may end, be lengthened, or be committed
while it is read. A message that isn't what its name says costs itself only: it is left out once it is
put aside, durably, where no commit of the set reaches it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Any, Final

from .engine.reserving.reservations import Reservations
from .engine.views import Sight
from .files.disk import Disk
from .files.reader import Damaged, Forbidden, Gone, read_message
from .model.errors import DiskError, InvalidRequest
from .model.operations import Message, Request
from .model.reservations import MAX_RESERVED_MESSAGES, MarkRead, PutAside

log = logging.getLogger(__name__)

_PAGE_BYTES: Final = 4 * 1024 * 1024
_PAGE_MESSAGES: Final = 1_000
_LOOKS: Final = 5
"""A message that moves while it is read is looked for so often."""


class Rereading:
    """Thread-safe."""

    def __init__(
        self,
        reservations: Reservations,
        disk: Disk,
        changing: AbstractContextManager[Any],
        submit: Callable[[Request[None]], Future[None]],
    ) -> None:
        """`changing` is held while it is asked where messages are."""
        self._reservations = reservations
        self._disk = disk
        self._changing = changing
        self._submit = submit

    def pages(
        self,
        stream: str,
        seq: int,
        begin: int,
        end: int,
        allowed: Callable[[str], bool] | None = None,
        *,
        mark_read: bool = False,
    ) -> Iterator[list[Message]]:
        """As `Store.read_reservation` says."""
        for what, place in (("begin", begin), ("end", end)):
            if not 0 <= place <= MAX_RESERVED_MESSAGES:
                rule = f"must be from 0 to {MAX_RESERVED_MESSAGES}"
                raise InvalidRequest(what=what, value=place, rule=rule)
        if mark_read:
            # Before the first message is seen: what was read must never look unread.
            self._submit(MarkRead(stream=stream, seq=seq, allowed=allowed)).result()
        with self._changing:
            count = self._reservations.begin_reading(stream, seq, from_start=not begin, allowed=allowed)
        return self._pages(stream, seq, begin, min(end or count, count))

    def _pages(self, stream: str, seq: int, begin: int, end: int) -> Iterator[list[Message]]:
        page: list[Message] = []
        room = _PAGE_BYTES
        for at in range(begin, end, _PAGE_MESSAGES):
            for sight in self._sights(stream, seq, at, min(at + _PAGE_MESSAGES, end)):
                if room <= 0:
                    yield page
                    page, room = [], _PAGE_BYTES
                message = self._read(stream, seq, sight)
                if message is not None:
                    page.append(message)
                    room -= len(message.body)
            if page:
                yield page
                page, room = [], _PAGE_BYTES

    def _sights(self, stream: str, seq: int, begin: int, end: int) -> list[Sight]:
        with self._changing:
            return self._reservations.sights(stream, seq, begin, end)

    def _read(self, stream: str, seq: int, sight: Sight) -> Message | None:
        """The message; None if it was deleted, or is damaged. Raises what a read must be told."""
        for _ in range(_LOOKS):
            try:
                return sight.message(read_message(self._disk, sight.path, sight.entry))
            except Gone:
                # It was deleted, or its lease was changed, or is over: this raises then.
                with self._changing:
                    again = self._reservations.sight(stream, seq, sight.entry.id)
                if again is None:
                    return None
                sight = again
            except Forbidden as error:
                raise DiskError(detail=str(error)) from error
            except Damaged as error:
                log.error("message %s of %s.%d is damaged: %s", sight.entry.id, stream, seq, error)
                # Only once it is: whoever reads what is left commits the whole set, and a disk that
                # reads nothing any more must not have its messages deleted by that.
                why = str(error)
                self._submit(PutAside(stream=stream, seq=seq, id=sight.entry.id, why=why)).result()
                return None
        raise DiskError(detail=f"message {sight.entry.id} moves whenever it is to be read")
