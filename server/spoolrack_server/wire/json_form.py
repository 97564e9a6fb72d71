"""JSON of HTTP: the contract's messages, by one rule.

A field has its name in the contract. A time is text (RFC 3339), a span a number of seconds, a choice
its word in lower case. Bytes that are text are `body`, others `binary_body` in base64; attributes are
`attributes` and `binary_attributes`. An optional field that is absent is left out, in a part of an
object it is null. A map is in the order of its names: protobuf's own changes. Pure.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import Any, Final

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from spoolrack.v1.queue_pb2 import Attribute
from spoolrack_store.model.clock import Millis

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TOO_LARGE: Final = "sequence_number"
"""A number that a script may be unable to count to: text."""


def rendered(message: Message, *, without: Collection[str] = ()) -> dict[str, Any]:
    """Return a message as JSON, `without` some of its fields."""
    return _object(message, without, is_part=False)


def time_text(moment: Millis) -> str:
    """Return a Unix time in RFC 3339's format, in UTC, with milliseconds."""
    text = (_EPOCH + timedelta(milliseconds=moment)).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def _object(message: Message, without: Collection[str], *, is_part: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, is_optional, render in _fields(message.DESCRIPTOR):
        if name in without:
            continue
        if is_optional and not message.HasField(name):
            if is_part:
                found[name] = None
            continue
        value = getattr(message, name)
        if name == "attributes":
            found |= _attributes(value)
        elif name == "body":
            found |= _body(value)
        else:
            found[name] = value if render is None else render(value)
    return found


@cache
def _fields(kind: Any) -> Sequence[tuple[str, bool, Callable[[Any], Any] | None]]:
    """Return the name of each field, whether it can be absent, and how its value is rendered; None: as
    it is."""
    return [(field.name, field.has_presence, _renderer(field)) for field in kind.fields]


def _renderer(field: Any) -> Callable[[Any], Any] | None:
    if field.enum_type is not None:
        names = {value.number: value.name for value in field.enum_type.values}
        prefix = names[0].removesuffix("UNSPECIFIED")
        return {n: name.removeprefix(prefix).lower() for n, name in names.items()}.__getitem__
    if field.message_type is None:
        return str if field.name == _TOO_LARGE else None
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
