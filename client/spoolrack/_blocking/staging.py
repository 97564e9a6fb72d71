"""Stages, for threads: messages that are stored and invisible until they are published."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .._runtime import run
from .._stage_values import PublishResult, StageInfo, StageResult
from .._values import Outgoing, Seconds
from ..aio import _staging as aio_staging
from .iteration import blocking_iterator


class Staging:
    """The stages of a server; `client.staging` is one. `client.batch` does all this by itself."""

    def __init__(self, core: aio_staging.Staging) -> None:
        self._core = core

    def stage(
        self,
        stage: str,
        chunk_number: int,
        queue: str,
        messages: Iterable[bytes | str | Outgoing],
        *,
        time_to_live: Seconds | None = None,
        timeout: Seconds | None = None,
    ) -> StageResult:
        """Store 1 to 1,000 messages for a queue as one chunk of a stage, all of them or none.

        They are invisible until `publish`. A chunk that the stage has already is not stored again;
        another one under its number is a `ChunkDiffers`, another caller's stage a `NameTaken`. All have
        one delay, and none a deduplication id. The first chunk makes the stage, which lives for
        `time_to_live` (1 day) unless it is published.
        """
        return run(
            self._core.stage(
                stage, chunk_number, queue, messages, time_to_live=time_to_live, timeout=timeout
            )
        )

    def publish(
        self,
        writer: str,
        epoch: int,
        stages: Iterable[str],
        *,
        epoch_retention: Seconds | None = None,
        timeout: Seconds | None = None,
    ) -> PublishResult:
        """Make all messages of up to 10,000 stages appear, or none, also after a crash.

        If the writer has published this epoch or a later one before, nothing is done, and the answer
        says `duplicate`: so it may be repeated. That is remembered for `epoch_retention` (30 days).
        Raises `StageNotFound` if one of the stages isn't there, `QueueFull` if they don't fit, and
        `NameTaken` for a stage or a writer of another caller.
        """
        return run(
            self._core.publish(writer, epoch, stages, epoch_retention=epoch_retention, timeout=timeout)
        )

    def abort(self, stage: str, *, timeout: Seconds | None = None) -> int:
        """Drop a stage; returns how many messages it had. 0: there is none, which is a success.

        Raises `NameTaken` for another caller's.
        """
        return run(self._core.abort(stage, timeout=timeout))

    def list(self, *, timeout: Seconds | None = None) -> Iterator[StageInfo]:
        """Return all stages, by name. `timeout` is for each page of them."""
        return blocking_iterator(self._core.list(timeout=timeout))
