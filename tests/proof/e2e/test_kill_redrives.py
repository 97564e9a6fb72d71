"""kill -9 of a server in the midst of a redrive: every message is there once, where it belongs.

SPOOLRACK_TEST_KILLS=200 makes a long run, SPOOLRACK_TEST_SEED=... repeats one, as far as processes can
be repeated.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import Final

import pytest
from spoolrack import RedriveState

from tests.proof.e2e.dead_letters import DEAD, letters_at
from tests.support.run_processes import Crew, Served

KILLS: Final = int(os.environ.get("SPOOLRACK_TEST_KILLS", "2"))
RATE: Final = 400
"""Slow enough for a kill to meet the redrive at work, and that a run takes a second or two of it."""


def redrive_under_kills(servers: list[Served], random: Random, *, messages: int, kills: int) -> None:
    """Redrive so many messages; meanwhile kill one server after the other, and start it again."""
    with letters_at(servers[0].address, random) as letters:
        letters.die(messages)
        redrive = letters.client.queue(DEAD).redrive(max_messages_per_second=RATE)
        for turn, moved in enumerate(sorted(random.sample(range(messages // 2), kills))):
            letters.until_moved(redrive, moved)
            letters.delete_some(2)
            served = servers[turn % len(servers)]
            served.kill()
            if random.random() < 0.3:
                served.kill_in_recovery(random.uniform(0.0, 0.6))
            served.restart()
        ended = letters.until_ended(redrive)
        assert (ended.state, ended.failed_count, ended.remaining_count) == (RedriveState.DONE, 0, 0)
        # A second's work at most is missing for each death.
        deaths = 2 * kills * RATE
        assert messages - len(letters.deleted) - deaths <= ended.moved_count <= messages
        letters.check(all_back=True)
        for served in servers:
            served.kill()
        for served in servers:
            served.restart()
        letters.check(all_back=True)
        assert letters.client.redrives.get(redrive.id) == ended


@pytest.mark.timeout(300 + 20 * KILLS)
def test_every_message_is_there_once_after_kills_in_the_midst_of_a_redrive(
    served: Served, random: Random
) -> None:
    redrive_under_kills([served], random, messages=400, kills=KILLS)


@pytest.mark.timeout(300 + 20 * KILLS)
def test_every_message_is_there_once_with_two_servers_that_are_killed_in_turn(
    crew: Crew, tmp_path: Path, random: Random
) -> None:
    servers = [Served(crew, tmp_path / "root") for _ in range(2)]
    redrive_under_kills(servers, random, messages=300, kills=KILLS)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_message_is_there_once_after_many_kills(
    crew: Crew, tmp_path: Path, random: Random
) -> None:
    servers = [Served(crew, tmp_path / "root") for _ in range(3)]
    redrive_under_kills(servers, random, messages=10_000, kills=40)


def test_a_cancelled_redrive_moves_no_more_after_a_kill(served: Served, random: Random) -> None:
    with letters_at(served.address, random) as letters:
        letters.die(200)
        redrive = letters.client.queue(DEAD).redrive(max_messages_per_second=RATE)
        letters.until_moved(redrive, 50)
        cancelled = letters.client.redrives.cancel(redrive.id)
        assert cancelled.state is RedriveState.CANCELLED
        stay = {message.id for message in letters.client.queue(DEAD).peek()}
        assert stay
        served.kill()
        served.restart()
        assert {message.id for message in letters.client.queue(DEAD).peek()} == stay
        assert letters.client.redrives.get(redrive.id).state is RedriveState.CANCELLED
        letters.check(all_back=False)


def test_a_redrive_that_was_answered_takes_place_though_the_server_dies_at_once(
    served: Served, random: Random
) -> None:
    with letters_at(served.address, random) as letters:
        letters.die(100)
        redrive = letters.client.queue(DEAD).redrive()
        served.kill()
        served.restart()
        assert letters.until_ended(redrive).state is RedriveState.DONE
        letters.check(all_back=True)
