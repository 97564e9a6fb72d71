"""Two engines on one disk that stage, publish, drop and expire the same stages, and die over it.

Each tale is two operations in some order of their parts. It is told with a death of the first engine
at every place, after which the other takes over; and at every place the power is cut, and one starts
alone. What was answered is held against what lies there when all has settled.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from broken import Broken
from cuts import Cut, Keep, every_cut
from engine_rig import EngineRig
from faulty_disk import Killed
from power_disk import PowerDisk
from seen import check_index, files_of
from shared_disk import SharedDisk
from shared_stage_fates import Known, judge, publish_the_rest
from spoolrack_store.engine.order import Work
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import StoreError
from spoolrack_store.model.operations import DeleteQueue, Outgoing, Request
from spoolrack_store.model.staging import Abort, Publish, Published, Stage, Staged
from spoolrack_store.testing import ManualClock
from step_disk import Left, Step, Torn

SOME_DAY = 1_700_000_000_000
TIME_TO_LIVE = 100_000
OPERATIONS = (
    "publish w 1 st",
    "publish v 0 s",
    "publish w 0 t",
    "abort s",
    "stage s 0 q",
    "stage s 5 q",
    "stage u 0 d",
    "expire",
    "delete-queue d",
    "tick",
)
ORDERS = (
    ("x apply", "y whole", "x sync", "x finish"),
    ("x apply", "y apply", "x sync", "y sync", "x finish", "y finish"),
    ("x apply", "y apply", "y sync", "y finish", "x sync", "x finish"),
    ("x apply", "x sync", "y whole", "x finish"),
)


@dataclass(frozen=True, slots=True)
class Tale:
    first: str
    second: str
    order: int
    can_sync_all: bool = True

    def __str__(self) -> str:
        syncs = "syncfs" if self.can_sync_all else "fsync"
        return f"x: {self.first}; y: {self.second}; order {self.order}, {syncs}"


class Telling:
    """One telling of a tale; `die_at` is the change of the disk, and how torn, at which x dies."""

    def __init__(
        self, tale: Tale, *, die_at: tuple[int, Torn | None] | None = None, cuts: bool = False
    ) -> None:
        self._tale = tale
        self._cuts = cuts
        self.power = PowerDisk(can_sync_all=tale.can_sync_all)
        self.known = Known()
        self.crashes = 0
        self.places: list[tuple[int, Torn | None]] = []
        self._bodies = 0
        self._judged: set[tuple[object, ...]] = set()
        self._phase = 0
        self._at_work = ""
        self.clock = ManualClock(wall=Millis(SOME_DAY))
        self.disks: dict[str, SharedDisk] = {}
        self.rigs: dict[str, EngineRig] = {}
        self._works: dict[str, tuple[list[Request[object]], Work]] = {}
        for name in "xy":
            self._start(name)
        for queue in "qd":
            self.rigs["x"].create(queue)
        self._settle(1)
        self._whole("x", ["stage s 0 q", "stage s 1 d"])
        self._whole("y", ["stage s 2 q", "stage t 0 q"])
        self._whole("y", ["publish w 0 "])
        self._began = self.disks["x"].changes
        self._die_at = die_at
        if die_at is not None:
            self.disks["x"].die_after(die_at[0], die_at[1])

    def _start(self, name: str) -> None:
        disk = SharedDisk(self.power, self.clock)
        seed = 10 * len(self.disks) + ord(name)
        self.disks[name] = disk
        self.rigs[name] = EngineRig(disk, seed=seed, watch=disk.watch, clock=self.clock)

    def tell(self) -> None:
        for step in ORDERS[self._tale.order]:
            name, _, part = step.partition(" ")
            if name not in self.rigs:
                continue
            operation = self._tale.first if name == "x" else self._tale.second
            self._at_work = name
            self.disks[name].on_step = self._note if self._die_at is None else None
            try:
                self._do(name, part, operation)
            except Killed:
                self._die(name)
        for disk in self.disks.values():
            disk.on_step = None
            disk.die_after(None)
        self._settle(3)
        for rig in self.rigs.values():
            check_index(rig, files_of(self.power))
        judge(self.power, self.known)
        publish_the_rest(self.power, next(iter(self.rigs.values())), self.known)

    def _do(self, name: str, part: str, operation: str) -> None:
        self._phase += 1
        match part:
            case "whole":
                self._whole(name, [operation])
            case "apply":
                self._apply(name, [operation])
            case "sync" if name in self._works:
                self.rigs[name].engine.sync(self._works[name][1])
            case "finish" if name in self._works:
                self._finish(name)
        if self._cuts:
            self._cut(self.power)

    def _die(self, name: str) -> None:
        self.disks[name].die()
        del self.rigs[name], self.disks[name]
        self._works.pop(name, None)
        self.crashes += 1

    # Requests.

    def _whole(self, name: str, operations: list[str]) -> None:
        self._apply(name, operations)
        self.rigs[name].engine.sync(self._works[name][1])
        self._finish(name)

    def _apply(self, name: str, operations: list[str]) -> None:
        requests = [request for each in operations if (request := self._request(name, each))]
        self._works[name] = requests, self.rigs[name].engine.apply(requests)

    def _finish(self, name: str) -> None:
        requests, work = self._works.pop(name)
        outcomes = self.rigs[name].engine.finish(work)
        self._phase += 1
        for request, outcome in zip(requests, outcomes, strict=True):
            self._hear(request, outcome)
        self.rigs[name].settle()

    def _request(self, name: str, operation: str) -> Request[object] | None:
        known = self.known
        match operation.split(" "):
            case "stage", stage, number, queue:
                self._bodies += 2
                bodies = tuple(f"{self._bodies + at} to {queue}".encode() for at in range(2))
                known.maybe.setdefault((stage, int(number)), []).append(bodies)
                return Stage(
                    stage=stage,
                    chunk=int(number),
                    queue=queue,
                    messages=[Outgoing(body=body) for body in bodies],
                    time_to_live=Millis(TIME_TO_LIVE),
                )
            case "publish", writer, epoch, letters:
                request = Publish(writer=writer, epoch=int(epoch), stages=tuple(letters))
                known.asked.append(request)
                return request
            case "abort", stage:
                known.aborting.add(stage)
                return Abort(stage=stage)
            case "delete-queue", queue:
                known.may_lose_d = True
                return DeleteQueue(name=queue)
            case ["expire"]:
                known.may_expire = True
                self.clock.advance(TIME_TO_LIVE)
                self.rigs[name].engine.tick()
            case ["tick"]:
                self.rigs[name].engine.tick()
            case _:
                raise ValueError(operation)
        return None

    def _hear(self, request: Request[object], outcome: object) -> None:
        known = self.known
        match request:
            case Stage(stage=stage, chunk=number) if isinstance(outcome, Staged):
                if not outcome.is_repeated:
                    bodies = tuple(message.body for message in request.messages)
                    known.chunks[stage, number] = bodies
            case Publish() if isinstance(outcome, Published) and not outcome.is_already:
                known.published.append(request)
            case Publish():
                known.refused.append(request)
            case Abort(stage=stage) if isinstance(outcome, int) and outcome:
                known.aborted.add(stage)

    def _settle(self, rounds: int) -> None:
        for _ in range(rounds):
            self.clock.advance(2_000)
            for rig in self.rigs.values():
                rig.tick()

    # Places, and power cuts.

    def _note(self, step: Step, left: Left) -> None:
        if self._at_work == "x" and step.torn is not Torn.WRITTEN:
            self.places.append((step.number - self._began, step.torn))
        if self._cuts:
            self._cut(left())

    def _cut(self, power: PowerDisk) -> None:
        for cut in (Cut(Keep.NONE), *every_cut(power.pending, power.unsynced_files)):
            found = power.cut(cut)
            key = (self._phase, found.signature())
            if key in self._judged:
                continue
            self._judged.add(key)
            self.crashes += 1
            try:
                restart_and_judge(found, self.known, self.clock.wall())
            except (Broken, AssertionError, StoreError) as error:
                where = f"after {self.places[-1:]} in phase {self._phase}"
                raise AssertionError(f"{self._tale}; power cut {cut} {where}: {error}") from error


def restart_and_judge(power: PowerDisk, known: Known, wall: int) -> None:
    """Start alone on what a power cut has left."""
    power.free_locks()
    rig = EngineRig(power, seed=99, wall=wall)
    check_index(rig, files_of(power))
    judge(power, known)
    publish_the_rest(power, rig, known)


def tales(count: int) -> Iterator[Tale]:
    """Pairs of operations, each in one order."""
    for turn, (first, second) in enumerate(product(OPERATIONS, OPERATIONS)):
        if turn < count:
            order = (turn + turn // len(OPERATIONS)) % len(ORDERS)
            yield Tale(first, second, order, can_sync_all=turn % 3 != 0)


def try_deaths(tale: Tale) -> int:
    """Tell it with the power cut at every place, and x dead at every place; how many crashes."""
    whole = Telling(tale, cuts=True)
    whole.tell()
    crashes = whole.crashes
    for place in dict.fromkeys(whole.places):
        killed = Telling(tale, die_at=place)
        try:
            killed.tell()
        except AssertionError as error:
            raise AssertionError(f"{tale}; x dies at {place}: {error}") from error
        crashes += killed.crashes
    return crashes
