"""Makes the figures of docs/explanation/performance.md, tables and plots, from what `compare` wrote, or
`alone`.

    python -m benchmarks.page bench.json docs/explanation/performance.md
    python -m benchmarks.page alone.json docs/explanation/performance.md

The text between the two marks in the page is replaced; the text around them stays. A page that isn't
there is made. The plots go into a folder beside it that has the page's name.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from . import alone_figures, plots
from .backlog import FULL, Standing
from .marked_parts import write_between
from .page_figures import Summary, ratio, short, summary
from .workloads import WORKLOADS, Round, Workload

BEGIN: Final = "<!-- figures: made by benchmarks/page.py -->"
END: Final = "<!-- end of the figures -->"
_OURS: Final = "spoolrack"
_OURS_SLOWED: Final = "spoolrack-slow"
_PLOTTED: Final = ("hundreds", "callers", "singles", "tens")
_MEBIBYTE: Final = 1 << 20
_HOW: Final = (
    "Bodies of 1 KiB. All systems have the same number of client processes, and servers and clients "
    "share the cores. A figure is the median of interleaved rounds, ± half the distance between the "
    "best and the worst round. Every message was accounted for."
)
_RATES: Final = (
    "messages/s | noise | of Spoolrack's | p50 ms | p99 ms | server's processor, µs a message"
)
_WAITING: Final = (
    "Messages received and deleted a second, in tens, by the number of waiting messages. Memory and "
    "restart are those of the deepest queue. Restart: from the start after kill -9 to the first "
    "message; the last column is without an interpreter's own start and imports."
)


class Figures:
    """The findings of a run, as the page needs them."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.began = str(document["began"])
        self.machine: Mapping[str, str] = document["machine"]
        self.place = str(document["place"])
        self.systems: Sequence[Mapping[str, str]] = document["systems"]
        self.missing: Mapping[str, str] = document["missing"]
        self.failures: Sequence[str] = document["failures"]
        self.rounds = [Round(**each) for each in document["rounds"]]
        self.standing = [
            Standing(**{**each, "rates": {int(depth): rate for depth, rate in each["rates"].items()}})
            for each in document["standing"]
        ]

    def title(self, name: str) -> str:
        return next(each["title"] for each in self.systems if each["name"] == name)

    def of(self, workload: str) -> dict[str, list[Round]]:
        """Return the rounds of each system, in the systems' order."""
        rounds_of: dict[str, list[Round]] = {each["name"]: [] for each in self.systems}
        for measured in self.rounds:
            if measured.workload == workload:
                rounds_of[measured.system].append(measured)
        return {name: rounds for name, rounds in rounds_of.items() if rounds}

    @property
    def faults(self) -> list[str]:
        faults = [
            f"{self.title(each.system)}, {each.workload}: {fault}"
            for each in self.rounds
            for fault in each.faults
        ]
        return faults + [
            f"{self.title(each.system)}, waiting: {fault}"
            for each in self.standing
            for fault in each.faults
        ]

    @property
    def ours(self) -> frozenset[str]:
        return frozenset(each["title"] for each in self.systems if each["name"].startswith(_OURS))


def text_of(figures: Figures, folder: str) -> str:
    """Return the part of the page between the marks; plots are in `folder`."""
    machine = figures.machine
    lines = [
        BEGIN,
        "",
        f"Measured {figures.began}: {machine['cores']} cores ({machine['processor']}), "
        f"{machine['memory']}, Linux {machine['kernel']}, Python {machine['python']}. Disk: "
        f"{figures.place}. {_HOW}",
        "",
        "| system | version | exactly |",
        "|---|---|---|",
    ]
    for each in figures.systems:
        note = f" {each['note']}" if each["note"] else ""
        lines.append(f"| {each['title']} | {each['version']} | {each['configuration']}.{note} |")
    lines.append("")
    for name, reason in figures.missing.items():
        lines.append(f"- Not measured: {name}; {reason}.")
    lines += [f"- Failed: {failure.splitlines()[0]}." for failure in figures.failures]
    lines += [f"- **At fault**: {fault}." for fault in figures.faults]
    if not figures.faults:
        lines.append("- No system lost, repeated or invented a message in any round.")
    for workload in WORKLOADS:
        lines += _workload(figures, workload)
        if workload.name in _PLOTTED and figures.of(workload.name):
            lines += ["", f"![{workload.title}]({folder}/{workload.name}.svg)"]
    if figures.of("paced"):
        lines += ["", f"![paced latencies]({folder}/latency.svg)"]
    lines += _scaling(figures, folder)
    lines += _standing(figures, folder)
    return "\n".join([*lines, "", END, ""])


def _workload(figures: Figures, workload: Workload) -> list[str]:
    rounds_of = figures.of(workload.name)
    if not rounds_of:
        return []
    rates = {name: summary([each.rate for each in rounds]) for name, rounds in rounds_of.items()}
    waits = {name: summary([each.p50 for each in rounds]) for name, rounds in rounds_of.items()}
    tails = {name: summary([each.p99 for each in rounds]) for name, rounds in rounds_of.items()}

    ours = rates.get(_OURS) or rates.get(_OURS_SLOWED)

    def worth(name: str) -> float:
        return waits[name].median if workload.rate else -rates[name].median

    lines = [
        "",
        f"### {workload.title[0].upper()}{workload.title[1:]}",
        "",
        f"| system | {_RATES} |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name in sorted(rounds_of, key=worth):
        rate = rates[name]
        processor = summary([each.server_processor for each in rounds_of[name]]).median
        cells = (
            figures.title(name),
            short(rate.median),
            _noise(rate),
            _of_ours(rate, ours),
            *(f"{each[name].median:.2f}" if each[name].median else "" for each in (waits, tails)),
            f"{processor:,.0f}" if processor else "",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _noise(rate: Summary) -> str:
    return f"± {rate.noise:.0%}" if rate.rounds > 1 else "one round"


def _of_ours(rate: Summary, ours: Summary | None) -> str:
    part = None if ours is None else ratio(rate.median, ours.median)
    return "" if part is None else f"{part:.2f}"


def _scaling(figures: Figures, folder: str) -> list[str]:
    if len(_by_processes(figures, "hundreds")) < 2:
        return []
    return [
        "",
        "### Scaling with processes",
        "",
        f"![messages a second by processes]({folder}/processes.svg)",
    ]


def _by_processes(figures: Figures, workload: str) -> list[tuple[float, float]]:
    points = []
    for name, rounds in figures.of(workload).items():
        if name.startswith(_OURS):
            words = figures.title(name).split()
            processes = float(words[-2]) if len(words) > 1 else 1.0
            points.append((processes, summary([each.rate for each in rounds]).median))
    return sorted(points)


def _standing(figures: Figures, folder: str) -> list[str]:
    if not figures.standing:
        return []
    deepest = max(depth for each in figures.standing for depth in each.rates)
    depths = [depth for depth in FULL if depth <= deepest]
    lines = [
        "",
        "### With many waiting",
        "",
        _WAITING,
        "",
        "| system | "
        + " | ".join(f"{depth:,}" for depth in depths)
        + " | waiting | memory, MiB | restart, s | less imports |",
        "|---|" + "---:|" * (len(depths) + 4),
    ]
    for each in figures.standing:
        rates = " | ".join(_at_depths(each, depths))
        restart = (
            ("", "")
            if each.restart is None
            else (f"{each.restart:.2f}", f"{each.restart - each.imports:.2f}")
        )
        cells = (
            figures.title(each.system),
            rates,
            f"{each.waiting:,}",
            f"{each.memory / _MEBIBYTE:,.0f}",
            *restart,
        )
        lines.append(f"| {' | '.join(cells)} |")
    listings = [each for each in figures.standing if each.listing is not None]
    lines += [
        "",
        *(
            f"- {figures.title(each.system)}: to list all names takes {each.listing:.2f} s."
            for each in listings
        ),
    ]
    return [*lines, "", f"![messages a second by how many wait]({folder}/waiting.svg)"]


def _at_depths(standing: Standing, depths: Sequence[int]) -> list[str]:
    """Return the rate at each depth, and with how many if the system didn't come so far in time."""
    cells = []
    above = 0
    for depth in depths:
        found = {at: rate for at, rate in standing.rates.items() if above < at <= depth}
        cells.append(
            ", ".join(
                short(rate) if at == depth else f"{short(rate)} (with {at:,})"
                for at, rate in found.items()
            )
        )
        above = depth
    return cells


def plots_of(figures: Figures) -> dict[str, str]:
    """Return all plots, by file name."""
    plot_of = {}
    for workload in WORKLOADS:
        rounds = figures.of(workload.name)
        if workload.name in _PLOTTED and rounds:
            rates = {name: summary([each.rate for each in its]) for name, its in rounds.items()}
            rows = [
                (figures.title(name), rate.median, rate.noise)
                for name, rate in sorted(rates.items(), key=lambda pair: -pair[1].median)
            ]
            plot_of[f"{workload.name}.svg"] = plots.bars(
                f"{workload.title}, a second", rows, ours=figures.ours
            )
    paced = figures.of("paced")
    if paced:
        rows = []
        for name, its in sorted(
            paced.items(), key=lambda pair: summary([each.p99 for each in pair[1]]).median
        ):
            tail = summary([each.p99 for each in its])
            rows.append((figures.title(name), tail.median, min(tail.noise, 1.0)))
        plot_of["latency.svg"] = plots.bars(
            "paced at 400/s: p99 until arrival, ms", rows, ours=figures.ours
        )
    scaling = {name: _by_processes(figures, name) for name in ("hundreds", "callers", "tens")}
    if len(scaling["hundreds"]) > 1:
        plot_of["processes.svg"] = plots.curves(
            "messages a second by server processes",
            scaling,
            across="server processes",
            up="messages a second",
        )
    if figures.standing:
        lines = {figures.title(each.system): sorted(each.rates.items()) for each in figures.standing}
        plot_of["waiting.svg"] = plots.curves(
            "received and deleted by how many wait",
            lines,
            across="messages waiting",
            up="messages a second",
        )
    return plot_of


def main() -> int:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    document = json.loads(Path(sys.argv[1]).read_text())
    path = Path(sys.argv[2])
    if document.get("benchmark") == alone_figures.NAME:
        text = alone_figures.text_of(alone_figures.results_of(document))
        write_between(alone_figures.BEGIN, alone_figures.END, text, path)
        return 0
    figures = Figures(document)
    folder = path.with_suffix("")
    folder.mkdir(exist_ok=True)
    for name, plot in plots_of(figures).items():
        (folder / name).write_text(plot)
    write_between(BEGIN, END, text_of(figures, folder.name), path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
