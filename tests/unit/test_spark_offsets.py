"""Offsets name reservations; a batch is cut into even slices that cover it."""

from __future__ import annotations

import itertools
import json

import pytest
from spoolrack.spark._offsets import QueuesOffset, slices
from spoolrack.spark._options import InvalidOption


def test_an_offset_survives_the_checkpoint() -> None:
    offset = QueuesOffset.from_json({"gen": "a", "seq": 7, "n": 100}, "jobs")

    assert QueuesOffset.from_json(json.loads(json.dumps(offset.as_json())), "jobs") == offset
    reservation = offset.of("jobs")
    assert (reservation.gen, reservation.sequence_number, reservation.n) == ("a", 7, 100)


def test_each_query_begins_in_a_stream_of_its_own() -> None:
    first, second = QueuesOffset.initial("jobs").of("jobs"), QueuesOffset.initial("jobs").of("jobs")

    assert first.gen != second.gen
    assert first.is_initial
    assert first.sequence_number + 1 == 0


@pytest.mark.parametrize(
    "given",
    [{}, {"gen": "a"}, {"gen": 1, "seq": 1, "n": 1}, {"gen": "a", "seq": "1", "n": 1}, {"offset": 5}],
)
def test_the_checkpoint_of_another_source_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(InvalidOption, match="checkpointLocation"):
        QueuesOffset.from_json(given, "jobs")


@pytest.mark.parametrize("messages", [1, 2, 3, 7, 100, 99_999, 100_000])
@pytest.mark.parametrize("partitions", [None, 1, 2, 3, 16, 1_000])
def test_slices_cover_a_batch_and_none_is_empty(messages: int, partitions: int | None) -> None:
    parts = slices(messages, 0, partitions)

    assert parts[0].start == 0
    assert parts[-1].stop == messages
    assert all(left.stop == right.start for left, right in itertools.pairwise(parts))
    lengths = [len(part) for part in parts]
    assert min(lengths) > 0
    assert max(lengths) - min(lengths) <= 1
    if partitions is not None:
        assert len(parts) == min(partitions, messages)


def test_an_empty_batch_has_no_slices() -> None:
    assert slices(0, 0, None) == slices(0, 0, 4) == []


def test_a_small_batch_is_one_task_unless_asked_otherwise() -> None:
    assert slices(100, 1 << 20, None) == [range(100)]
    assert len(slices(100, 1 << 20, 4)) == 4


def test_large_messages_have_more_tasks_and_none_has_less_than_one() -> None:
    assert len(slices(40, 128 * 1024 * 1024, None, cores=1)) == 4
    assert len(slices(3, 128 * 1024 * 1024, None, cores=1)) == 3
    assert len(slices(1_000_000, 1 << 40, None, cores=1)) == 16


@pytest.mark.parametrize(
    ("messages", "cores", "tasks"),
    [
        (4_999, 8, 1),
        (49_999, 1, 1),
        (50_000, 1, 2),
        (50_000, 2, 2),
        (100_000, 2, 4),
        (50_000, 8, 8),
        (20_000, 8, 4),
        (100_000, 64, 16),
    ],
)
def test_a_task_has_25_000_messages_or_as_few_as_keep_all_cores_busy(
    messages: int, cores: int, tasks: int
) -> None:
    """A task's own start costs as much as some thousands of messages."""
    assert len(slices(messages, 0, None, cores=cores)) == tasks
