"""kill -9 of the server at random moments, under load: nothing that was acknowledged is undone.

SPOOLRACK_TEST_KILLS=200 makes a long run, SPOOLRACK_TEST_SEED=... repeats one, as far as processes can
be repeated.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from random import Random, randrange
from typing import Final

import pytest
import spoolrack
from crew import Crew, Member, Served
from fates import Verdict, judge
from ledger import read_ledgers

VISIBILITY: Final = 2.0
KILLS: Final = int(os.environ.get("SPOOLRACK_TEST_KILLS", "10"))
QUEUE: Final = "load"


class Load:
    """Senders and consumers of all manners at one queue."""

    def __init__(self, crew: Crew, served: Served, random: Random) -> None:
        self._crew = crew
        self._random = random
        self._client = spoolrack.connect(served.address, timeout=120)
        self._client.create_queue(QUEUE, visibility_timeout=VISIBILITY)
        where = (served.address, QUEUE, crew.ledgers)
        self.senders = [
            crew.start(name, "sender.py", *where, name, "--seed", self._seed(), "--threads", threads)
            for name, threads in (("many", 1), ("single", 6))
        ]
        self.consumers = [
            crew.start(
                manner,
                "consumer.py",
                *(*where, manner, "--manner", manner, "--seed", self._seed(), "--mischief", 0.02),
            )
            for manner in ("batches", "contexts", "calls")
        ]
        self._finished: set[Member] = set()

    def _seed(self) -> int:
        return self._random.randrange(1 << 32)

    def go_on(self, least: float, most: float) -> None:
        """Let all go on until something was sent and deleted, and then up to a random moment."""
        missing = {"sent", "deleted"}
        for told in self._crew.told():
            missing -= {(told.line or "").split(" ")[0]}
            if not missing:
                break
        for _ in self._crew.told(time.monotonic() + self._random.uniform(least, most)):
            pass

    def finish(self) -> Verdict:
        """Send no more, receive what is there, and judge."""
        for sender in self.senders:
            sender.process.terminate()
        for told in self._crew.told():
            if told.line is None and told.member in self.senders:
                self._finished.add(told.member)
            if len(self._finished) == len(self.senders) and self._is_empty():
                break
        left = [message.id for message in self._client.queue(QUEUE).peek()]
        self._client.close()
        self._crew.end()
        return judge(read_ledgers(self._crew.ledgers), left=left)

    def _is_empty(self) -> bool:
        counts = self._client.get_queue(QUEUE).counts
        return counts.ready + counts.leased + counts.delayed == 0


@pytest.fixture
def random() -> Random:
    seed = os.environ.get("SPOOLRACK_TEST_SEED") or str(randrange(1 << 32))
    print(f"SPOOLRACK_TEST_SEED={seed}")
    return Random(seed)


@pytest.fixture
def load(crew: Crew, served: Served, random: Random) -> Load:
    return Load(crew, served, random)


def check(verdict: Verdict) -> None:
    print(verdict)
    assert not verdict.faults, str(verdict)
    assert verdict.delivered


@pytest.mark.timeout(60 + 20 * KILLS)
def test_nothing_acknowledged_is_undone_by_kills_at_random_moments(
    load: Load, served: Served, random: Random
) -> None:
    for _ in range(KILLS):
        load.go_on(0.0, 0.4)
        served.kill()
        served.restart()
    check(load.finish())


def test_a_server_that_is_killed_while_it_recovers_recovers_the_next_time(
    load: Load, served: Served, crew: Crew, random: Random
) -> None:
    for _ in range(3):
        load.go_on(0.0, 0.4)
        served.kill()
        for _ in range(3):
            served.begin_restart()
            for _ in crew.told(time.monotonic() + random.uniform(0.0, 0.6)):
                pass
            served.kill()
        served.restart()
    check(load.finish())


def test_a_server_that_is_killed_in_the_middle_of_a_drain_has_undone_nothing(
    load: Load, served: Served
) -> None:
    for _ in range(3):
        load.go_on(0.0, 0.4)
        served.kill_in_drain()
        served.restart()
    check(load.finish())


def test_a_drain_to_its_end_and_a_restart_undo_nothing(load: Load, served: Served) -> None:
    for _ in range(3):
        load.go_on(0.0, 0.4)
        served.stop()
        served.restart()
    check(load.finish())


def test_the_folders_hold_nothing_but_queues_when_all_is_deleted(
    load: Load, served: Served, tmp_path: Path
) -> None:
    load.go_on(0.0, 0.4)
    served.kill()
    served.restart()
    check(load.finish())
    served.restart()
    served.stop()
    left = [path.relative_to(served.root) for path in served.root.glob("*/**/*")]
    of_messages = [path for path in left if path.parts[0] not in ("config", "remove")]
    assert of_messages == [Path("queues") / QUEUE], "what is in remove/ waits for the reaper"
