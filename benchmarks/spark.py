"""How fast Spark writes and reads a queue: sink, source and partition writers, as ratios in one run.

    python -m benchmarks.spark --json spark.json --page docs/how-to/spark.md
    python -m benchmarks.spark --quick

Each is measured over a server, beside as many processes of the ordinary client that send and receive in
thousands, and beside the store in a process of its own. It needs pyspark and a Java
(`scripts/find-java`). Rounds are interleaved, every row is counted, and nothing begins before the
server has come to rest.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from spoolrack import connect
from spoolrack.spark import COUNTS, write_batches, write_partition

from .marked_parts import write_between
from .page_figures import short
from .server_processes import PATIENCE, family, processor_seconds, serve
from .spark_direct import BODY, Direct, send_many, send_one_by_one
from .spark_environment import prepare
from .spark_page import BEGIN, END, SparkResults, SparkRound, text_of
from .work_folder import own_disk

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUEUE: Final = "rows"
OUT: Final = "out"
STUCK: Final = 600
TOGETHER: Final = 50_000
"""Messages in a micro-batch, at most: the default."""
_GIBIBYTE: Final = 1 << 30
ROWS_BODY: Final = f"cast(rpad(cast(id AS string), {len(BODY)}, 'x') AS binary) AS body"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is measured."""

    cores: tuple[int, ...]
    """The most last: with these alone some more is measured, in any case."""
    rounds: int
    small: int
    middle: int
    large: int
    """Rows."""
    single: int
    """Rows that are sent one by one."""
    batches: int
    """Micro-batches of one row."""
    gibibytes: int
    """Of the file system that the server works on."""


FULL: Final = Plan(
    cores=(1, 2, 4),
    rounds=3,
    small=10_000,
    middle=100_000,
    large=1_000_000,
    single=1_000,
    batches=20,
    gibibytes=6,
)
QUICK: Final = Plan(
    cores=(1, 4),
    rounds=1,
    small=1_000,
    middle=10_000,
    large=30_000,
    single=200,
    batches=5,
    gibibytes=1,
)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class SparkServer:
    """The server as a process, with its queues."""

    def __init__(self, folder: Path) -> None:
        self._root = folder / "root"
        self.server = serve(self._root, folder / "server.log")
        self.endpoint = self.server.wait_for_line("  gRPC  ").split()[0]
        with connect(self.endpoint) as client:
            for name in (QUEUE, OUT):
                client.create_queue(name)

    def rest(self) -> None:
        """Return when the server has unlinked what was deleted."""
        removed = self._root / "remove"
        end = time.monotonic() + PATIENCE
        while removed.exists() and any(removed.iterdir()):
            if time.monotonic() > end:
                raise RuntimeError("deleted files are not unlinked")
            time.sleep(0.02)


class Spark:
    """A session with so many cores, and what is measured in it. All answer seconds."""

    def __init__(self, cores: int, folder: Path, endpoint: str) -> None:
        from pyspark.sql import SparkSession

        self.cores = cores
        self._endpoint = endpoint
        self._folder = folder
        self._checkpoints = 0
        self.session: SparkSession = (
            SparkSession.builder.master(f"local[{cores}]")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.memory", "2g")
            .config("spark.local.dir", str(folder))
            .config("spark.sql.shuffle.partitions", str(cores))
            .config("spark.log.level", "ERROR")
            .getOrCreate()
        )

    def _rows(self, rows: int) -> Any:
        return self.session.range(rows, numPartitions=self.cores).selectExpr(ROWS_BODY)

    def sink(self, rows: int) -> float:
        writer = self._rows(rows).write.format("spoolrack").mode("append")
        return timed(writer.options(endpoint=self._endpoint, queue=QUEUE).save)

    def writer(self, rows: int) -> float:
        send = write_partition(self._endpoint, QUEUE)
        return timed(lambda: self._rows(rows).foreachPartition(send))

    def arrow_writer(self, rows: int) -> float:
        sent = self._rows(rows).mapInArrow(write_batches(self._endpoint, QUEUE), COUNTS).groupBy().sum()
        return timed(lambda: expect(sent.first()[0], rows))

    def send_many(self, rows: int) -> float:
        send = send_many(self._endpoint, QUEUE)
        return timed(lambda: self._rows(rows).foreachPartition(send))

    # Beside, without a queue.

    def null_sink(self, rows: int) -> float:
        return timed(lambda: self._rows(rows).write.format("noop").mode("overwrite").save())

    def parquet(self, rows: int) -> float:
        folder = str(self._folder / "parquet")
        return timed(lambda: self._rows(rows).write.mode("overwrite").parquet(folder))

    def null_source(self, rows: int) -> float:
        """Make the rows by a stream of Spark's own, into nothing, in as many micro-batches."""
        rate = self.session.readStream.format("rate-micro-batch").option("rowsPerBatch", TOGETHER)
        frame = (
            rate.option("numPartitions", self.cores).load().selectExpr(ROWS_BODY.replace("id", "value"))
        )
        query = (
            frame.writeStream.format("noop").option("checkpointLocation", self._checkpoint()).start()
        )
        end = time.monotonic() + PATIENCE
        batch_count = max(1, rows // TOGETHER)
        while len([one for one in query.recentProgress if one.numInputRows]) < batch_count:
            if time.monotonic() > end or query.awaitTermination(0.05):
                raise RuntimeError("Spark's own source has stopped")
        query.stop()
        batches = [one for one in query.recentProgress if one.numInputRows][:batch_count]
        spent = sum(one.durationMs["triggerExecution"] for one in batches) / 1_000
        return float(spent * rows / sum(one.numInputRows for one in batches))

    def one_by_one(self, rows: int) -> float:
        send = send_one_by_one(self._endpoint, QUEUE)
        return timed(lambda: self._rows(rows).foreachPartition(send))

    def source(self, rows: int) -> float:
        """Drain the queue, into nothing, from the first micro-batch on."""
        query = self._drain(TOGETHER, self.cores).format("noop").start()
        assert query.awaitTermination(STUCK)
        ended = datetime.now(UTC)
        progress = query.recentProgress
        expect(sum(one.numInputRows for one in progress), rows)
        # The start of a query is not the rows'.
        return (ended - datetime.fromisoformat(progress[0].timestamp)).total_seconds()

    def _drain(self, batch: int, tasks: int) -> Any:
        return (
            self.session.readStream.format("spoolrack")
            .options(endpoint=self._endpoint, queue=QUEUE, maxBytesPerTrigger=1 << 30)
            .options(maxMessagesPerTrigger=batch, numPartitions=tasks)
            .load()
            .select("body")
            .writeStream.option("checkpointLocation", self._checkpoint())
            .trigger(availableNow=True)
        )

    def _checkpoint(self) -> str:
        self._checkpoints += 1
        return str(self._folder / f"checkpoint-{self.cores}-{self._checkpoints}")

    # The cost of a micro-batch of one row: the median of many.

    def batch_through(self, batches: int) -> float:
        """From a queue into another."""
        writer = self._drain(1, 1).format("spoolrack")
        return self._each(writer.options(endpoint=self._endpoint, queue=OUT).start(), batches)

    def batch_read(self, batches: int) -> float:
        return self._each(self._drain(1, 1).format("noop").start(), batches)

    def _each(self, query: Any, batches: int) -> float:
        assert query.awaitTermination(STUCK)
        return middle(query.recentProgress, batches)

    def batch_of_spark(self, batches: int) -> float:
        """Spark's own source into nothing: no queue, and no Python."""
        rows = self.session.readStream.format("rate-micro-batch").option("rowsPerBatch", 1)
        writer = rows.option("numPartitions", 1).load().writeStream.format("noop")
        query = writer.option("checkpointLocation", self._checkpoint()).start()
        end = time.monotonic() + PATIENCE
        while len(query.recentProgress) < batches:
            if time.monotonic() > end or query.awaitTermination(0.2):
                raise RuntimeError("Spark's own source has stopped")
        query.stop()
        return middle(query.recentProgress[:batches], batches)

    def close(self) -> None:
        self.session.stop()


def middle(progress: Sequence[Any], batches: int) -> float:
    spans = [one.durationMs["triggerExecution"] / 1_000 for one in progress if one.numInputRows]
    expect(len(spans), batches)
    return float(median(spans))


def timed(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def expect(rows: int, expected: int) -> None:
    if rows != expected:
        raise RuntimeError(f"{rows} of {expected} rows came through")


class Run:
    """All measurements of a plan. The findings so far are in `found`."""

    def __init__(
        self, plan: Plan, disk: Path, scratch: Path, place: SparkServer, minutes: float
    ) -> None:
        self._plan = plan
        self._disk = disk
        self._scratch = scratch
        self._place = place
        self._began = time.monotonic()
        self._seconds = 60 * minutes
        self.results = SparkResults(
            began=time.strftime("%Y-%m-%d %H:%M %z"),
            cores=os.cpu_count() or 1,
            middle=plan.middle,
            body=len(BODY),
        )

    def run(self) -> None:
        with Direct(max(self._plan.cores)) as direct:
            for number, cores in enumerate(self._plan.cores):
                spark = Spark(cores, self._scratch, self._place.endpoint)
                try:
                    self._with(spark, direct, self._seconds * (number + 1) / len(self._plan.cores))
                finally:
                    spark.close()

    def _with(self, spark: Spark, direct: Direct, until: float) -> None:
        """Begin no second round so many seconds after the run's beginning."""
        is_most = spark.cores == max(self._plan.cores)
        plan = self._plan
        for warm in (spark.sink, spark.writer, spark.arrow_writer) if is_most else (spark.sink,):
            warm(plan.small)
            spark.source(plan.small)
        for round in range(plan.rounds):
            if round and time.monotonic() - self._began > until:
                say("no more rounds with these cores: their time is over")
                break
            self._pair(spark, plan.middle, round)
            if is_most:
                self._pair(spark, plan.small, round)
                self._writers(spark, round)
            self._directly(direct, spark.cores, round)
            for what, seconds in direct.stores(self._disk, plan.middle).items():
                self._note(what, "store", 1, plan.middle, round, seconds)
            if is_most:
                for act in (spark.null_sink, spark.parquet, spark.null_source):
                    self._time(act.__name__, act, spark.cores, plan.middle, round, over="spark")
        if is_most:
            self._batches(spark)
            self._pair(spark, plan.large, 0)

    def _pair(self, spark: Spark, rows: int, round: int) -> None:
        """Fill the queue by the sink, and drain it by the source."""
        for act in (spark.sink, spark.source):
            self._time(act.__name__, act, spark.cores, rows, round)

    def _directly(self, direct: Direct, processes: int, round: int) -> None:
        rows, at = self._plan.middle, (self._place.endpoint, QUEUE)
        sends = partial(direct.sends, *at, processes)
        self._time("sends", sends, processes, rows, round)
        self._time("receives", partial(direct.receives, *at, processes), processes, rows, round)
        if processes == max(self._plan.cores):
            sends(rows)
            self._time("stream", partial(direct.stream, *at), 1, rows, round)

    def _writers(self, spark: Spark, round: int) -> None:
        for act in (spark.writer, spark.arrow_writer, spark.send_many, spark.one_by_one):
            rows = self._plan.single if act == spark.one_by_one else self._plan.middle
            self._time(act.__name__, act, spark.cores, rows, round)
            spark.source(rows)

    def _batches(self, spark: Spark) -> None:
        count = self._plan.batches
        self._note("batch_of_spark", "spark", 1, 1, 0, spark.batch_of_spark(count))
        for act in (spark.batch_read, spark.batch_through):
            spark.sink(count)
            self._note(act.__name__, "server", 1, 1, 0, act(count))

    def _time(
        self,
        what: str,
        act: Callable[[int], float],
        cores: int,
        rows: int,
        round: int,
        over: str = "server",
    ) -> None:
        """Note how long it takes, and how much processor time of the server and of the others."""
        self._place.rest()
        servers = self._place.server.pids()

        def spent() -> tuple[float, float]:
            others = set(family(os.getpid())) - set(servers)
            return processor_seconds(servers), processor_seconds(others)

        before = spent()
        seconds = act(rows)
        server, others = (now - then for now, then in zip(spent(), before, strict=True))
        server = server if over == "server" else 0.0
        self._note(what, over, cores, rows, round, seconds, server=server, others=others)

    def _note(
        self, what: str, over: str, cores: int, rows: int, round: int, seconds: float, **spent: float
    ) -> None:
        one = SparkRound(
            what=what, over=over, cores=cores, rows=rows, round=round, seconds=seconds, **spent
        )
        self.results.rounds.append(one)
        say(
            f"{round + 1}. {what:15} over {over:6} cores {cores} rows {rows:>9,}"
            f" {seconds:8.3f} s {short(rows / seconds):>7}/s"
        )


def main() -> int:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="spark", description=__doc__, formatter_class=form)
    parser.add_argument("--quick", action="store_true", help="a hundredth of it, to see that it works")
    parser.add_argument("--minutes", type=float, default=4.0, help="no new round then (%(default)s)")
    parser.add_argument("--folder", type=Path, default=Path("/var/tmp"), help="(%(default)s)")
    parser.add_argument("--no-own-disk", action="store_true", help="work in the folder as it is")
    parser.add_argument("--json", type=Path, help="write what was found there")
    parser.add_argument("--page", type=Path, help="put the tables into that page, between their marks")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    prepare()
    plan = QUICK if options.quick else FULL
    with (
        own_disk(options.folder, 0 if options.no_own_disk else plan.gibibytes * _GIBIBYTE) as disk,
        # Spark's Java has files of its own open until we end.
        tempfile.TemporaryDirectory(prefix="spark-", dir=options.folder) as scratch,
        ExitStack() as stack,
    ):
        say(f"on {disk.described}")
        place = SparkServer(disk.folder)
        stack.callback(place.server.kill)
        run = Run(plan, disk.folder, Path(scratch), place, options.minutes)
        run.results.disk = disk.described
        try:
            run.run()
        finally:
            if options.json:
                options.json.write_text(json.dumps(asdict(run.results), indent=1) + "\n")
    text = text_of(run.results)
    print(text)
    if options.page:
        write_between(BEGIN, END, text, options.page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
