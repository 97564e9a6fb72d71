"""Effects of wall clocks on hidden messages and on the order: they step while a server is away."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from spoolrack_store.model.clock import DAY, HOUR, Millis
from spoolrack_store.model.message_content import MAX_DELAY
from spoolrack_store.model.operations import Receive, Send
from spoolrack_store.model.reservation_requests import Reserve
from spoolrack_store.model.settings import MAX_VISIBILITY
from spoolrack_store.model.stage_requests import Publish, Stage
from spoolrack_store.model.transitions import State

from tests.store.trouble_rig import Rig
from tests.support.engine_story import Clock, StillClock
from tests.support.engines import applied, begun

HIDDEN = ("leased", "leased batch", "delayed", "delayed batch")


class CountedClock(Clock):
    """Counts its readings."""

    walls = monotonics = 0

    def wall(self) -> Millis:
        self.walls += 1
        return super().wall()

    def monotonic(self) -> Millis:
        self.monotonics += 1
        return super().monotonic()


class SteppedClock(StillClock):
    """Its wall clock may be stepped by itself."""

    step = 0

    def wall(self) -> Millis:
        return Millis(self.now + self.step)


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
def rig(clock: SteppedClock) -> Rig:
    rig = Rig()
    rig.clock = clock
    rig.start()
    return rig


def hide(rig: Rig, hidden: str, millis: int) -> list[str]:
    """Send messages and hide them for so long; return their ids."""
    bodies = [b"a", b"b"] if "batch" in hidden else [b"a"]
    if "delayed" in hidden:
        delays = dict.fromkeys(range(len(bodies)), Millis(millis))
        ids = rig.ask(Send(queue="q", bodies=bodies, delays=delays)).results
        rig.commit()
        return list(ids)
    ids = rig.send(*bodies)
    rig.commit()
    assert rig.ask(Receive(queue="q", max_messages=10, visibility_timeout=Millis(millis)))
    return list(ids)


@pytest.mark.parametrize("step", [-DAY, DAY])
@pytest.mark.parametrize("hidden", HIDDEN)
def test_a_step_of_the_wall_clock_ends_and_prolongs_nothing_that_a_running_server_hides(
    rig: Rig, clock: SteppedClock, hidden: str, step: int
) -> None:
    ids = hide(rig, hidden, 20_000)
    clock.step = step
    rig.advance(19_999)
    assert rig.receive() == {}
    rig.advance(1)
    assert list(rig.receive()) == ids


@pytest.mark.parametrize("hidden", HIDDEN)
def test_a_wall_clock_that_was_set_back_lengthens_what_is_hidden_by_no_more_than_that(
    rig: Rig, clock: SteppedClock, hidden: str
) -> None:
    ids = hide(rig, hidden, 20_000)
    clock.step = -HOUR
    rig.start()
    rig.advance(HOUR + 19_999)
    assert rig.receive() == {}
    rig.advance(1)
    assert list(rig.receive()) == ids


@pytest.mark.parametrize(("hidden", "most"), [("leased", MAX_VISIBILITY), ("delayed", MAX_DELAY)])
def test_a_wall_clock_that_was_set_back_far_hides_nothing_longer_than_the_maximum(
    rig: Rig, clock: SteppedClock, hidden: str, most: int
) -> None:
    ids = hide(rig, hidden, 20_000)
    clock.step = -2 * MAX_DELAY
    rig.start()
    rig.advance(most - 1)
    assert rig.receive() == {}
    rig.advance(1)
    assert list(rig.receive()) == ids


def test_a_lease_that_a_dead_process_had_in_new_is_no_longer_than_the_maximum(
    rig: Rig, clock: SteppedClock
) -> None:
    rig.commit()
    send = Send(queue="q", bodies=[b"a"])
    work = begun(rig.engine, send, Receive(queue="q", visibility_timeout=Millis(20_000)))
    assert [path.startswith("new/") for path in rig.paths("new", "delay")] == [True]
    clock.step = -2 * MAX_DELAY
    rig.start()
    for _ in range(3):
        rig.tick()
    rig.advance(MAX_VISIBILITY - 1)
    assert rig.receive() == {}
    rig.advance(1)
    assert list(rig.receive()) == list(work.outcomes[0].results)


@pytest.mark.parametrize("step", [-HOUR, HOUR])
def test_new_messages_stand_behind_old_ones_whatever_the_clock_did_meanwhile(
    rig: Rig, clock: SteppedClock, step: int
) -> None:
    ids = [*rig.send(b"a"), *rig.send(b"b", b"c")]
    clock.step = step
    rig.start()
    ids += rig.send(b"d")
    assert list(rig.receive()) == ids


def test_a_message_of_a_far_future_does_not_carry_later_ones_away(
    rig: Rig, clock: SteppedClock
) -> None:
    clock.step = 100 * 365 * DAY
    far = rig.send(b"far")
    clock.step = 0
    rig.start()
    near = rig.send(b"near")
    assert list(rig.receive()) == [*near, *far]


def test_a_commit_shares_one_reading_of_each_clock() -> None:
    """Else the same event could have two times: a set would be older than its own leases."""
    rig = Rig()
    rig.clock = clock = CountedClock()
    rig.start()
    rig.send(b"a", b"b")
    rig.ask(Receive(queue="q", max_messages=1, visibility_timeout=Millis(10)))
    rig.commit()
    clock.now += 1_000  # The lease is over.
    clock.walls = clock.monotonics = 0

    applied(
        rig.engine,
        Send(queue="q", bodies=[b"c", b"d"], delays={1: Millis(1_000)}),
        Receive(queue="q", max_messages=10),
        tick=True,
    )

    assert (clock.walls, clock.monotonics) == (
        2,
        1,
    )  # The lock's file tells people since when it is held.


MONTH = Millis(31 * DAY)
KEPT = {"retention": Millis(DAY), "deduplication_window": Millis(DAY)}


def _old_things(rig: Rig) -> Callable[[], list[bool]]:
    """Make what is removed for its age; return what tells whether each is still there."""
    rig.add("kept", **KEPT)
    rig.ask(Send(queue="kept", bodies=[b"a"], deduplication_ids={0: "a"}))
    rig.ask(Stage(stage="s", chunk_number=0, queue="q", bodies=[b"b"]))
    rig.ask(Publish(writer="w", epoch=5, stages=["s"]))
    rig.ask(Stage(stage="later", chunk_number=0, queue="q", bodies=[b"c"]))
    rig.ask(Send(queue="q", bodies=[b"d"]))
    rig.ask(
        Reserve(
            queue="q",
            stream="lost",
            sequence_number=0,
            visibility_timeout=Millis(1_000),
            max_messages=1,
        )
    )
    rig.advance(2_000)
    rig.settle()

    def are_there() -> list[bool]:
        return [
            rig.engine.index.queue("kept").counts[State.READY] == 1,
            rig.engine.deduplication.count == 1,
            rig.paths("published") == ["published/w.5"],
            any("later" in path for path in rig.paths("staged")),
            any("lost" in path for path in rig.paths("reserved")),
        ]

    assert are_there() == [True] * 5
    return are_there


def test_a_wall_clock_that_jumps_ahead_removes_nothing_for_its_age_before_it_has_stood_for_a_day(
    rig: Rig, clock: SteppedClock
) -> None:
    are_there = _old_things(rig)
    clock.step = MONTH
    rig.settle()
    assert are_there() == [True] * 5
    assert rig.engine.moves.clock.jump == MONTH
    assert rig.ask(Send(queue="kept", bodies=[b"a"], deduplication_ids={0: "a"})).duplicates == {0}
    clock.step = 0
    rig.settle()
    assert are_there() == [True] * 5
    assert rig.engine.moves.clock.jump == 0
    assert rig.ask(Publish(writer="w", epoch=5, stages=["s"])).duplicate


def test_a_wall_clock_that_has_stood_for_a_day_is_believed(rig: Rig, clock: SteppedClock) -> None:
    are_there = _old_things(rig)
    clock.step = MONTH
    rig.settle()
    rig.advance(DAY // 2)
    rig.settle()
    clock.step += DAY  # Another jump: the day begins anew.
    rig.settle()
    rig.advance(DAY // 2)
    rig.settle()
    assert rig.paths("published") == ["published/w.5"]
    rig.advance(DAY // 2)
    rig.settle()
    assert rig.engine.moves.clock.jump == 0
    for _ in range(3):
        rig.advance(2_000)
        rig.settle()
    assert are_there() == [False] * 5


def test_a_wall_clock_that_gains_little_or_is_set_back_is_believed(
    rig: Rig, clock: SteppedClock
) -> None:
    rig.add("kept", retention=Millis(DAY))
    rig.send(b"a", queue="kept")
    for step in (HOUR, 2 * HOUR, HOUR // 2):
        clock.step = step
        rig.settle()
        assert rig.engine.moves.clock.proven_wall() == clock.wall()
    rig.advance(DAY - HOUR // 2)
    rig.settle()
    assert rig.paths("queues/kept") == []
