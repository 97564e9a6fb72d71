"""Each tick of a schedule is sent once, through power cuts and deaths at any step, alone and beside
other processes; and each condition of it is needed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

import pytest
from spoolrack_store.engine.catalog import Catalog, QueueRecord
from spoolrack_store.engine.engine import Engine, Work
from spoolrack_store.engine.schedule_catalog import ScheduleCatalog
from spoolrack_store.engine.stages import Stages, _End
from spoolrack_store.model.clock import DAY
from spoolrack_store.model.errors import StoreError
from spoolrack_store.model.operations import CreateQueue, Delete, DeleteQueue, Delivery, Receive
from spoolrack_store.model.schedule import TICK_ATTRIBUTE
from spoolrack_store.model.schedule_requests import (
    CreateSchedule,
    DeleteSchedule,
    Fire,
    PauseSchedule,
    QueuedSchedule,
    UpdateSchedule,
)
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.stage_requests import Publish

from tests.proof.crash.stories import ALONE, SHARED, Bug, Run, expect_broken
from tests.support.cuts import Cut, Keep
from tests.support.engine_story import HOLD, Broken, History
from tests.support.linked_disk import Died, reap
from tests.support.power_disk import Model

QUEUE: Final = "q"
NAMES: Final = ("a", "b")
KINDS: Final = "FFFFFFFFRRRDccxpP"
CRONS: Final = ("* * * * *", "*/2 * * * *")
IN_VAIN: Final = 12
"""Commits without a message, in a row, after which none is left."""

Tick = tuple[bytes, int]


@dataclass
class Flight:
    """A commit that is applied and not synced."""

    work: Work
    requests: list[Any]
    off: frozenset[str]
    """Tokens of schedules that were durably deleted or paused when it was applied."""
    there: set[Tick]
    """Ticks that were asked for again, and had been sent."""


class ScheduleStory(History):
    """One history, made from a seed."""

    start_deaths = 0.0
    plot = (0.05, 0.06, 0.0, 0.09)
    haste = 0.3
    spans = (1, 900, 5_000, 61_000, 61_000, 3_600_000, 3 * DAY)
    most_unsynced = 2

    def __init__(self, seed: int, model: Model, **rest: Any) -> None:
        super().__init__(seed, model, **rest)
        self.bodies: dict[str, bytes] = {}
        """Of each schedule that was seen, by its token."""
        self.ticks: dict[str, list[int]] = {}
        """Of each schedule the ticks that were asked for."""
        self.off: dict[str, int] = {}
        """Tokens of what is durably deleted or paused."""
        self.sent: set[Tick] = set()
        self.promised: set[Tick] = set()
        """Ticks that an answer calls sent, by this request or an earlier one."""
        self.received: dict[Tick, str] = {}
        self.receipts: list[str] = []
        self.excused: set[bytes] = set()
        """Bodies of schedules whose queue a request has deleted."""
        self.made = self.repeated = 0
        self._start()

    # The steps of a story.

    def _commit(self, owner: str, requests: list[Any] | None = None) -> None:
        requests = self._requests(owner) if requests is None else requests
        tick = self.random.random() < 0.4
        self.told.append(f"{self.clock.now} {owner} commits{' with a tick' * tick}: {requests}")
        engine, off = self.engines[owner], frozenset(self.off)
        work = engine.apply(requests, tick=tick)
        assert work is not None
        self._note(engine)
        there = {
            (self.bodies[each.token], each.tick)
            for each, outcome in zip(requests, work.outcomes, strict=True)
            if isinstance(each, Fire)
            and outcome is False
            and engine.stages.last_epoch(f"schedule-{each.token}") == each.tick
        }
        self.flying[owner].append(Flight(work, requests, off, there))

    def _sync(self, owner: str) -> None:
        flight = self.flying[owner].pop(0)
        self.told.append(f"{owner} has synced {flight.requests}")
        if flight.work.barrier is not None:
            flight.work.barrier.sync()
        outcomes = self.engines[owner].finish(flight.work)
        assert outcomes is not None
        reap(self.engines[owner], self.random.randrange(4))
        self.promised |= flight.there
        for request, outcome in zip(flight.requests, outcomes, strict=True):
            if not isinstance(outcome, StoreError):
                self._take(request, outcome, flight.off)

    def _die(self, owner: str) -> None:
        requests = self._requests(owner)
        self.disk.steps_left = self.random.randint(0, 10)
        self.told.append(f"{self.clock.now} {owner} dies in {requests}")
        try:
            self.engines[owner].apply(requests, tick=self.random.random() < 0.4)
        except Died:
            self.told.append("in mid-commit")
        self.disk.steps_left = None
        self._remove(owner)

    def _end(self) -> None:
        """Bring all that is under way to its end in one process, and receive what is left."""
        owner = self._restart(Cut(Keep.ALL)).moves.owner
        in_vain = 0
        while in_vain < IN_VAIN:
            self.clock.now += 3_600_000
            before = len(self.received)
            for requests in ([], [Receive(queue=QUEUE, max_messages=100, visibility_timeout=HOLD)]):
                self._commit(owner, requests)
                self._sync(owner)
            deletes = [Delete(queue=QUEUE, receipts=self.receipts[-100:])] if self.receipts else []
            self._commit(owner, deletes)
            self._sync(owner)
            in_vain = in_vain + 1 if len(self.received) == before else 0
        lost = {tick for tick in self.promised - self.received.keys() if tick[0] not in self.excused}
        self.ticks_sent, self.ticks_received = len(self.sent), len(self.received)
        if lost:
            raise Broken(f"sent and never received: {lost}")

    # Requests.

    def _known(self, engine: Engine) -> list[QueuedSchedule]:
        return engine.schedules.listed("", ("", ""), 99)

    def _has_started(self, engine: Engine) -> None:
        self._note(engine)

    def _note(self, engine: Engine) -> None:
        for each in self._known(engine):
            self.bodies[each.schedule.token] = each.schedule.body

    def _requests(self, owner: str) -> list[Any]:
        engine = self.engines[owner]
        if QUEUE not in engine.catalog.records:
            return [CreateQueue(name=QUEUE, settings=QueueSettings())]
        return [self._request(engine) for _ in range(self.random.randint(0, 3))]

    def _request(self, engine: Engine) -> Any:
        chance, name = self.random, self.random.choice(NAMES)
        if chance.random() < 0.01:
            self.excused |= set(self.bodies.values()) | {
                b"<%d>" % number for number in range(self.made)
            }
            return DeleteQueue(name=QUEUE)
        match chance.choice(KINDS):
            case "F" if self.bodies:
                known = [each.schedule.token for each in self._known(engine)]
                token = chance.choice(known or list(self.bodies))
                asked = self.ticks.setdefault(token, [])
                if not asked or chance.random() < 0.5:
                    asked.append(self.clock.now // 1_000)
                named = {each.schedule.token: each.name for each in self._known(engine)}
                tick = chance.choice(asked[-3:])
                return Fire(queue=QUEUE, name=named.get(token, name), token=token, tick=tick)
            case "D":
                receipts = chance.sample(self.receipts, min(len(self.receipts), 3))
                return Delete(queue=QUEUE, receipts=receipts)
            case "c":
                self.made += 1
                body = b"<%d>" % (self.made - 1)
                if any(each.name == name for each in self._known(engine)):
                    cron = CRONS[self.made % 2]
                    return UpdateSchedule(queue=QUEUE, name=name, cron=cron)
                return CreateSchedule(
                    queue=QUEUE, name=name, cron="* * * * *", time_zone="UTC", body=body
                )
            case "x":
                return DeleteSchedule(queue=QUEUE, name=name)
            case "p":
                return PauseSchedule(queue=QUEUE, name=name, paused=True)
            case "P":
                for each in self._known(engine):
                    if each.name == name:
                        self.off.pop(each.schedule.token, None)
                return PauseSchedule(queue=QUEUE, name=name, paused=False)
            case _:
                return Receive(queue=QUEUE, max_messages=chance.choice((1, 5)), visibility_timeout=HOLD)

    # Answers.

    def _take(self, request: Any, outcome: Any, off: frozenset[str]) -> None:
        match request:
            case Fire():
                self.repeated += not outcome
                if outcome:
                    self._has_sent(request, off)
            case Receive():
                for delivery in outcome:
                    self._has_received(delivery)
            case PauseSchedule(paused=True):
                resumes = [
                    each
                    for flights in self.flying.values()
                    for flight in flights
                    for each in flight.requests
                    if isinstance(each, PauseSchedule) and not each.paused
                ]
                engine = next(iter(self.engines.values()))
                there = engine.catalog.records.get(QUEUE)
                now = there and there.schedules.get(request.name)
                if not resumes and now and now.token == outcome.schedule.token and now.paused:
                    self.off[outcome.schedule.token] = self.clock.now
            case _:
                pass

    def _has_sent(self, request: Fire, off: frozenset[str]) -> None:
        tick = self.bodies[request.token], request.tick
        if tick in self.sent:
            raise Broken(f"{tick} is sent twice")
        if request.token in off & self.off.keys():
            raise Broken(f"{tick} is sent, and its schedule was paused")
        self.sent.add(tick)
        self.promised.add(tick)

    def _has_received(self, delivery: Delivery) -> None:
        for place, id in enumerate(delivery.ids):
            text = str(delivery.attributes[place][TICK_ATTRIBUTE])
            tick = delivery.bodies[place], _unix(text)
            if self.received.setdefault(tick, id) != id:
                raise Broken(f"{tick} is received as {id} and as {self.received[tick]}")
            self.receipts.append(delivery.receipts[place])


def _unix(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


@ALONE
def test_a_tick_is_sent_once(run: Run) -> None:
    told = run.tell(ScheduleStory, 10)
    assert told.least("crashes", "ticks_sent", "ticks_received", "repeated") >= told["stories"]


@SHARED
def test_processes_that_share_a_root_send_a_tick_once(run: Run) -> None:
    told = run.tell(ScheduleStory, 10)
    assert told.least("crashes", "ticks_sent", "ticks_received", "repeated") >= told["stories"]


def _forgotten_with_its_schedule_not_durably_gone(self: Catalog, writer: str) -> bool:
    return any(
        each.writer == writer for record in self.records.values() for each in record.schedules.values()
    )


def _forgotten_in_time(self: Catalog, writer: str) -> bool:
    return False


def _an_older_one_forgotten_in_time(self: Stages, end: _End) -> bool:
    if end.manifest is None or end.manifest.expires_at > self._clock.wall():
        return False
    return self._last_of(end.writer) is not end or not self._catalog.has_writer(end.writer)


def _not_synced(self: Stages, stages: object) -> None:
    pass


def _staged_although_it_is_paused(self: ScheduleCatalog, request: Fire) -> Publish | None:
    record, _ = self._require(request.queue, request.name)
    self._catalog.records[record.name] = _resumed(record, request.name)
    try:
        return _stage(self, request)
    finally:
        self._catalog.records[record.name] = record


def _resumed(record: QueueRecord, name: str) -> QueueRecord:
    there = replace(record.schedules[name], paused=False)
    return replace(record, schedules={**record.schedules, name: there})


_stage = ScheduleCatalog._stage

BESIDE_OTHERS = "the tick before is forgotten before the last one is durable"
PLANTED: Final[dict[str, Bug]] = {
    "its last tick is forgotten before its end is durable": Bug(
        Catalog, "has_writer", _forgotten_with_its_schedule_not_durably_gone, first=374
    ),
    "its last tick is forgotten in time": Bug(Catalog, "has_writer", _forgotten_in_time),
    BESIDE_OTHERS: Bug(Stages, "_is_to_be_forgotten", _an_older_one_forgotten_in_time, first=538),
    "a manifest before its chunk": Bug(Stages, "_sync", _not_synced, first=136),
    "a pause that stops nothing": Bug(ScheduleCatalog, "_stage", _staged_although_it_is_paused),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_each_condition_is_needed(monkeypatch: pytest.MonkeyPatch, planted: str) -> None:
    # One process alone meets that in one story of 600.
    processes = 3 if planted == BESIDE_OTHERS else 1
    expect_broken(monkeypatch, PLANTED[planted], ScheduleStory, processes=processes)
