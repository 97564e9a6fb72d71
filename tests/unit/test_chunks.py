"""Items are cut into calls that are as large as their bounds let them be, and no larger."""

from __future__ import annotations

from itertools import chain, pairwise

from hypothesis import example, given
from hypothesis import strategies as st
from spoolrack._core.outgoing import chunks_of, outgoing, size_of


@given(st.lists(st.integers(0, 12), max_size=30), st.integers(1, 5), st.integers(1, 20))
@example([5, 5, 5], 3, 10)
@example([11, 1], 3, 10)
def test_a_call_is_full_or_the_last_one(sizes: list[int], most: int, most_bytes: int) -> None:
    chunks = list(chunks_of(sizes, lambda size: size, max_batch=most, max_bytes=most_bytes))
    assert list(chain(*chunks)) == sizes
    for chunk in chunks:
        assert 1 <= len(chunk) <= most
        assert sum(chunk) <= most_bytes or len(chunk) == 1
    for chunk, following in pairwise(chunks):
        assert len(chunk) == most or sum(chunk) + following[0] > most_bytes


@given(st.binary(max_size=9), st.dictionaries(st.text("ab", max_size=3), st.text("cd", max_size=4)))
def test_a_message_has_the_bytes_of_its_body_and_attributes(
    body: bytes, attributes: dict[str, str]
) -> None:
    size = len(body) + sum(map(len, attributes)) + sum(map(len, attributes.values()))
    assert size_of(outgoing(body, attributes=attributes)) == size
