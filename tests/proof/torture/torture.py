"""`make torture MINUTES=30`: every campaign for its share of the time, and a summary at the end.

Simulated crashes keep all cores but one busy for the whole time. Beside them, one after the other,
real servers, senders and consumers are killed, servers of three shards are stopped and cut off, too,
and real file systems lose their power. A campaign that can't run here is named in the summary with the
reason: it is no success. Exits with 1 if a promise was broken or a campaign died.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from random import SystemRandom
from typing import Final

from tests import CHECKOUT
from tests.proof.torture import shards
from tests.support import namespaces
from tests.support.loop_disk import KINDS, why_not
from tests.support.run_counts import COUNTS, Tally

SEEDS_APART: Final = 1 << 32
"""No campaign of this many runs meets another one's seeds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    name: str
    program: Sequence[str]
    """Python's first arguments: a module or a file."""
    arguments: Sequence[str] = ()
    absent: str | None = None
    """Why it can't run here."""


SIMULATED: Final = Campaign(name="simulated crashes", program=("-m", "tests.proof.crash.campaign"))
SHARED_DISK: Final = Campaign(
    name="simulated crashes of several",
    program=("-m", "tests.proof.crash.campaign"),
    arguments=("--shared",),
)


def real_campaigns() -> list[Campaign]:
    return [
        Campaign(name="kill -9", program=("-m", "tests.proof.e2e.campaign")),
        Campaign(
            name=shards.NAME,
            program=("-m", "tests.proof.torture.shards"),
            absent=namespaces.why_not(),
        ),
        *(
            Campaign(
                name=f"power cuts, {kind}",
                program=("-m", "tests.proof.power.campaign"),
                arguments=("--kind", kind),
                absent=why_not(kind),
            )
            for kind in KINDS
        ),
    ]


@dataclass(slots=True)
class Summary:
    tallies: dict[str, Tally] = field(default_factory=dict)
    absent: list[str] = field(default_factory=list)
    died: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def add(self, name: str, tally: Tally) -> None:
        with self._lock:
            self.tallies.setdefault(name, Tally(campaign=name)).add(tally)

    @property
    def is_clean(self) -> bool:
        return not self.died and all(tally.is_clean for tally in self.tallies.values())

    def table(self) -> str:
        """Return the counts as a table of Markdown, then what was broken or didn't run."""
        head = ("campaign", *COUNTS)
        rows = [
            (name, *(f"{getattr(tally, count):,}" for count in COUNTS))
            for name, tally in self.tallies.items()
        ]
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        lines = [_row(head, widths), _row(["-" * width for width in widths], widths)]
        lines += [_row(row, widths) for row in rows]
        lines += [f"\nnot run: {absent}" for absent in self.absent]
        lines += [f"\ndied: {died}" for died in self.died]
        lines += [f"\nbroken: {b}" for tally in self.tallies.values() for b in tally.broken]
        return "\n".join(lines)


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = zip(cells, widths, strict=True)
    return "| " + " | ".join([first[0].ljust(first[1]), *(c.rjust(w) for c, w in rest)]) + " |"


def run(campaign: Campaign, seconds: float, seed: int, summary: Summary) -> None:
    """Run one campaign's program to its end, and take in its tally."""
    if campaign.absent is not None:
        summary.absent.append(f"{campaign.name}: {campaign.absent}")
        return
    command = [
        *(sys.executable, *campaign.program, *campaign.arguments),
        *("--seconds", f"{seconds:g}", "--seed", str(seed)),
    ]
    done = subprocess.run(
        command, cwd=CHECKOUT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False
    )
    last = done.stdout.splitlines()[-1:]
    if last and last[0].startswith("{"):
        summary.add(campaign.name, Tally.from_json(last[0]))
    else:
        summary.died.append(f"{campaign.name}, with {done.returncode}: {' '.join(command)}")


def simulate(seconds: float, seed: int, summary: Summary) -> None:
    """Half of the time one engine on its disk, and half of it several on one."""
    for campaign in (SIMULATED, SHARED_DISK):
        run(campaign, seconds / 2, seed, summary)


def torture(minutes: float, seed: int, jobs: int) -> Summary:
    summary = Summary()
    ends = time.monotonic() + minutes * 60

    def run_the_real_ones() -> None:
        campaigns = real_campaigns()
        for at, campaign in enumerate(campaigns):
            share = (ends - time.monotonic()) / (len(campaigns) - at)
            run(campaign, max(share, 1.0), seed, summary)

    with ThreadPoolExecutor(jobs + 1) as pool:
        running = [
            pool.submit(simulate, minutes * 60, seed + at * SEEDS_APART, summary) for at in range(jobs)
        ]
        running.append(pool.submit(run_the_real_ones))
        for one in running:
            one.result()
    return summary


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=None, help="the first seed; random without it")
    parser.add_argument(
        "--jobs",
        type=int,
        default=max(1, (os.cpu_count() or 2) - 1),
        help="so many processes simulate crashes (default: all cores but one)",
    )
    options = parser.parse_args()
    seed = SystemRandom().randrange(1 << 24) if options.seed is None else options.seed
    print(f"seed {seed}, {options.minutes:g} minutes, {options.jobs} simulating", flush=True)
    started = time.monotonic()
    summary = torture(options.minutes, seed, options.jobs)
    print(f"after {(time.monotonic() - started) / 60:.1f} minutes:\n\n{summary.table()}")
    return 0 if summary.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
