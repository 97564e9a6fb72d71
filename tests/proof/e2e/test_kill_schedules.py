"""kill -9 of the processes that send the ticks of a schedule: each tick is sent once.

SPOOLRACK_TEST_KILLS=200 makes a long run, SPOOLRACK_TEST_SEED=... repeats one, as far as processes can
be repeated.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Final

import pytest
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.operations import CreateQueue, Receive, messages_of
from spoolrack_store.model.schedule import TICK_ATTRIBUTE
from spoolrack_store.model.schedule_requests import CreateSchedule
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.store import Store

from tests import CHECKOUT
from tests.proof.e2e.ticker import FileClock, step
from tests.support import STUCK

KILLS: Final = int(os.environ.get("SPOOLRACK_TEST_KILLS", "6"))
BEGIN: Final = 1_700_000_040_000
"""The beginning of a minute."""
MINUTE: Final = 60_000
HELD: Final = Millis(12 * 3_600_000)


class Tickers:
    """Processes that look for ticks, and a consumer beside them."""

    def __init__(self, folder: Path, count: int) -> None:
        self._root, self._clock = folder / "root", folder / "clock"
        self.wall = BEGIN
        step(self._clock, self.wall)
        self.store = Store.open(self._root, clock=FileClock(self._clock))
        self.ask(CreateQueue(name="q", settings=QueueSettings()))
        self.ask(CreateSchedule(queue="q", name="s", cron="* * * * *", time_zone="UTC"))
        self.running = [self._start() for _ in range(count)]
        self.seen: list[str] = []

    def ask(self, request: object) -> object:
        return self.store.submit(request).result(STUCK)  # type: ignore[arg-type]

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.proof.e2e.ticker", str(self._root), str(self._clock)]
        return subprocess.Popen(
            command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def kill(self, place: int) -> None:
        """Kill a process, and start another one."""
        ticker = self.running[place]
        ticker.kill()
        ticker.wait()
        assert ticker.stdout is not None
        ticker.stdout.close()
        self.running[place] = self._start()

    def next_minute(self) -> None:
        self.wall += MINUTE
        step(self._clock, self.wall)

    def receive(self, wait: Millis) -> None:
        receive = Receive(queue="q", max_messages=100, visibility_timeout=HELD, wait=wait)
        for message in messages_of(self.store.submit(receive).result(STUCK)):
            self.seen.append(str(message.attributes[TICK_ATTRIBUTE]))

    def end(self) -> None:
        for ticker in self.running:
            ticker.kill()
            ticker.wait()
            assert ticker.stdout is not None
            ticker.stdout.close()
        self.store.close()


@pytest.fixture
def tickers(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Tickers]:
    tickers = Tickers(tmp_path, request.param)
    yield tickers
    tickers.end()


@pytest.mark.parametrize("tickers", [1, 2, 3], indirect=True)
@pytest.mark.timeout(300 + 20 * KILLS)
def test_each_tick_is_sent_once_though_those_that_send_it_are_killed(
    tickers: Tickers, random: Random
) -> None:
    minutes = 5 * KILLS
    killed = set(random.sample(range(minutes), KILLS))
    for minute in range(minutes):
        tickers.next_minute()
        if minute in killed:
            # At any moment between the look at the clock and the end of the commit.
            if random.random() < 0.5:
                tickers.receive(Millis(random.randrange(1, 12)))
            tickers.kill(random.randrange(len(tickers.running)))
        # The next minute comes when the message of this one is here: none is missed.
        while len(tickers.seen) <= minute:
            tickers.receive(Millis(60_000))
    for place in range(len(tickers.running)):
        tickers.kill(place)
        assert tickers.running[place].stdout is not None
        assert tickers.running[place].stdout.readline() == b"open\n"
    tickers.receive(Millis(200))
    expected = [BEGIN // 1_000 + 60 * number for number in range(1, minutes + 1)]
    assert [_unix(text) for text in tickers.seen] == expected


def _unix(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())
