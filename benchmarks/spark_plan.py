"""How much of what `benchmarks.spark` measures. Values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    cores: tuple[int, ...]
    """The most last: with these alone some more is measured, in any case."""
    rounds: int
    small: int
    middle: int
    large: int
    """Rows."""
    single: int
    """Rows that are sent one by one."""
    batches: int
    """Micro-batches of one row."""
    gibibytes: int
    """Of the file system that the real server works on."""


FULL: Final = Plan(
    cores=(1, 2, 4),
    rounds=3,
    small=10_000,
    middle=100_000,
    large=1_000_000,
    single=1_000,
    batches=20,
    gibibytes=6,
)
QUICK: Final = Plan(
    cores=(1, 4),
    rounds=1,
    small=1_000,
    middle=10_000,
    large=30_000,
    single=200,
    batches=5,
    gibibytes=1,
)
