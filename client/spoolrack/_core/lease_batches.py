"""Batching of one queue's deletes, extensions, releases and rejections: concurrent ones share a
call."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Generic

from .. import tracing
from .._transports import BatchStream
from .._values import (
    DeleteResult,
    LeaseExtension,
    LeaseResult,
    MessageRejection,
    MessageRelease,
    Seconds,
    Target,
)
from ..errors import SpoolrackError, StaleReceipt
from .batcher import Batcher, Item, Result
from .client_context import ClientContext
from .outgoing import chunks_of


class LeaseOperation(Generic[Item, Result]):
    """One kind of calls. Retries are safe: each call may take place twice."""

    def __init__(
        self,
        context: ClientContext,
        queue: str,
        name: str | None,
        call: Callable[..., Awaitable[Sequence[Result]]],
        failed: Callable[[SpoolrackError], Result],
        done_if: type[SpoolrackError] | None = None,
        stream: BatchStream[Item, Result] | None = None,
    ) -> None:
        """`name`: as spans name it; None: it has none. `failed` makes the result of an item whose call
        has failed. `done_if`: see `ClientContext.call`; `stream`: see `Batcher`."""
        self._context = context
        self._queue = queue
        self._name = name
        self._failed = failed
        self._done_if = done_if
        self._batcher: Batcher[Item, Result] = Batcher(
            context.runtime, partial(call, queue), _no_size, stream=stream
        )

    def one(
        self, item: Item, timeout: Seconds | None, done_if: type[SpoolrackError] | None = None
    ) -> Awaitable[Result | None]:
        """Return the result of one item; raise its error."""
        done_if = done_if or self._done_if
        call = self._context.call(self._batcher.submit, timeout, item, done_if=done_if)
        if self._name is None or tracing.API not in sys.modules:
            return call
        return tracing.settling(call, self._name, self._queue, self._context.transport)

    def many(self, items: Iterable[Item], timeout: Seconds | None) -> Awaitable[list[Result]]:
        """Return a result for each item."""
        chunks = chunks_of(items, _no_size)
        call = self._context.in_chunks(chunks, self._batcher.submit_many, self._failed, timeout)
        if self._name is None or tracing.API not in sys.modules:
            return call
        return tracing.settling(call, self._name, self._queue, self._context.transport)


class LeaseBatches:
    """The batched calls of one queue."""

    def __init__(self, context: ClientContext, queue: str) -> None:
        transport = context.transport
        self.deletes: LeaseOperation[Target, DeleteResult] = LeaseOperation(
            context,
            queue,
            "delete",
            transport.delete,
            lambda error: DeleteResult(error=error),
            stream=transport.delete_stream(queue),
        )
        self.extensions: LeaseOperation[LeaseExtension, LeaseResult] = LeaseOperation(
            context, queue, None, transport.extend, _failed_lease
        )
        self.releases: LeaseOperation[MessageRelease, LeaseResult] = LeaseOperation(
            context, queue, "release", transport.release, _failed_lease, StaleReceipt
        )
        self.rejections: LeaseOperation[MessageRejection, LeaseResult] = LeaseOperation(
            context, queue, "reject", transport.reject, _failed_lease, StaleReceipt
        )

    async def extend(self, change: LeaseExtension, timeout: Seconds | None) -> datetime:
        """Extend a lease; return the time at which it expires now."""
        result = await self.extensions.one(change, timeout)
        return result.lease_expires_at  # type: ignore[union-attr, return-value]  # one without an error


def _failed_lease(error: SpoolrackError) -> LeaseResult:
    return LeaseResult(error=error)


def _no_size(_: object) -> int:
    return 0
