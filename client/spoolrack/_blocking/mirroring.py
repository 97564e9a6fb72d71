"""Blocking methods that are made of asynchronous ones, with their arguments and docstrings."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from .._runtime import run

P = ParamSpec("P")
T = TypeVar("T")


def blocking(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """Make the method of a class that has the asynchronous object in `_core`."""

    @wraps(method)
    def blocks(self: Any, /, *given: P.args, **named: P.kwargs) -> T:
        return run(method(self._core, *given, **named))

    return blocks


def blocking_items(
    method: Callable[Concatenate[Any, P], AsyncIterator[T]],
) -> Callable[Concatenate[Any, P], Iterator[T]]:
    """Make such a method that returns an iterator."""

    @wraps(method)
    def blocks(self: Any, /, *given: P.args, **named: P.kwargs) -> Iterator[T]:
        return blocking_iterator(method(self._core, *given, **named))

    return blocks


def blocking_iterator(items: AsyncIterator[T]) -> Iterator[T]:
    """Iterate over an asynchronous iterator that never suspends. A generator is closed at the end, or
    when this iterator is garbage-collected."""
    try:
        while True:
            try:
                yield run(_next(items))
            except StopAsyncIteration:
                return
    finally:
        if isinstance(items, AsyncGenerator):
            run(_close(items))


async def _next(items: AsyncIterator[T]) -> T:
    return await anext(items)


async def _close(items: AsyncGenerator[T, None]) -> None:
    await items.aclose()
