"""Deduplication keys, in names, in lines and in memory."""

from __future__ import annotations

from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spoolrack_store.index.keys import Keys
from spoolrack_store.model.errors import InvalidMessage
from spoolrack_store.model.ids import sent_at
from spoolrack_store.model.keys import (
    Line,
    first_number_of,
    id_number,
    id_text,
    is_line,
    key_in,
    key_of,
    key_text,
    lines_in,
    moment_of,
)
from spoolrack_store.model.names import (
    Batch,
    Entry,
    is_unsent,
    length_of_plain,
    name_of_new,
    parse_entry,
    parse_item,
    unsent,
)

ID = "018bcfe5-6800-761f-8d61-3e3148954f78"
numbers = st.integers(min_value=0, max_value=(1 << 128) - 1)


@given(numbers)
def test_a_key_is_the_same_in_a_name_and_out_of_it(key: int) -> None:
    name = name_of_new(ID, 5, 7, 0, key_text(key))

    assert parse_entry(name).dedup == key_text(key)
    assert str(parse_entry(name)) == name
    assert key_in(name) == key
    assert length_of_plain(name) == 5


@given(numbers)
def test_an_id_is_the_same_as_a_number(number: int) -> None:
    assert id_number(id_text(number)) == number
    assert first_number_of(moment_of(number)) <= number < first_number_of(moment_of(number) + 1)


def test_a_key_is_of_one_id_in_one_queue() -> None:
    assert key_of("a", "salt") == int.from_bytes(blake2b(b"a", digest_size=16, salt=b"salt").digest())
    assert len({key_of("a", "salt"), key_of("b", "salt"), key_of("a", "other")}) == 3


@pytest.mark.parametrize("id", ["", "x" * 129, "\ud800"])
def test_what_is_no_id_is_refused(id: str) -> None:
    with pytest.raises(InvalidMessage):
        key_of(id, "")


@pytest.mark.parametrize("key", ["", "0" * 25, "0" * 27, "8" + "0" * 25, "w" * 26, "0" * 25 + "."])
def test_what_another_version_wrote_for_a_key_is_none_of_ours(key: str) -> None:
    name = f"{ID},s1,c00000000,k{key}"

    assert str(parse_entry(name)) == name
    assert key_in(name) is None
    assert key_in(f"{ID},s1,c00000000") is None


def test_what_was_never_sent_carries_no_key() -> None:
    entry = Entry(id=ID, size=1, crc=0, dedup="0" * 26)
    batch = Batch(id=ID, count=2, receives=1)

    assert unsent(entry) == Entry(id=ID, size=1, crc=0)
    assert not is_unsent(batch)
    assert is_unsent(parse_item(str(unsent(batch))))


@given(st.lists(st.tuples(numbers, numbers, st.booleans()), max_size=5), st.integers(0, 60))
def test_a_damaged_line_costs_itself_only_and_a_torn_one_says_nothing(
    values: list[tuple[int, int, bool]], torn: int
) -> None:
    lines = [Line("q.-_", id, key, is_news) for id, key, is_news in values]
    content = "".join(map(str, lines)).encode()
    end = str(Line("q", 1, 2, is_news=False)).encode()[:torn]

    assert list(lines_in(content + end)) == lines
    assert list(lines_in(b"\0\xff damaged\n" + content)) == lines
    assert all(is_line(str(line).encode()) for line in lines)
    assert not is_line(end)


def test_the_oldest_keys_are_forgotten_first_and_a_later_message_counts() -> None:
    keys = Keys()
    for moment in (30, 10, 20):
        keys.add(moment, first_number_of(moment) + 1)
    keys.sort()
    keys.add(10, first_number_of(40))
    keys.add(10, first_number_of(15))

    keys.forget_before(21)

    assert [keys.find(key, 0) is not None for key in (10, 20, 30)] == [True, True, True]
    assert keys.find(20, 21) is None
    keys.forget_before(100)
    assert len(keys) == 0
    assert sent_at(id_text(first_number_of(40))) == 40
