"""Sends: messages that the store takes, each for itself.

Within softlayer/mq's limit, a send waits for its turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from spoolrack_store.model.errors import StoreError
from spoolrack_store.model.operations import Send, SendResults
from spoolrack_store.store import BodyFile

from .caller import Caller, Permission, on_some_queue
from .store_access import StoreAccess, Submitted

NONE_REFUSED: Final[Mapping[int, StoreError]] = {}


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
        is_bounded = access.workers.saving is not None
        future = await access.save(send) if is_bounded else access.store.submit(send)
        if not refusals:
            return Submitted((future,), future.result)
        return Submitted((future,), lambda: _with_refused(future.result(), refusals))

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
