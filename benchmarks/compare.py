"""Spoolrack, the limit and the peers, side by side, in rounds.

    python -m benchmarks.compare                                      all that is installed
    python -m benchmarks.compare --systems spoolrack,redis --workloads hundreds --rounds 3

Each round measures each workload at each system in turn, so that a disturbance of the machine disturbs
all alike; the figure is the median. It ends with 1 if Spoolrack lost, doubled or invented a message;
of the others the page says so.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from . import backlog, client_processes, page, table
from .backlog import Standing
from .systems import catalog
from .systems.base import System
from .work_folder import WorkFolder, own_disk
from .workloads import NAMES, WORKLOADS, Round, measure

_OURS: Final = "spoolrack"
_BACKLOG: Final = "backlog"
_BACKLOG_SECONDS: Final = 15.0
"""Seconds of a backlog for each system, about: so much of the time is kept for it."""
_GIBIBYTE: Final = 1 << 30


@dataclass(kw_only=True)
class ComparisonResults:
    """All findings of a run, written as JSON, from which the page is made."""

    began: str
    machine: dict[str, str]
    place: str
    systems: list[dict[str, str]]
    missing: dict[str, str]
    rounds: list[Round] = field(default_factory=list)
    standing: list[Standing] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def faults(self) -> list[str]:
        faults = [
            f"{each.system}, {each.workload}: {fault}" for each in self.rounds for fault in each.faults
        ]
        return faults + [
            f"{each.system}, {_BACKLOG}: {fault}" for each in self.standing for fault in each.faults
        ]


def machine() -> dict[str, str]:
    model = ""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / _GIBIBYTE
    return {
        "cores": str(os.cpu_count()),
        "processor": model,
        "memory": f"{memory:.0f} GiB",
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


class Comparison:
    def __init__(self, place: WorkFolder, options: argparse.Namespace) -> None:
        self._place = place
        self._options = options
        kinds, missing = catalog.find(options.systems)
        self._kinds = kinds
        self._systems: list[System] = []
        self.results = ComparisonResults(
            began=time.strftime("%Y-%m-%d %H:%M:%S %z"),
            machine=machine(),
            place=place.described,
            systems=[],
            missing=missing,
        )
        for name, reason in missing.items():
            say(f"without {name}: {reason}")

    def run(self) -> None:
        client_processes.preload([kind.__module__ for kind in self._kinds])
        end = time.monotonic() + 60 * self._options.minutes
        with ExitStack() as stack:
            for kind in self._kinds:
                self._start(kind, stack)
            standing = [system for system in self._systems if self._stands(system)]
            end -= _BACKLOG_SECONDS * len(standing)
            longest = 0.0
            for round in range(self._options.rounds):
                began = time.monotonic()
                if round and began + longest > end:
                    say(f"no time for more than {round} rounds")
                    break
                self._round(round)
                longest = max(longest, time.monotonic() - began)
            for system in standing:
                self._stand(system)

    def _start(self, kind: type[System], stack: ExitStack) -> None:
        system = kind(self._place.folder / kind.name)
        began = time.monotonic()
        stack.callback(system.stop)
        try:
            system.start()
            version = system.version()
        except Exception as error:  # noqa: BLE001  # a peer that doesn't start must not end the run
            self._fail(f"{kind.name} doesn't start: {error}")
            return
        self._systems.append(system)
        self.results.systems.append({"name": kind.name, "version": version, **asdict(kind.facts)})
        say(f"{kind.name} {version} started in {time.monotonic() - began:.1f} s")

    def _round(self, round: int) -> None:
        for workload in WORKLOADS:
            if workload.name not in self._options.workloads:
                continue
            for system in self._turns(round):
                if not workload.suits(system):
                    continue
                if system.most_rounds is not None and round >= system.most_rounds:
                    continue
                try:
                    measured = measure(system, workload, round, pace=self._options.pace)
                except Exception as error:  # noqa: BLE001  # the others go on, and the page says so
                    self._fail(f"{system.name}, {workload.name}: {type(error).__name__}: {error}")
                    continue
                self.results.rounds.append(measured)
                say(table.line_of(measured))

    def _stands(self, system: System) -> bool:
        return _BACKLOG in self._options.workloads and (system.only is None or _BACKLOG in system.only)

    def _stand(self, system: System) -> None:
        try:
            standing = backlog.measure(system, self._options.depths)
        except Exception as error:  # noqa: BLE001  # the others go on, and the page says so
            self._fail(f"{system.name}, {_BACKLOG}: {type(error).__name__}: {error}")
            return
        self.results.standing.append(standing)
        say(table.standing_line(standing))

    def _turns(self, round: int) -> list[System]:
        """Another one begins each round."""
        at = round % max(1, len(self._systems))
        return self._systems[at:] + self._systems[:at]

    def _fail(self, what: str) -> None:
        self.results.failures.append(what)
        say(f"FAILED {what}")


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def chosen_from(names: Sequence[str]) -> Callable[[str], list[str]]:
    """Return a parser of a list of some of these names, which keeps their order."""

    def parse(text: str) -> list[str]:
        given = text.split(",")
        unknown = sorted(set(given) - set(names))
        if unknown:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}; there are {', '.join(names)}")
        return [name for name in names if name in given]

    return parse


def main() -> int:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="compare", description=__doc__, formatter_class=form)
    workloads = (*NAMES, _BACKLOG)
    names, works = chosen_from(catalog.NAMES), chosen_from(workloads)
    parser.add_argument(
        "--systems", type=names, default=list(catalog.NAMES), help=",".join(catalog.NAMES)
    )
    parser.add_argument("--workloads", type=works, default=list(workloads), help=",".join(workloads))
    parser.add_argument("--rounds", type=int, default=5, help="at most (%(default)s)")
    parser.add_argument("--minutes", type=float, default=9.0, help="no new round then (%(default)s)")
    parser.add_argument("--pace", type=float, default=1.0, help="times the length of a round")
    parser.add_argument("--full", action="store_true", help="a million waiting, too; takes far longer")
    parser.add_argument("--folder", type=Path, default=Path("/var/tmp"), help="(%(default)s)")
    parser.add_argument("--no-own-disk", action="store_true", help="work in the folder as it is")
    parser.add_argument("--gibibytes", type=int, help="of the file system of its own")
    parser.add_argument("--json", type=Path, help="write what was found there")
    options = parser.parse_args()
    options.depths = backlog.FULL if options.full else backlog.QUICK
    if options.full:
        options.minutes = float("inf")
    # However it is ended: no server stays, and nothing stays mounted.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    size = (options.gibibytes or (24 if options.full else 6)) * _GIBIBYTE
    with own_disk(options.folder, 0 if options.no_own_disk else size) as place:
        say(f"on {place.described}")
        comparison = Comparison(place, options)
        results = comparison.results
        try:
            comparison.run()
        finally:
            if options.json:
                options.json.write_text(json.dumps(asdict(results), indent=1) + "\n")
    print(page.text_of(page.Figures(asdict(results)), "performance"))
    for fault in results.faults:
        say(f"FAULT {fault}")
    return 1 if any(fault.startswith(_OURS) for fault in results.faults) else 0


if __name__ == "__main__":
    sys.exit(main())
