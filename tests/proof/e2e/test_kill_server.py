"""kill -9 of the server at random moments, under load: nothing that was acknowledged is undone.

SPOOLRACK_TEST_KILLS=200 makes a long run, SPOOLRACK_TEST_SEED=... repeats one, as far as processes can
be repeated.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import Final

import pytest

from tests.support.load import QUEUE, Load, check
from tests.support.run_processes import Served

KILLS: Final = int(os.environ.get("SPOOLRACK_TEST_KILLS", "3"))


@pytest.mark.timeout(300 + 20 * KILLS)
def test_nothing_acknowledged_is_undone_by_kills_at_random_moments(
    load: Load, served: Served, random: Random
) -> None:
    for _ in range(KILLS):
        load.advance(0.0, 0.4)
        served.kill()
        served.restart()
    check(load.finish())


def test_a_server_that_is_killed_while_it_recovers_recovers_the_next_time(
    load: Load, served: Served, random: Random
) -> None:
    for _ in range(2):
        load.advance(0.0, 0.4)
        served.kill()
        for _ in range(3):
            served.kill_in_recovery(random.uniform(0.0, 0.6))
        served.restart()
    check(load.finish())


def test_a_server_that_is_killed_in_the_middle_of_a_drain_has_undone_nothing(
    load: Load, served: Served
) -> None:
    for _ in range(2):
        load.advance(0.0, 0.4)
        served.kill_in_drain()
        served.restart()
    check(load.finish())


def test_a_drain_to_its_end_and_a_restart_undo_nothing(load: Load, served: Served) -> None:
    for _ in range(2):
        load.advance(0.0, 0.4)
        served.stop()
        served.restart()
    check(load.finish())


def test_the_folders_hold_nothing_but_queues_and_memories_when_all_is_deleted(
    load: Load, served: Served, tmp_path: Path
) -> None:
    load.advance(0.0, 0.4)
    served.kill()
    served.restart()
    check(load.finish())
    served.restart()
    served.stop()
    left = [path.relative_to(served.root) for path in served.root.glob("*/**/*")]
    of_messages = [path for path in left if path.parts[0] not in ("config", "remove", "keys")]
    memories = [path for path in of_messages if path.parts[0] in ("published", "reserved")]
    assert {path for path in of_messages if path not in memories} == {Path("queues") / QUEUE}, (
        "files in remove/ wait for the reaper"
    )
    # Of each, the last number; and lost sets, until a call asks for them.
    assert sum(path.parts[0] == "published" for path in memories) <= 1
    assert all((served.root / path).is_file() for path in memories)
