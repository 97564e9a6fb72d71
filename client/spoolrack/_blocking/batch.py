"""Batches for threads: messages that are staged, some at a time, and appear together at the end."""

from __future__ import annotations

from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Self

from .. import _arguments as arguments
from .. import aio
from .._runtime import run
from .._stage_values import PublishResult
from .._values import Attributes, Seconds
from .mirroring import blocking

if TYPE_CHECKING:
    from .queue import Queue


class Batch:
    """Messages that appear together, in one queue or several; `client.batch()` and `queue.batch()` make
    one.

    At the end of the block all of them are published: they appear, also after a crash, or none does.
    If the block raises, all are dropped. For one thread at a time.
    """

    def __init__(self, core: aio.Batch) -> None:
        self._core = core

    @property
    def stage(self) -> str:
        """The name under which the messages are staged: for `client.staging.publish` and `abort`."""
        return self._core.stage

    @property
    def message_count(self) -> int:
        """Number of messages in the batch so far."""
        return self._core.message_count

    @property
    def expires_at(self) -> datetime | None:
        """Time at which the stage expires unless it is published. None: nothing is staged yet."""
        return self._core.expires_at

    @property
    def published(self) -> PublishResult | None:
        """The result of the publication. None: there was none, or none yet."""
        return self._core.published

    @property
    def writer(self) -> str:
        """The writer of the publication: the one that was named, or the stage itself."""
        return self._core.writer

    @property
    def epoch(self) -> int:
        """The epoch of the publication; 0 if none was named."""
        return self._core.epoch

    @property
    def in_doubt(self) -> bool:
        """Whether the publication failed, or was interrupted, and may have taken place. The stage is
        then left; publish it again by the batch's writer and epoch."""
        return self._core.in_doubt

    send = blocking(aio.Batch.send)

    def send_to(
        self,
        queue: Queue | str,
        body: bytes | str,
        *,
        attributes: Attributes | None = None,
        delay: Seconds | None = None,
        group: str = "",
        priority: int = 0,
    ) -> None:
        """Add a message for a queue. A delay counts from the publication.

        Each 1,000 messages or 1 MiB for one queue with one delay are staged in the background as a
        chunk; the caller waits while the chunk before is still being staged. An error of a chunk is
        raised by a later call, or at the end of the block.
        """
        name = arguments.queue_name(queue)
        run(
            self._core.send_to(
                name, body, attributes=attributes, delay=delay, group=group, priority=priority
            )
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        run(self._core.__aexit__(kind, error, trace))

    def __repr__(self) -> str:
        return f"<spoolrack.Batch {self._core._describe()}>"
