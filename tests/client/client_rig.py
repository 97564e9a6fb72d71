"""Bounded ways to wait for something, and a result of an item."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from spoolrack.errors import SpoolrackError

LOOKS = 10_000


class Number(int):
    """The result of one item of a call."""

    error: SpoolrackError | None = None


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
