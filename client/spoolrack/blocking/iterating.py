"""From an asynchronous iterator that never suspends to a plain one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TypeVar

from ..runtime import run

T = TypeVar("T")


def blocking_iterator(items: AsyncIterator[T]) -> Iterator[T]:
    """The items of an asynchronous generator that never suspends."""
    while True:
        try:
            yield run(_next(items))
        except StopAsyncIteration:
            return


async def _next(items: AsyncIterator[T]) -> T:
    return await anext(items)
