"""Reads the messages of a reserved set, a page at a time, as often as it is asked.

Each page is read while no other process changes anything. A hold may end, be extended, or be committed
between two pages. A message that isn't what its name says is left out once it is put aside, where no
commit of the set deletes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial

from .engine.questions import Questions
from .engine.reservations import Reservations, check_places
from .model.operations import Message, Request
from .model.reservations import MarkRead


class Rereading:
    """Thread-safe."""

    def __init__(
        self,
        reservations: Reservations,
        questions: Questions,
        submit: Callable[[Request[None]], Future[None]],
    ) -> None:
        self._reservations = reservations
        self._questions = questions
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
        check_places(begin, end)
        if mark_read:
            # Before the first message is seen: what was read must never look unread.
            self._submit(MarkRead(stream=stream, seq=seq, allowed=allowed)).result()
        begin_reading = self._reservations.begin_reading
        last = self._questions.exact(partial(begin_reading, stream, seq, begin, end, allowed))
        return self._pages(stream, seq, begin, last)

    def _pages(self, stream: str, seq: int, begin: int, last: int) -> Iterator[list[Message]]:
        while begin < last:
            read = partial(self._reservations.page, stream, seq, begin, last)
            page = self._questions.exact(read)
            # First: the reader of what is left commits the whole set, and so would delete it.
            for damaged in page.damaged:
                self._submit(damaged).result()
            if page.messages:
                yield page.messages
            begin = page.following
