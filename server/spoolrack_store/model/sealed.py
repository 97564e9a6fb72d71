"""Sealed files: a line of JSON, and a line with its CRC-32, so that a torn file is recognised. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final, TypeVar
from zlib import crc32

_LINES: Final = 2
_Item = TypeVar("_Item")


class NotWhole(ValueError):
    """The content is not that of a sealed file, as it was written."""


class Torn(NotWhole):
    """The end of the file was never written: a crash came before it was durable, so no answer depends
    on it."""


def seal(values: Mapping[str, object]) -> bytes:
    line = json.dumps(values, separators=(",", ":")).encode() + b"\n"
    return line + _checksum(line)


def unseal(content: bytes) -> dict[str, object]:
    """Return the values that were sealed; raise `NotWhole`, or `Torn` if a part is missing."""
    line, end, checksum = content.partition(b"\n")
    line += end
    if content.count(b"\n") < _LINES or not content.endswith(b"\n"):
        raise Torn("it was never written whole")
    if checksum != _checksum(line):
        raise NotWhole("its checksum is not that of its content")
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise NotWhole(str(error)) from error
    if not isinstance(values, dict):
        raise NotWhole("not a JSON object")
    return values


def number_in(values: Mapping[str, object], name: str, most: int | None = None) -> int:
    """Return a number from 0 on, up to `most`; raise `NotWhole` if there is none."""
    value = values.get(name)
    if type(value) is not int or value < 0 or (most is not None and value > most):
        raise NotWhole(f"its {name} is {value!r}")
    return value


def text_in(values: Mapping[str, object], name: str, is_valid: Callable[[str], bool]) -> str:
    """Return a valid text; raise `NotWhole` if there is none."""
    value = values.get(name)
    if not isinstance(value, str) or not is_valid(value):
        raise NotWhole(f"its {name} is {value!r}")
    return value


def list_in(
    values: Mapping[str, object], name: str, kind: type[_Item], is_valid: Callable[[_Item], bool]
) -> tuple[_Item, ...]:
    """Return a list of valid items of one type; raise `NotWhole` if there is none."""
    items = values.get(name)
    if not isinstance(items, list) or not all(type(item) is kind and is_valid(item) for item in items):
        raise NotWhole(f"its {name} are {items!r}")
    return tuple(items)


def _checksum(line: bytes) -> bytes:
    return f"{crc32(line):08x}\n".encode()
