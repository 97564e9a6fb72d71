"""Scheduler: sends the ticks of schedules at their times. Each server of a root does, and the store
sends a tick once, so that none has to be in charge.

The wall clock decides. A clock that is put back repeats no tick. After a pause of all servers the last
tick that was missed is sent, and no others.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Final

from spoolrack_store.model.clock import Clock
from spoolrack_store.model.errors import StoreError
from spoolrack_store.model.schedule_requests import Fire, QueuedSchedule
from spoolrack_store.store import Store

from ..system.logs import Log
from . import cron
from .schedules import SCHEDULES, MaySend, PlannedSchedule, anyone_may, planned
from .store_access import answer

PAUSE: Final = 1.0
"""Seconds between looks at the clock."""


PLAN_LIFE: Final = 60
"""Seconds after which a schedule with obstacles is planned anew."""


class Scheduler:
    """Sends due ticks. Lives in one event loop.

    One schedule that can't be sent, for whatever reason, holds up no other: the reason is logged once.
    """

    def __init__(self, store: Store, clock: Clock, log: Log, may_send: MaySend = anyone_may) -> None:
        self._store = store
        self._clock = clock
        self._log = log
        self._may_send = may_send
        self._plans: dict[str, tuple[tuple[QueuedSchedule, bool], int, PlannedSchedule]] = {}
        """By the schedule's token: what the plan was made of, when it ends, and the plan."""
        self._told: dict[str, str] = {}
        """By the schedule's token, why its tick isn't sent."""

    async def look(self, pause: float = PAUSE) -> None:
        """Send due ticks once, after a pause."""
        await asyncio.sleep(pause)
        await self.fire_due()

    @property
    def resting(self) -> int:
        """How many schedules have obstacles."""
        return sum(bool(plan.obstacles) for *_, plan in self._plans.values())

    async def fire_due(self) -> int:
        """Send the due ticks; return how many this process has sent."""
        now = self._clock.wall() // 1_000
        found = await asyncio.to_thread(lambda: list(SCHEDULES.walk(self._store.schedules)))
        tokens = {each.schedule.token for each in found}
        self._plans = {token: each for token, each in self._plans.items() if token in tokens}
        self._told = {token: why for token, why in self._told.items() if token in tokens}
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
                self._tell(each, str(error), tick=tick)
            else:
                self._tell(each, "")
        return sent

    def _due(self, queued: QueuedSchedule, now: int) -> int | None:
        """Return the tick that is to be sent now, if one is."""
        schedule = queued.schedule
        if schedule.paused:
            return None
        plan = self._plan(queued, now)
        if plan.obstacles:
            self._tell(queued, "; ".join(each.explanation for each in plan.obstacles))
        if plan.next_tick is None or plan.next_tick > now:
            return None
        try:
            return cron.last_tick(schedule.cron, schedule.time_zone, plan.next_tick - 1, now)
        except cron.UnusableTime as error:
            self._tell(queued, str(error))
            return None

    def _plan(self, queued: QueuedSchedule, now: int) -> PlannedSchedule:
        """Return the plan of a schedule, made anew if something has changed that it was made of."""
        schedule = queued.schedule
        facts = queued, not schedule.owner or self._may_send(schedule.owner, queued.queue)
        known = self._plans.get(schedule.token)
        if known is None or known[0] != facts or now >= known[1]:
            plan = planned(queued, self._may_send)
            until = now + PLAN_LIFE if plan.obstacles else sys.maxsize
            self._plans[schedule.token] = known = facts, until, plan
        return known[2]

    def _tell(self, queued: QueuedSchedule, why: str, **facts: object) -> None:
        """Log once why the ticks of a schedule aren't sent, and once that they are again."""
        token = queued.schedule.token
        before = self._told.pop(token, "")
        if why:
            self._told[token] = why
        if why == before:
            return
        facts = {"queue": queued.queue, "schedule": queued.name, **facts}
        if why:
            self._log.warning("the ticks of a schedule are not sent", why=why, **facts)
        else:
            self._log.info("the ticks of a schedule are sent again", **facts)
