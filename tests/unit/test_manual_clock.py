"""The manual clock wakes its waiters, and can't deadlock with them."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.clock import Clock, Millis

GIVE_UP = 60.0
"""Seconds after which a broken clock fails a test. A good one never comes near."""


class Sleeper:
    """A thread that waits once on the clock, and says what the time was when it woke."""

    def __init__(self, clock: Clock, condition: threading.Condition, until: Millis | None) -> None:
        self.woke_at: Millis | None = None
        self._clock = clock
        self._condition = condition
        self._until = until
        self._holds = threading.Event()
        self._thread = threading.Thread(target=self._sleep, daemon=True)

    def __enter__(self) -> Sleeper:
        self._thread.start()
        assert self._holds.wait(GIVE_UP)
        # It held the condition before us, so it gave it back by waiting: from here on it is asleep.
        with self._condition:
            pass
        return self

    def __exit__(self, *_: object) -> None:
        with self._condition:
            self._condition.notify_all()
        self._thread.join(GIVE_UP)
        assert not self._thread.is_alive()

    def woken(self) -> Millis:
        self._thread.join(GIVE_UP)
        assert self.woke_at is not None, "still asleep"
        return self.woke_at

    def _sleep(self) -> None:
        with self._condition:
            self._holds.set()
            self._clock.wait(self._condition, self._until)
            self.woke_at = self._clock.monotonic()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(wall=Millis(5_000_000), monotonic=Millis(100))


def test_an_advance_moves_both_clocks(clock: ManualClock) -> None:
    clock.advance(7)
    assert (clock.wall(), clock.monotonic()) == (5_000_007, 107)


@pytest.mark.parametrize("step", [-4_000_000, 4_000_000])
def test_a_step_moves_only_the_wall_clock(clock: ManualClock, step: int) -> None:
    clock.step_wall(step)
    assert (clock.wall(), clock.monotonic()) == (5_000_000 + step, 100)


def test_time_never_goes_back_by_an_advance(clock: ManualClock) -> None:
    with pytest.raises(ValueError, match="step_wall"):
        clock.advance(-1)
    assert (clock.wall(), clock.monotonic()) == (5_000_000, 100)


@pytest.mark.parametrize("until", [-5, 0, 99, 100])
def test_a_wait_for_what_has_come_returns_at_once(clock: ManualClock, until: int) -> None:
    condition = threading.Condition()
    with condition:
        clock.wait(condition, Millis(until))


@pytest.mark.parametrize("until", [None, Millis(101), Millis(10**15)])
def test_an_advance_wakes_waiters_also_before_their_deadline(
    clock: ManualClock, until: Millis | None
) -> None:
    with Sleeper(clock, threading.Condition(), until) as sleeper:
        clock.advance(1)
        assert sleeper.woken() == 101


def test_an_advance_wakes_all_waiters_on_all_conditions(clock: ManualClock) -> None:
    shared, own = threading.Condition(), threading.Condition()
    with (
        Sleeper(clock, shared, None) as first,
        Sleeper(clock, shared, Millis(10**9)) as second,
        Sleeper(clock, own, None) as third,
    ):
        clock.advance(3)
        assert [sleeper.woken() for sleeper in (first, second, third)] == [103] * 3


def test_a_step_of_the_wall_clock_wakes_no_waiter(clock: ManualClock) -> None:
    with Sleeper(clock, threading.Condition(), Millis(10**9)) as sleeper:
        clock.step_wall(10**9)
        # Had the step woken it, it could say 100 here.
        clock.advance(1)
        assert sleeper.woken() == 101


@pytest.mark.parametrize("lock", [threading.RLock, threading.Lock])
def test_an_advance_by_the_holder_of_the_condition_does_not_deadlock(
    clock: ManualClock, lock: Callable[[], threading.Lock]
) -> None:
    condition = threading.Condition(lock())
    with Sleeper(clock, condition, None) as sleeper:
        with condition:
            clock.advance(1)
            assert sleeper.woke_at is None
        assert sleeper.woken() == 101


def test_two_threads_that_advance_with_each_others_conditions_held_do_not_deadlock(
    clock: ManualClock,
) -> None:
    conditions = (threading.Condition(), threading.Condition())
    both_hold = threading.Barrier(2, timeout=GIVE_UP)

    def advance_with(condition: threading.Condition) -> None:
        with condition:
            both_hold.wait()
            clock.advance(1)
            both_hold.wait()

    with Sleeper(clock, conditions[0], None) as first, Sleeper(clock, conditions[1], None) as second:
        threads = [
            threading.Thread(target=advance_with, args=(condition,), daemon=True)
            for condition in conditions
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(GIVE_UP)
        assert not any(thread.is_alive() for thread in threads)
        assert {first.woken(), second.woken()} <= {101, 102}
    assert clock.monotonic() == 102


def test_no_advance_is_lost_between_a_look_at_the_clock_and_the_wait(clock: ManualClock) -> None:
    """Many short waits, and an advance for each at a moment of its own choosing."""
    rounds = 500
    condition = threading.Condition()

    def wait_for_each() -> None:
        for moment in range(101, 101 + rounds):
            with condition:
                while clock.monotonic() < moment:
                    clock.wait(condition, Millis(moment))

    waiter = threading.Thread(target=wait_for_each, daemon=True)
    waiter.start()
    for _ in range(rounds):
        clock.advance(1)
    waiter.join(GIVE_UP)
    assert not waiter.is_alive()


def test_concurrent_advances_add_up(clock: ManualClock) -> None:
    def advance_often() -> None:
        for _ in range(200):
            clock.advance(1)
            clock.step_wall(1)

    threads = [threading.Thread(target=advance_often, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(GIVE_UP)
    assert (clock.wall(), clock.monotonic()) == (5_000_000 + 1_600, 100 + 800)


def test_a_clock_that_ticks_gives_no_time_twice_and_keeps_both_clocks_together() -> None:
    clock = ManualClock(wall=Millis(5_000_000), monotonic=Millis(100), ticks=True)
    assert [clock.wall(), clock.wall()] == [5_000_001, 5_000_002]
    assert [clock.monotonic(), clock.monotonic()] == [103, 104]
    clock.advance(1_000)
    assert (clock.wall(), clock.monotonic()) == (5_001_005, 1_106)
