"""A server that the kernel kills because it wants too much memory has undone nothing.

Unlike a kill at a random moment, this one comes in the midst of large bodies.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Final

import pytest

from tests.proof.e2e import memory_cage
from tests.proof.e2e.memory_cage import MemoryCage
from tests.support.load import Load, check
from tests.support.run_processes import SILENCE, Crew, Served

LIMIT: Final = 24 << 20
"""More than a server needs for small messages, and less than the bodies under way."""
LARGE: Final = 900_000
SENDERS: Final = 16
KILLS: Final = 2

pytestmark = pytest.mark.skipif(memory_cage.why_not() is not None, reason=str(memory_cage.why_not()))


@pytest.fixture
def cage() -> Iterator[MemoryCage]:
    cage = MemoryCage(LIMIT)
    yield cage
    cage.remove()


def test_nothing_is_undone_by_the_memory_limits_kills(
    cage: MemoryCage, load: Load, served: Served, crew: Crew
) -> None:
    load.add_sender("large", "--threads", SENDERS, "--size", LARGE)
    for kills in range(1, KILLS + 1):
        load.advance(0.0, 0.3)
        served.member.wanted_dead = True
        cage.take_in(served.member.process.pid)
        for told in crew.told():
            if told.member is served.member and told.line is None:
                break
        assert served.member.process.wait(SILENCE) == -signal.SIGKILL
        assert cage.kills == kills
        served.restart()
    check(load.finish())
