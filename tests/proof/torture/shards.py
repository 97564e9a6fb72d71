"""Three shards, each on a host of its own: their servers are killed and stopped, their wires are cut.

    python -m tests.proof.torture.shards [--seconds N] [--seed N] [--runs N]

Senders and consumers have the addresses of all three, and the queue of one. Beside the promises of one
server another one is held here: queues of other shards are served while a shard is away. A seed fixes
what happens to which shard, in which order and how long; processes can't be repeated further than that.
It needs root; the machine's own network is not touched.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from spoolrack._shards import shard_of

from tests.proof.e2e.campaign import count
from tests.support.delivery_checker import Verdict
from tests.support.load import Load
from tests.support.namespaces import Host, enter_a_network, why_not
from tests.support.run_counts import Tally, run_campaign
from tests.support.run_processes import Crew, Served

NAME: Final = "three shards: kill, freeze, cut"
SHARDS: Final = 3
EVENTS: Final = 12
HEARD: Final = 0.2
"""Seconds after which all is heard that was told before a shard went away."""
LONGEST: Final = 3.0
"""Seconds that a shard is away, beyond the time in which the others show that they work."""
QUEUES: Final = tuple(
    next(name for name in map("load-{}".format, range(100)) if shard_of(name, SHARDS) == number)
    for number in range(SHARDS)
)
"""A queue of each shard, by number."""


class Shard(Served):
    """The server of one shard, on its host."""

    def __init__(self, crew: Crew, root: Path, number: int, host: Host) -> None:
        self.host = host
        self.queue = QUEUES[number]
        super().__init__(
            crew,
            root,
            *("--shard", f"{number}/{SHARDS}", "--insecure"),
            program=("tests.support.namespaces", str(host.pid), "spoolrack_server"),
        )

    @property
    def address(self) -> str:
        return f"{self.host.address}:{self.port}"


@dataclass(frozen=True, slots=True)
class Shards:
    every: Sequence[Shard]

    @property
    def address(self) -> str:
        return ",".join(shard.address for shard in self.every)


def once(seed: int) -> Tally:
    folder = Path(tempfile.mkdtemp(prefix="spoolrack-shards-"))
    tally = Tally(campaign=NAME, runs=1)
    crew = Crew(folder)
    with ExitStack() as stack:
        stack.callback(crew.end)
        try:
            hosts = [stack.enter_context(Host(number)) for number in range(SHARDS)]
            shards = Shards(
                [Shard(crew, folder / str(number), number, host) for number, host in enumerate(hosts)]
            )
            verdict = disturb(tally, crew, shards, Random(seed))
            count(verdict, tally)
            if verdict.faults:
                tally.broken.append(f"{verdict}; {again(seed, folder)}")
        except Exception as error:  # noqa: BLE001  # a run that can't be finished is a broken promise
            tally.other += 1
            tally.broken.append(f"{type(error).__name__}: {error}; {again(seed, folder)}")
    if tally.is_clean:
        shutil.rmtree(folder)
    return tally


def disturb(tally: Tally, crew: Crew, shards: Shards, random: Random) -> Verdict:
    load = Load(crew, shards, random, in_sets=True, queues=QUEUES)
    for number in range(EVENTS):
        load.advance(0.0, 0.4)
        shard = random.choice(shards.every)
        # Each at least once in three events.
        with (killed, frozen, cut)[number % 3](crew, shard):
            for _ in crew.told(time.monotonic() + HEARD):
                pass
            load.go_on(queue for queue in QUEUES if queue != shard.queue)
            if random.random() < 0.5:
                load.replace(random.choice([*load.senders, *load.consumers]))
                tally.crashes += 1
            for _ in crew.told(time.monotonic() + random.uniform(0.0, LONGEST)):
                pass
        tally.crashes += 1
    return load.finish()


@contextmanager
def killed(crew: Crew, shard: Shard) -> Iterator[None]:
    shard.kill()
    yield
    shard.restart()


@contextmanager
def frozen(crew: Crew, shard: Shard) -> Iterator[None]:
    crew.freeze(shard.member)
    yield
    crew.thaw(shard.member)


@contextmanager
def cut(crew: Crew, shard: Shard) -> Iterator[None]:
    shard.host.cut()
    yield
    shard.host.heal()


def again(seed: int, folder: Path) -> str:
    program = ".venv/bin/python -m tests.proof.torture.shards"
    return f"{program} --seed {seed} --runs 1; its files are in {folder}"


def main() -> int:
    missing = why_not()
    if missing is not None:
        print(f"not run: {missing}", file=sys.stderr)
        return 2
    enter_a_network()
    return run_campaign(NAME, once)


if __name__ == "__main__":
    sys.exit(main())
