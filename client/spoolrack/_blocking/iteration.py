"""Plain iteration over asynchronous iterators that never suspend."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from typing import TypeVar

from .._runtime import run

T = TypeVar("T")


def blocking_iterator(items: AsyncIterator[T]) -> Iterator[T]:
    """Iterate over an asynchronous generator that never suspends."""
    while True:
        try:
            yield run(_next(items))
        except StopAsyncIteration:
            return


def closing_iterator(items: AsyncGenerator[T, None]) -> Generator[T, None, None]:
    """Iterate over an asynchronous generator that has something to close; close it at the end, or when
    this iterator is garbage-collected."""
    try:
        yield from blocking_iterator(items)
    finally:
        run(_close(items))


async def _close(items: AsyncGenerator[T, None]) -> None:
    await items.aclose()


async def _next(items: AsyncIterator[T]) -> T:
    return await anext(items)
