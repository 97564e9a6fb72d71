"""A client of asyncio with the surface of one for threads, so that one suite tells what both promise.

Each call is made in an event loop of its own thread. Knows nothing of queues: what `spoolrack.aio`
returns is wrapped, and unwrapped where it is an argument.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any


class Loop:
    """An event loop in a thread, and threads for the handlers of workers."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._handlers = ThreadPoolExecutor(64)
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._handlers.shutdown(wait=False)

    def call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Call a function in the loop, and wait for the result of a coroutine."""

        async def call() -> Any:
            result = function(*map(unwrapped, arguments), **of_tasks)
            return await result if inspect.isawaitable(result) else result

        of_tasks = {name: self._of_tasks(name, option) for name, option in options.items()}
        if self._thread is threading.current_thread():  # a finalizer
            return function(*map(unwrapped, arguments), **of_tasks)
        return self.wrapped(asyncio.run_coroutine_threadsafe(call(), self._loop).result())

    def _of_tasks(self, name: str, option: Any) -> Any:
        if name == "on_error" and callable(option):
            return lambda message, error: option(self.wrapped(message), error)
        return unwrapped(option)

    def handler(self, handler: Any) -> Any:
        """Return a handler of tasks that calls one of threads."""
        if not callable(handler):
            return handler

        async def handle(message: Any) -> None:
            call = partial(handler, self.wrapped(message))
            await asyncio.get_running_loop().run_in_executor(self._handlers, call)

        return handle

    def wrapped(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.wrapped(each) for each in value]
        if type(value).__module__.startswith("spoolrack.aio") or isinstance(value, AsyncIterator):
            return Blocking(value, self)
        return value


class Blocking:
    """An object of `spoolrack.aio`."""

    def __init__(self, wrapped: Any, loop: Loop) -> None:
        self.__dict__["_wrapped"], self.__dict__["_loop"] = wrapped, loop

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._wrapped, name)
        if not callable(value):
            return self._loop.wrapped(value)
        call = partial(self._loop.call, value)
        if name not in ("work", "worker"):
            return call
        place = 0 if hasattr(self._wrapped, "_lease_batches") else 1

        def with_handler(*arguments: Any, **options: Any) -> Any:
            given = list(arguments)
            given[place] = self._loop.handler(given[place])
            return call(*given, **options)

        return with_handler

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            return self._loop.call(self._wrapped.__anext__)
        except StopAsyncIteration:
            raise StopIteration from None

    def __enter__(self) -> Any:
        self._loop.call(self._wrapped.__aenter__)
        return self

    def __exit__(self, *error: Any) -> Any:
        return self._loop.call(self._wrapped.__aexit__, *error)

    def __repr__(self) -> str:
        return repr(self._wrapped)

    def __eq__(self, other: object) -> bool:
        return bool(self._wrapped == unwrapped(other))

    def __hash__(self) -> int:
        return hash(self._wrapped)


def unwrapped(value: Any) -> Any:
    if isinstance(value, Blocking) and not isinstance(value._wrapped, AsyncIterator):
        return value._wrapped
    if isinstance(value, list | tuple):
        return type(value)(map(unwrapped, value))
    if inspect.isgenerator(value) or isinstance(value, Blocking):
        return map(unwrapped, value)
    return value
