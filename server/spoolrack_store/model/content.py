"""A message file's bytes: the body from offset 0, then the trailer, where there is one.

    content = body [ LF json LF ]

The trailer is one line of JSON, so that `cat` shows the body and `tail -n 1` the attributes. The name
says how long it is (`,m`); nothing in the body is escaped or searched. Pure.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from .errors import AttributesTooLarge, InvalidMessage, MessageTooLarge
from .names import Entry
from .settings import MAX_ATTRIBUTES, MAX_ATTRIBUTES_SIZE

Attributes = Mapping[str, str | bytes]

MAX_ATTRIBUTE_NAME = 256
"""Bytes of UTF-8 of an attribute's name."""


class NotTheContent(ValueError):
    """The bytes are not those that the name speaks of; `torn` says that some are only missing."""

    def __init__(self, why: str, *, torn: bool = False) -> None:
        super().__init__(why)
        self.torn = torn


@dataclass(frozen=True, slots=True)
class Content:
    body: bytes
    attributes: Attributes = field(default_factory=dict)


def check(queue: str, body: bytes, attributes: Attributes, max_message_size: int) -> None:
    """Raise the error that a message of this content deserves, before a byte of it is written."""
    if len(body) > max_message_size:
        raise MessageTooLarge(queue=queue, size=len(body), limit=max_message_size)
    if len(attributes) > MAX_ATTRIBUTES:
        raise InvalidMessage(why=f"it has {len(attributes)} attributes, and may have {MAX_ATTRIBUTES}")
    size = 0
    for name, value in attributes.items():
        try:
            encoded = name.encode()
            size += len(encoded) + len(value.encode() if isinstance(value, str) else value)
        except UnicodeEncodeError as error:
            raise InvalidMessage(why=f"the attribute {name[:50]!r} is not valid Unicode") from error
        if not 1 <= len(encoded) <= MAX_ATTRIBUTE_NAME:
            raise InvalidMessage(
                why=f"an attribute's name has {len(encoded)} bytes, and must have 1 to "
                f"{MAX_ATTRIBUTE_NAME}"
            )
    if size > MAX_ATTRIBUTES_SIZE:
        raise AttributesTooLarge(size=size, limit=MAX_ATTRIBUTES_SIZE)


def trailer_of(attributes: Attributes) -> bytes:
    if not attributes:
        return b""
    text = {name: value for name, value in attributes.items() if isinstance(value, str)}
    binary = {
        name: base64.b64encode(value).decode()
        for name, value in attributes.items()
        if not isinstance(value, str)
    }
    parts: dict[str, object] = {}
    if text:
        parts["attributes"] = text
    if binary:
        parts["binary_attributes"] = binary
    return b"\n" + json.dumps(parts, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def checksum(body: bytes, trailer: bytes) -> int:
    return zlib.crc32(trailer, zlib.crc32(body))


def parse(entry: Entry, raw: bytes) -> Content:
    """The message in `raw`; raises `NotTheContent` if size or checksum differ from the name's."""
    check_sums(entry, len(raw), zlib.crc32(raw))
    if not entry.trailer:
        return Content(raw)
    return Content(raw[: entry.size], attributes_in(raw[entry.size or 0 :]))


def check_sums(entry: Entry, length: int, crc: int) -> None:
    """Raise `NotTheContent` if a file of this length and checksum isn't what its name says."""
    if length != entry.length:
        raise NotTheContent(
            f"it has {length} bytes instead of {entry.length}", torn=length < entry.length
        )
    if crc != entry.crc:
        raise NotTheContent("its checksum differs")


def attributes_in(trailer: bytes) -> Attributes:
    """What a trailer says; raises `NotTheContent` if it can't be read."""
    try:
        return _attributes_in(trailer.decode()) if trailer else {}
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise NotTheContent(f"its trailer can't be read: {error}") from error


def _attributes_in(trailer: str) -> Attributes:
    # The checksum says that these are the bytes that were written, not that it was us who wrote them.
    parts = json.loads(trailer)
    attributes: dict[str, str | bytes] = {}
    for name, text in parts.get("attributes", {}).items():
        (name + text).encode()  # a half of a surrogate pair has no UTF-8
        attributes[name] = text
    for name, coded in parts.get("binary_attributes", {}).items():
        name.encode()
        attributes[name] = base64.b64decode(coded, validate=True)
    return attributes
