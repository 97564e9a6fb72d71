"""Reader of a reservation, which resumes after broken connections and restarts of the server.

A read that is resumed begins after as many messages as were read. Messages deleted meanwhile are left
out and not counted, so it may begin too early: messages already returned are recognised by id, and
skipped.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from ._client_context import ClientContext
from ._transports import Pages
from ._values import Envelope, Seconds
from .errors import SpoolrackError


class ReservationReader:
    """One pass over a reservation, from the place `begin` to before `end`. For one reader."""

    def __init__(
        self,
        context: ClientContext,
        stream: str,
        sequence_number: int,
        *,
        begin: int,
        end: int | None,
        timeout: Seconds | None,
    ) -> None:
        self._context = context
        self._set = (stream, sequence_number)
        self._begin = begin
        self._end = end
        self._timeout = timeout
        self._seen: set[str] = set()
        self._pages: Pages | None = None

    async def envelopes(self) -> AsyncGenerator[Envelope, None]:
        """Yield the messages in the set's order. `timeout` is for each page, with its retries."""
        try:
            while self._end is None or self._place() < self._end:
                page = await self._context.attempt(self._next, self._timeout)
                if not page:
                    return
                for envelope in page:
                    if envelope.id not in self._seen:
                        self._seen.add(envelope.id)
                        yield envelope
        finally:
            if self._pages is not None:
                self._pages.cancel()

    def _place(self) -> int:
        return self._begin + len(self._seen)

    async def _next(self, deadline: float) -> Sequence[Envelope]:
        self._context.left(deadline)
        if self._pages is None:
            self._pages = self._context.transport.reservations.read(
                *self._set, begin=self._place(), end=self._end or 0
            )
        try:
            return await self._pages.next()
        except SpoolrackError:
            self._pages = None
            raise
