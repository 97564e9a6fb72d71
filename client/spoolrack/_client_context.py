"""Timeouts and retries of every call, and the check that the calling process opened the client.

Owns what the parts of one client share. Knows nothing of queues.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from random import Random
from typing import Protocol, TypeVar
from weakref import WeakSet

from . import _arguments as arguments
from ._retry import RetryPolicy
from ._runtime import Runtime
from ._transports import ClientTransport
from ._values import Seconds
from .errors import ClientClosed, ForkedClient, SpoolrackError, Timeout, Unreachable

T = TypeVar("T")
Item = TypeVar("Item")
Result = TypeVar("Result")


class Closable(Protocol):
    async def close(self) -> None: ...


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

    def check(self) -> None:
        """Raise an error if no call may be made now."""
        if self._pid != os.getpid():
            raise ForkedClient()
        if self.closed:
            raise ClientClosed()

    def check_process(self) -> None:
        if self._pid != os.getpid():
            raise ForkedClient()

    def timeout_of(self, timeout: Seconds | None) -> float:
        """Return the seconds that a call may take."""
        return self.timeout if timeout is None else arguments.span("timeout", timeout)

    async def attempt(
        self,
        call: Callable[..., Awaitable[T]],
        timeout: Seconds | None,
        *parameters: object,
        done_if: type[SpoolrackError] | None = None,
    ) -> T | None:
        """Return the result of `call(*given, deadline)`; retry it after errors that a retry may solve.

        `done_if`: an error that proves, once a connection has broken in mid-call, that the first
        attempt took place. The result is None then.
        """
        self.check()
        deadline = self.runtime.monotonic() + self.timeout_of(timeout)
        failed = 0
        in_doubt = False
        while True:
            try:
                return await call(*parameters, deadline)
            except SpoolrackError as error:
                if in_doubt and done_if is not None and isinstance(error, done_if):
                    return None
                failed += 1
                in_doubt = in_doubt or isinstance(error, Unreachable)
                left = deadline - self.runtime.monotonic()
                pause = self.retry.pause(error, failed=failed, left=left, random=self.random)
                if pause is None:
                    raise
                last = error
            await self.runtime.sleep(pause)
            self.check()
            if self.runtime.monotonic() >= deadline:
                raise last  # The pause took longer than it should, on a busy machine.

    async def call(self, call: Callable[[float], Awaitable[T]], timeout: Seconds | None) -> T:
        """Return the result of `call(seconds_left)`, retried as by `attempt`."""

        async def with_seconds(deadline: float) -> T:
            return await call(self.left(deadline))

        return await self.attempt(with_seconds, timeout)  # type: ignore[return-value]  # no done_if

    async def in_chunks(
        self,
        chunks: Iterable[list[Item]],
        call: Callable[[list[Item], float], Awaitable[Sequence[Result]]],
        failed: Callable[[SpoolrackError], Result],
        timeout: Seconds | None,
    ) -> list[Result]:
        """Make `call(chunk, deadline)` for each chunk, one after the other; return the results of all.

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
                results.extend(await self.attempt(call, timeout, chunk) or ())
            except SpoolrackError as error:
                if not results:
                    raise
                failure = error
                results.extend(failed(error) for _ in chunk)
        return results

    def left(self, deadline: float) -> float:
        """Return the seconds until `deadline`; raise `Timeout` if it has passed."""
        left = deadline - self.runtime.monotonic()
        if left <= 0:
            raise Timeout("The timeout passed before the call was made.")
        return left

    def countdown(self, seconds: float) -> Callable[[], float]:
        """Return a function for what is left of a span: at the first call all of it, as the caller gave
        it, so that a server that refuses it names the caller's value."""
        until = self.runtime.monotonic() + seconds
        whole = [seconds]
        return lambda: whole.pop() if whole else max(0.0, until - self.runtime.monotonic())

    async def close(self) -> None:
        if self.closed or self._pid != os.getpid():
            return
        self.closed = True
        for part in list(self.open):
            await part.close()
        await self.transport.close()
