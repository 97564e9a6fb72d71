"""Batches: messages that are staged, some at a time, and appear together at the end."""

from __future__ import annotations

from types import TracebackType
from typing import Self, Unpack

from .. import _arguments as arguments
from .._core.batch_base import BatchBase
from .._core.outgoing import outgoing
from .._core.queue_base import QueueBase
from .._values import StagedOptions
from ..errors import InvalidRequest


class Batch(BatchBase):
    """Messages that appear together, in one queue or several; `client.batch()` and `queue.batch()` make
    one.

    At the end of the block all of them are published: they appear, also after a crash, or none does.
    If the block raises, all are dropped. For one task, or thread, at a time.
    """

    async def send(self, body: bytes | str, **options: Unpack[StagedOptions]) -> None:
        """Add a message for the queue whose `batch()` made this one: see `send_to`.

        A batch of `client.batch()` has no such queue, and raises `InvalidRequest`.
        """
        if self._queue is None:
            raise InvalidRequest(
                "This batch has no queue of its own: use send_to(queue, body), or a batch of "
                "queue.batch()."
            )
        await self._add(self._queue, outgoing(body, **options))

    async def send_to(
        self, queue: QueueBase | str, body: bytes | str, **options: Unpack[StagedOptions]
    ) -> None:
        """Add a message for a queue. Options, all by name: `attributes`, `delay`, `group` and
        `priority`, as those of `Queue.send`; a delay counts from the publication.

        Each 1,000 messages or 1 MiB for one queue with one delay are staged in the background as a
        chunk; the caller waits while the chunk before is still being staged. An error of a chunk is
        raised by a later call, or at the end of the block.
        """
        await self._add(arguments.queue_name(queue), outgoing(body, **options))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over = True
        if error is not None:
            await self._drop()
            return
        try:
            await self._stage_rest()
        except BaseException:
            await self._drop()
            raise
        if self._publishes:
            await self._publish()
