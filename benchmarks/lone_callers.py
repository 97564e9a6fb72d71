"""The client processes of `alone`: each has one caller, which repeats an operation when it is told to.

A process of its own for each, so that one caller's threads don't slow another's. An error ends the
process, whose traceback is at standard error.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import statistics
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.connection import Client, Connection
from pathlib import Path
from types import FrameType
from typing import ClassVar, Final

import spoolrack
import spoolrack_store

from tests.support.function_calls import FunctionCalls

from .alone_figures import CLIENT, OTHERS, P50, SERVER
from .echo import AioEchoClient, EchoClient, file_writer
from .message_bodies import SIZE
from .server_processes import processor_clock

QUEUE: Final = "alone"
BODY: Final = os.urandom(SIZE)
_STUCK: Final = 120.0
"""Seconds that only a defect takes."""
_STORE: Final = str(Path(spoolrack_store.__file__).parent)
_CONTEXT: Final = multiprocessing.get_context("spawn")

Meters = dict[str, Callable[[], float]]
"""What is read before and after the operations, by name."""


class LoneCaller(ABC):
    """One caller. `operations` are done in this order, each so many times before the next."""

    operations: ClassVar[Sequence[str]]

    @abstractmethod
    def __init__(self, address: str) -> None: ...

    @abstractmethod
    def repeat(self, operation: str, count: int) -> list[float]:
        """Do an operation so many times, one after the other; return the seconds of each."""

    def close(self) -> None:  # noqa: B027  # one has no connection
        """End the connection."""


def seconds_of_each(act: Callable[[], object], count: int) -> list[float]:
    seconds = []
    for _ in range(count):
        began = time.perf_counter()
        act()
        seconds.append(time.perf_counter() - began)
    return seconds


class EchoCaller(LoneCaller):
    operations = ("echo",)

    def __init__(self, address: str) -> None:
        self._client = EchoClient(address)

    def repeat(self, operation: str, count: int) -> list[float]:
        return seconds_of_each(self._client.exchange, count)

    def close(self) -> None:
        self._client.close()


class AioEchoCaller(LoneCaller):
    operations = ("echo",)

    def __init__(self, address: str) -> None:
        self._runner = asyncio.Runner()
        self._client = self._runner.run(self._connected(address))

    async def _connected(self, address: str) -> AioEchoClient:
        return AioEchoClient(address)

    def repeat(self, operation: str, count: int) -> list[float]:
        return self._runner.run(self._repeat(count))

    async def _repeat(self, count: int) -> list[float]:
        seconds = []
        for _ in range(count):
            began = time.perf_counter()
            await self._client.exchange()
            seconds.append(time.perf_counter() - began)
        return seconds

    def close(self) -> None:
        self._runner.run(self._client.close())
        self._runner.close()


class FileCaller(LoneCaller):
    """Makes durable files itself, by nothing but system calls."""

    operations = ("file",)

    def __init__(self, address: str) -> None:
        self._write = file_writer(Path(address))

    def repeat(self, operation: str, count: int) -> list[float]:
        return seconds_of_each(lambda: self._write(BODY), count)


class QueueCaller(LoneCaller):
    """A caller of the public client, by any of its transports."""

    operations = ("send", "receive", "delete", "life")

    def __init__(self, address: str) -> None:
        self._client = spoolrack.connect(address, timeout=60)
        self._queue = self._client.create_queue(QUEUE, visibility_timeout=600)
        self._held: deque[spoolrack.Message] = deque()

    def repeat(self, operation: str, count: int) -> list[float]:
        return seconds_of_each(getattr(self, f"_{operation}"), count)

    def _send(self) -> None:
        self._queue.send(BODY)

    def _receive(self) -> None:
        (message,) = self._queue.receive(1)
        self._held.append(message)

    def _delete(self) -> None:
        self._held.popleft().delete()

    def _life(self) -> None:
        self._send()
        self._receive()
        self._delete()

    def close(self) -> None:
        self._client.close()


@dataclass(frozen=True, kw_only=True, slots=True)
class CallerJob:
    """The work of a client process. It meters processor time, in microseconds, or calls of
    functions."""

    caller: type[LoneCaller]
    address: str
    server: int | None = None
    """The process of the server, whose processor time is read; None: there is none."""
    counts: str | None = None
    """Count functions in place of processor time. The address at which the server says how many it has
    called; "": there is no server, and the store's functions count here."""


class CallerProcess:
    """A client process."""

    def __init__(self, job: CallerJob) -> None:
        self._pipe, theirs = _CONTEXT.Pipe()
        self._process = _CONTEXT.Process(target=_run, args=(job, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def repeat(self, count: int) -> dict[str, dict[str, float]]:
        """Do each operation so many times; return its `P50`, and what the meters say of one of them."""
        try:
            self._pipe.send(count)
            if not self._pipe.poll(_STUCK):
                raise RuntimeError(f"{count} operations of a lone caller take more than {_STUCK:.0f} s")
            found: dict[str, dict[str, float]] = self._pipe.recv()
        except (EOFError, ConnectionError):
            raise RuntimeError("a lone caller's process has ended: its error is above") from None
        return found

    def close(self) -> None:
        self._pipe.close()
        self._process.join(_STUCK)
        self._process.kill()


def _run(job: CallerJob, pipe: Connection) -> None:
    with ExitStack() as stack:
        meters = _times(job) if job.counts is None else _counts(job.counts, stack)
        caller = job.caller(job.address)
        stack.callback(caller.close)
        while True:
            try:
                count = pipe.recv()
            except EOFError:
                return  # It is over.
            pipe.send({each: _metered(caller, each, count, meters) for each in caller.operations})


def _metered(caller: LoneCaller, operation: str, count: int, meters: Meters) -> dict[str, float]:
    before = {name: read() for name, read in meters.items()}
    seconds = caller.repeat(operation, count)
    # In the opposite order: what a meter itself needs isn't in those that were read after it.
    after = {name: read() for name, read in reversed(meters.items())}
    return {P50: 1e6 * statistics.median(seconds)} | {
        name: (after[name] - before[name]) / count for name in meters
    }


def _times(job: CallerJob) -> Meters:
    meters: Meters = {}
    if job.server is not None:
        clock = processor_clock(job.server)
        meters[SERVER] = lambda: 1e6 * time.clock_gettime(clock)
    return meters | {CLIENT: lambda: 1e6 * time.process_time()}


def _counts(address: str, stack: ExitStack) -> Meters:
    here = threading.get_ident()
    calls = stack.enter_context(FunctionCalls(_any_function if address else _function_of_the_store))
    if not address:
        return {CLIENT: lambda: calls.counts().total()}
    server = stack.enter_context(Client(address, family="AF_UNIX"))

    def read_server() -> float:
        server.send(None)
        return int(server.recv())

    return {
        SERVER: read_server,
        OTHERS: lambda: calls.counts().total() - calls.counts(here).total(),
        CLIENT: lambda: calls.counts(here).total(),
    }


def _any_function(frame: FrameType) -> str | None:
    return frame.f_code.co_qualname if frame.f_code.co_filename != __file__ else None


def _function_of_the_store(frame: FrameType) -> str | None:
    return frame.f_code.co_qualname if frame.f_code.co_filename.startswith(_STORE) else None
