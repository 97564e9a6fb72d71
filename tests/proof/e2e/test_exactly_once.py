"""kill -9 of the server under a pipeline of stages, deduplicated sends and reservations: each message
is there once, whatever was under way.

SPOOLRACK_TEST_KILLS=200 makes a long run, SPOOLRACK_TEST_SEED=... repeats one, as far as processes can
be repeated.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import Final

import pytest

from tests.proof.e2e.exactly import Pipeline, check
from tests.support.run_processes import Crew, Served

KILLS: Final = int(os.environ.get("SPOOLRACK_TEST_KILLS", "3"))


@pytest.mark.timeout(300 + 20 * KILLS)
def test_each_message_is_there_once_after_kills_at_random_moments(
    served: Served, random: Random
) -> None:
    with Pipeline([served], random) as pipeline:
        for _ in range(KILLS):
            pipeline.advance(0.0, 0.4)
            served.kill()
            served.restart()
        pipeline.advance(0.0, 0.1)
        check(pipeline.finish())


def test_each_message_is_there_once_after_kills_in_recoveries_and_drains(
    served: Served, random: Random
) -> None:
    with Pipeline([served], random) as pipeline:
        for _ in range(2):
            pipeline.advance(0.0, 0.4)
            served.kill()
            served.kill_in_recovery(random.uniform(0.0, 0.6))
            served.restart()
            pipeline.advance(0.0, 0.4)
            served.kill_in_drain()
            served.restart()
            pipeline.advance(0.0, 0.4)
            served.stop()
            served.restart()
        check(pipeline.finish())


@pytest.mark.timeout(300 + 20 * KILLS)
def test_each_message_is_there_once_with_two_servers_that_are_killed_in_turn(
    crew: Crew, tmp_path: Path, random: Random
) -> None:
    servers = [Served(crew, tmp_path / "root") for _ in range(2)]
    with Pipeline(servers, random) as pipeline:
        for turn in range(KILLS):
            pipeline.advance(0.0, 0.4)
            servers[turn % 2].kill()
            servers[turn % 2].restart()
        pipeline.advance(0.0, 0.1)
        check(pipeline.finish())
