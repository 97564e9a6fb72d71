"""Blocking methods that are made of asynchronous ones, with their arguments and docstrings.

A blocking object has the state of an asynchronous one, so that each method runs over it as it is. The
methods await nothing of the surface, but the state's private coroutines and those of the transport.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, overload

from .._help import spell_out
from .._runtime import run, unrun

P = ParamSpec("P")
T = TypeVar("T")


@overload
def blocking(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]: ...
@overload
def blocking(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, object]], returns: type[T]
) -> Callable[Concatenate[Any, P], T]: ...
@overload
def blocking(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, object]],
    returns: type[T],
    *,
    or_none: Literal[True],
) -> Callable[Concatenate[Any, P], T | None]: ...
def blocking(
    method: Callable[..., Coroutine[Any, Any, Any]], returns: Any = None, *, or_none: bool = False
) -> Any:
    """Make the method of a class with the same state. `returns`: its type, if it is a blocking one."""

    @wraps(method)
    def blocks(self: Any, /, *arguments: Any, **options: Any) -> Any:
        # As `run`, without a further call of a function.
        work = method(self, *arguments, **options)
        try:
            work.send(None)
        except StopIteration as done:
            return done.value
        return unrun(work)

    return blocks


def returning(
    method: Callable[Concatenate[Any, P], object], returns: type[T]
) -> Callable[Concatenate[Any, P], T]:
    """Take over a method that makes no call, and returns a blocking object here."""
    same: Any = method
    return same  # type: ignore[no-any-return]


@overload
def blocking_items(
    method: Callable[Concatenate[Any, P], AsyncIterator[T]],
) -> Callable[Concatenate[Any, P], Iterator[T]]: ...
@overload
def blocking_items(
    method: Callable[Concatenate[Any, P], AsyncIterator[object]], of: type[T]
) -> Callable[Concatenate[Any, P], Iterator[T]]: ...
def blocking_items(method: Callable[..., AsyncIterator[Any]], of: Any = None) -> Any:
    """Make such a method that returns an iterator, of blocking objects if `of` is their type."""

    @wraps(method)
    def blocks(self: Any, /, *arguments: Any, **options: Any) -> Any:
        return _iterator(method(self, *arguments, **options))

    spell_out(blocks, returns=lambda name: name.removeprefix("Async"))
    return blocks


def _iterator(items: AsyncIterator[T]) -> Iterator[T]:
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
