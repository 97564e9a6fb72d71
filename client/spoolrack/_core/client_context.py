"""Timeouts and retries of every call, and the check that the calling process opened the client.

Owns what the parts of one client share. Knows nothing of queues.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from random import Random
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

from .. import _arguments as arguments
from .._call_values import Answer, Call
from .._retry import RetryPolicy
from .._runtime import Runtime, Tasks
from .._transports import ClientTransport
from .._values import Seconds
from ..errors import ClientClosed, ForkedClient, SpoolrackError, Unreachable, WrongEventLoop

T = TypeVar("T")
Item = TypeVar("Item")
Result = TypeVar("Result")


class Closable(Protocol):
    async def close(self) -> object: ...


class ClientContext:
    """The transport of one client, with its timeouts and retries."""

    def __init__(
        self,
        transport: ClientTransport,
        runtime: Runtime,
        *,
        timeout: Seconds = 30.0,
        retry: RetryPolicy | None = None,
        random: Random | None = None,
    ) -> None:
        self.transport = transport
        self.runtime = runtime
        self.timeout = arguments.span("timeout", timeout)
        if retry is not None and not isinstance(retry, RetryPolicy):
            raise arguments.refusal("retry", retry, "a RetryPolicy")
        self.retry = RetryPolicy() if retry is None else retry
        self.random = Random() if random is None else random
        self.closed = False
        self.open: WeakSet[Closable] = WeakSet()
        """Objects to close before the transport."""
        self._pid = os.getpid()
        self._loop = runtime.loop if isinstance(runtime, Tasks) else None
        """The event loop that the client belongs to."""

    def check(self) -> None:
        """Raise an error if no call may be made now."""
        # As `check_process` does, without a further call of a function for each operation.
        if self._pid != os.getpid():
            raise ForkedClient()
        if self._loop is not None and self._loop is not asyncio.get_running_loop():
            raise WrongEventLoop()
        if self.closed:
            raise ClientClosed()

    def check_process(self) -> None:
        if self._pid != os.getpid():
            raise ForkedClient()
        if self._loop is not None and self._loop is not asyncio.get_running_loop():
            raise WrongEventLoop()

    def timeout_of(self, timeout: Seconds | None) -> float:
        """Return the seconds that a call may take."""
        return self.timeout if timeout is None else arguments.span("timeout", timeout)

    async def call(
        self,
        call: Callable[..., Awaitable[T]],
        timeout: Seconds | None,
        /,
        *given: Any,
        done_if: type[SpoolrackError] | None = None,
        **options: Any,
    ) -> T:
        """Return the result of `call(*given, timeout=seconds_left, **options)`; retry it after errors
        that a retry may solve.

        `done_if`: an error that proves, once a connection has broken in mid-call, that the first
        attempt took place. The result is None then.
        """
        if self._pid != os.getpid() or self._loop is not None or self.closed:
            self.check()
        left = self.timeout if timeout is None else self.timeout_of(timeout)
        deadline = self.runtime.monotonic() + left
        failed = 0
        in_doubt = False
        while True:
            try:
                return await call(*given, timeout=left, **options)
            except SpoolrackError as error:
                if in_doubt and done_if is not None and isinstance(error, done_if):
                    return None  # type: ignore[return-value]
                failed += 1
                in_doubt = in_doubt or isinstance(error, Unreachable)
                left = deadline - self.runtime.monotonic()
                pause = self.retry.pause(error, failed=failed, left=left, random=self.random)
                if pause is None:
                    raise
                last = error
            await self.runtime.sleep(pause)
            self.check()
            left = deadline - self.runtime.monotonic()
            if left <= 0:
                raise last  # The pause took longer than it should, on a busy machine.

    async def ask(
        self,
        request: Call[Answer],
        timeout: Seconds | None,
        done_if: type[SpoolrackError] | None = None,
    ) -> Answer:
        """Return the answer to a call of the transport; retry it as `call` does."""
        answer: Answer = await self.call(self.transport.call, timeout, request, done_if=done_if)
        return answer

    async def in_chunks(
        self,
        chunks: Iterable[list[Item]],
        call: Callable[..., Awaitable[Sequence[Result]]],
        failed: Callable[[SpoolrackError], Result],
        timeout: Seconds | None,
    ) -> list[Result]:
        """Make `call(chunk, timeout=seconds_left)` for each chunk, one after the other; return all
        results.

        An error of the first chunk is raised. An error of a later chunk becomes the result of its items
        and of all items after them, so that the results of the chunks before are not lost.
        """
        results: list[Result] = []
        failure: SpoolrackError | None = None
        for chunk in chunks:
            if failure is not None:
                results.extend(failed(failure) for _ in chunk)
                continue
            try:
                results.extend(await self.call(call, timeout, chunk))
            except SpoolrackError as error:
                if not results:
                    raise
                failure = error
                results.extend(failed(error) for _ in chunk)
        return results

    async def close(self) -> None:
        if self.closed or self._pid != os.getpid():
            return
        self.closed = True
        for part in list(self.open):
            await part.close()
        await self.transport.close()
