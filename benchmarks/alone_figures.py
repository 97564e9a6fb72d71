"""From what `alone` measured to its tables: medians of rounds, and ratios within a round. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

NAME: Final = "alone"
BEGIN: Final = "<!-- alone: made by benchmarks/alone.py -->"
END: Final = "<!-- end of alone -->"

# Rows, and whose turn it is in them.
MEMORY: Final = "memory"
DISK: Final = "disk"
XFS: Final = "xfs"
FUNCTIONS: Final = "functions"
LOADS: Final = "loads"
ROWS: Final = (MEMORY, DISK, XFS, FUNCTIONS, LOADS)
ECHO: Final = "echo"
AIO_ECHO: Final = "echo by asyncio"
FILE_ECHO: Final = "echo with a file"
FILE: Final = "plain file"
GRPC: Final = "gRPC"
FOLDER: Final = "file://"

# Meters of an operation.
P50: Final = "p50"
"""Of its time, in microseconds."""
SERVER: Final = "server"
CLIENT: Final = "client"
OTHERS: Final = "others"
"""Threads of the client beside the caller's, where `CLIENT` is the caller's alone."""

_BASES: Final = {MEMORY: (ECHO, AIO_ECHO), DISK: (FILE_ECHO, FILE), XFS: (FILE_ECHO, FILE)}
_TITLES: Final = {
    MEMORY: "Without a disk",
    DISK: "On a disk",
    XFS: "On XFS",
    FUNCTIONS: "Functions of Python",
    LOADS: "Processor time",
}
_HOW: Final = (
    "Bodies of 1 KiB; a life is a send, a receive and a delete. The echo is grpc.aio's, on an open "
    "stream, with frames of 1.1 KB; its caller is a blocking one, or one of asyncio. With a file it "
    "creates, writes, syncs and renames one before each answer; a plain file is that without gRPC. All "
    "subjects of a table take turns in each round. Times are the median of the rounds' medians, in µs. "
    "A ratio is one within a round: the median of all rounds, and in brackets the quartiles. Processor "
    "time is for one operation, in µs, of all threads. A count of functions is the least of the rounds."
)


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One operation of one round. Its meters are for one operation."""

    row: str
    round: int
    subject: str
    operation: str
    meters: Mapping[str, float]


@dataclass(kw_only=True)
class LoneResults:
    """All findings of a run, as JSON has them."""

    benchmark: str = NAME

    began: str
    machine: Mapping[str, str]
    rounds: int
    """At most; a row that takes long has fewer."""
    count: int
    """Operations of a turn."""
    load: list[float]
    """The machine's load averages of a minute, before and after."""
    places: dict[str, str] = field(default_factory=dict)
    """The file system of each row."""
    missing: dict[str, str] = field(default_factory=dict)
    """By row: why it wasn't measured."""
    measurements: list[Measurement] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def results_of(document: Mapping[str, Any]) -> LoneResults:
    """Return what the JSON of a run says."""
    found = [Measurement(**each) for each in document["measurements"]]
    return LoneResults(**{**document, "measurements": found})


class _Rows:
    """The measurements of one row, by subject and operation."""

    def __init__(self, results: LoneResults, row: str) -> None:
        self._meters: dict[tuple[str, str], dict[int, Mapping[str, float]]] = {}
        for each in results.measurements:
            if each.row == row:
                self._meters.setdefault((each.subject, each.operation), {})[each.round] = each.meters

    @property
    def operations(self) -> list[tuple[str, str]]:
        return list(self._meters)

    @property
    def rounds(self) -> int:
        return max(map(len, self._meters.values()), default=0)

    def cell(self, of: tuple[str, str], meter: str, digits: int = 0) -> str:
        """Return the median of a meter; "" if it isn't read."""
        values = [meters[meter] for meters in self._meters.get(of, {}).values() if meter in meters]
        return f"{statistics.median(values):,.{digits}f}" if values else ""

    def least(self, of: tuple[str, str], meter: str) -> str:
        """Return the least value of a meter; "" if it isn't read."""
        values = [meters[meter] for meters in self._meters.get(of, {}).values() if meter in meters]
        return f"{min(values):,.0f}" if values else ""

    def ratio(self, of: tuple[str, str], base: tuple[str, str], meter: str) -> str:
        """Return how many times its base's it is, within the rounds that have both."""
        ours, theirs = self._meters[of], self._meters.get(base, {})
        ratios = [
            ours[round][meter] / theirs[round][meter]
            for round in sorted(ours.keys() & theirs.keys())
            if meter in ours[round] and theirs[round].get(meter)
        ]
        if not ratios:
            return ""
        if len(ratios) == 1:
            return f"{ratios[0]:.2f}"
        low, median, high = statistics.quantiles(ratios, n=4, method="inclusive")
        return f"{median:.2f} ({low:.2f} to {high:.2f})"


def text_of(results: LoneResults) -> str:
    """Return the part of the page between the marks, with them."""
    machine = results.machine
    before, after = results.load
    lines = [
        BEGIN,
        "",
        f"Measured {results.began}: {machine['cores']} cores ({machine['processor']}), Linux "
        f"{machine['kernel']}, Python {machine['python']}. Load average: {before:.1f} before, "
        f"{after:.1f} at the end. {_HOW}",
    ]
    notes = [f"- Not measured: {row}; {reason}." for row, reason in results.missing.items()]
    notes += [f"- **At fault**: {fault}." for fault in results.faults]
    lines += ["", *notes] if notes else []
    for row in ROWS:
        rows = _Rows(results, row)
        if not rows.operations:
            continue
        lines += [
            "",
            f"### {_TITLES[row]}",
            "",
            f"{results.places[row]}; {_plural(rows.rounds, 'round')}.",
            "",
        ]
        if row == FUNCTIONS:
            lines += _functions(rows)
        elif row == LOADS:
            lines += _loads(rows)
        else:
            lines += _times(rows, _BASES[row])
    return "\n".join([*lines, "", END, ""])


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _times(rows: _Rows, bases: Sequence[str]) -> list[str]:
    base_of = {base: of for base in bases for of in rows.operations if of[0] == base}
    lines = [
        f"| | p50 | {' | '.join(f'times {_a(base)}' for base in base_of)} | server's processor | "
        "client's |",
        "|---|" + "---:|" * (3 + len(base_of)),
    ]
    for of in rows.operations:
        cells = (
            of[0] if of in base_of.values() else f"{of[0]}: {of[1]}",
            rows.cell(of, P50),
            *("" if of == base else rows.ratio(of, base, P50) for base in base_of.values()),
            rows.cell(of, SERVER),
            rows.cell(of, CLIENT),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _a(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeio" else f"a {noun}"


def _functions(rows: _Rows) -> list[str]:
    # What a server does from time to time isn't the operation's: the least count of a round is.
    lines = [
        "| calls for one | server, all threads | client: caller | client: other threads | the store, "
        f"by {FOLDER} |",
        "|---|---:|---:|---:|---:|",
    ]
    for operation in dict.fromkeys(operation for _, operation in rows.operations):
        cells = (
            operation,
            *(rows.least((GRPC, operation), meter) for meter in (SERVER, CLIENT, OTHERS)),
            rows.least((FOLDER, operation), CLIENT),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _loads(rows: _Rows) -> list[str]:
    base = next(of for of in rows.operations if of[0] == ECHO)
    lines = [
        "| µs for a message | server | times an echo's | clients | times an echo's |",
        "|---|---:|---:|---:|---:|",
    ]
    for of in rows.operations:
        cells = [of[1]]
        for meter in (SERVER, CLIENT):
            cells += [
                rows.cell(of, meter, digits=1),
                "" if of == base else rows.ratio(of, base, meter),
            ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines
