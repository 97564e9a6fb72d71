"""Sources of an import: their common interface."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import quote

from spoolrack import Attributes, Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A message in a source."""

    key: str
    """Names the message in its source, for good: it keeps its key when it changes folders."""
    queue: str
    """Where it goes."""
    length: int
    """Bytes that it takes in its source, for the progress."""
    read: Callable[[], bytes]
    """Return its body; raise `FileNotFoundError` if another process has taken it."""
    path: str = ""
    """Its file, where it has one."""
    attributes: Attributes = field(default_factory=dict)
    group: str = ""
    priority: int = 0
    visible_at: int | None = None
    """Unix time in milliseconds until which it is hidden. None: it is ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedSchedule:
    """A schedule in an archive, without its ticks."""

    name: str
    cron: str
    time_zone: str
    group: str
    paused: bool
    attributes: Mapping[str, str | bytes]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceQueue:
    """A queue of a source: what it is made of where it is missing."""

    settings: Settings
    labels: Mapping[str, str] = field(default_factory=dict)
    schedules: Sequence[ArchivedSchedule] = ()


class Source(Protocol):
    """A source of messages, whose order is the same each time, without those that were removed."""

    @property
    def name(self) -> str:
        """The URL of the source: with a key it identifies a message."""

    @property
    def length(self) -> int | None:
        """Bytes of all its items. None: unknown."""

    @property
    def queues(self) -> Mapping[str, SourceQueue]:
        """The destinations of its messages, by their names."""

    def items(self) -> Iterator[Item]:
        """Yield all messages, imported before or not. At a fault of the source it ends without an
        error: `check` raises it."""

    def check(self) -> None:
        """Raise the fault that has ended the items early."""

    def remove(self, items: Sequence[Item]) -> int:
        """Remove imported messages; return how many of them had another state, because other programs
        use the source."""

    def remove_rest(self, done_keys: Container[str]) -> bool:
        """Remove the rest of messages with these keys, and make all removals durable. Return whether
        the source can do so."""


def mark_of(source: Source, key: str) -> str:
    """Return the origin of an imported message, for its attributes."""
    return f"{source.name}/{quote(os.fsencode(key), safe=':')}"
