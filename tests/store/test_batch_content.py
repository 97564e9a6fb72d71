"""What is in a file reads as it was written, and a torn or damaged one is told from it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spoolrack_store.model.content import Attributes, Damaged, body, checksum, decode, encode, line_of
from spoolrack_store.model.names import Stem

ID = "018bcfe5-6800-7194-90e5-78aa96119000"
texts = st.text(st.characters(codec="utf-8"), max_size=5)
attributes = st.dictionaries(texts, texts | st.binary(max_size=5), max_size=3)


def written(bodies: list[bytes], named: dict[int, Attributes]) -> tuple[Stem, bytes]:
    line = line_of(bodies, named, {})
    encoded = encode(line)
    count = len(bodies) if len(bodies) > 1 else 0
    size = sum(map(len, bodies))
    stem = Stem(id=ID, count=count, size=size, crc=checksum(line, encoded), line=len(encoded))
    return stem, b"".join(bodies) + encoded


@given(st.lists(st.binary(max_size=20), min_size=1, max_size=6), attributes)
def test_messages_read_as_they_were_written(bodies: list[bytes], named: Attributes) -> None:
    stem, content = written(bodies, {0: named} if named else {})
    line = decode(stem, content, len(content))
    assert [body(line, content, index) for index in range(len(bodies))] == bodies
    assert line.attributes.get(0, {}) == named
    assert content.startswith(bodies[0])


def test_a_lone_message_without_attributes_is_its_body() -> None:
    stem, content = written([b"resize cat.jpg"], {})
    assert content == b"resize cat.jpg"
    assert stem.line == 0


@pytest.mark.parametrize("bodies", [[b"hello world"], [b"one", b"two", b"three"]])
def test_a_file_of_which_a_byte_is_missing_or_differs_is_damaged(bodies: list[bytes]) -> None:
    stem, content = written(bodies, {})

    def read(found: bytes) -> None:
        line = decode(stem, found, len(found))
        for index in range(len(bodies)):
            body(line, found, index)

    read(content)
    for at in range(len(content)):
        with pytest.raises(Damaged) as torn:
            read(content[:at])
        assert torn.value.is_torn
        with pytest.raises(Damaged):
            read(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    with pytest.raises(Damaged):
        read(bytes(len(content)))
