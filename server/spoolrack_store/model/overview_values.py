"""Values of the overview of queues and owners, for dashboards and metrics."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Counts of this process's work on a queue since it began; other processes have their own."""

    entered: int = 0
    """Messages that it brought into the queue: sent, published, dead-lettered or redriven there."""
    left: int = 0
    """Messages that it deleted, let expire, or moved away; a purge isn't counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ages:
    """The ready messages of one queue by age."""

    counts: tuple[int, ...]
    """The youngest first: those younger than the first bound, and so on; the last: older than all.
    Each age is told to an eighth of a second; the sum is exact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A process that has the root open, or died with it open a moment ago."""

    name: str
    about: str
    """Its process id and its host, in its own words."""
    is_me: bool
