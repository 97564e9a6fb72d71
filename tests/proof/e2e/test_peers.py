"""Four servers on one root, under load, of which one after the other is killed: nothing is lost, and
nothing is delivered twice within a lease.

SPOOLRACK_TEST_PEER_KILLS=100 makes a long run, SPOOLRACK_TEST_SEED=... repeats one, as far as processes
can be repeated.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from random import Random, randrange
from typing import Final

import pytest
import spoolrack

from tests.support.delivery_checker import Verdict, judge
from tests.support.ledger import read_ledgers
from tests.support.load import LOOK
from tests.support.run_processes import SILENCE, Crew, Served

SERVERS: Final = 4
KILLS: Final = int(os.environ.get("SPOOLRACK_TEST_PEER_KILLS", "2"))
VISIBILITY: Final = 2.0
QUEUE: Final = "load"


class PeerLoad:
    """Two senders and two consumers, each at a server of its own."""

    def __init__(self, crew: Crew, servers: list[Served], random: Random) -> None:
        self._crew = crew
        self._servers = servers
        with spoolrack.connect(servers[0].address, timeout=120) as client:
            client.create_queue(QUEUE, visibility_timeout=VISIBILITY)
        manners = {"single": ("--threads", 4), "many": ("--threads", 1)}
        self.senders = [
            crew.start(
                *(name, "tests.proof.e2e.sender", served.address, QUEUE, crew.ledgers, name),
                *("--seed", random.randrange(1 << 32), *threads),
            )
            for (name, threads), served in zip(manners.items(), servers[:2], strict=True)
        ]
        self.consumers = [
            crew.start(
                *(manner, "tests.proof.e2e.consumer", served.address, QUEUE, crew.ledgers, manner),
                *("--manner", manner, "--seed", random.randrange(1 << 32), "--mischief", 0.02),
            )
            for manner, served in zip(("batches", "calls"), servers[2:], strict=True)
        ]

    def advance(self, most: float, random: Random) -> None:
        """Until something was sent and deleted, and then up to a random moment."""
        missing = {"sent", "deleted"}
        for told in self._crew.told():
            missing -= {(told.line or "").split(" ")[0]}
            if not missing:
                break
        for _ in self._crew.told(time.monotonic() + random.uniform(0.0, most)):
            pass

    def finish(self) -> Verdict:
        """Send no more, receive what is there, and judge."""
        for sender in self.senders:
            assert sender.has_spoken.wait(SILENCE), f"{sender} has never begun"
            sender.process.terminate()
        for sender in self.senders:
            assert sender.process.wait(SILENCE) == 0, sender.last_words
        client = spoolrack.connect(self._servers[0].address, timeout=120)
        heard = time.monotonic()
        while True:
            # The last word of a consumer may come before this server has heard of what it tells.
            for _ in self._crew.told(time.monotonic() + LOOK):
                heard = time.monotonic()
            if self._is_empty(client):
                break
            assert time.monotonic() < heard + SILENCE, f"{client.queue(QUEUE).info().counts} are left"
        left = [message.id for message in client.queue(QUEUE).peek()]
        client.close()
        self._crew.end()
        return judge(read_ledgers(self._crew.ledgers), left=left)

    def _is_empty(self, client: spoolrack.Client) -> bool:
        counts = client.queue(QUEUE).info().counts
        return counts.ready_count + counts.leased_count + counts.delayed_count == 0


@pytest.fixture
def random() -> Random:
    seed = os.environ.get("SPOOLRACK_TEST_SEED") or str(randrange(1 << 32))
    print(f"SPOOLRACK_TEST_SEED={seed}")
    return Random(seed)


@pytest.mark.timeout(300 + 20 * KILLS)
@pytest.mark.parametrize("choice", [0, 3])
def test_four_servers_lose_nothing_and_share_nothing_while_they_are_killed(
    crew: Crew, random: Random, tmp_path: Path, choice: int
) -> None:
    servers = [Served(crew, tmp_path / "root", "--peers", choice) for _ in range(SERVERS)]
    load = PeerLoad(crew, servers, random)
    for _ in range(KILLS):
        load.advance(0.3, random)
        killed = random.choice(servers)
        killed.kill()
        load.advance(0.3, random)
        killed.restart()
    verdict = load.finish()
    print(verdict)
    assert not verdict.faults, str(verdict)
    assert verdict.delivered
