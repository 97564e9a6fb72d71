"""Scheduler: sends the ticks of schedules at their times. Each server of a root does, and the store
sends a tick once, so that none has to be in charge.

The wall clock decides. A clock that is put back repeats no tick. After a pause of all servers the last
tick that was missed is sent, and no others.
"""

from __future__ import annotations

import asyncio
from typing import Final

from spoolrack_store.model.clock import Clock
from spoolrack_store.model.errors import StoreError
from spoolrack_store.model.schedule_requests import Fire, QueuedSchedule
from spoolrack_store.store import Store

from ..system.logs import Log
from . import cron
from .schedules import SCHEDULES, next_tick
from .store_access import answer

PAUSE: Final = 1.0
"""Seconds between looks at the clock."""


class Scheduler:
    """The loop that sends due ticks. Lives in one event loop."""

    def __init__(self, store: Store, clock: Clock, log: Log) -> None:
        self._store = store
        self._clock = clock
        self._log = log
        self._next: dict[str, tuple[tuple[object, ...], int | None]] = {}
        """Of each schedule, by its token, the next tick, and what that was computed from."""

    async def run(self, pause: float = PAUSE) -> None:
        """Send due ticks until cancelled."""
        while True:
            await asyncio.sleep(pause)
            try:
                await self.fire_due()
            except StoreError as error:
                # Such as a draining or a failed store, which says so itself.
                self._log.warning("schedules have to wait", why=str(error))

    async def fire_due(self) -> int:
        """Send the due ticks; return how many this process has sent."""
        now = self._clock.wall() // 1_000
        found = await asyncio.to_thread(lambda: list(SCHEDULES.walk(self._store.schedules)))
        tokens = {each.schedule.token for each in found}
        self._next = {token: each for token, each in self._next.items() if token in tokens}
        due = [(each, tick) for each in found if (tick := self._due(each, now)) is not None]
        futures = [
            self._store.submit(
                Fire(queue=each.queue, name=each.name, token=each.schedule.token, tick=tick)
            )
            for each, tick in due
        ]
        sent = 0
        for (each, tick), future in zip(due, futures, strict=True):
            try:
                sent += await answer(future)
            except StoreError as error:
                # The next look tries again: a full queue, say, may have room by then.
                self._log.warning(
                    "a tick is not sent",
                    queue=each.queue,
                    schedule=each.name,
                    tick=tick,
                    why=str(error),
                )
        return sent

    def _due(self, queued: QueuedSchedule, now: int) -> int | None:
        """Return the tick that is to be sent now, if one is."""
        schedule = queued.schedule
        if schedule.is_paused:
            return None
        facts = (schedule.since, queued.last_tick)
        known = self._next.get(schedule.token)
        if known is None or known[0] != facts:
            self._next[schedule.token] = known = facts, next_tick(queued)
        if known[1] is None or known[1] > now:
            return None
        return cron.last_tick(schedule.cron, schedule.time_zone, known[1] - 1, now)
