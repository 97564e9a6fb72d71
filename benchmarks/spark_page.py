"""The findings of a run of `benchmarks.spark`, and their page. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from .page_figures import short, summary

BEGIN: Final = "<!-- rates: made by benchmarks/spark.py -->"
END: Final = "<!-- end of the rates -->"
UNKNOWN: Final = "?"


@dataclass(frozen=True, kw_only=True, slots=True)
class SparkRound:
    what: str
    over: str
    """`server`, `store`, or `spark` alone."""
    cores: int
    """Of the session, or processes of the client."""
    rows: int
    round: int
    seconds: float
    server: float = 0.0
    """Seconds of processor time of the server, ..."""
    others: float = 0.0
    """... and of Spark, its workers and the clients."""

    @property
    def rate(self) -> float:
        return self.rows / self.seconds


@dataclass(kw_only=True, slots=True)
class SparkResults:
    began: str
    cores: int
    """Of the machine."""
    middle: int
    """Rows of most measurements."""
    body: int
    """Bytes of a message."""
    disk: str = ""
    """The disk of the server and the store."""
    rounds: list[SparkRound] = field(default_factory=list)

    def rates(self, what: str, over: str, cores: int, rows: int) -> dict[int, float]:
        """By round."""
        wanted = (what, over, cores, rows)
        return {
            one.round: one.rate
            for one in self.rounds
            if (one.what, one.over, one.cores, one.rows) == wanted
        }

    def sizes(self) -> list[int]:
        return sorted({one.rows for one in self.rounds if one.what == "sink"})

    def by_cores(self) -> list[int]:
        return sorted({one.cores for one in self.rounds if one.what == "sink"})


Rates = dict[int, float]


def text_of(results: SparkResults) -> str:
    """Return the tables, as the page shows them, between their marks."""
    rounds = 1 + max((one.round for one in results.rounds), default=0)
    lines = [
        BEGIN,
        "",
        f"Measured {results.began} on {results.cores} cores, which Spark, clients and server share: "
        f"rows/s, the median of up to {rounds} rounds, and ratios within a round. Bodies of "
        f"{results.body} bytes, {results.middle:,} rows where nothing else is said. "
        f"The disk is {results.disk}.",
        "",
        *_cores(results),
        *_sizes(results),
        *_beside(results),
        *_writers(results),
        *_batches(results),
        f"Rounds differ by ± {_noise(results):.0%} around the median: a smaller difference is noise.",
        "",
        END,
        "",
    ]
    return "\n".join(lines)


def _cores(results: SparkResults) -> list[str]:
    """Sink and source by cores, beside what they can be compared with."""
    lines = [
        "| cores | sink | of direct sends | of the store "
        "| source | of direct receives | of the store |",
        "|---:" * 7 + "|",
    ]
    for cores in results.by_cores():
        cells = [str(cores)]
        for what, direct, store in (
            ("sink", "sends", "store_sends"),
            ("source", "receives", "store_reads"),
        ):
            ours = results.rates(what, "server", cores, results.middle)
            cells += [
                _rate(ours),
                _ratio(ours, results.rates(direct, "server", cores, results.middle)),
                _ratio(ours, results.rates(store, "store", 1, results.middle)),
            ]
        lines.append(f"| {' | '.join(cells)} |")
    sends, reads = (
        _rate(_all(results, what, lambda one: one.over == "store"))
        for what in ("store_sends", "store_reads")
    )
    return [
        *lines,
        "",
        "A source is measured from its first micro-batch on. Direct: as many processes as cores, each "
        "with the ordinary client, `send_many` and "
        "`receive(1000)` with `delete_many`. The store: in a process of its own without gRPC, "
        f"{sends} rows/s sent in thousands, {reads} reserved, read and deleted.",
        "",
    ]


def _sizes(results: SparkResults) -> list[str]:
    most = max(results.by_cores(), default=0)
    lines = [
        f"| rows, {most} cores | sink | source |",
        "|---:" * 3 + "|",
    ]
    for rows in results.sizes():
        cells = [_rate(results.rates(what, "server", most, rows)) for what in ("sink", "source")]
        if any(cell != UNKNOWN for cell in cells):
            lines.append(f"| {rows:,} | {' | '.join(cells)} |")
    return [*lines, ""]


def _beside(results: SparkResults) -> list[str]:
    """Compare sink and source with other ways in the same session, by rate and processor time."""
    most = max(results.by_cores(), default=0)
    lines = [
        f"| {results.middle:,} rows, {most} cores | rows/s | processor of the server, µs a row "
        "| of Spark, its workers and clients |",
        "|---|---:|---:|---:|",
    ]
    for name, what, over in (
        ("sink", "sink", "server"),
        ("`foreachPartition` with `send_many`", "send_many", "server"),
        ("as many processes, `send_many`", "sends", "server"),
        ("the store alone, sends of 1,000", "store_sends", "store"),
        ("the store alone, sends of 100", "store_hundreds", "store"),
        ("into nothing", "null_sink", "spark"),
        ("to Parquet", "parquet", "spark"),
        ("source", "source", "server"),
        ("one client, a stream", "stream", "server"),
        ("as many processes, `receive` and `delete_many`", "receives", "server"),
        ("the store alone, by reservations", "store_reads", "store"),
        ("from a source of nothing", "null_source", "spark"),
    ):
        chosen = [
            one
            for one in results.rounds
            if (one.what, one.over, one.rows) == (what, over, results.middle)
            and (one.cores == most or over == "store" or what == "stream")
        ]
        rate = f"{short(median(one.rate for one in chosen))}" if chosen else UNKNOWN
        server, others = (
            f"{median(values):.1f}" if any(values) else ""
            for values in (
                [one.server / one.rows * 1e6 for one in chosen],
                [one.others / one.rows * 1e6 for one in chosen],
            )
        )
        lines.append(f"| {name} | {rate} | {server} | {others} |")
    return [*lines, ""]


def _writers(results: SparkResults) -> list[str]:
    most = max(results.by_cores(), default=0)
    lines = [
        f"| by hand, {most} cores | rows/s | of one call a row |",
        "|---|---:|---:|",
    ]
    single = _all(results, "one_by_one", lambda one: one.over == "server")
    for name, what in (
        ("`write_batches`", "arrow_writer"),
        ("`write_partition`", "writer"),
        ("a call of the client for each row", "one_by_one"),
    ):
        ours = _all(results, what, lambda one: one.over == "server")
        lines.append(f"| {name} | {_rate(ours)} | {_ratio(ours, single)} |")
    return [*lines, ""]


def _batches(results: SparkResults) -> list[str]:
    lines = ["| a micro-batch of one row | ms |", "|---|---:|"]
    for name, what, over in (
        ("from Spark's own source into nothing, without Python", "batch_of_spark", "spark"),
        ("from a queue into nothing", "batch_read", "server"),
        ("from a queue into another", "batch_through", "server"),
    ):
        spans = [one.seconds for one in results.rounds if (one.what, one.over) == (what, over)]
        lines.append(f"| {name} | {f'{median(spans) * 1_000:.0f}' if spans else UNKNOWN} |")
    return [*lines, ""]


def _all(results: SparkResults, what: str, which: Callable[[SparkRound], bool]) -> Rates:
    """By round, the median where there are several."""
    rates: dict[int, list[float]] = {}
    for one in results.rounds:
        if one.what == what and which(one):
            rates.setdefault(one.round, []).append(one.rate)
    return {round: median(values) for round, values in rates.items()}


def _rate(rates: Rates) -> str:
    return short(median(rates.values())) if rates else UNKNOWN


def _ratio(ours: Rates, theirs: Rates) -> str:
    """Return the median of the rounds' ratios."""
    both = [ours[round] / theirs[round] for round in ours if round in theirs]
    return f"{median(both):.2f}" if both else UNKNOWN


def _noise(results: SparkResults) -> float:
    kinds: dict[tuple[str, str, int, int], list[float]] = {}
    for one in results.rounds:
        kinds.setdefault((one.what, one.over, one.cores, one.rows), []).append(one.rate)
    return _middle(summary(rates).noise for rates in kinds.values() if len(rates) > 1)


def _middle(values: Iterable[float]) -> float:
    known = list(values)
    return median(known) if known else 0.0
