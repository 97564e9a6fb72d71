"""What waits in a root, by queue and age, read from its names by Spark: no server, no bodies, no locks.

    python examples/backlog.py ROOT
    spark-submit --py-files spoolrack-VERSION-py3-none-any.whl examples/backlog.py ROOT

The picture is that of Postfix's qshape: a line for each queue, a column for each age, each twice the
one before. Beside it: the states that the messages are in, and the dead letters. `names` is the table
behind it, a row for each message, for questions of your own.

The work is cut into slices by the files' ids: every slice lists all folders, which is quick, and
parses its share of the names, which isn't. All names of a file are in one slice, since of those that
list a message the highest version counts. Executors on other machines must have the root at the same
path. A server may go on meanwhile: a message that moves while it is looked at may be missed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everybody calls it)
from spoolrack_store.files import layout
from spoolrack_store.model.batch import Entry, resolve
from spoolrack_store.model.ids import sent_at
from spoolrack_store.model.members import indexes
from spoolrack_store.model.names import Name, NotAName, Stem, parse
from spoolrack_store.model.stage_names import parse_stage_folder
from spoolrack_store.model.transitions import State

MINUTES: Final = (5, 10, 20, 40, 80, 160, 320, 640, 1280)
"""Ages that end a column; a last one holds what is older."""
ROWS: Final = 10_000
"""In one Arrow batch."""
TIME: Final = pyarrow.timestamp("us", tz="UTC")
SCHEMA: Final = pyarrow.schema(
    [
        ("queue", pyarrow.string()),
        ("state", pyarrow.string()),
        ("id", pyarrow.string()),
        ("batch", pyarrow.string()),
        ("sent_at", TIME),
        ("due", TIME),
        ("size", pyarrow.int64()),
        ("receives", pyarrow.int32()),
        ("is_dead_letter", pyarrow.bool_()),
    ]
)
COLUMNS: Final = (
    "queue string, state string, id string, batch string, sent_at timestamp, due timestamp, "
    "size bigint, receives int, is_dead_letter boolean"
)
UNSEEN: Final = ("staged",)
"""States of messages that are in no queue yet: their ages are no consumer's doing."""
UNKNOWN: Final = "not a name"
"""The state of what doesn't parse; its id is what it is called."""
ID_LENGTH: Final = 36
STATES: Final = {
    State.SENT: "new",
    State.READY: "ready",
    State.LEASED: "leased",
    State.DELAYED: "delayed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One message, as the name that holds it tells it."""

    queue: str
    state: str
    id: str
    batch: str | None = None
    sent_at: int | None = None
    """Unix milliseconds, as `due`."""
    due: int | None = None
    size: int | None = None
    """Of a message of a batch, its share: names say how large all of them are together."""
    receives: int = 0
    is_dead_letter: bool = False


class Slice:
    """One share of a root: the files whose ids say so."""

    def __init__(self, root: str, number: int, of: int) -> None:
        """Raise `FileNotFoundError` where there is no root, which is not an empty one."""
        self._root = root
        self._number = number
        self._of = of
        with open(os.path.join(root, layout.FORMAT), "rb"):
            pass

    def rows(self) -> Iterator[Row]:
        names: list[Name] = []
        ready = [f"{layout.QUEUES}/{queue}" for queue in self._list(layout.QUEUES)]
        for folder in (layout.NEW, *ready, layout.DELAY, layout.REMOVE):
            for name in self._list(folder):
                if not self._is_mine(name.rpartition(":")[2]):
                    continue
                try:
                    names.append(parse(f"{folder}/{name}"))
                except NotAName:
                    yield _unknown(name)
        for batch in resolve(names).values():
            for entry in batch.entries:
                if entry.name.state in STATES:
                    yield from _rows_of(entry)
        yield from self._rows_of_stages()

    def _rows_of_stages(self) -> Iterator[Row]:
        names = self._list(layout.STAGED)
        dropped = {name for name in names if name.endswith("~dropped")}
        for name in names:
            if name in dropped or not self._is_mine(name.rpartition(":")[2]):
                continue
            life, _, chunk = name.partition(":")
            _, _, filed = chunk.partition(":")
            try:
                stage = str(parse_stage_folder(life))
                stem = parse(f"{layout.QUEUES}/{filed.replace(':', '/', 1)}").stem
            except NotAName:
                yield _unknown(name)
                continue
            if f"{stage}~dropped" not in dropped:
                yield from _rows(stem, stem.full, queue=filed.partition(":")[0], state="staged")

    def _is_mine(self, item: str) -> bool:
        return zlib.crc32(item[:ID_LENGTH].encode(errors="surrogateescape")) % self._of == self._number

    def _list(self, folder: str) -> list[str]:
        try:
            return os.listdir(os.path.join(self._root, folder))
        except (FileNotFoundError, NotADirectoryError):
            return []  # Moved on since its name was read.


def _rows_of(entry: Entry) -> Iterator[Row]:
    name = entry.name
    yield from _rows(
        name.stem,
        entry.held,
        queue=name.queue,
        state=STATES[name.state],
        due=name.due,
        receives=name.receives,
        is_dead_letter=bool(name.stem.deaths) and name.redriven is None,
    )


def _rows(stem: Stem, members: int, **named: Any) -> Iterator[Row]:
    count = stem.count or 1
    for index in indexes(members):
        yield Row(
            id=stem.message_id(index),
            batch=stem.id if stem.count else None,
            sent_at=sent_at(stem.id),
            size=stem.size * (index + 1) // count - stem.size * index // count,
            **named,
        )


def _unknown(name: str) -> Row:
    return Row(queue="", state=UNKNOWN, id=name.encode(errors="replace").decode())


def to_arrow(rows: Iterable[Row]) -> Iterator[pyarrow.RecordBatch]:
    columns: dict[str, list[Any]] = {name: [] for name in SCHEMA.names}
    fill = [(columns[name].append, name) for name in SCHEMA.names]
    held = 0
    for row in rows:
        for append, name in fill:
            append(getattr(row, name))
        held += 1
        if held == ROWS:
            yield _batch_of(columns)
            held = 0
    if held:
        yield _batch_of(columns)


def _batch_of(columns: dict[str, list[Any]]) -> pyarrow.RecordBatch:
    for name in ("sent_at", "due"):
        columns[name][:] = [None if moment is None else moment * 1000 for moment in columns[name]]
    batch = pyarrow.RecordBatch.from_pydict(columns, schema=SCHEMA)
    for column in columns.values():
        column.clear()
    return batch


def names(spark: SparkSession, root: str, slices: int) -> DataFrame:
    """A row for each message of the root that is not deleted: COLUMNS."""

    def read(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield from to_arrow(Slice(root, number, slices).rows())

    return spark.range(slices, numPartitions=slices).mapInArrow(read, COLUMNS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heap:
    """The messages of a queue that are in one state and of one age."""

    queue: str
    state: str
    is_dead_letter: bool
    column: int
    """Of MINUTES, or one more for what is older."""
    messages: int
    bytes: int
    oldest: int | None
    """Unix milliseconds."""


def heaps(table: DataFrame, now: int) -> list[Heap]:
    """The whole picture at Unix millisecond `now`: small, whatever the table's size."""
    age = (F.lit(now) - F.unix_millis("sent_at")) / 60_000
    column = F.coalesce(*[F.when(age < limit, index) for index, limit in enumerate(MINUTES)])
    found = (
        table.withColumn("column", F.coalesce(column, F.lit(len(MINUTES))))
        .groupBy("queue", "state", "is_dead_letter", "column")
        .agg(
            F.count("*").alias("messages"),
            F.coalesce(F.sum("size"), F.lit(0)).alias("bytes"),
            F.min(F.unix_millis("sent_at")).alias("oldest"),
        )
    )
    return [Heap(**row.asDict()) for row in found.collect()]


def draw(title: str, heaps: Sequence[Heap]) -> str:
    """Age by queue, the fullest queue first."""
    lines: dict[str, list[int]] = defaultdict(lambda: [0] * (len(MINUTES) + 1))
    for heap in heaps:
        for queue in (heap.queue, "TOTAL"):
            lines[queue][heap.column] += heap.messages
    width = max([len(queue) for queue in lines] + [len("TOTAL")])
    titles = ["T", *map(str, MINUTES), f"{MINUTES[-1]}+"]
    table = [f"{'minutes since the send':<{width}} " + "".join(f"{title:>9}" for title in titles)]
    by_size = sorted(lines.items(), key=lambda line: (line[0] != "TOTAL", -sum(line[1]), line[0]))
    for queue, counts in by_size:
        table.append(f"{queue:<{width}} " + "".join(f"{n:>9}" for n in (sum(counts), *counts)))
    return "\n".join([title, *table])


def draw_states(heaps: Sequence[Heap], now: int) -> str:
    lines: dict[tuple[str, str], list[Heap]] = defaultdict(list)
    for heap in heaps:
        lines[heap.queue, heap.state].append(heap)
    width = max([len(queue) for queue, _ in lines] + [len("queue")])
    table = [f"{'queue':<{width}}  {'state':<10} {'messages':>10} {'MiB':>10} {'oldest, minutes':>16}"]
    for (queue, state), several in sorted(lines.items()):
        oldest = min((heap.oldest for heap in several if heap.oldest is not None), default=now)
        table.append(
            f"{queue:<{width}}  {state:<10} {sum(heap.messages for heap in several):>10} "
            f"{sum(heap.bytes for heap in several) / 2**20:>10.1f} {(now - oldest) / 60_000:>16.1f}"
        )
    return "\n".join(table)


def report(found: Sequence[Heap], now: int) -> str:
    known = [heap for heap in found if heap.state != UNKNOWN]
    seen = [heap for heap in known if heap.state not in UNSEEN]
    parts = [draw("By age", seen), draw_states(found, now)]
    dead = [heap for heap in known if heap.is_dead_letter]
    parts.append(draw("Dead letters", dead) if dead else "No dead letters.")
    return "\n\n".join(parts)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="What waits in a root, by queue and age.")
    parser.add_argument("root", type=Path)
    parser.add_argument("--slices", type=int, help="tasks; as many as there are cores if not given")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each heap")
    parser.add_argument("--now", type=int, help="Unix milliseconds from which ages count; else now")
    options = parser.parse_args(arguments)
    root = options.root.resolve()
    if not (root / layout.FORMAT).is_file():
        parser.error(f"{root} is no root of a Spoolrack store: it has no file {layout.FORMAT}")
    now = time.time_ns() // 1_000_000 if options.now is None else options.now
    spark = SparkSession.builder.appName(f"backlog of {root}").getOrCreate()
    try:
        slices = options.slices or spark.sparkContext.defaultParallelism
        found = heaps(names(spark, str(root), slices), now)
    finally:
        spark.stop()
    if options.json:
        for heap in found:
            print(json.dumps(asdict(heap)))
    else:
        print(report(found, now))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
