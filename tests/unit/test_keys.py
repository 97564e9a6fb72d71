"""Deduplication keys stand in names and segments for the ids that senders give."""

from __future__ import annotations

from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spoolrack_store.model.errors import InvalidMessage
from spoolrack_store.model.keys import first_number_of, id_number, id_text, key_of, key_text
from spoolrack_store.model.message_ids import sent_at

numbers = st.integers(min_value=0, max_value=(1 << 128) - 1)


@given(numbers)
def test_a_key_is_26_digits_of_five_bits(key: int) -> None:
    assert int(key_text(key), 32) == key
    assert len(key_text(key)) == 26


@given(numbers)
def test_an_id_is_the_same_as_a_number(number: int) -> None:
    assert id_number(id_text(number)) == number


def test_a_key_is_of_one_id_in_one_queue() -> None:
    assert key_of("a", "salt") == int.from_bytes(blake2b(b"a", digest_size=16, salt=b"salt").digest())
    assert len({key_of("a", "salt"), key_of("b", "salt"), key_of("a", "other")}) == 3


@pytest.mark.parametrize("id", ["", "x" * 129, "\ud800"])
def test_an_invalid_id_is_refused(id: str) -> None:
    with pytest.raises(InvalidMessage):
        key_of(id, "")


@given(st.integers(0, 10**13 - 1))
def test_the_first_id_of_a_moment_bears_it(moment: int) -> None:
    number = first_number_of(moment)
    assert sent_at(id_text(number)) == moment
    assert moment == 0 or sent_at(id_text(number - 1)) < moment
