"""A message file's bytes: what was written reads back, and any damage shows."""

from __future__ import annotations

import base64
import json
import zlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from spoolrack_store.model.content import (
    MAX_ATTRIBUTE_NAME,
    Attributes,
    Content,
    NotTheContent,
    check,
    checksum,
    parse,
    trailer_of,
)
from spoolrack_store.model.errors import AttributesTooLarge, InvalidMessage, MessageTooLarge
from spoolrack_store.model.names import Entry
from spoolrack_store.model.settings import MAX_ATTRIBUTES_SIZE, MAX_MESSAGE_SIZE

ID = "0190b0c0-1234-7abc-8def-0123456789ab"

texts = st.text(st.characters(codec="utf-8"), max_size=20)
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
attributes = st.dictionaries(names, texts | st.binary(max_size=20), max_size=5)
bodies = st.binary(max_size=60)


def entry_of(body: bytes, trailer: bytes) -> Entry:
    return Entry(id=ID, size=len(body), crc=checksum(body, trailer), trailer=len(trailer))


@given(bodies, attributes)
@example(b"", {})
@example(b"", {"a": ""})
@example(b"\n{}\n", {"a": b""})
@example(b'x\n{"attributes":{"a":"b"}}\n', {"a": '\n\r\0\u2028\x85"\\'})
@example(b"\0" * 50, {"\0": b"\0", "\n": "\n"})
@example(b"", {"\U0010ffff" * 64: "\U0010ffff"})
def test_a_message_reads_back_as_it_was_written(body: bytes, attributes: Attributes) -> None:
    check("q", body, attributes, len(body))
    trailer = trailer_of(attributes)
    assert parse(entry_of(body, trailer), body + trailer) == Content(body, attributes)


@given(attributes)
def test_texts_and_bytes_keep_their_types(attributes: Attributes) -> None:
    trailer = trailer_of(attributes)
    read = parse(entry_of(b"x", trailer), b"x" + trailer).attributes
    assert {name: type(value) for name, value in read.items()} == {
        name: type(value) for name, value in attributes.items()
    }


@given(bodies)
def test_without_attributes_the_file_is_the_body_and_nothing_else(body: bytes) -> None:
    assert trailer_of({}) == b""
    assert parse(entry_of(body, b""), body) == Content(body, {})


@given(bodies, attributes.filter(bool))
def test_the_last_line_of_the_file_is_the_attributes(body: bytes, attributes: Attributes) -> None:
    file = body + trailer_of(attributes)
    before, last, end = file.rsplit(b"\n", 2)
    assert (before, end) == (body, b"")
    assert set(json.loads(last)) <= {"attributes", "binary_attributes"}


def test_the_form_of_a_trailer_never_drifts() -> None:
    assert (
        trailer_of({"b": b"\x00\xff", "a": "é\n"})
        == '\n{"attributes":{"a":"é\\n"},"binary_attributes":{"b":"AP8="}}\n'.encode()
    )


@given(bodies, attributes)
def test_the_checksum_is_that_of_the_whole_file(body: bytes, attributes: Attributes) -> None:
    trailer = trailer_of(attributes)
    assert checksum(body, trailer) == zlib.crc32(body + trailer)


# Damage.

damaged = pytest.mark.parametrize(
    ("body", "attributes"),
    [
        (b"", {}),
        (b"hello", {}),
        (b"", {"a": "b"}),
        (b"hello\n", {"text": "é", "bytes": b"\0\1"}),
        (b"\0" * 20, {}),
    ],
    ids=["empty", "body", "attributes", "both", "zeros"],
)


@damaged
def test_any_single_byte_changed_is_detected(body: bytes, attributes: Attributes) -> None:
    trailer = trailer_of(attributes)
    file = body + trailer
    for at in range(len(file)):
        for byte in range(256):
            if byte != file[at]:
                with pytest.raises(NotTheContent) as caught:
                    parse(entry_of(body, trailer), file[:at] + bytes([byte]) + file[at + 1 :])
                assert not caught.value.torn


@damaged
def test_any_truncation_is_detected_and_called_torn(body: bytes, attributes: Attributes) -> None:
    trailer = trailer_of(attributes)
    file = body + trailer
    for length in range(len(file)):
        with pytest.raises(NotTheContent) as caught:
            parse(entry_of(body, trailer), file[:length])
        assert caught.value.torn


@damaged
def test_anything_appended_is_detected_and_not_called_torn(body: bytes, attributes: Attributes) -> None:
    trailer = trailer_of(attributes)
    for more in (b"\0", b"\n", b"x" * 5_000):
        with pytest.raises(NotTheContent) as caught:
            parse(entry_of(body, trailer), body + trailer + more)
        assert not caught.value.torn


@pytest.mark.parametrize("size", [4, 6])
def test_a_wrong_size_is_damage_also_where_the_checksum_is_right(size: int) -> None:
    with pytest.raises(NotTheContent, match=f"5 bytes instead of {size}"):
        parse(Entry(id=ID, size=size, crc=zlib.crc32(b"12345")), b"12345")


@given(st.binary(min_size=1, max_size=60), attributes)
def test_a_file_of_zeros_in_the_right_length_is_detected(body: bytes, attributes: Attributes) -> None:
    trailer = trailer_of(attributes)
    zeros = bytes(len(body + trailer))
    if body + trailer != zeros:
        with pytest.raises(NotTheContent):
            parse(entry_of(body, trailer), zeros)


def test_a_file_that_waits_for_its_adoption_has_no_content_yet() -> None:
    for raw in (b"", b"x"):
        with pytest.raises(NotTheContent):
            parse(Entry(id=ID), raw)


FOREIGN_TRAILERS = [
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


@pytest.mark.parametrize("trailer", FOREIGN_TRAILERS, ids=lambda trailer: ascii(trailer[:40]))
def test_a_foreign_trailer_with_a_right_checksum_is_damage_and_nothing_worse(trailer: bytes) -> None:
    with pytest.raises(NotTheContent) as caught:
        parse(entry_of(b"body", trailer), b"body" + trailer)
    assert not caught.value.torn


@given(
    st.binary(min_size=1)
    | st.text(min_size=1).map(lambda text: json.dumps({"attributes": text}).encode())
)
def test_a_trailer_of_garbage_is_damage_and_nothing_worse(trailer: bytes) -> None:
    try:
        content = parse(entry_of(b"body", trailer), b"body" + trailer)
    except NotTheContent:
        return
    assert content.body == b"body"
    assert all(isinstance(value, str | bytes) for value in content.attributes.values())


def test_what_a_later_version_adds_to_a_trailer_is_passed_over() -> None:
    trailer = b'\n{"attributes":{"a":"b"},"later":[1]}\n'
    assert parse(entry_of(b"", trailer), trailer) == Content(b"", {"a": "b"})


# Limits: checked before a byte is written.


@pytest.mark.parametrize("limit", [1, 5, MAX_MESSAGE_SIZE])
def test_a_body_may_have_exactly_the_limit(limit: int) -> None:
    check("q", bytes(limit), {}, limit)
    with pytest.raises(MessageTooLarge) as caught:
        check("q", bytes(limit + 1), {}, limit)
    assert caught.value.facts == {"queue": "q", "size": limit + 1, "limit": limit}


@pytest.mark.parametrize("value", ["v", b"v", "é", "\0"])
def test_attributes_may_have_exactly_the_limit_of_names_and_values(value: str | bytes) -> None:
    width = len(value.encode() if isinstance(value, str) else value)
    fits = {"nn": value * ((MAX_ATTRIBUTES_SIZE - 2) // width)}
    check("q", b"", fits, 0)
    with pytest.raises(AttributesTooLarge) as caught:
        check("q", b"", {**fits, "m": b"mm"}, 0)
    assert caught.value.facts == {"size": MAX_ATTRIBUTES_SIZE + 3, "limit": MAX_ATTRIBUTES_SIZE}
    trailer = trailer_of(fits)
    assert parse(entry_of(b"", trailer), trailer).attributes == fits


@pytest.mark.parametrize("name", ["", "n" * (MAX_ATTRIBUTE_NAME + 1), "é" * 129, "n" * 10_000_000])
def test_a_name_of_an_attribute_has_1_to_256_bytes(name: str) -> None:
    with pytest.raises(InvalidMessage, match="1 to 256"):
        check("q", b"", {name: "v"}, 0)
    check("q", b"", {"n" * MAX_ATTRIBUTE_NAME: "v", "é" * 128: b"", "n": ""}, 0)


@pytest.mark.parametrize("attributes", [{"\ud800": "v"}, {"n": "\udfff"}, {"n" * 10_000_000: "\ud800"}])
def test_half_a_surrogate_pair_is_refused_in_few_words(attributes: Attributes) -> None:
    with pytest.raises(InvalidMessage) as caught:
        check("q", b"", attributes, 0)
    assert "Unicode" in str(caught.value)
    assert len(str(caught.value)) < 1_000


@given(bodies, attributes)
def test_the_largest_trailer_fits_the_six_digits_that_its_name_has_room_for(
    body: bytes, attributes: Attributes
) -> None:
    worst: list[Attributes] = [
        {"\0" * 256: "\0" * (MAX_ATTRIBUTES_SIZE - 256)},
        {f"{number:03x}": b"" for number in range(16**3)},
        {"b": bytes(MAX_ATTRIBUTES_SIZE - 1)},
        {chr(first) + chr(second): "" for first in range(32) for second in range(1024)},
    ]
    for some in (*worst, attributes):
        assert len(trailer_of(some)) < 1_000_000
    assert base64.b64decode(base64.b64encode(body)) == body
