"""A log from end to end: a queue, Structured Streaming, Parquet, and back into a second queue.

    python examples/sessions.py OUT
    python examples/sessions.py OUT --log /var/log/nginx/access.log --format access
    journalctl -o json >journal; python examples/sessions.py OUT --log journal --format journal

Every record of the log becomes a message of the queue `log`. A query reads it, cuts the records of
each client (or service, or module) into sessions, which end when nothing came for a while, and writes
each session once: as a row below OUT/sessions, and as a message of the queue `sessions`. Records
are deleted from `log` when their batch is done. Without --log it is a log of Python at work, made on
the spot.

OUT/pipeline.svg shows over time the records that were sent and those in batches that are done, the
backlog between the two, and the rates. Records are done when their batch ends, so that line is flat for
as long as the first batch takes, which starts Spark's Python workers, compiles its plans and opens the
stores of its state. The parts of the longest batches stand below.

It starts a server over OUT/root, or uses the one that --endpoint names. The query's state is in
OUT/checkpoint: kill it at any time, and start it again with --continue, which sends nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Final

import spoolrack
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its usual name)
from pyspark.sql.streaming import StreamingQuery
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from spoolrack.spark import register

LOG: Final = "log"
SESSIONS: Final = "sessions"
TOGETHER: Final = 1_000
"""Messages in one send."""
UNTIL: Final = "until"
"""The attribute of a message that only says how late it is: see `close`."""
END: Final = "(end of the log)"
WIDTH: Final = 720
PANEL: Final = 150
EDGE: Final = 80
GREY: Final = "#8c959f"
BLUE: Final = "#0969da"
TRACED: Final = "shlex"
"""A module whose documentation Python prints, for a log of its own work."""


@dataclass(frozen=True, kw_only=True)
class Format:
    """The format of a log's records."""

    begins: str
    """A line of another kind belongs to the record before it."""
    gap: timedelta
    """A session is over when nothing came for longer than that."""
    late: timedelta
    """Records may be so much out of order."""
    key: Column
    """Whose session it is, ..."""
    at: Column
    """... when the record was made, ..."""
    what: Column
    """... and what it is about."""


def formats() -> dict[str, Format]:
    """They are made of Spark's expressions, which need a session."""
    line = F.col("body").cast("string")
    access = r'^(\S+) \S+ \S+ \[([^\]]+)\] "\S+ (\S+)'
    trace = r"^([0-9]+\.[0-9]+) (\S+)\(([0-9]+)\)"
    seconds = F.regexp_extract(line, trace, 1).try_cast("decimal(12, 6)")
    entry = F.from_json(
        line,
        "__REALTIME_TIMESTAMP string, _SYSTEMD_UNIT string, SYSLOG_IDENTIFIER string, PRIORITY string",
    )
    return {
        "access": Format(
            begins=access,
            gap=timedelta(minutes=30),
            late=timedelta(minutes=1),
            key=F.regexp_extract(line, access, 1),
            at=F.try_to_timestamp(F.regexp_extract(line, access, 2), F.lit("dd/MMM/yyyy:HH:mm:ss Z")),
            what=F.regexp_extract(line, access, 3),
        ),
        "journal": Format(
            begins=r"^\{",
            gap=timedelta(minutes=5),
            late=timedelta(minutes=1),
            key=F.coalesce(entry["_SYSTEMD_UNIT"], entry["SYSLOG_IDENTIFIER"]),
            at=F.timestamp_micros(entry["__REALTIME_TIMESTAMP"].try_cast("bigint")),
            what=entry["PRIORITY"],
        ),
        "trace": Format(
            begins=trace,
            gap=timedelta(milliseconds=50),
            late=timedelta(seconds=1),
            key=F.regexp_extract(line, trace, 2),
            at=F.timestamp_micros((seconds * 1_000_000).cast("bigint")),
            what=F.regexp_extract(line, trace, 3),
        ),
    }


def make_log(path: Path) -> None:
    """Write every line that Python runs while it prints documentation, with its time."""
    with path.open("wb") as log:
        subprocess.run(
            [sys.executable, "-m", "trace", "--trace", "--timing", "--module", "pydoc", TRACED],
            stdout=log,
            check=True,
        )


def records(path: Path, begins: str) -> Iterator[bytes]:
    """Yield the log in records: a line that begins one, and those that follow it."""
    begin = re.compile(begins.encode())
    held: list[bytes] = []
    with path.open("rb") as log:
        for line in log:
            if begin.search(line):
                if held:
                    yield b"".join(held).rstrip(b"\n")
                held = [line]
            elif held:
                held.append(line)
    if held:
        yield b"".join(held).rstrip(b"\n")


def sessions(messages: DataFrame, format: Format) -> DataFrame:
    """Return one row for each session that is over."""
    until = F.col("attributes")[UNTIL]
    read = messages.select(
        F.when(until.isNull(), F.coalesce(format.key, F.lit("?"))).otherwise(END).alias("key"),
        F.coalesce(F.to_timestamp(until), format.at).alias("at"),
        format.what.alias("what"),
        F.octet_length("body").alias("bytes"),
    )
    gap = f"{format.gap / timedelta(milliseconds=1):.0f} milliseconds"
    late = f"{format.late / timedelta(milliseconds=1):.0f} milliseconds"
    return (
        read.withWatermark("at", late)
        .groupBy("key", F.session_window("at", gap))
        .agg(
            F.min("at").alias("begins"),
            F.max("at").alias("ends"),
            F.count("*").alias("records"),
            F.approx_count_distinct("what").alias("kinds"),
            F.sum("bytes").alias("bytes"),
        )
        .drop("session_window")
    )


@dataclass(frozen=True, kw_only=True)
class Batch:
    """A micro-batch that is done."""

    number: int
    rows: int
    began: float
    """Seconds since the start of the run."""
    lasted: float
    """Seconds, of which ..."""
    parts: Mapping[str, float]
    """... so many by part."""

    @property
    def ended(self) -> float:
        return self.began + self.lasted

    @property
    def rate(self) -> float:
        return self.rows / self.lasted if self.lasted else 0.0

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in self.parts.items())
        return f"Batch {self.number}: {self.rows:,} records in {self.lasted:.1f} s ({parts})"


class Pipeline:
    """One run: the messages sent, and the query over them."""

    def __init__(self, spark: SparkSession, endpoint: str, out: Path, format: Format) -> None:
        self._spark = spark
        self._endpoint = endpoint
        self._out = out
        self._format = format
        self.sent = 0
        self.wrote: dict[int, dict[str, float]] = {}
        """Of each batch the seconds of its two outputs."""
        self._client = spoolrack.connect(endpoint)
        known = {queue.name for queue in self._client.list_queues()}
        for name in {LOG, SESSIONS} - known:
            self._client.create_queue(name)

    def send(self, log: Path) -> None:
        """Send the whole log, a thousand records at a time."""
        queue = self._client.queue(LOG)
        waiting = records(log, self._format.begins)
        while together := list(islice(waiting, TOGETHER)):
            queue.send_many(together)
            self.sent += len(together)

    def start(self, rows: int) -> StreamingQuery:
        messages = (
            self._spark.readStream.format("spoolrack")
            .option("endpoint", self._endpoint)
            .option("queue", LOG)
            .option("maxMessagesPerTrigger", rows)
            .load()
        )
        return (
            sessions(messages, self._format)
            .writeStream.queryName("sessions")
            .option("checkpointLocation", str(self._out / "checkpoint"))
            .outputMode("append")
            .foreachBatch(self.write)
            .start()
        )

    def write(self, found: DataFrame, batch: int) -> None:
        """Both outputs of one micro-batch. Spark may do a batch again: neither has it twice then."""
        found = found.where(F.col("key") != END).persist()
        try:
            id = self._spark.sparkContext.getLocalProperty("sql.streaming.queryId")
            # By the query, too: one with a new checkpoint counts its batches from 0 again.
            folder = self._out / "sessions" / f"query={id}" / f"batch={batch}"
            began = time.monotonic()
            found.write.mode("overwrite").parquet(str(folder))
            in_parquet = time.monotonic()
            body = F.to_json(F.struct("*")).alias("body")
            attributes = F.create_map(F.lit("key"), "key").alias("attributes")
            (
                found.select(body, attributes)
                .write.format("spoolrack")
                .mode("append")
                .option("endpoint", self._endpoint)
                .option("queue", SESSIONS)
                .option("txnId", f"{id}-{batch}")
                .save()
            )
            self.wrote[batch] = {
                "to Parquet": in_parquet - began,
                "to the queue": time.monotonic() - in_parquet,
            }
        finally:
            found.unpersist()

    def close(self, query: StreamingQuery) -> None:
        """End the sessions that are open: a log that has ended has no later record that would.

        Time goes by with the records only, so a message that says how late it is ends them.
        """
        query.processAllAvailable()
        times = [moment for one in query.recentProgress if (moment := one["eventTime"].get("max"))]
        if times:
            last = datetime.fromisoformat(max(times))
            until = last + self._format.gap + self._format.late + timedelta(seconds=1)
            self._client.queue(LOG).send(b"", attributes={UNTIL: until.isoformat()})
            query.processAllAvailable()

    def waiting(self) -> int:
        counts = self._client.queue(LOG).info().counts
        return counts.ready_count + counts.leased_count

    def in_sessions(self) -> tuple[int, int]:
        """Return how many sessions there are in Parquet, and how many records in them."""
        table = self._spark.read.parquet(str(self._out / "sessions"))
        row = table.agg(F.count("*"), F.coalesce(F.sum("records"), F.lit(0))).first()
        assert row is not None
        return row[0], row[1]

    def in_queue(self) -> tuple[int, int]:
        """Return the same of the queue's messages: looked at, and left there."""
        messages = (
            self._spark.read.format("spoolrack")
            .option("endpoint", self._endpoint)
            .option("queue", SESSIONS)
            .load()
        )
        told = messages.select(
            F.from_json(F.col("body").cast("string"), "key string, records bigint").alias("one")
        )
        row = told.agg(F.count("*"), F.coalesce(F.sum("one.records"), F.lit(0))).first()
        assert row is not None
        return row[0], row[1]

    def stop(self) -> None:
        self._client.close()


class Display:
    """Spark's progress: bars on a terminal, else a line for each batch."""

    def __init__(self, pipeline: Pipeline, query: StreamingQuery, total: int | None) -> None:
        self.late = 0
        """Records that came after their session's end: they are in none."""
        self.samples = [(0.0, 0)]
        """Seconds since the start, with how many records were sent by then."""
        self.batches: dict[int, Batch] = {}
        self._began, self._began_at = time.monotonic(), datetime.now(UTC)
        self._console = Console(stderr=True)
        self._pipeline = pipeline
        self._query = query
        self._total = total
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._show, name="display", daemon=True)

    def __enter__(self) -> Display:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _show(self) -> None:
        with Progress(
            TextColumn("{task.description:<9}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[words]}"),
            TimeElapsedColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        ) as progress:
            sent = progress.add_task("sent", total=self._total, words="")
            read = progress.add_task("read", total=self._total, words="")
            while True:
                is_last = self._over.wait(0.5)
                progress.update(sent, completed=self._pipeline.sent)
                self._update(progress, read)
                seconds = time.monotonic() - self._began
                self.samples.append((seconds, self._pipeline.sent))
                if is_last:
                    return

    def _update(self, progress: Progress, read: TaskID) -> None:
        # Spark keeps the last hundred; two batches in half a second are many.
        for batch in self._query.recentProgress:
            if batch["batchId"] in self.batches and not batch["numInputRows"]:
                continue  # Idle: told again and again.
            is_new = batch["batchId"] not in self.batches
            self.batches[batch["batchId"]] = self._batch(batch)
            state = batch["stateOperators"][0] if batch["stateOperators"] else {}
            rate = batch["processedRowsPerSecond"]
            words = f"{rate:,.0f}/s, {state.get('numRowsTotal', 0):,} sessions open"
            progress.update(
                read, completed=sum(each.rows for each in self.batches.values()), words=words
            )
            if is_new:
                self.late += state.get("numRowsDroppedByWatermark", 0)
                if not self._console.is_terminal:
                    rows = batch["numInputRows"]
                    print(f"batch {batch['batchId']}: {rows:,} records, {words}", file=sys.stderr)

    def _batch(self, told: Mapping[str, Any]) -> Batch:
        """Return a batch as Spark tells it, with what the outputs have measured themselves."""
        took = {name: milliseconds / 1_000 for name, milliseconds in told["durationMs"].items()}
        lasted, number = took.get("triggerExecution", 0.0), told["batchId"]
        parts = {
            "planning": took.get("latestOffset", 0.0) + took.get("queryPlanning", 0.0),
            **self._pipeline.wrote.get(number, {}),
        }
        began = datetime.fromisoformat(told["timestamp"]) - self._began_at
        return Batch(
            number=number,
            rows=told["numInputRows"],
            began=max(0.0, began.total_seconds()),
            lasted=lasted,
            parts={**parts, "the rest": max(0.0, lasted - sum(parts.values()))},
        )


def plot(samples: Sequence[tuple[float, int]], batches: Sequence[Batch], path: Path) -> None:
    """Draw three panels over one axis of seconds: records sent and done, those between, and the rates.

    A batch is a grey band. Its number and its parts stand below, the longest batch first.
    """
    last = max(samples[-1][0], *(batch.ended for batch in batches), 0.001)
    done, total = [(0.0, 0)], 0
    for batch in sorted(batches, key=lambda batch: batch.ended):
        done += [(batch.ended, total), (batch.ended, total + batch.rows)]
        total += batch.rows
    done.append((last, total))
    sent = [*samples, (last, samples[-1][1])]
    moments = sorted({moment for moment, _ in (*sent, *done)})
    backlog = [(moment, max(0, _at(sent, moment) - _at(done, moment))) for moment in moments]
    sending = [
        ((before[0] + after[0]) / 2, (after[1] - before[1]) / max(after[0] - before[0], 0.001))
        for before, after in pairwise(_thinned(samples, 1.0))
    ]
    working = [
        (moment, rate)
        for batch in sorted(batches, key=lambda batch: batch.began)
        for moment, rate in (
            (batch.began, 0.0),
            (batch.began, batch.rate),
            (batch.ended, batch.rate),
            (batch.ended, 0.0),
        )
    ]
    top = 30
    parts = []
    for title, lines in (
        ("records", [("sent", GREY, sent), ("in batches that are done", BLUE, done)]),
        ("records that wait or are worked on", [("", BLUE, backlog)]),
        ("records a second", [("sent", GREY, sending), ("of a batch, while it lasts", BLUE, working)]),
    ):
        parts.append(_panel(title, lines, batches, last, top))
        top += PANEL + 50
    axis = [
        f'<text x="{_x(moment, last):.1f}" y="{top - 32}" text-anchor="middle">{moment:g} s</text>'
        for moment in _ticks(last)
    ]
    longest = sorted(batches, key=lambda batch: -batch.lasted)[:3]
    words = [f'<text x="{EDGE}" y="{top + 18 * n}">{batch}</text>' for n, batch in enumerate(longest)]
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {EDGE + WIDTH + 40} {top + 60}" '
        'font-family="sans-serif" font-size="12">\n'
        '<rect width="100%" height="100%" fill="white"/>\n'
        + "\n".join([*parts, *axis, *words])
        + "\n</svg>\n"
    )


def _panel(
    title: str,
    lines: Sequence[tuple[str, str, Sequence[tuple[float, float]]]],
    batches: Sequence[Batch],
    last: float,
    top: float,
) -> str:
    """Return one panel: bands of batches, the axis with its values, and lines with their names."""
    most = max(1, *(value for _, _, line in lines for _, value in line))

    def y(value: float) -> float:
        return top + (1 - value / most) * PANEL

    drawn = [
        f'<rect x="{_x(batch.began, last):.1f}" y="{top}" height="{PANEL}" fill="#f6f8fa" '
        f'stroke="#d0d7de" width="{max(batch.lasted / last * WIDTH, 0.5):.1f}"/>'
        for batch in batches
    ]
    drawn += [
        f'<text x="{_x(batch.began, last) + 4:.1f}" y="{top + 14}" fill="{GREY}">'
        f"batch {batch.number}</text>"
        for batch in batches
        if batch.lasted / last * WIDTH > 60
    ]
    for value in _ticks(most):
        drawn.append(
            f'<line x1="{EDGE}" x2="{EDGE + WIDTH}" y1="{y(value):.1f}" y2="{y(value):.1f}" '
            f'stroke="#d0d7de"/><text x="{EDGE - 6}" y="{y(value) + 4:.1f}" text-anchor="end">'
            f"{value:,.0f}</text>"
        )
    names = ""
    for name, colour, line in lines:
        points = " ".join(f"{_x(moment, last):.1f},{y(value):.1f}" for moment, value in line)
        drawn.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        names += f'<tspan dx="12" fill="{colour}">{name}</tspan>'
    return "\n".join([*drawn, f'<text x="{EDGE}" y="{top - 8}"><tspan>{title}</tspan>{names}</text>'])


def _x(moment: float, last: float) -> float:
    return EDGE + moment / last * WIDTH


def _ticks(most: float) -> list[float]:
    """Return round values from 0 on, up to `most`: four to eight steps."""
    step = 10 ** math.floor(math.log10(most / 4))
    step *= next(factor for factor in (1, 2, 5, 10) if most / (step * factor) <= 8)
    return [step * number for number in range(int(most / step) + 1)]


def _at(line: Sequence[tuple[float, int]], moment: float) -> int:
    """Return the last value of a line up to a moment."""
    return max((point for point in line if point[0] <= moment), default=(0.0, 0))[1]


def _thinned(line: Sequence[tuple[float, int]], least: float) -> list[tuple[float, int]]:
    """Leave out points that lie closer together than `least`."""
    kept = [line[0]]
    for point in line:
        if point[0] - kept[-1][0] >= least:
            kept.append(point)
    return kept


@contextlib.contextmanager
def server_over(root: Path) -> Iterator[str]:
    """Run a server of one's own; yield its address."""
    command = [sys.executable, "-m", "spoolrack_server", "serve", "--data", str(root)]
    with subprocess.Popen(
        [*command, "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        try:
            for line in server.stdout:
                if found := re.search(r"gRPC .*?([\w.]+:\d+)", line):
                    # Later output has no reader, and must not fill the pipe.
                    threading.Thread(target=server.stdout.read, daemon=True).start()
                    yield found[1]
                    return
            raise SystemExit("the server didn't start")
        finally:
            server.terminate()


def run(pipeline: Pipeline, log: Path | None, total: int | None, rows: int, picture: Path) -> int:
    """Run the pipeline; return how many records came too late for their session."""
    sender = threading.Thread(target=pipeline.send, args=(log,), name="sender") if log else None
    query = pipeline.start(rows)
    with Display(pipeline, query, total) as display:
        if sender is not None:
            sender.start()
            sender.join()
        pipeline.close(query)
        query.stop()
    plot(display.samples, [*display.batches.values()], picture)
    longest = max(display.batches.values(), key=lambda batch: batch.lasted, default=None)
    print(f"longest   {longest}", file=sys.stderr)
    return display.late


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="A log in sessions, by way of two queues.")
    parser.add_argument("out", type=Path, help="a folder for all that is written")
    parser.add_argument("--endpoint", help="host:port of a server; one is started if not given")
    parser.add_argument("--log", type=Path, help="the log; one is made if not given")
    parser.add_argument("--format", choices=["access", "journal", "trace"], default="trace")
    parser.add_argument("--rows", type=int, default=20_000, help="messages in one micro-batch")
    parser.add_argument("--continue", dest="goes_on", action="store_true", help="send nothing")
    options = parser.parse_args(arguments)
    out: Path = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    log = options.log
    if log is None and not options.goes_on:
        log = out / "trace.log"
        make_log(log)
    spark = (
        SparkSession.builder.appName("sessions of a log")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", 4)
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")  # The terminal is the display's.
    register(spark)
    format = formats()[options.format]
    total = None if log is None else sum(1 for _ in records(log, format.begins))
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        stack.callback(spark.stop)
        endpoint = options.endpoint or stack.enter_context(server_over(out / "root"))
        pipeline = Pipeline(spark, endpoint, out, format)
        stack.callback(pipeline.stop)
        picture = out / "pipeline.svg"
        late = run(pipeline, None if options.goes_on else log, total, options.rows, picture)
        in_parquet, in_queue = pipeline.in_sessions(), pipeline.in_queue()
        waiting = pipeline.waiting()
    print(f"sent      {pipeline.sent:>9} records to the queue {LOG}; {waiting} wait there")
    print(f"Parquet   {in_parquet[0]:>9} sessions of {in_parquet[1]} records in {out / 'sessions'}")
    print(f"queue     {in_queue[0]:>9} sessions of {in_queue[1]} records in {SESSIONS}")
    print(f"late      {late:>9} records, in no session: they came after its end")
    print(f"plot      {picture}")
    print(f"seconds   {time.monotonic() - began:>9.1f}")
    return 0 if in_parquet == in_queue else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
