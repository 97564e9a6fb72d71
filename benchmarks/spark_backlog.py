"""How long Spark takes to read a root's names, from ten thousand to a million: examples/backlog.py.

    python -m benchmarks.spark_backlog [--folder /dev/shm] [--messages 10000,100000,1000000]

It needs pyspark and a Java (`scripts/find-java`). Half of the messages lie singly, half in batches.
The session is started before, and one run is thrown away: the figure is the cost of a second question.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Final

from examples.backlog import heaps, names

from .made_root import MadeRoot
from .spark_environment import prepare

BATCH: Final = 256
TIMES: Final = 3


def fill(root: MadeRoot, messages: int, now: int) -> int:
    """Two queues, five hours deep; return how many messages there are."""
    made = sum(root.ready("singles", now - hour * 3_600_000, messages // 10) for hour in range(5))
    batches = max(1, messages // 2 // BATCH)
    return made + sum(
        root.batch("batches", now - number * 18_000_000 // batches, BATCH) for number in range(batches)
    )


def main() -> None:
    from pyspark.sql import SparkSession

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--messages", default="10000,100000,1000000")
    options = parser.parse_args()
    prepare()
    spark = (
        SparkSession.builder.master("local[4]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    print(f"{'messages':>9}  {'tasks':>6}  {'seconds':>7}  {'messages/s':>10}")
    for messages in map(int, options.messages.split(",")):
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            root = MadeRoot(Path(folder) / "root")
            now = time.time_ns() // 1_000_000
            made_messages = fill(root, messages, now)
            for tasks in (1, 2, 4):
                seconds = []
                for _ in range(TIMES + 1):
                    began = time.perf_counter()
                    found = heaps(names(spark, str(root.path), tasks), now)
                    seconds.append(time.perf_counter() - began)
                    assert sum(heap.messages for heap in found) == made_messages
                middle = statistics.median(seconds[1:])
                print(
                    f"{made_messages:>9}  {tasks:>6}  {middle:>7.2f}  {made_messages / middle:>10,.0f}",
                    flush=True,
                )
    spark.stop()


if __name__ == "__main__":
    main()
