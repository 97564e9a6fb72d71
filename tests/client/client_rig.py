"""Clients over queues in memory, for threads and for tasks, and bounded ways to wait for something."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from itertools import count
from random import Random

import spoolrack
from spoolrack import RetryPolicy, aio
from spoolrack._runtime import Tasks, Threads
from spoolrack.errors import SpoolrackError

from tests.client.memory import Memory
from tests.client.memory_transport import MemoryTransport

QUICK = RetryPolicy(initial=0.0, maximum=0.0)
"""Repeats at once."""
LOOKS = 10_000
_SEEDS = count(1)
"""Two clients must not choose the same names."""


class Number(int):
    """The result of one item of a call."""

    error: SpoolrackError | None = None


class MemoryTime(Threads):
    """Threads whose monotonic clock is the memory's: it stands still until a test moves it."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def monotonic(self) -> float:
        return self._memory.now_ms / 1_000


def memory_client(
    memory: Memory,
    *,
    retry: RetryPolicy = QUICK,
    timeout: float = 30.0,
    runtime: Threads | None = None,
) -> spoolrack.Client:
    runtime = Threads() if runtime is None else runtime
    transport = MemoryTransport(memory, runtime)
    return spoolrack.Client(
        transport, runtime, timeout=timeout, retry=retry, random=Random(next(_SEEDS))
    )


def memory_aio_client(
    memory: Memory, *, retry: RetryPolicy = QUICK, timeout: float = 30.0
) -> aio.Client:
    runtime = Tasks()
    transport = MemoryTransport(memory, runtime)
    return aio.Client(transport, runtime, timeout=timeout, retry=retry, random=Random(next(_SEEDS)))


def comes_about(what: Callable[[], bool]) -> bool:
    """Return whether another thread brings `what` about, in 10 s or so."""
    pause = threading.Event()
    for _ in range(LOOKS):
        if what():
            return True
        pause.wait(0.001)
    return False


def until(what: Callable[[], bool]) -> None:
    """Return once another thread has brought `what` about; fails after 10 s or so."""
    assert comes_about(what), "it never came about"


async def until_async(what: Callable[[], bool]) -> None:
    """Return once other tasks have brought `what` about."""
    for _ in range(LOOKS):
        if what():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came about")


async def until_true(what: Callable[[], Awaitable[bool]]) -> None:
    """Return once `what`, which asks a server, is true."""
    for _ in range(LOOKS):
        if await what():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came about")
