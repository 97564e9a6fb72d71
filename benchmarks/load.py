"""One client process: it sends or consumes, in threads, for one workload at one system.

It knows a `Driver` and nothing else of the system. It runs in a process of its own, in which nothing
else happens; its report at the end is a `Done`. Any error ends it, and is reported as well.
"""

from __future__ import annotations

import importlib
import threading
import time
import traceback
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Final, Protocol

from . import delivery_account
from .message_bodies import ForeignBody, body_of, mark_of
from .systems.base import Driver, Received

_LOOK: Final = 0.02


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """The work of a client process. Its threads send as `first`, `first` + 1 and so on."""

    module: str
    driver: str
    address: str
    queue: str
    run: int
    sends: bool
    threads: int
    batch: int = 1
    first: int = 0
    seconds: float = float("inf")
    """Nothing more is begun after so long, ..."""
    most: int = 1 << 31
    """... nor, by a sender, after so many messages of one thread."""
    rate: float = 0.0
    """Messages a second of one thread, at the moments when they are due; 0: as fast as it can."""
    starting: int = 0
    """The number of each thread's first message."""
    lives: bool = False
    """A sender receives and deletes what it has sent before it sends again."""

    @property
    def consumes(self) -> bool:
        return self.lives or not self.sends


@dataclass(kw_only=True, slots=True)
class Done:
    """Its results. Times are of the monotonic clock."""

    sent: dict[int, int] = field(default_factory=dict)
    """By sender: how many messages were acknowledged, those before `starting` included."""
    received: array[int] = field(default_factory=delivery_account.tickets)
    ended: float = 0.0
    waits: array[float] = field(default_factory=lambda: array("d"))
    """Seconds: a sender's calls, or lives; a consumer's messages, from when they were due to their
    arrival."""
    processor: float = 0.0
    errors: list[str] = field(default_factory=list)


class Board(Protocol):
    """Shared state of a round's processes: the count of deletes, and whether it is over."""

    def __getitem__(self, at: int) -> int: ...
    def __setitem__(self, at: int, value: int) -> None: ...


OVER: Final = 0
"""Its first place says that it is over; each consuming process has one of its own after that."""


def run(job: Job, pipe: Connection, board: Board, place: int) -> None:
    """Run a client process."""
    done = Done()
    try:
        load = _Load(job, done, board, place)
        pipe.send("ready")
        load.run(float(pipe.recv()))
    except BaseException:  # noqa: BLE001  # whatever it is, the round has failed, and says why
        done.errors.append(traceback.format_exc())
    pipe.send(done)
    pipe.recv()  # Not before it was read does the process, with what it holds, go.


class _Load:
    def __init__(self, job: Job, done: Done, board: Board, place: int) -> None:
        self._job = job
        self._done = done
        self._board = board
        self._place = place
        self._lock = threading.Lock()
        made: type[Driver] = getattr(importlib.import_module(job.module), job.driver)
        if made.is_shared:
            self._drivers = [made(job.address, job.queue)] * job.threads
        else:
            self._drivers = [made(job.address, job.queue) for _ in range(job.threads)]

    def run(self, begin: float) -> None:
        act = self._send if self._job.sends else self._consume
        before = time.process_time()
        threads = [
            threading.Thread(target=self._guarded, args=(act, at, begin), daemon=True)
            for at in range(self._job.threads)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(_LOOK)
                if not self._job.sends and self._is_over():
                    for driver in self._drivers:
                        driver.stop()
                    thread.join()
        self._done.processor = time.process_time() - before
        for driver in set(self._drivers):
            driver.close()

    def _guarded(self, act: Callable[[int, float], None], at: int, begin: float) -> None:
        try:
            _sleep_until(begin)
            act(at, begin)
        except BaseException:  # noqa: BLE001  # told to the round, which then has failed
            with self._lock:
                self._done.errors.append(traceback.format_exc())

    def _is_over(self) -> bool:
        return bool(self._board[OVER])

    # Sending.

    def _send(self, at: int, begin: float) -> None:
        job, driver = self._job, self._drivers[at]
        sender, number, end = job.first + at, job.starting, begin + job.seconds
        waits = array("d")
        ended = begin
        try:
            while number - job.starting < job.most:
                due = 0
                if job.rate:
                    moment = begin + (number + at / job.threads) / job.rate
                    if moment >= end:
                        break
                    _sleep_until(moment)
                    due = round(moment * 1e9)
                elif time.monotonic() >= end:
                    break
                began = time.monotonic()
                count = min(job.batch, job.most - (number - job.starting))
                bodies = [body_of(job.run, sender, number + n, due) for n in range(count)]
                if job.batch == 1:
                    driver.send(bodies[0])
                else:
                    driver.send_many(bodies)
                if job.lives:
                    while not (found := driver.receive(job.batch)):
                        pass
                    self._settle(driver, found)
                number += count
                ended = time.monotonic()
                waits.append(ended - began)
        finally:
            with self._lock:
                self._done.sent[sender] = number
                self._done.ended = max(self._done.ended, ended)
                self._done.waits.extend(waits)

    # Consuming.

    def _consume(self, at: int, begin: float) -> None:
        driver, end = self._drivers[at], begin + self._job.seconds
        if self._job.batch == 1:
            for message in driver.stream():
                if message is not None:
                    self._settle(driver, [message])
                if self._is_over():
                    return
            return
        while not self._is_over() and time.monotonic() < end:
            found = driver.receive(self._job.batch)
            if found:
                self._settle(driver, found)

    def _settle(self, driver: Driver, messages: list[Received]) -> None:
        arrived = time.monotonic()
        marks = [mark_of(message.body) for message in messages]
        driver.delete(messages)
        ended = time.monotonic()
        with self._lock:
            for mark in marks:
                if mark.run != self._job.run:
                    raise ForeignBody(f"of another run: {mark}")
                self._done.received.append(delivery_account.ticket(mark.sender, mark.number))
                if mark.due:
                    self._done.waits.append(arrived - mark.due / 1e9)
            self._done.ended = max(self._done.ended, ended)
            self._board[self._place] += len(messages)


def _sleep_until(moment: float) -> None:
    left = moment - time.monotonic()
    if left > 0:
        time.sleep(left)
