"""A real log, a message a line, through a server and consumers that are killed on the way."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import Final

import pytest
import spoolrack

from tests.e2e.sender import lines_of
from tests.support.delivery_checker import judge
from tests.support.ledger import digest_of, read_ledgers
from tests.support.run_processes import Crew, Member, Served

LINES: Final = 20_000
MANY_LINES: Final = 100_000
VISIBILITY: Final = 2.0
"""Seconds until what a killed consumer held comes back."""
MANNERS: Final = ("batches", "contexts", "calls")
DOCUMENTED: Final = ("heapq", "shlex", "fractions", "ftplib", "getopt", "tarfile", "argparse")
"""Modules of the standard library. How many lines the trace of one has depends on the Python."""
KILLS: Final = 2
"""How often each consumer is killed."""


def make_log(path: Path, count: int) -> list[bytes]:
    """Return the last `count` lines of traces of pydoc at work: each line that it runs, with its time,
    and what it prints.

    In Latin-1, because bodies are bytes, and some programs' logs are no UTF-8.
    """
    lines: list[bytes] = []
    for module in DOCUMENTED:
        done = subprocess.run(
            [sys.executable, "-m", "trace", "--trace", "--timing", "--module", "pydoc", module],
            stdout=subprocess.PIPE,
            check=True,
            env=os.environ | {"PYTHONIOENCODING": "latin-1"},
        )
        lines += lines_of(done.stdout)
        if len(lines) >= count:
            lines = lines[-count:]
            path.write_bytes(b"\n".join(lines) + b"\n")
            return lines
    raise AssertionError(f"only {len(lines)} lines")


class Consumers:
    """Three consumers, of which each has its manner, and is started again in it."""

    def __init__(self, crew: Crew, served: Served) -> None:
        self._crew = crew
        self._served = served
        self._members = {manner: self._start(manner) for manner in MANNERS}

    def replace(self, manner: str) -> None:
        """Kill the one with this manner, and start another."""
        self._crew.bury(self._members[manner])
        self._members[manner] = self._start(manner)

    def _start(self, manner: str) -> Member:
        return self._crew.start(
            manner,
            "tests.e2e.consumer",
            *(self._served.address, "log", self._crew.ledgers, manner, "--manner", manner),
        )


@pytest.mark.parametrize("count", [LINES, pytest.param(MANY_LINES, marks=pytest.mark.slow)])
def test_every_line_of_a_real_log_arrives_though_consumers_and_server_are_killed(
    crew: Crew, served: Served, tmp_path: Path, count: int
) -> None:
    lines = make_log(tmp_path / "log", count)
    assert any(not line.isascii() for line in lines)
    client = spoolrack.connect(served.address, timeout=120)
    client.create_queue("log", visibility_timeout=VISIBILITY)
    random = Random(os.environ.get("SPOOLRACK_TEST_SEED", "a real log"))
    kills = [manner for manner in MANNERS for _ in range(KILLS)] + ["server"]
    # After so many deletions each: the last while there is still a quarter of the log to come.
    moments = sorted(random.sample(range(len(lines) * 3 // 4), len(kills)), reverse=True)
    random.shuffle(kills)

    crew.start(
        "sender",
        "tests.e2e.sender",
        served.address,
        "log",
        crew.ledgers,
        "sender",
        "--file",
        tmp_path / "log",
    )
    consumers = Consumers(crew, served)
    deleted = 0
    all_sent = False
    for told in crew.told():
        if told.member.name == "sender" and told.line is None:
            all_sent = True
        if told.line is not None and told.line.startswith("deleted "):
            deleted += int(told.line.split()[1])
        while moments and deleted >= moments[-1]:
            moments.pop()
            victim = kills.pop()
            if victim == "server":
                served.kill()
                served.restart()
            else:
                consumers.replace(victim)
        if all_sent and not kills and is_empty(client):
            break
    client.close()
    crew.end()

    verdict = judge(read_ledgers(crew.ledgers))
    print(verdict)
    assert not verdict.faults, str(verdict)
    assert verdict.acknowledged <= verdict.delivered
    # A line that was sent again, because the server had died with the answer, is one line.
    arrived: dict[str, str] = {}
    for copy, digest in verdict.bodies.items():
        assert arrived.setdefault(copy.split(":")[1], digest) == digest
    assert Counter(arrived.values()) == Counter(map(digest_of, lines))


def is_empty(client: spoolrack.Client) -> bool:
    counts = client.queue("log").info().counts
    return counts.ready_count + counts.leased_count + counts.delayed_count == 0
