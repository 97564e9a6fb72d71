"""The workloads that are repeated in rounds, and how a round of one of them is measured and checked."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from typing import Final

from . import server_processes
from .client_processes import Outcome, perform
from .load import Job
from .page_figures import percentile
from .systems.base import SLOW, Shape, System
from .work_folder import flush

_COUNTED: Final = 10.0
FILLING: Final = Shape(senders=(4, 2), batch=100)
DRAINING: Final = Shape(senders=(0, 0), consumers=(4, 2), batch=100)
_SLOWED: Final = frozenset({"spoolrack-slow", "redis-slow"})


@dataclass(frozen=True, kw_only=True)
class Workload:
    name: str
    title: str
    shape: Shape
    seconds: float
    most: int = 1 << 31
    """Messages of one sending thread."""
    rate: float = 0.0
    """Messages a second of one sending thread; 0: as fast as it can."""
    waiting: int = 0
    """Messages that wait at its begin. There are no senders, and it ends when none is left."""
    systems: frozenset[str] | None = None
    """The systems that it is measured at; None: all."""

    def suits(self, system: System) -> bool:
        """Return whether it is measured at a system, which may be for some workloads only, too."""
        return (self.systems is None or system.name in self.systems) and (
            system.only is None or self.name in system.only
        )


WORKLOADS: Final = (
    Workload(
        name="hundreds",
        title="durable sends in hundreds (4 processes of 2 threads)",
        shape=Shape(senders=(4, 2), batch=100),
        seconds=1.2,
        most=6_000,
    ),
    Workload(
        name="callers",
        title="durable sends, 64 callers (8 processes of 8 threads)",
        shape=Shape(senders=(8, 8)),
        seconds=1.2,
    ),
    Workload(
        name="one",
        title="durable sends, one caller",
        shape=Shape(senders=(1, 1)),
        seconds=1.0,
    ),
    Workload(
        name="life",
        title="whole life, one caller",
        shape=Shape(senders=(1, 1), lives=True),
        seconds=1.0,
    ),
    Workload(
        name="slow",
        title=f"durable sends, one caller, on a disk of {SLOW:.0f} ms a sync",
        shape=Shape(senders=(1, 1)),
        seconds=2.0,
        systems=_SLOWED,
    ),
    Workload(
        name="slow-life",
        title=f"whole life, one caller, on a disk of {SLOW:.0f} ms a sync",
        shape=Shape(senders=(1, 1), lives=True),
        seconds=2.0,
        systems=_SLOWED,
    ),
    Workload(
        name="singles",
        title="whole life, one by one (16 producers, 16 consumers)",
        shape=Shape(senders=(4, 4), consumers=(4, 4)),
        seconds=1.5,
    ),
    Workload(
        name="tens",
        title="whole life, in tens (16 producers, 16 consumers)",
        shape=Shape(senders=(4, 4), consumers=(4, 4), batch=10),
        seconds=1.5,
    ),
    Workload(
        name="paced",
        title="paced at 400/s, from when it was due to its arrival",
        shape=Shape(senders=(1, 4), consumers=(1, 4)),
        seconds=3.0,
        rate=100.0,
    ),
    Workload(
        name="drain",
        title="drain of 100,000 waiting messages, in tens (8 consumers)",
        shape=Shape(senders=(0, 0), consumers=(4, 2), batch=10),
        seconds=float("inf"),
        waiting=100_000,
        systems=frozenset({"spoolrack", "redis", "quorum", "postgres"}),
    ),
)
NAMES: Final = tuple(workload.name for workload in WORKLOADS)


@dataclass(frozen=True, kw_only=True)
class Round:
    """One round of one workload at one system."""

    system: str
    workload: str
    round: int
    messages: int
    rate: float
    """Messages a second: sent, or sent, received and deleted."""
    p50: float
    """Milliseconds: of the sending calls, or lives, or paced: until arrival; 0: nothing is sent."""
    p99: float
    server_processor: float
    """Microseconds of processor time for each message, of all processes of the server."""
    client_processor: float
    settling: float
    """Seconds after the round until the system was at rest: not in the rate."""
    faults: list[str]


def jobs_for(
    system: System,
    queue: str,
    run: int,
    shape: Shape,
    *,
    seconds: float = float("inf"),
    most: int = 1 << 31,
    rate: float = 0.0,
    starting: int = 0,
) -> list[Job]:
    """Return the jobs of all client processes. Senders are numbered from 0. A consumer beside senders
    consumes to the end."""
    driver = shape.driver or system.driver
    jobs = []
    for sends, (processes, threads) in ((True, shape.senders), (False, shape.consumers)):
        for at in range(processes):
            jobs.append(
                Job(
                    module=driver.__module__,
                    driver=driver.__name__,
                    address=system.address_of(at),
                    queue=queue,
                    run=run,
                    sends=sends,
                    threads=threads,
                    batch=shape.batch,
                    first=at * threads,
                    seconds=seconds if sends or not shape.senders[0] else float("inf"),
                    most=most,
                    rate=rate,
                    starting=starting,
                    lives=shape.lives,
                )
            )
    return jobs


def shape_of(system: System, workload: Workload) -> Shape:
    return system.shapes.get(workload.name, workload.shape)


def new_queue(workload: str) -> tuple[str, int]:
    """Return the name of a queue that never was, and the number of the run that its messages bear."""
    run = secrets.randbits(63)
    return f"{workload}-{run:016x}", run


def measure(system: System, workload: Workload, round: int, *, pace: float = 1.0) -> Round:
    """Run one round, on a queue of its own; `pace` shortens or lengthens it."""
    queue, run = new_queue(workload.name)
    shape = shape_of(system, workload)
    system.create_queue(queue)
    waiting: dict[int, int] = {}
    if workload.waiting:
        each = workload.waiting * pace / (FILLING.senders[0] * FILLING.senders[1])
        filling = jobs_for(system, queue, run, FILLING, most=round_up(each, FILLING.batch))
        waiting = perform(filling).sent_by
    flush(system.folder)
    jobs = jobs_for(
        system,
        queue,
        run,
        shape,
        seconds=workload.seconds * pace,
        most=max(shape.batch, round_up(workload.most * pace, shape.batch)),
        rate=workload.rate,
    )
    before = server_processes.processor_seconds(system.pids())
    outcome = perform(jobs, before=waiting)
    used = server_processes.processor_seconds(system.pids()) - before
    faults = [*outcome.faults, *check(system, queue, run, shape, outcome)]
    began = time.monotonic()
    system.delete_queue(queue)
    system.settle(queue)
    flush(system.folder)
    waits = (outcome.arrivals if workload.rate else outcome.calls) or [0.0]
    done = outcome.deleted if shape.consumers[0] or shape.lives else outcome.sent
    return Round(
        system=system.name,
        workload=workload.name,
        round=round,
        messages=done,
        rate=done / outcome.seconds,
        p50=1_000 * percentile(waits, 0.5),
        p99=1_000 * percentile(waits, 0.99),
        server_processor=1e6 * used / max(done, 1),
        client_processor=1e6 * outcome.client_processor / max(done, 1),
        settling=time.monotonic() - began,
        faults=faults,
    )


def round_up(value: float, step: int) -> int:
    return -int(-value // step) * step


def check(system: System, queue: str, run: int, shape: Shape, outcome: Outcome) -> list[str]:
    """Return what is wrong with what is left in the queue: after sends alone all of it is received."""
    unreceived = outcome.sent if shape.leaves and not outcome.deleted else 0
    faults = []
    counted = count(system, queue, unreceived)
    if counted is not None and counted != unreceived:
        faults.append(f"the system counts {counted} messages and not {unreceived}")
    if unreceived and system.is_checked:
        jobs = jobs_for(system, queue, run, system.draining or DRAINING)
        faults += perform(jobs, before=outcome.sent_by).faults
    return faults


def count(system: System, queue: str, expected: int) -> int | None:
    """Return what the system counts; some need a moment to come to it."""
    end = time.monotonic() + _COUNTED
    while (counted := system.count(queue)) != expected and counted is not None:
        if time.monotonic() > end:
            break
        time.sleep(0.05)
    return counted
