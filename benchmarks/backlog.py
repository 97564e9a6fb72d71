"""Messages that wait: does a thousand, or a hundred thousand, make a receive slower? How much memory
do they take? How long does a killed server need before it delivers the first one again?
"""

from __future__ import annotations

import statistics
import time
from array import array
from dataclasses import dataclass, field
from typing import Final

from . import delivery_account, server_processes
from .client_processes import perform
from .message_bodies import mark_of
from .systems.base import Shape, System
from .work_folder import flush
from .workloads import DRAINING, FILLING, count, jobs_for, new_queue

QUICK: Final = (1_000, 10_000, 100_000)
FULL: Final = (*QUICK, 1_000_000)
_TAKING: Final = Shape(senders=(0, 0), consumers=(4, 2), batch=10)
_TIMES: Final = 2
_TAKING_SECONDS: Final = 1.0
_FILLING_SECONDS: Final = 8.0
"""A system that takes longer for a hundred thousand is looked at with what it has by then."""


@dataclass(kw_only=True)
class Standing:
    """The figures of one system with messages that wait."""

    system: str
    rates: dict[int, float] = field(default_factory=dict)
    """By how many wait: messages received and deleted a second, in tens."""
    waiting: int = 0
    """In the deepest queue, when memory and restart were looked at."""
    memory: int = 0
    """Bytes, of all processes of the server."""
    memory_before: int = 0
    """The same with the queue empty."""
    restart: float | None = None
    """Seconds from the command, after kill -9, to the first message; None if there is no server."""
    imports: float = 0.0
    """Seconds of these that an interpreter's start and imports take."""
    listing: float | None = None
    """Seconds that it takes to read all names of the system's folders, where these are messages."""
    faults: list[str] = field(default_factory=list)


class BacklogQueue:
    """One queue that is filled and emptied, and the account of it."""

    def __init__(self, system: System, *, is_patient: bool) -> None:
        self._system = system
        self.name, self._run = new_queue("backlog")
        self._sent: dict[int, int] = {}
        self._received: array[int] = delivery_account.tickets()
        self._patience = 100 * _FILLING_SECONDS if is_patient else _FILLING_SECONDS
        system.create_queue(self.name)

    @property
    def waiting(self) -> int:
        return sum(self._sent.values()) - len(self._received)

    def fill(self, depth: int) -> None:
        processes, threads = FILLING.senders
        each = -(-(depth - self.waiting) // (processes * threads))
        if each <= 0:
            return
        started = set(self._sent.values()) or {0}
        if len(started) > 1:
            return  # Time was up before, and it will not be better now.
        jobs = jobs_for(
            self._system,
            self.name,
            self._run,
            FILLING,
            seconds=self._patience,
            most=each,
            starting=started.pop(),
        )
        self._sent = perform(jobs, before=self._sent).sent_by

    def take(self, count: int) -> float:
        """Return messages a second; of so many, or of those that are taken in `_TAKING_SECONDS`."""
        jobs = jobs_for(self._system, self.name, self._run, _TAKING, seconds=_TAKING_SECONDS)
        outcome = perform(jobs, before=self._sent, enough=count)
        self._received.extend(outcome.received)
        return outcome.deleted / outcome.seconds

    def take_first(self) -> None:
        """Return when the server, which may be starting, has handed out a message; delete that."""
        driver = self._system.connect(self.name)
        while not (found := driver.receive(1)):
            pass
        driver.delete(found)
        mark = mark_of(found[0].body)
        self._received.append(delivery_account.ticket(mark.sender, mark.number))
        driver.close()

    def empty(self) -> None:
        jobs = jobs_for(self._system, self.name, self._run, DRAINING)
        self._received.extend(perform(jobs, before=self._sent, enough=self.waiting).received)

    def faults(self, *, all_of_it: bool) -> list[str]:
        faults = delivery_account.faults(self._sent, self._received, all_of_it=all_of_it)
        waiting = self.waiting
        if all_of_it and waiting and count(self._system, self.name, waiting) == waiting:
            faults.append(
                f"the system still counts all {waiting} that are missing: leased, and not "
                "lost, if their consumers have ended"
            )
        return faults


def measure(system: System, depths: tuple[int, ...]) -> Standing:
    """Fill one queue deeper and deeper; then kill the server, and start it again."""
    standing = Standing(system=system.name)
    standing.memory_before = server_processes.memory_bytes(system.pids())
    is_patient = depths[-1] > QUICK[-1]
    queue = BacklogQueue(system, is_patient=is_patient)
    for depth in depths:
        rates = []
        for _ in range(_TIMES):
            queue.fill(depth)
            flush(system.folder)
            waiting = queue.waiting
            rates.append(queue.take(depth // 2))
        standing.rates[depth if waiting >= depth else waiting] = statistics.median(rates)
    queue.fill(depths[-1])
    flush(system.folder)
    standing.waiting = queue.waiting
    standing.memory = server_processes.memory_bytes(system.pids())
    counted = count(system, queue.name, queue.waiting)
    if counted is not None and counted != queue.waiting:
        standing.faults.append(f"the system counts {counted} messages and not {queue.waiting}")
    standing.faults += queue.faults(all_of_it=False)
    if system.server is not None:
        _restart(system, queue, standing)
    if is_patient:
        queue.empty()
        standing.faults += queue.faults(all_of_it=True)
    system.delete_queue(queue.name)
    system.settle(queue.name)
    flush(system.folder)
    return standing


def _restart(system: System, queue: BacklogQueue, standing: Standing) -> None:
    standing.listing = system.seconds_of_listing()
    standing.imports = system.seconds_of_imports()
    system.kill()
    began = time.monotonic()
    system.start()
    queue.take_first()
    standing.restart = time.monotonic() - began
    counted = count(system, queue.name, queue.waiting)
    if counted is not None and counted != queue.waiting:
        standing.faults.append(f"after kill -9 it counts {counted} messages and not {queue.waiting}")
