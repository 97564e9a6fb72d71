"""Rows become messages, and messages requests of a good size; an invalid row is reported."""

from __future__ import annotations

from collections import Counter

import pytest
from spoolrack.spark._rows import (
    BYTES,
    MESSAGES,
    OPEN,
    InvalidColumn,
    Sized,
    check_columns,
    chunks,
    message_of,
)


def messages(*sizes: int, delay: float | None = None) -> list[Sized]:
    return [message_of(b"x" * size, None, None, delay) for size in sizes]


def test_chunks_keep_all_messages_in_order() -> None:
    given = [message_of(str(number), None, None, None) for number in range(2_500)]

    made = list(chunks(given, is_staged=True))

    assert [len(chunk) for chunk in made] == [MESSAGES, MESSAGES, 500]
    assert [m.body for chunk in made for m in chunk] == [str(n).encode() for n in range(2_500)]


def test_a_chunk_has_about_a_mebibyte_and_a_large_message_its_own() -> None:
    made = list(chunks(messages(*[300_000] * 7, 5 * BYTES, 10), is_staged=True))

    assert [len(chunk) for chunk in made] == [3, 3, 1, 1, 1]


def test_nothing_makes_no_chunk() -> None:
    assert list(chunks([], is_staged=True)) == []


def test_a_chunk_of_a_stage_has_one_delay_and_one_priority_and_none_is_lost() -> None:
    given = [
        message_of(str(number), None, None, number % 200, priority=number % 3)
        for number in range(5_000)
    ]

    made = list(chunks(given, is_staged=True))

    assert all(len({(m.delay.seconds, m.priority) for m in chunk}) == 1 for chunk in made)
    assert Counter(m.body for chunk in made for m in chunk) == Counter(m.body for m, _, _ in given)
    assert len(made) > OPEN


def test_without_delays_a_chunk_is_as_full_as_can_be() -> None:
    given = [message_of(str(number), None, None, number % 200) for number in range(2_000)]

    assert [len(chunk) for chunk in chunks(given, is_staged=False)] == [1_000, 1_000]


def test_a_row_becomes_a_message() -> None:
    message, size, delay = message_of("é", {"a": "b"}, "key", 1.5, {"c": b"\xff"}, "g", 7)

    assert message.body == "é".encode()
    assert message.attributes["a"].string_value == "b"
    assert message.attributes["c"].binary_value == b"\xff"
    assert message.deduplication_id == "key"
    assert (message.group, message.priority) == ("g", 7)
    assert (message.delay.seconds, message.delay.nanos) == (1, 500_000_000)
    assert delay == 1.5
    assert size >= message.ByteSize() - 16


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ((None, None, None, None), "not null"),
        ((5, None, None, None), "binary or a string"),
        (("", {"a": None}, None, None), "attribute 'a'"),
        (("", None, None, -1), "delay_seconds"),
        (("", None, None, float("nan")), "delay_seconds"),
        (("", None, None, 365 * 86_400 + 0.001), "from 0 to 365 days"),
        (("", None, None, None, None, None, 10), "from 0 to 9"),
    ],
)
def test_a_row_that_is_no_message_is_told(row: tuple[object, ...], says: str) -> None:
    with pytest.raises(InvalidColumn, match=says):
        message_of(*row)


def test_a_row_may_be_delayed_for_a_year() -> None:
    message, _, _ = message_of("", None, None, 365 * 86_400)
    assert message.delay.seconds == 365 * 86_400


def test_a_direct_row_needs_an_id() -> None:
    with pytest.raises(InvalidColumn, match="deduplication_id"):
        message_of("a", None, "", None, must_deduplicate=True)


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["body", "key"], "to_json"),
        (["attributes"], "body is missing"),
        (["body", "deduplication_id"], "'direct'"),
    ],
)
def test_columns_that_nothing_can_be_made_of_are_refused(names: list[str], says: str) -> None:
    with pytest.raises(InvalidColumn, match=says):
        check_columns(names, may_deduplicate=False)


def test_an_attribute_has_one_type() -> None:
    with pytest.raises(InvalidColumn, match="one value for a name"):
        message_of("a", {"k": "v"}, None, None, {"k": b"v"})
