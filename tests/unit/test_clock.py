"""The machine's clocks, through the protocol that the store sees."""

from __future__ import annotations

import threading
import time

import pytest
from spoolrack_store.model.clock import Millis, SystemClock


def test_the_wall_clock_is_unix_time_in_milliseconds() -> None:
    before = time.time_ns() // 1_000_000
    assert before <= SystemClock().wall() <= time.time_ns() // 1_000_000


def test_the_monotonic_clock_never_goes_back() -> None:
    clock = SystemClock()
    moments = [clock.monotonic() for _ in range(1_000)]
    assert moments == sorted(moments)


@pytest.mark.parametrize("ago", [0, 1, 10**12])
def test_a_wait_for_the_past_does_not_give_the_condition_away_for_long(ago: int) -> None:
    spans: list[float | None] = []

    class Noted(threading.Condition):
        def wait(self, timeout: float | None = None) -> bool:
            spans.append(timeout)
            return False

    clock = SystemClock()
    condition = Noted()
    with condition:
        clock.wait(condition, Millis(clock.monotonic() - ago))
    assert all(span is not None and span <= 0.001 for span in spans)


def test_a_wait_does_not_end_before_its_moment() -> None:
    clock = SystemClock()
    condition = threading.Condition()
    until = Millis(clock.monotonic() + 3)
    with condition:
        clock.wait(condition, until)
    assert clock.monotonic() >= until


@pytest.mark.parametrize("until", [None, Millis(10**13), Millis(10**20)])
def test_a_notification_ends_a_wait_however_far_its_moment_is(until: Millis | None) -> None:
    clock = SystemClock()
    condition = threading.Condition()
    holds, woken = threading.Event(), threading.Event()

    def wait() -> None:
        with condition:
            holds.set()
            clock.wait(condition, until)
            woken.set()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    assert holds.wait(60)
    with condition:
        condition.notify()
    assert woken.wait(60)
    thread.join(60)


@pytest.mark.parametrize("phase", [0, 1, 300_000, 999_999])
def test_the_milliseconds_of_both_clocks_begin_together(
    phase: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_000_000_000 + now)
    monkeypatch.setattr(time, "clock_gettime_ns", lambda clock: 5_000_000_000 + phase + now)
    clock = SystemClock()
    ahead = clock.wall() - clock.monotonic()
    for moment in range(0, 5_000_000, 50_000):
        now = moment
        assert clock.wall() - clock.monotonic() == ahead
