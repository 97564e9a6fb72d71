"""What waits in a root, by queue and age, read from its names by Spark: no server, no bodies, no locks.

    python examples/backlog.py ROOT
    spark-submit --py-files spoolrack-VERSION-py3-none-any.whl examples/backlog.py ROOT

The picture is that of Postfix's qshape: a line for each queue, a column for each age, each twice the
one before. Beside it: the states that the messages are in, and the dead letters. `names` is the table
behind it, a row for each message, for questions of your own.

The work is cut into slices by the messages' ids: every slice lists all folders, which is quick, and
parses its share of the names, which isn't. Executors on other machines must have the root at the same
path. A server may go on meanwhile: a message that moves while it is looked at may be missed or seen
twice.
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
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import pyarrow
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everybody calls it)
from spoolrack_store.files import layout
from spoolrack_store.model.ids import sent_at
from spoolrack_store.model.names import (
    ID_LENGTH,
    Batch,
    Entry,
    Item,
    NotAName,
    leases_of,
    parse_filed,
    parse_item,
)
from spoolrack_store.model.stage_names import Claim, parse_chunk, parse_published, parse_stage_folder

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
UNSEEN: Final = ("staged", "publishing")
"""States of messages that are in no queue yet: their ages are no consumer's doing."""
UNKNOWN: Final = "not a name"
"""The state of what doesn't parse; its id is what it is called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One message, as its name tells it."""

    queue: str
    state: str
    id: str
    batch: str | None = None
    sent_at: int | None = None
    """Unix milliseconds, as `due`."""
    due: int | None = None
    size: int | None = None
    receives: int = 0
    is_dead_letter: bool = False


class Slice:
    """One share of a root: the messages whose ids say so, and the batches with theirs."""

    def __init__(self, root: str, number: int, of: int) -> None:
        """Raises `FileNotFoundError` where there is no root, which is not an empty one."""
        self._root = root
        self._number = number
        self._of = of
        with open(os.path.join(root, layout.FORMAT), "rb"):
            pass
        self._dead = {name for name in self._list(layout.HISTORY) if self._is_mine(_item_in(name))}

    def rows(self) -> Iterator[Row]:
        for queue in self._list(layout.QUEUES):
            folder = f"{layout.QUEUES}/{queue}"
            for name in filter(self._is_mine, self._list(folder)):
                yield from self._rows_of(queue, "ready", name, f"{folder}/{name}")
        for folder, state in ((layout.NEW, "new"), (layout.DELAY, "delayed")):
            for name in self._list(folder):
                if self._is_mine(_item_in(name)):
                    yield from self._rows_of_filed(state, name, f"{folder}/{name}")
        for name in self._list(layout.STAGED):
            try:
                is_dropped = parse_stage_folder(name).is_dropped
            except NotAName:
                yield from self._unknown_if_mine(name)
            else:
                if not is_dropped:
                    yield from self._rows_of_stage("staged", f"{layout.STAGED}/{name}")
        for name in self._list(layout.PUBLISHED):
            try:
                is_claim = isinstance(parse_published(name), Claim)
            except NotAName:
                yield from self._unknown_if_mine(name)
            else:
                if is_claim:
                    yield from self._rows_of_stage("publishing", f"{layout.PUBLISHED}/{name}")

    def _is_mine(self, item: str) -> bool:
        return zlib.crc32(item[:ID_LENGTH].encode(errors="surrogateescape")) % self._of == self._number

    def _list(self, folder: str) -> list[str]:
        try:
            return os.listdir(os.path.join(self._root, folder))
        except FileNotFoundError:
            return []  # Moved on since its name was read.

    def _rows_of_filed(self, state: str, name: str, path: str) -> Iterator[Row]:
        try:
            filed = parse_filed(name)
        except NotAName:
            yield _unknown("", name)
            return
        if filed.token is not None:
            state = "leased"
        for row in self._rows_in(filed.queue, state, filed.item, path):
            yield row if filed.due is None else replace(row, due=filed.due)

    def _rows_of_stage(self, state: str, folder: str) -> Iterator[Row]:
        for name in self._list(folder):
            if not self._is_mine(_item_in(_item_in(name))):
                continue
            try:
                chunk = parse_chunk(name)
            except NotAName:
                yield _unknown("", name)
                continue
            yield from self._rows_in(chunk.queue, state, chunk.batch, f"{folder}/{name}")

    def _unknown_if_mine(self, name: str) -> Iterator[Row]:
        if self._is_mine(name):
            yield _unknown("", name)

    def _rows_of(self, queue: str, state: str, name: str, path: str) -> Iterator[Row]:
        try:
            item = parse_item(name)
        except NotAName:
            yield _unknown(queue, name)
            return
        yield from self._rows_in(queue, state, item, path)

    def _rows_in(self, queue: str, state: str, item: Item, path: str) -> Iterator[Row]:
        if isinstance(item, Entry):
            yield self._row(queue, state, item, None)
            return
        for name in self._list(path):
            try:
                entry = parse_item(name)
            except NotAName:
                yield _unknown(queue, name)
                continue
            if isinstance(entry, Entry):
                yield self._row(queue, state, entry, item)

    def _row(self, queue: str, state: str, entry: Entry, batch: Batch | None) -> Row:
        return Row(
            queue=queue,
            state=state,
            id=entry.id,
            batch=None if batch is None else batch.id,
            sent_at=sent_at(entry.id),
            size=entry.size,
            receives=leases_of(entry, batch)[0],
            is_dead_letter=f"{queue}:{entry.id}" in self._dead,
        )


def _item_in(name: str) -> str:
    """What follows the queue in the name of something filed."""
    return name.partition(":")[2]


def _unknown(queue: str, name: str) -> Row:
    return Row(queue=queue, state=UNKNOWN, id=name.encode(errors="replace").decode())


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
