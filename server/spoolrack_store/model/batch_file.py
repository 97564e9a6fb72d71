"""The content of a batch file: the bodies back to back, and behind them one line of JSON about the
messages.

    content = *body [ LF json LF ]

The line has columns, each with a value for each message: `sizes` and `crcs` (CRC-32, zlib's) always,
`attributes`, `binary_attributes` (base64) and `keys` by the message's index as text where a message has
any, and `groups` by name, each with its members as names spell them. A lone message without
attributes and group has no line: its name says its size and CRC.

A body in a file of its own (`names.body_path`) leaves the line alone in the message's file. Its CRC is
null if the body was linked from elsewhere, and never read. Pure.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from .members import from_text, indexes, runs, to_text
from .message_content import Attributes, size_of
from .names import Stem

_BLOCK = 512
"""Bytes that a disk writes whole."""


class Damaged(ValueError):
    """The bytes don't match the name."""


@dataclass(slots=True)
class Line:
    """A file's line about its messages, by index."""

    sizes: Sequence[int]
    crcs: Sequence[int | None]
    """None: of a body that was never read."""
    attributes: Mapping[int, Attributes] = field(default_factory=dict)
    keys: Mapping[int, str] = field(default_factory=dict)
    """Deduplication keys."""
    groups: Mapping[str, int] = field(default_factory=dict)
    """The members of each group."""
    is_external: bool = False
    """Whether the only body is in a file of its own."""
    starts: Sequence[int] = ()
    """Where each body begins; the end of the last one follows."""

    def __post_init__(self) -> None:
        self.starts = [0, *accumulate(self.sizes)]

    def group_of(self, index: int) -> str:
        """Return the group of a message; "" if it has none."""
        return next((name for name, members in self.groups.items() if members >> index & 1), "")

    def bytes_of(self, members: int) -> int:
        return sum(self.starts[last + 1] - self.starts[first] for first, last in runs(members))

    def attribute_bytes_of(self, members: int) -> int:
        if not self.attributes:
            return 0
        return sum(
            size_of(attributes) for index, attributes in self.attributes.items() if members >> index & 1
        )


def line_of(
    bodies: Sequence[bytes],
    attributes: Mapping[int, Attributes],
    keys: Mapping[int, str],
    groups: Mapping[int, str] | None = None,
) -> Line:
    members: dict[str, int] = {}
    for index, group in (groups or {}).items():
        members[group] = members.get(group, 0) | 1 << index
    return Line(
        list(map(len, bodies)),
        list(map(zlib.crc32, bodies)),
        attributes,
        keys,
        groups=members,
    )


def encode(line: Line) -> bytes:
    """Return the line that follows the bodies; nothing for a lone message that needs none."""
    if len(line.sizes) == 1 and not (line.attributes or line.groups or line.is_external):
        return b""
    parts: dict[str, object] = {"sizes": line.sizes, "crcs": line.crcs}
    text: dict[int, dict[str, str]] = {}
    binary: dict[int, dict[str, str]] = {}
    for index, attributes in line.attributes.items():
        for name, value in attributes.items():
            if isinstance(value, str):
                text.setdefault(index, {})[name] = value
            else:
                binary.setdefault(index, {})[name] = base64.b64encode(value).decode()
    if text:
        parts["attributes"] = text
    if binary:
        parts["binary_attributes"] = binary
    if line.keys and len(line.sizes) > 1:
        parts["keys"] = line.keys
    if line.groups:
        parts["groups"] = {name: to_text(members) for name, members in line.groups.items()}
    return b"\n" + json.dumps(parts, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def checksum(line: Line, encoded: bytes) -> int:
    """Return the CRC-32 in a name: of the line, or of the body if there is no line."""
    return zlib.crc32(encoded) if encoded else line.crcs[0] or 0


def stem_of(id: str, line: Line, encoded: bytes, *, priority: int = 0) -> Stem:
    """Return the stem of the names of a file with this line."""
    count = len(line.sizes)
    return Stem(
        id=id,
        count=0 if count == 1 else count,
        size=line.starts[-1],
        attributes=sum(map(size_of, line.attributes.values())),
        crc=checksum(line, encoded),
        line=len(encoded),
        key=(line.keys[0] if count == 1 else "") if line.keys else None,
        is_grouped=bool(line.groups),
        priority=priority,
        is_external=line.is_external,
    )


def is_torn(content: bytes) -> bool:
    """Return whether the end of a file of full size was never written: a power cut leaves zeros
    there."""
    return not any(content[(len(content) - 1) // _BLOCK * _BLOCK :])


def lone_line(stem: Stem) -> Line:
    """Return what the name of a lone file without a line says in place of it."""
    return Line([stem.size], [stem.crc], keys={0: stem.key} if stem.key else {})


def decode(stem: Stem, tail: bytes, length: int) -> Line:
    """Parse the line of a file of `length` bytes; `tail` is the line, or the whole file.

    Bytes behind the length that the name says have no meaning. Raise `Damaged` if the file is shorter
    than that, or the line is another one. The bodies' own checksums are for the reader of a body.
    """
    if length < stem.length:
        raise Damaged(f"it has {length} bytes instead of {stem.length}")
    if not stem.line:
        if stem.count:
            raise Damaged("a batch has no line of its messages")
        return lone_line(stem)
    encoded = tail[: stem.length][-stem.line :]
    if zlib.crc32(encoded) != stem.crc:
        raise Damaged("the checksum of its line differs")
    try:
        line = _decoded(json.loads(encoded))
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        # The checksum says that these bytes were written, not that a store wrote them.
        raise Damaged(f"its line can't be read: {error}") from error
    if (
        len(line.sizes) != (stem.count or 1)
        or len(line.crcs) != len(line.sizes)
        or sum(line.sizes) != stem.size
    ):
        raise Damaged("its line is about other messages")
    if bool(line.groups) != stem.is_grouped or any(
        members > stem.full for members in line.groups.values()
    ):
        raise Damaged("its groups are not those of its name")
    line.is_external = stem.is_external
    if None in line.crcs and not line.is_external:
        raise Damaged("it has no checksum")
    if stem.key:
        line.keys = {0: stem.key}
    return line


def body(line: Line, content: bytes, index: int) -> bytes:
    """Return the body with this index; raise `Damaged` if its checksum differs.

    `content` begins with the bodies: it is that of the body's own file, if it has one.
    """
    found = content[line.starts[index] : line.starts[index + 1]]
    if len(found) != line.sizes[index] or line.crcs[index] not in (None, zlib.crc32(found)):
        raise Damaged("its checksum differs")
    return found


def decode_whole(stem: Stem, content: bytes) -> Line:
    """Return what a file says of its messages; raise `Damaged` if it or a body in it isn't what was
    sent."""
    line = decode(stem, content, len(content))
    for index in () if line.is_external else indexes(stem.full):
        body(line, content, index)
    return line


def joined_bodies(line: Line, content: bytes, first: int, last: int) -> bytes:
    """Return the bodies from the index `first` to `last`, joined; raise `Damaged` if a checksum
    differs."""
    starts, crcs, view = line.starts, line.crcs, memoryview(content)
    for index in range(first, last + 1):
        if zlib.crc32(view[starts[index] : starts[index + 1]]) != crcs[index]:
            raise Damaged("its checksum differs")
    return content[starts[first] : starts[last + 1]]


def _decoded(parts: Mapping[str, object]) -> Line:
    attributes: dict[int, dict[str, str | bytes]] = {}
    for index, by_name in _mapping(parts.get("attributes", {})).items():
        for name, text in _mapping(by_name).items():
            (name + str(text)).encode()  # a half of a surrogate pair has no UTF-8
            attributes.setdefault(int(index), {})[name] = str(text)
    for index, by_name in _mapping(parts.get("binary_attributes", {})).items():
        for name, coded in _mapping(by_name).items():
            attributes.setdefault(int(index), {})[name] = base64.b64decode(str(coded), validate=True)
    keys = {int(index): str(key) for index, key in _mapping(parts.get("keys", {})).items()}
    groups = {name: from_text(str(text)) for name, text in _mapping(parts.get("groups", {})).items()}
    crcs = parts["crcs"]
    return Line(
        _numbers(parts["sizes"]),
        [None] if crcs == [None] else _numbers(crcs),
        attributes,
        keys,
        groups,
    )


def _mapping(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise TypeError("not an object")
    return value


def _numbers(value: object) -> list[int]:
    if not isinstance(value, list) or not all(type(each) is int and each >= 0 for each in value):
        raise TypeError("not a list of numbers")
    return value
