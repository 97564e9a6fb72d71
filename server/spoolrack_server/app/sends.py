"""Sends: messages that the store takes, each for itself.

Within softlayer/mq's limit, a send waits for its turn. One that may wait for room is tried again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import DiskFull, QueueFull, StoreError
from spoolrack_store.model.operations import Send, SendResults
from spoolrack_store.store import BodyFile

from .caller import Caller, Permission, on_some_queue
from .store_access import StoreAccess, Submitted

NONE_REFUSED: Final[Mapping[int, StoreError]] = {}
FIRST_PAUSE: Final = 0.02
"""Seconds until a send that waits for room is tried again; twice as many after each try."""
LAST_PAUSE: Final = 0.5


class Sends:
    """The use cases of sends. Lives in one event loop."""

    def __init__(self, access: StoreAccess) -> None:
        self._access = access

    @on_some_queue(Permission.SEND)
    async def send(
        self, caller: Caller, send: Send, refusals: Mapping[int, StoreError] = NONE_REFUSED
    ) -> Submitted[SendResults]:
        """Submit a send, in its turn. Its results have the `refusals` of other messages of the request,
        which aren't in it, at their positions there."""
        caller.require(Permission.SEND, send.queue)
        access = self._access
        if access.workers.saving is None:
            sent = access.begin(send)
        else:
            future = await access.save(send)
            sent = Submitted((future,), future.result)
        if not refusals:
            return sent
        return Submitted(sent.futures, lambda: _with_refused(sent.result(), refusals))

    @on_some_queue(Permission.SEND)
    async def send_with_room(
        self, caller: Caller, send: Send, wait: Millis, pause: Callable[[float], Awaitable[None]]
    ) -> tuple[SendResults, str]:
        """Send one message; return the result and the id, or raise the message's error.

        A full queue or disk is waited for. `pause` sleeps for so many seconds, and raises what ends the
        wait before.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + wait / 1_000
        seconds = FIRST_PAUSE
        while True:
            try:
                sent = await (await self.send(caller, send)).answered()
                (id,) = sent.results
                if isinstance(id, StoreError):
                    raise id
            except (QueueFull, DiskFull):
                left = end - loop.time()
                if left <= 0:
                    raise
            else:
                return sent, id
            await pause(min(seconds, left))
            seconds = min(2 * seconds, LAST_PAUSE)

    async def begin_body(self, expected: int | None) -> BodyFile:
        """Return a new file for a body of `expected` bytes (None: unknown) that is sent in pieces, as
        `Store.begin_body` does, for a caller whose permission was checked."""
        return await self._access.read(partial(self._access.store.begin_body, expected=expected))


def _with_refused(stored: SendResults, refusals: Mapping[int, StoreError]) -> SendResults:
    results: list[str | StoreError] = []
    duplicates: set[int] = set()
    answers = iter(enumerate(stored.results))
    for position in range(len(stored.results) + len(refusals)):
        if position in refusals:
            results.append(refusals[position])
            continue
        place, answer = next(answers)
        if place in stored.duplicates:
            duplicates.add(position)
        results.append(answer)
    return SendResults(results=results, sent_at=stored.sent_at, duplicates=duplicates)
