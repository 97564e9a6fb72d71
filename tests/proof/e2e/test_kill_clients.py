"""kill -9 of senders and consumers at random moments, alone and together with the server's.

Sends of a killed sender without an answer are unknown: it may be there, once, or not. Messages of a
killed consumer come to another one when their leases are over.
"""

from __future__ import annotations

from random import Random

import pytest

from tests.support.load import Load, check
from tests.support.run_processes import Served

ROUNDS = 2


def test_nothing_is_undone_by_kills_of_senders_and_consumers(load: Load, random: Random) -> None:
    for _ in range(ROUNDS):
        for role in random.sample([*load.senders, *load.consumers], 5):
            load.advance(0.0, 0.3)
            load.replace(role)
    check(load.finish())


@pytest.mark.slow
def test_kills_of_all_processes_in_turn_undo_nothing(
    load: Load, served: Served, random: Random
) -> None:
    for role in random.sample([*load.senders, *load.consumers], 5):
        load.advance(0.0, 0.3)
        if random.random() < 0.5:
            # In the same moment: a client that is killed while it waits for a server that is dead.
            served.kill()
            load.replace(role)
        else:
            load.replace(role)
            served.kill()
        served.restart()
    check(load.finish())
