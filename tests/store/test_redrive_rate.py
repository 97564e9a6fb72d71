"""How fast dead letters go back, and how little of a commit that takes."""

from __future__ import annotations

import pytest
from dead_letter_rig import RedriveRig
from spoolrack_store.engine.redriving.pace import AT_ONCE
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.redriving import (
    RedriveState,
    StartRedrive,
)

DAY = 24 * 60 * 60 * 1_000


@pytest.fixture
def rig() -> RedriveRig:
    rig = RedriveRig()
    rig.make_queues()
    return rig


# How fast.


@pytest.mark.parametrize("rate", [1, 3, 10, 250, 1_500])
def test_a_rate_is_kept_in_any_second_and_reached_over_many(rig: RedriveRig, rate: int) -> None:
    seconds = 4
    for n in range(0, rate * seconds, 100):
        rig.send(*[b"x"] * min(100, rate * seconds - n), queue="dead")
    redrive = rig.start(destination="q", rate=rate)
    moved = [0]
    while rig.shown(redrive.id).state is RedriveState.RUNNING and len(moved) < 2_000:
        rig.after(10)
        moved.append(rig.shown(redrive.id).moved)
    assert rig.shown(redrive.id).moved == rate * seconds
    assert all(later - before <= rate for before, later in zip(moved, moved[99:], strict=False))
    assert (len(moved) - 1) * 10 <= seconds * 1_000 * 1.2


def test_a_pause_is_not_made_up_for(rig: RedriveRig) -> None:
    rig.bury(*(b"%d" % n for n in range(8)))
    redrive = rig.start(rate=2)
    rig.after(60_000)
    assert rig.shown(redrive.id).moved == 1


def test_the_mover_is_told_when_a_redrive_goes_on(rig: RedriveRig) -> None:
    rig.bury(b"a", b"b")
    rig.start(rate=1)
    assert rig.engine.next_due() == rig.clock.monotonic() + 1_000
    assert not rig.engine.wants_commit
    rig.clock.advance(Millis(1_000))
    assert rig.engine.wants_commit


def test_one_commit_moves_a_bounded_number(rig: RedriveRig) -> None:
    for _ in range(5):
        rig.send(*[b"x"] * AT_ONCE, queue="dead")
    work = rig.begin(StartRedrive(queue="dead", destination="q"))
    rig.engine.finish(work)
    before = 0
    while rig.ids("dead"):
        rig.engine.finish(rig.begin())
        moved = len(rig.ids("q"))
        assert 0 <= moved - before <= AT_ONCE
        before = moved
    rig.settle()
    rig.check()


def test_those_that_stay_are_bounded_too(rig: RedriveRig) -> None:
    for _ in range(3):
        rig.send(*[b"x"] * AT_ONCE, queue="dead")
    redrive = rig.start(rate=1)
    rig.clock.advance(Millis(1_000))
    rig.engine.finish(rig.begin())
    assert rig.shown(redrive.id).failed == AT_ONCE
    rig.settle()
    assert rig.shown(redrive.id).failed == 3 * AT_ONCE


def test_several_redrives_share_the_commits(rig: RedriveRig) -> None:
    rig.create("dead2")
    rig.send(*[b"x"] * 300, queue="dead")
    rig.send(*[b"x"] * 300, queue="dead2")
    rig.engine.finish(rig.begin(StartRedrive(queue="dead", destination="q")))
    rig.engine.finish(rig.begin(StartRedrive(queue="dead2", destination="q")))
    for _ in range(3):
        rig.engine.finish(rig.begin())
    assert len(rig.ids("dead")) < 300
    assert len(rig.ids("dead2")) < 300
