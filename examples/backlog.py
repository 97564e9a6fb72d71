"""Waiting messages of a root, by queue and age, read from names by Spark: no server, bodies or locks.

    python examples/backlog.py ROOT
    spark-submit --py-files spoolrack.zip examples/backlog.py ROOT

The picture is that of Postfix's qshape: a line for each queue, a column for each age, each twice the
one before. Beside it: the states that the messages are in, and the dead letters. `names` is the table
behind it, a row for each message, for questions of your own.

Executors on other machines must have the root at the same path. A server may go on meanwhile.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its usual name)
from spoolrack.spark import register

MINUTES: Final = (5, 10, 20, 40, 80, 160, 320, 640, 1280)
"""Ages that end a column; a last one holds what is older."""
COLUMNS: Final = "queue, state, id, sent_at, approximate_size, is_dead_letter"
"""Those that names tell: no file is opened."""
FOREIGN: Final = "foreign"
"""The state of a file that is no message's."""


def names(spark: SparkSession, root: str, partitions: int = 0) -> DataFrame:
    """Return a row for each message of the root that is not deleted."""
    register(spark)
    source = spark.read.format("spoolrack.root").option("columns", COLUMNS)
    return source.option("numPartitions", partitions).load(root)


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
    """Return the whole picture at Unix millisecond `now`: small, whatever the table's size."""
    age = (F.lit(now) - F.unix_millis("sent_at")) / 60_000
    column = F.coalesce(*[F.when(age < limit, index) for index, limit in enumerate(MINUTES)])
    found = (
        table.withColumn("column", F.coalesce(column, F.lit(len(MINUTES))))
        .groupBy("queue", "state", "is_dead_letter", "column")
        .agg(
            F.count("*").alias("messages"),
            F.coalesce(F.sum("approximate_size"), F.lit(0)).alias("bytes"),
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
    known = [heap for heap in found if heap.state != FOREIGN]
    # Staged messages are in no queue yet: their age is no consumer's doing.
    seen = [heap for heap in known if heap.state != "staged"]
    parts = [draw("By age", seen), draw_states(found, now)]
    dead = [heap for heap in known if heap.is_dead_letter]
    parts.append(draw("Dead letters", dead) if dead else "No dead letters.")
    return "\n\n".join(parts)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Waiting messages of a root, by queue and age.")
    parser.add_argument("root", type=Path)
    parser.add_argument(
        "--partitions", type=int, default=0, help="tasks; by the number of names if not given"
    )
    parser.add_argument("--json", action="store_true", help="a line of JSON for each heap")
    parser.add_argument("--now", type=int, help="Unix milliseconds from which ages count; else now")
    options = parser.parse_args(arguments)
    root = options.root.resolve()
    if not (root / "FORMAT").is_file():
        parser.error(f"{root} is no root of a Spoolrack store: it has no file FORMAT")
    now = time.time_ns() // 1_000_000 if options.now is None else options.now
    spark = SparkSession.builder.appName(f"backlog of {root}").getOrCreate()
    try:
        found = heaps(names(spark, str(root), options.partitions), now)
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
