"""examples/sessions.py: each record of a real log is in one session, in Parquet and in the queue."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from xml.etree import ElementTree

import pytest
import spoolrack
from pyspark.sql import SparkSession
from spoolrack.spark import register
from spoolrack.testing import RunningServer, running_server

from examples.sessions import LOG, SESSIONS, Pipeline, formats, make_log, records, run, sessions
from tests import CHECKOUT
from tests.spark.spark_rig import environment
from tests.support import STUCK

LINES = 6_000
TRACE = re.compile(rb"^([0-9]+\.[0-9]+) (\S+)\(([0-9]+)\)")
GAP = Decimal("0.05")
ROWS = 2_500
SVG = "{http://www.w3.org/2000/svg}"

Session = tuple[str, int, int]
"""Its key, how many records it has, and how many bytes."""


@pytest.fixture
def queues() -> Iterator[RunningServer]:
    with running_server() as running:
        yield running


@pytest.fixture(scope="session")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first lines that Python runs to print a page of its documentation."""
    folder = tmp_path_factory.mktemp("log")
    make_log(folder / "whole")
    lines = (folder / "whole").read_bytes().splitlines(keepends=True)
    path = folder / "log"
    path.write_bytes(b"".join(lines[:LINES]))
    return path


def sessions_of(log: Path) -> list[Session]:
    """Return the same in plain Python, of the whole log at once."""
    last: dict[str, Decimal] = {}
    of: dict[str, list[int]] = {}
    found: list[tuple[str, list[int]]] = []
    for record in records(log, TRACE.pattern.decode()):
        match = TRACE.match(record)
        assert match is not None
        at, key = Decimal(match[1].decode()), match[2].decode()
        if key not in last or at > last[key] + GAP:
            of[key] = [0, 0]
            found.append((key, of[key]))
        last[key] = at
        of[key][0] += 1
        of[key][1] += len(record)
    return sorted((key, count, size) for key, (count, size) in found)


def in_parquet(spark: SparkSession, out: Path) -> list[Session]:
    rows = spark.read.parquet(str(out / "sessions")).collect()
    return sorted((row.key, row.records, row.bytes) for row in rows)


def in_queue(client: spoolrack.Client) -> list[Session]:
    told = [json.loads(message.body) for message in client.queue(SESSIONS).peek()]
    return sorted((one["key"], one["records"], one["bytes"]) for one in told)


@pytest.mark.slow
def test_every_record_of_a_real_log_is_in_one_session_in_both_outputs(
    spark: SparkSession, queues: RunningServer, log: Path, tmp_path: Path
) -> None:
    register(spark)
    endpoint = queues.url.removeprefix("grpc://")
    pipeline = Pipeline(spark, endpoint, tmp_path, formats()["trace"])
    expected = sessions_of(log)
    assert len({key for key, _, _ in expected}) > 3

    late = run(pipeline, log, None, ROWS, tmp_path / "plot.svg")
    pipeline.stop()

    assert late == 0
    assert pipeline.sent == sum(count for _, count, _ in expected) > LINES // 2
    assert in_parquet(spark, tmp_path) == expected
    with queues.client() as client:
        assert in_queue(client) == expected
    drawn = ElementTree.parse(tmp_path / "plot.svg").getroot()
    lines = [str(line.get("points")).split() for line in drawn.iter(f"{SVG}polyline")]
    sent, done, backlog, _, _ = [line[-1] for line in lines]
    # By the end all is done; the message that ends the sessions is one more.
    assert sent.startswith("800.0,30.")
    assert (done, backlog) == ("800.0,30.0", "800.0,380.0")
    words = [" ".join(text.itertext()) for text in drawn.iter(f"{SVG}text")]
    assert {"0 s", "0", "1,000", "records that wait or are worked on"} <= {*words}
    assert any(
        re.fullmatch(r"Batch \d+: [\d,]+ records in [\d.]+ s \(planning .*\)", word) for word in words
    )


ACCESS = [
    b'10.0.0.7 - - [21/Nov/2026:13:00:00 +0000] "GET /a HTTP/1.1" 200 5 "-" "\xff"',
    b'10.0.0.7 - - [21/Nov/2026:14:29:59 +0100] "GET /b HTTP/1.1" 200 5 "-" "x"',
    b'10.0.0.7 - - [21/Nov/2026:14:00:00 +0000] "GET /a HTTP/1.1" 200 5 "-" "x"',
    b"what is this",
]
JOURNAL = [
    b'{"__REALTIME_TIMESTAMP": "1795266000000000", "_SYSTEMD_UNIT": "cron.service", "PRIORITY": "6"}',
    b'{"__REALTIME_TIMESTAMP": "1795266060000000", "_SYSTEMD_UNIT": "cron.service", "PRIORITY": "3"}',
    b'{"__REALTIME_TIMESTAMP": "1795266060000000", "SYSLOG_IDENTIFIER": "kernel", "MESSAGE": [255]}',
    b'{"__REALTIME_TIMESTAMP": "1795270000000000"}',
    b'{"__REALTIME_TIMESTAMP": ',
]


TRACE_LINES = [b"0.00 a.py(1): x", b"0.05 a.py(2): y", b"0.11 a.py(3): z"]


@pytest.mark.parametrize(
    ("name", "lines", "expected"),
    [
        ("trace", TRACE_LINES, [("a.py", 1, 1), ("a.py", 2, 2)]),
        ("access", ACCESS, [("10.0.0.7", 1, 1), ("10.0.0.7", 2, 2)]),
        ("journal", JOURNAL, [("?", 1, 0), ("cron.service", 2, 2), ("kernel", 1, 0)]),
    ],
)
def test_other_logs_are_understood_and_what_is_no_record_is_left_out(
    spark: SparkSession, name: str, lines: list[bytes], expected: list[Session]
) -> None:
    messages = spark.createDataFrame(
        [(bytearray(line), {}) for line in lines], "body binary, attributes map<string, string>"
    )

    found = sessions(messages, formats()[name]).collect()

    assert sorted((row.key, row.records, row.kinds) for row in found) == expected


@pytest.mark.slow
def test_a_pipeline_that_is_killed_and_started_again_has_each_record_once(
    spark: SparkSession, queues: RunningServer, log: Path, tmp_path: Path
) -> None:
    endpoint = queues.url.removeprefix("grpc://")
    expected = sessions_of(log)
    client = queues.client()
    client.create_queue(LOG)
    waiting = [*records(log, TRACE.pattern.decode())]
    for begin in range(0, len(waiting), 1_000):
        client.queue(LOG).send_many(waiting[begin : begin + 1_000])
    command = [
        *(sys.executable, CHECKOUT / "examples" / "sessions.py", tmp_path / "out", "--continue"),
        *("--endpoint", endpoint, "--rows", "500"),
    ]

    for batches in (2, 3, 2):
        kill_after(batches, command, tmp_path)
    last = subprocess.run(
        command, env=os.environ | environment(tmp_path), capture_output=True, text=True, timeout=STUCK
    )

    assert last.returncode == 0, last.stderr
    assert in_parquet(spark, tmp_path / "out") == expected
    assert in_queue(client) == expected
    client.close()


def kill_after(batches: int, command: list[object], folder: Path) -> None:
    """Start it, and kill all its processes when so many batches are done."""
    with subprocess.Popen(
        list(map(str, command)),
        env=os.environ | environment(folder),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        told = []
        try:
            for line in process.stderr:
                told.append(line)
                if sum(one.startswith("batch ") for one in told) == batches:
                    return
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    raise AssertionError("it ended by itself:\n" + "".join(told))
