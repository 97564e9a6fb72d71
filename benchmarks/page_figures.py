"""From what the rounds measured to what the page says: medians, spreads, ratios, percentiles. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """The rounds of one system at one workload."""

    median: float
    least: float
    most: float
    rounds: int

    @property
    def noise(self) -> float:
        """By which part of the median the rounds differ, to either side; 0 if there was one only."""
        return (self.most - self.least) / (2 * self.median) if self.median else 0.0


def summary(values: Sequence[float]) -> Summary:
    """Summarize the values of all rounds; raise `ValueError` if there are none."""
    if not values:
        raise ValueError("no rounds")
    return Summary(
        median=statistics.median(values), least=min(values), most=max(values), rounds=len(values)
    )


def percentile(values: Sequence[float], part: float) -> float:
    """Return the least value that so many (0 to 1) of the values don't exceed. Raises `ValueError` if
    none."""
    if not values:
        raise ValueError("no values")
    return sorted(values)[max(0, math.ceil(part * len(values)) - 1)]


def ratio(ours: float, theirs: float) -> float | None:
    """Return how many times theirs ours is; None if theirs is nothing."""
    return ours / theirs if theirs else None


def short(value: float) -> str:
    """Return a rate, as a reader takes it in: three digits, and thousands as k."""
    if value >= 1_000_000:
        return f"{value / 1_000_000:.3g}M"
    if value >= 9_995:
        return f"{value / 1_000:.1f}k" if value < 99_950 else f"{value / 1_000:.0f}k"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
