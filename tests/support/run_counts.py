"""Counts of a long run: the sums of many short ones, and every promise that was broken.

A campaign is a loop over seeds until its time is up. Its program prints its tally as one line of JSON,
the last line of its standard output; the summary of `make torture` is made of those.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from random import SystemRandom

SHOWN = 20
"""So many broken promises are kept word for word; the rest is only counted."""


@dataclass(slots=True, kw_only=True)
class Tally:
    campaign: str
    runs: int = 0
    crashes: int = 0
    """Power cuts, kills and failed system calls."""
    messages: int = 0
    """Acknowledged sends."""
    lost: int = 0
    resurrected: int = 0
    doubled: int = 0
    """In two hands at once: within one lease, or under two that overlap."""
    torn: int = 0
    """Delivered with another body than the one that was sent."""
    invented: int = 0
    other: int = 0
    """Any other broken promise, such as wrong counts."""
    broken: list[str] = field(default_factory=list)
    """Broken promises, each with the command that shows it again."""

    def add(self, other: Tally) -> None:
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.broken += other.broken[: max(0, SHOWN - len(self.broken))]

    @property
    def is_clean(self) -> bool:
        return not self.broken and not any(getattr(self, name) for name in FAULTS)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> Tally:
        return cls(**json.loads(line))


COUNTS = tuple(f.name for f in fields(Tally) if f.name not in ("campaign", "broken"))
FAULTS = ("lost", "resurrected", "doubled", "torn", "invented", "other")


def run_campaign(name: str, once: Callable[[int], Tally], arguments: list[str] | None = None) -> int:
    """Return the program of a campaign: tell `once` of seed after seed until the time is up.

    Exits with 1 if a promise was broken. A run that has begun is finished, however long it takes.
    """
    parser = argparse.ArgumentParser(description=name)
    parser.add_argument("--seconds", type=float, default=60.0, help="begin no run after so long")
    parser.add_argument("--seed", type=int, default=None, help="the first seed; random without it")
    parser.add_argument("--runs", type=int, default=None, help="at most so many runs")
    options = parser.parse_args(arguments)
    seed = SystemRandom().randrange(1 << 40) if options.seed is None else options.seed
    sum = Tally(campaign=name)
    ends = time.monotonic() + options.seconds
    while time.monotonic() < ends and (options.runs is None or sum.runs < options.runs):
        sum.add(once(seed))
        seed += 1
    print(sum.to_json())
    for broken in sum.broken:
        print(broken, file=sys.stderr)
    return 0 if sum.is_clean else 1
