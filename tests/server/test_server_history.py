"""The hour of samples that charts show: samples, their age, and their memory."""

from __future__ import annotations

from array import array

import pytest
from spoolrack_server.metrics.history import EVERY, MOST_QUEUES, SLOTS, TREND, History, combined
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.message_ids import first_id_of
from spoolrack_store.model.statistics import QueueMetrics

BEGAN = Millis(1_700_000_000_000)
FIRST = BEGAN // EVERY


def queue(name: str = "q", **figures: int) -> QueueMetrics:
    return QueueMetrics(name=name, **figures)  # type: ignore[arg-type]


def sample(history: History, slot: int, *queues: QueueMetrics) -> None:
    """Take a sample `slot` slots after the beginning."""
    history.sample(queues, Millis(BEGAN + slot * EVERY), Millis(slot * EVERY))


def test_an_hour_is_kept_and_nothing_older() -> None:
    history = History()
    for slot in range(SLOTS + 50):
        sample(history, slot, queue(ready=slot, entered=20 * slot, left=10 * slot))

    series = history.of("q")

    assert series is not None
    assert (series["first"], series["every"]) == (FIRST + 50, EVERY)
    assert series["ready"] == list(range(50, SLOTS + 50))
    assert series["entered"] == [2.0] * SLOTS
    assert series["left"] == [1.0] * SLOTS
    assert SLOTS * EVERY == 3_600_000


def test_a_rate_is_over_the_time_since_the_sample_before_and_unknown_at_first() -> None:
    history = History()
    sample(history, 0, queue(entered=1_000))
    sample(history, 3, queue(entered=1_060))
    series = history.of("q")
    assert series is not None
    assert series["entered"] == [None, None, None, 2.0]
    assert series["ready"] == [0, None, None, 0]


def test_a_queue_that_is_new_has_its_first_messages_in_its_rate() -> None:
    history = History()
    sample(history, 0)
    sample(history, 1, queue(entered=50, left=20))
    # Deleted and made again under its name: counters begin at zero.
    sample(history, 2, queue(entered=10, left=0))
    series = history.of("q")
    assert series is not None
    assert series["entered"] == [5.0, 1.0]
    assert series["left"] == [2.0, 0.0]


def test_the_age_of_the_oldest_is_kept_in_seconds() -> None:
    history = History()
    figures = QueueMetrics(name="q", ready=1, first_ready=first_id_of(Millis(BEGAN - 90_500)))
    history.sample([figures], BEGAN, Millis(0))
    series = history.of("q")
    assert series is not None
    assert series["oldest"] == [90]


def test_a_queue_that_is_deleted_is_forgotten() -> None:
    history = History()
    sample(history, 0, queue("gone", ready=1), queue("stays"))
    sample(history, 1, queue("stays"))
    assert history.of("gone") is None
    assert history.of("stays") is not None


def test_memory_is_bounded_by_the_number_of_queues_that_are_kept() -> None:
    history = History()
    crowd = [queue(f"q{n}", ready=1) for n in range(MOST_QUEUES + 500)]
    for slot in range(3):
        sample(history, slot, *crowd)
    assert history.bytes == MOST_QUEUES * SLOTS * 24
    assert history.bytes <= 8.3 * 1024 * 1024
    assert array("I").itemsize == 4


def test_with_too_many_queues_the_one_that_is_idle_longest_gives_its_place() -> None:
    history = History(most=2)
    sample(history, 0, queue("a", ready=1), queue("b", ready=1))
    sample(history, 1, queue("a", ready=1), queue("b"), queue("c"))
    assert history.of("c") is None, "an idle queue takes no other's place"
    sample(history, 2, queue("a", ready=1), queue("b"), queue("c", entered=5))
    assert (history.of("b"), history.of("c") is None) == (None, False)
    sample(history, 3, queue("a", ready=1), queue("b", ready=1), queue("c", ready=1))
    assert history.of("b") is None, "no queue gives its place while it is busy"
    assert history.of("a") is not None


def test_a_value_beyond_a_number_s_range_is_kept_as_the_largest() -> None:
    history = History()
    sample(history, 0, queue(ready=2**40))
    series = history.of("q")
    assert series is not None
    assert series["ready"] == [2**32 - 1]


def test_a_clock_that_is_set_back_begins_anew_and_one_that_jitters_does_not() -> None:
    history = History()
    for slot in range(5):
        sample(history, slot, queue(ready=slot))
    sample(history, 3, queue(ready=99))
    series = history.of("q")
    assert series is not None
    assert series["ready"] == [0, 1, 2, 3, 4]
    sample(history, -100, queue(ready=7))
    series = history.of("q")
    assert series is not None
    assert (series["first"], series["ready"]) == (FIRST - 100, [7])


def test_a_trend_is_the_most_that_was_ready_in_each_thirtieth_of_the_hour() -> None:
    history = History()
    for slot in range(SLOTS):
        sample(history, slot, queue("q", ready=slot), queue("idle"))
    (name, trend), *others = history.trends(["q", "idle", "nobody"]).items()
    assert (name, others) == ("q", [])
    assert trend == [12 * n + 11 for n in range(TREND)]


def test_before_the_first_sample_there_is_nothing() -> None:
    history = History()
    assert history.of("q") is None
    assert history.trends(["q"]) == {}
    assert combined(None, {}) == {"is_kept": False, "silent": []}
    assert combined(None, {1: {}, 2: None}) == {"is_kept": False, "silent": [2]}


def test_rates_of_several_processes_are_added_up_and_what_is_missing_is_told() -> None:
    old, young = History(), History()
    for slot in range(4):
        sample(old, slot, queue(ready=9, entered=10 * slot))
    for slot in (2, 3):
        sample(young, slot, queue(ready=9, left=20 * slot))

    found = combined(old.of("q"), {1: young.of("q"), 2: None})

    assert found["entered"] == [None, 1.0, 1.0, 1.0]
    assert found["left"] == [None, 0.0, 0.0, 2.0]
    assert found["ready"] == [9, 9, 9, 9]
    assert found["partial_before"] == FIRST + 2
    assert found["silent"] == [2]
    # The same whichever process is asked, also if that is the one that was started again.
    assert combined(young.of("q"), {0: old.of("q"), 2: None}) == found
    assert combined(old.of("q"), {1: old.of("q")})["partial_before"] is None


@pytest.mark.parametrize("slot", [0, 1, SLOTS - 1, SLOTS, 10 * SLOTS])
def test_a_silence_of_any_length_leaves_no_old_sample(slot: int) -> None:
    history = History()
    sample(history, 0, queue(ready=1))
    sample(history, slot + 1, queue(ready=2))
    series = history.of("q")
    assert series is not None
    known = [value for value in series["ready"] if value is not None]
    assert known == ([1, 2] if slot + 1 < SLOTS else [2])
