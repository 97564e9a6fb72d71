"""The long run of kill -9: a server, senders and consumers, killed about twenty times in each run.

    campaign.py [--seconds N] [--seed N] [--runs N]

A seed fixes who is killed, in which order and how long after; processes can't be repeated further than
that. The folders of a run in which a promise was broken are kept.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from random import Random

from tests.support.delivery_checker import Verdict
from tests.support.load import Load
from tests.support.run_counts import Tally, run_campaign
from tests.support.run_processes import Crew, Served

NAME = "kill -9"
KILLS = 20


def once(seed: int) -> Tally:
    folder = Path(tempfile.mkdtemp(prefix="spoolrack-kills-"))
    tally = Tally(campaign=NAME, runs=1)
    crew = Crew(folder)
    try:
        verdict = kill_on(tally, crew, Served(crew, folder / "root"), Random(seed))
        count(verdict, tally)
        if verdict.faults:
            tally.broken.append(f"{verdict}; {again(seed, folder)}")
    except Exception as error:  # noqa: BLE001  # a run that can't be finished is a broken promise, too
        tally.other += 1
        tally.broken.append(f"{type(error).__name__}: {error}; {again(seed, folder)}")
    finally:
        crew.end()
    if tally.is_clean:
        shutil.rmtree(folder)
    return tally


def kill_on(tally: Tally, crew: Crew, served: Served, random: Random) -> Verdict:
    load = Load(crew, served, random, in_sets=True)
    while tally.crashes < KILLS:
        load.advance(0.0, 0.4)
        tally.crashes += kill(load, served, random)
    return load.finish()


def kill(load: Load, served: Served, random: Random) -> int:
    """Kill processes, and start them again; return how many were killed."""
    match random.randrange(8):
        case 0 | 1 | 2:
            load.replace(random.choice(load.senders))
            return 1
        case 3 | 4:
            load.replace(random.choice(load.consumers))
            return 1
        case 5:
            served.kill()
            kills = 1
        case 6:
            kills = int(served.kill_in_drain())
        case _:
            served.kill()
            served.kill_in_recovery(random.uniform(0.0, 0.6))
            kills = 2
    if random.random() < 0.5:
        load.replace(random.choice([*load.senders, *load.consumers]))
        kills += 1
    served.restart()
    return kills


def count(verdict: Verdict, tally: Tally) -> None:
    tally.messages += len(verdict.acknowledged)
    tally.lost += len(verdict.lost)
    tally.resurrected += len(verdict.resurrected)
    tally.doubled += len(verdict.doubled)
    tally.invented += len(verdict.invented)
    tally.torn += len(verdict.altered)
    tally.other += len(verdict.copied)


def again(seed: int, folder: Path) -> str:
    program = ".venv/bin/python -m tests.proof.e2e.campaign"
    return f"{program} --seed {seed} --runs 1; its files are in {folder}"


if __name__ == "__main__":
    sys.exit(run_campaign(NAME, once))
