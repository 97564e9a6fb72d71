"""A file's content reads as it was written, and a torn or damaged file is detected."""

from __future__ import annotations

import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spoolrack_store.model.batch_file import Damaged, body, checksum, decode, encode, line_of
from spoolrack_store.model.errors import AttributesTooLarge, InvalidMessage, MessageTooLarge
from spoolrack_store.model.message_content import (
    MAX_ATTRIBUTE_NAME,
    MAX_ATTRIBUTES_SIZE,
    Attributes,
    check_content,
)
from spoolrack_store.model.names import Stem
from spoolrack_store.model.settings import MAX_MESSAGE_SIZE

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
        with pytest.raises(Damaged):
            read(content[:at])
        with pytest.raises(Damaged):
            read(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    with pytest.raises(Damaged):
        read(bytes(len(content)))


def with_line(encoded: bytes) -> tuple[Stem, bytes]:
    stem = Stem(id=ID, size=4, crc=zlib.crc32(encoded), line=len(encoded))
    return stem, b"body" + encoded


KNOWN = {"sizes": [4], "crcs": [zlib.crc32(b"body")]}
FOREIGN = [
    b"x",
    b"[]",
    b"null",
    b'"text"',
    b"{",
    b"\xff",
    b"\n\xff\xfe{\x00}\x00\n",
    b'{"attributes":[]}',
    b'{"attributes":[["a","b"]]}',
    b'{"attributes":null}',
    b'{"attributes":{"a":1}}',
    b'{"attributes":{"a":null}}',
    b'{"attributes":{"a":["b"]}}',
    b'{"attributes":{"a":"\\ud800"}}',
    b'{"attributes":{"\\udfff":"b"}}',
    b'{"attributes":{"a":"\xed\xa0\x80"}}',
    b'{"binary_attributes":[]}',
    b'{"binary_attributes":{"a":1}}',
    b'{"binary_attributes":{"a":null}}',
    b'{"binary_attributes":{"a":"x"}}',
    b'{"binary_attributes":{"a":"\xc3\xa9"}}',
    b'{"binary_attributes":{"a":"AA==\\n"}}',
    b'{"binary_attributes":{"\\ud800":"AA=="}}',
    b"[" * 100_000,
    b'{"attributes":' * 100_000,
]


@pytest.mark.parametrize("foreign", FOREIGN, ids=lambda line: ascii(line[:40]))
def test_a_foreign_line_with_a_right_checksum_is_damage_and_nothing_worse(foreign: bytes) -> None:
    known = json.dumps(KNOWN).encode()[:-1] + b"," + foreign[1:] if foreign[:1] == b"{" else foreign
    stem, content = with_line(known)
    with pytest.raises(Damaged):
        decode(stem, content, len(content))


@given(
    st.binary(min_size=1) | st.text(min_size=1).map(lambda text: json.dumps({"sizes": text}).encode())
)
def test_a_line_of_garbage_is_damage_and_nothing_worse(garbage: bytes) -> None:
    stem, content = with_line(garbage)
    with pytest.raises(Damaged):
        decode(stem, content, len(content))


def test_fields_of_a_later_version_are_ignored_in_a_line() -> None:
    stem, content = with_line(
        json.dumps(KNOWN | {"attributes": {"0": {"a": "b"}}, "later": [1]}).encode()
    )
    line = decode(stem, content, len(content))
    assert line.attributes == {0: {"a": "b"}}
    assert body(line, content, 0) == b"body"


# Limits: checked before a byte is written.


@pytest.mark.parametrize("limit", [1, 5, MAX_MESSAGE_SIZE])
def test_a_body_may_have_exactly_the_limit(limit: int) -> None:
    check_content("q", limit, {}, limit)
    with pytest.raises(MessageTooLarge) as caught:
        check_content("q", limit + 1, {}, limit)
    assert caught.value.facts == {"queue": "q", "size": limit + 1, "limit": limit}


@pytest.mark.parametrize("value", ["v", b"v", "é", "\0"])
def test_attributes_may_have_exactly_the_limit_of_names_and_values(value: str | bytes) -> None:
    width = len(value.encode() if isinstance(value, str) else value)
    fits = {"nn": value * ((MAX_ATTRIBUTES_SIZE - 2) // width)}
    check_content("q", 0, fits, 0)
    with pytest.raises(AttributesTooLarge) as caught:
        check_content("q", 0, {**fits, "m": b"mm"}, 0)
    assert caught.value.facts == {"size": MAX_ATTRIBUTES_SIZE + 3, "limit": MAX_ATTRIBUTES_SIZE}


@pytest.mark.parametrize("name", ["", "n" * (MAX_ATTRIBUTE_NAME + 1), "é" * 129, "n" * 10_000_000])
def test_a_name_of_an_attribute_has_1_to_256_bytes(name: str) -> None:
    with pytest.raises(InvalidMessage, match="1 to 256"):
        check_content("q", 0, {name: "v"}, 0)
    check_content("q", 0, {"n" * MAX_ATTRIBUTE_NAME: "v", "é" * 128: b"", "n": ""}, 0)


@pytest.mark.parametrize("attributes", [{"\ud800": "v"}, {"n": "\udfff"}, {"n" * 10_000_000: "\ud800"}])
def test_half_a_surrogate_pair_is_refused_in_few_words(attributes: Attributes) -> None:
    with pytest.raises(InvalidMessage) as caught:
        check_content("q", 0, attributes, 0)
    assert "Unicode" in str(caught.value)
    assert len(str(caught.value)) < 1_000
