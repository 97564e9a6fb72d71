"""Watches one server: gathers its figures when it is asked, and those of its siblings.

Owns what is counted of calls, and the thread in which figures are gathered: one scrape at a time,
however many ask. Knows nothing of who may ask. A sibling that doesn't answer in time is left out, and
it is said.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from spoolrack_store.model.clock import Clock
from spoolrack_store.tally import Tally

from ..health import Health
from .catalogue import Row
from .census import Census
from .exposition import written
from .figures import MOST_QUEUES, of_root, of_store, of_system
from .operations import Operations

T = TypeVar("T")


class Crew(Protocol):
    """The processes of one server."""

    number: int
    """Of this one."""

    async def figures(self) -> dict[int, list[Row] | None]:
        """Of each of the others; None: it didn't answer in time."""


class Alone:
    """A server of one process."""

    number = 0

    async def figures(self) -> dict[int, list[Row] | None]:
        return {}


class Credit(Protocol):
    def credits(self) -> tuple[int, int]:
        """How many messages all consumers may hold, and how many they hold."""


class Observer:
    """Lives in one event loop."""

    def __init__(
        self, health: Health, clock: Clock, crew: Crew | None = None, most_queues: int = MOST_QUEUES
    ) -> None:
        self.operations = Operations()
        self._health = health
        self._clock = clock
        self._crew = crew or Alone()
        self._most = most_queues
        self._tally: Tally | None = None
        self._census: Census | None = None
        self._credit: Credit | None = None
        self._is_over = False
        self._gathering = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, "spoolrack-figures")

    def begin(self, tally: Tally, *, reaps: bool) -> None:
        """The store is open."""
        loop = asyncio.get_running_loop()
        self._tally = tally
        self._census = Census(
            tally, lambda count: loop.run_in_executor(self._thread, count), reaps=reaps
        )

    def lend(self, credit: Credit) -> None:
        """From now on there are consumers, who have credits."""
        self._credit = credit

    async def end(self) -> None:
        """The store is about to close."""
        self._tally = self._credit = None
        self._is_over = True
        if self._census is not None:
            await self._census.stop()
        # Who gathers just now must not meet a store that is closed.
        async with self._gathering:
            self._thread.shutdown()

    @property
    def state(self) -> str:
        return self._health.state

    async def own(self) -> list[Row]:
        """The figures of this process."""
        async with self._gathering:
            own = list(self._of_calls())
            return own + await self._beside(self._of_store)

    async def page(self, accept: str) -> tuple[bytes, str]:
        """What a scrape that accepts these types is answered with, and its content type."""
        others = await self._crew.figures()
        async with self._gathering:
            processes: dict[int, list[Row]] = {
                number: [("spoolrack_process_answers", [], int(rows is not None)), *(rows or ())]
                for number, rows in others.items()
            }
            own = [*self._of_calls(), ("spoolrack_process_answers", [], 1)]
            return await self._beside(lambda: self._written(own, processes, accept))

    async def _beside(self, look: Callable[[], T]) -> T:
        """What `look` returns, in the thread for that; when all is over, here."""
        if self._is_over:
            return look()
        return await asyncio.get_running_loop().run_in_executor(self._thread, look)

    def _written(
        self, own: list[Row], processes: dict[int, list[Row]], accept: str
    ) -> tuple[bytes, str]:
        processes[self._crew.number] = [*own, *self._of_store()]
        root: list[Row] = []
        if self._tally is not None:
            quarantined = None if self._census is None else self._census.quarantined
            root = list(of_root(self._tally, self._clock, quarantined, self._most))
        return written(root, dict(sorted(processes.items())), accept)

    def _of_calls(self) -> Iterator[Row]:
        """What the event loop knows."""
        health = self._health
        yield "spoolrack_serving", [], int(health.is_serving)
        yield "spoolrack_draining", [], int(health.is_final)
        yield from self.operations.rows()
        if self._credit is not None:
            limit, held = self._credit.credits()
            yield "spoolrack_credits", [], limit
            yield "spoolrack_credits_in_use", [], held

    def _of_store(self) -> list[Row]:
        rows = list(of_system())
        if self._tally is not None:
            removed = None if self._census is None else self._census.removed
            rows += of_store(self._tally, self._most, removed)
        return rows
