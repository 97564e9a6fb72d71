"""Values of stages and batches. No behaviour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypedDict

from ._values import Seconds


class BatchOptions(TypedDict, total=False):
    """Options of a batch, as keyword arguments: see `spoolrack.Client.batch`."""

    writer: str | None
    """The publishing writer. With an `epoch`; without both, the batch is a writer of its own."""
    epoch: int | None
    epoch_retention: Seconds | None
    """How long the writer's epoch is remembered; Default: 30 days."""
    time_to_live: Seconds | None
    """How long the stage lives unpublished, from its first messages on; Default: 1 day."""
    publish: bool
    """Whether the batch is published at the end of its block. Default: true."""
    in_flight: int
    """How many chunks are in flight at one time; 1 by default. With more than one, messages of
    different chunks may appear in another order."""
    timeout: Seconds | None
    """For each call with all its repetitions; by default the client's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageResult:
    """The result of one chunk of a stage."""

    message_count: int
    """In the chunk."""
    duplicate: bool = False
    """Whether the chunk was there already; then nothing was stored."""
    expires_at: datetime
    """When the whole stage expires, unless it is published."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishResult:
    """The result of a publication."""

    message_count: int
    """How many appeared. 0 if `duplicate` is set."""
    duplicate: bool = False
    """Whether the writer had published this epoch, or a later one, before: then nothing was done."""
    last_epoch: int
    """The writer's last epoch now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageInfo:
    """A stage as it was when it was asked for."""

    name: str
    chunk_count: int
    message_counts: Mapping[str, int] = field(default_factory=dict)
    """How many, by queue."""
    expires_at: datetime
    """When it expires, unless it is published."""
