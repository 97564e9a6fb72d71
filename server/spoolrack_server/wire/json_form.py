"""JSON of HTTP: the contract's messages, by one rule in both directions.

A field has its name in the contract. A time is text (RFC 3339), a span a number of seconds, a choice
its word in lower case. Bytes that are text are `body`, others `binary_body` in base64; attributes are
`attributes` and `binary_attributes`. An optional field that is absent is left out, in a part of an
object it is null. A map is in the order of its names: protobuf's own changes. A request may have its
numbers, spans and lists as text, too, as queries have them. Pure.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache, partial
from math import ceil
from typing import Any, Final, TypeVar

from google.api import field_behavior_pb2
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from spoolrack.v1.queue_pb2 import Attribute
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import InvalidRequest

from . import convert

Request = TypeVar("Request", bound=Message)

_WHOLE: Final = re.compile(r"-?[0-9]{1,19}")
_SECONDS: Final = re.compile(r"[0-9]{1,12}(\.[0-9]{1,30})?")
_FLAGS: Final[Mapping[bool | str, bool]] = {True: True, False: False, "true": True, "false": False}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TOO_LARGE: Final = frozenset({"sequence_number", "lost_sequence_numbers"})
"""Numbers that a script may be unable to count to: text."""


def rendered(message: Message, *, without: Collection[str] = ()) -> dict[str, Any]:
    """Return a message as JSON, `without` some of its fields."""
    return _object(message, without, is_part=False)


def time_text(moment: Millis) -> str:
    """Return a Unix time in RFC 3339's format, in UTC, with milliseconds."""
    text = (_EPOCH + timedelta(milliseconds=moment)).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def moment_in(text: str) -> Millis:
    """Return the Unix time of a text in RFC 3339's format; raise `ValueError`."""
    found = datetime.fromisoformat(text)
    if found.tzinfo is None or not found >= _EPOCH:
        raise ValueError(text)
    # Rounded up: a message must not appear before its time.
    return Millis(-((_EPOCH - found) // timedelta(milliseconds=1)))


def span_in(text: str) -> Millis:
    """Return the milliseconds of a text in seconds, with as many decimals as a float has; raise
    `ValueError`."""
    if not _SECONDS.fullmatch(text):
        raise ValueError(text)
    return _rounded_up(Decimal(text))


def span_of(seconds: float) -> Millis:
    """Return the milliseconds of a number of seconds, with the decimals that it is written with."""
    return _rounded_up(Decimal(str(seconds)))


def _rounded_up(seconds: Decimal) -> Millis:
    # A span of less than a millisecond must not become none.
    return Millis(ceil(seconds * 1_000))


def _object(message: Message, without: Collection[str], *, is_part: bool) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for name, is_optional, render in _fields(message.DESCRIPTOR):
        if name in without:
            continue
        if is_optional and not message.HasField(name):
            if is_part:
                content[name] = None
            continue
        value = getattr(message, name)
        if name == "attributes":
            content |= _attributes(value)
        elif name == "body":
            content |= _body(value)
        else:
            content[name] = value if render is None else render(value)
    return content


@cache
def _fields(kind: Any) -> Sequence[tuple[str, bool, Callable[[Any], Any] | None]]:
    """Return the name of each field, whether it can be absent, and how its value is rendered; None: as
    it is."""
    return [(field.name, field.has_presence, _renderer(field)) for field in kind.fields]


def _renderer(field: Any) -> Callable[[Any], Any] | None:
    if field.enum_type is not None:
        return convert.words_of(field.enum_type).__getitem__
    if field.message_type is None:
        value = str if field.name in _TOO_LARGE else None
        return partial(_values, value) if field.is_repeated else value
    if field.message_type.GetOptions().map_entry:
        return lambda values: dict(sorted(values.items()))
    if field.is_repeated:
        return lambda values: [_object(each, (), is_part=True) for each in values]
    match field.message_type.full_name:
        case "google.protobuf.Timestamp":
            return lambda value: time_text(_millis(value))
        case "google.protobuf.Duration":
            return lambda value: _millis(value) / 1_000
    return partial(_object, without=(), is_part=True)


def _values(render: type[str] | None, values: Iterable[Any]) -> list[Any]:
    return list(values if render is None else map(render, values))


def _millis(value: Timestamp | Duration) -> Millis:
    return Millis(value.seconds * 1_000 + value.nanos // 1_000_000)


def _body(body: bytes) -> dict[str, str]:
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"binary_body": b64encode(body).decode()}


def _attributes(attributes: Mapping[str, Attribute]) -> dict[str, dict[str, str]]:
    texts, binaries = {}, {}
    for name, attribute in sorted(attributes.items()):
        if attribute.WhichOneof("value") == "string_value":
            texts[name] = attribute.string_value
        else:
            binaries[name] = b64encode(attribute.binary_value).decode()
    return {"attributes": texts, "binary_attributes": binaries}


def parsed(
    content: Mapping[str, Any], kind: type[Request], *, without: Collection[str] = ()
) -> Request:
    """Return the request that JSON or a query states, `without` some of its fields; raise
    `InvalidRequest`, which names the field."""
    readers = {name: each for name, each in _readers(kind.DESCRIPTOR).items() if name not in without}
    fields: dict[str, Any] = {}
    for name, value in content.items():
        if name not in readers:
            rule = f"must be one of {', '.join(sorted(readers))}"
            raise InvalidRequest(what="the field", value=name, rule=rule)
        field, read, rule = readers[name]
        try:
            meant = read(value)
            kind(**{field: meant})  # Protobuf knows the bounds of its numbers.
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise InvalidRequest(what=name, value=str(value), rule=rule) from error
        before = fields.get(field)
        if before is None:
            fields[field] = meant
        elif isinstance(before, dict) and before.keys().isdisjoint(meant):
            fields[field] = before | meant
        else:
            raise InvalidRequest(what=name, value="twice", rule=f"goes without its like in {field}")
    return kind(**fields)


@cache
def _readers(kind: Any) -> Mapping[str, tuple[str, Callable[[Any], Any], str]]:
    """Return by its name in JSON each field that a request sets, how its value is read, and the rule
    for that."""
    readers: dict[str, tuple[str, Callable[[Any], Any], str]] = {}
    for field in kind.fields:
        behavior = field.GetOptions().Extensions[field_behavior_pb2.field_behavior]
        if field_behavior_pb2.OUTPUT_ONLY in behavior:
            continue
        readers[field.name] = (field.name, *_reader(field))
        if field.name == "body":
            readers["binary_body"] = "body", _bytes, "must be base64"
        elif field.name == "attributes":
            rule = "must be an object of texts in base64"
            readers["binary_attributes"] = "attributes", _binary_attributes, rule
    return readers


def _reader(field: Any) -> tuple[Callable[[Any], Any], str]:
    if field.name == "body":
        return _encoded, "must be a text of Unicode"
    if field.name == "attributes":
        return _text_attributes, "must be an object of texts"
    if field.is_repeated:
        read, rule = _reader_of_one(field)
        return partial(_list, read), f"must be a list, and each of it {rule}"
    return _reader_of_one(field)


def _reader_of_one(field: Any) -> tuple[Callable[[Any], Any], str]:
    if field.enum_type is not None:
        words = {word: number for number, word in convert.words_of(field.enum_type).items() if number}
        return words.__getitem__, f"must be of {', '.join(words)}"
    if field.message_type is not None:
        if field.message_type.full_name == "google.protobuf.Timestamp":
            return _timestamp, "must be one time with its zone, such as 2026-12-24T18:00:00Z"
        return _duration, "must be a number of seconds"
    match field.cpp_type:
        case field.CPPTYPE_STRING:
            return _text, "must be a text"
        case field.CPPTYPE_BOOL:
            return _flag, "must be true or false"
    return _whole, "must be a whole number"


def _list(read: Callable[[Any], Any], value: Any) -> list[Any]:
    values = value.split(",") if isinstance(value, str) else value
    if not isinstance(values, list):
        raise TypeError
    return [read(each) for each in values]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _encoded(value: Any) -> bytes:
    return _text(value).encode()


def _bytes(value: Any) -> bytes:
    return b64decode(_text(value), validate=True)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool | str):
        raise TypeError
    return _FLAGS[value]


def _whole(value: Any) -> int:
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError
    return value


def _duration(value: Any) -> Duration:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError
    millis = span_in(value) if isinstance(value, str) else span_of(value)
    return convert.duration(millis)


def _timestamp(value: Any) -> Timestamp:
    return convert.timestamp(moment_in(_text(value)))


def _text_attributes(values: Any) -> dict[str, Attribute]:
    return {name: Attribute(string_value=_text(value)) for name, value in values.items()}


def _binary_attributes(values: Any) -> dict[str, Attribute]:
    return {name: Attribute(binary_value=_bytes(value)) for name, value in values.items()}
