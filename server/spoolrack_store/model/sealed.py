"""Sealed files: a line, of JSON or of text, and a line with its CRC-32. Pure.

So a file is told apart that a crash has torn, of which nothing was ever answered, from one that was
damaged later: that one counts as lost, never as if it had not been written.

A `SealedRecord` says in its annotations how each field lies in the file:

    since: Annotated[Millis, StoredAs(number(LAST_MOMENT), key="died_at_ms")]
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from functools import cache
from typing import Any, Final, Self, TypeVar, get_type_hints
from zlib import crc32

_BLOCK: Final = 512
"""Bytes that a disk writes whole or not at all."""
_Value = TypeVar("_Value")


class NotWhole(ValueError):
    """The content is not that of a sealed file, as it was written."""


class Torn(NotWhole):
    """The end of the file was never written: a crash came before it was durable, so no answer depends
    on it."""


def seal(values: Mapping[str, object]) -> bytes:
    return seal_text(json.dumps(values, separators=(",", ":")))


def seal_text(text: str) -> bytes:
    """Return a sealed file with a line of text."""
    line = text.encode() + b"\n"
    return line + _checksum(line)


def unseal(content: bytes) -> dict[str, object]:
    """Return the values that were sealed; raise `NotWhole`, or `Torn` if a part is missing."""
    line = unseal_text(content)
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise NotWhole(str(error)) from error
    if not isinstance(values, dict):
        raise NotWhole("not a JSON object")
    return values


def unseal_text(content: bytes) -> str:
    """Return the line of a sealed file without its line feed; raise `NotWhole`, or `Torn`."""
    line, end, checksum = content.partition(b"\n")
    if end and checksum == _checksum(line + end):
        return line.decode(errors="replace")
    if _is_torn(content):
        raise Torn("it was never written whole")
    raise NotWhole("its checksum is not that of its content")


def _is_torn(content: bytes) -> bool:
    """Return whether a crash may have left this of a sealed file: a part from its beginning, or zeros
    where the disk has not written."""
    blocks = (content[at : at + _BLOCK] for at in range(0, len(content), _BLOCK))
    if content.endswith(b"\0") or not all(map(any, blocks)):
        return True
    line, end, checksum = content.partition(b"\n")
    if not line.decode("latin-1").isprintable():
        return False
    if not end:
        return True
    if not checksum and content.endswith(_checksum(line[:-_CHECKSUM_LINE] + b"\n")):
        return False  # Both lines are there, but for the line feed between them.
    return _checksum(line + end).startswith(checksum)


_CHECKSUM_LINE: Final = 9
"""Bytes of the checksum and of the line feed before it."""


def _checksum(line: bytes) -> bytes:
    return f"{crc32(line):08x}\n".encode()


@dataclass(frozen=True, slots=True)
class StoredAs:
    """How a field of a record lies in the file."""

    read: Callable[[Any], Any]
    """Returns the value of what JSON has there; raises `ValueError`, or what a wrong type raises."""
    key: str = ""
    """Its name there; empty: that of the field."""
    write: Callable[[Any], object] | None = None
    """Returns what JSON has; None: the value itself."""
    is_left_out: bool = False
    """Whether the default isn't written. A record that lacks it has the default in any case."""


class SealedRecord:
    """The base of a dataclass whose fields have `StoredAs` annotations."""

    __slots__ = ()

    @classmethod
    @cache
    def _stored(cls) -> list[tuple[Field[Any], str, StoredAs]]:
        """Return the fields, their names in the file, and how they lie there."""
        hints = get_type_hints(cls, include_extras=True)
        found: list[tuple[Field[Any], str, StoredAs]] = []
        for field in fields(cls):  # type: ignore[arg-type]  # each class below is a dataclass
            (stored,) = hints[field.name].__metadata__
            found.append((field, stored.key or field.name, stored))
        return found

    def encode(self) -> bytes:
        return seal(self.values())

    @classmethod
    def decode(cls, content: bytes) -> Self:
        """Return the record in a sealed file; raise `NotWhole`."""
        return cls.of(unseal(content))

    def values(self) -> dict[str, object]:
        """Return what JSON has of the record, in the order of its fields."""
        values: dict[str, object] = {}
        for field, key, stored in self._stored():
            value = getattr(self, field.name)
            if not (stored.is_left_out and value == field.default):
                values[key] = stored.write(value) if stored.write else value
        return values

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Return the record of what JSON has; raise `NotWhole`."""
        return cls(
            **{
                field.name: value_in(values, key, stored.read)
                for field, key, stored in cls._stored()
                if field.init and (key in values or field.default is MISSING)
            }
        )


def value_in(values: Mapping[str, Any], key: str, read: Callable[[Any], _Value]) -> _Value:
    """Return a member of a JSON object; raise `NotWhole` if it is missing, or `read` refuses it."""
    try:
        return read(values[key])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NotWhole(f"its {key} is {values.get(key)!r}") from error


def number(most: int | None = None) -> Callable[[Any], Any]:
    """Return a reader of numbers from 0 on, up to `most`."""

    def read(value: Any) -> int:
        if type(value) is not int or value < 0 or (most is not None and value > most):
            raise ValueError("not such a number")
        return value

    return read


def text(is_valid: Callable[[str], bool]) -> Callable[[Any], str]:
    """Return a reader of valid texts."""

    def read(value: Any) -> str:
        if not isinstance(value, str) or not is_valid(value):
            raise ValueError("not such a text")
        return value

    return read


def optional(read: Callable[[Any], _Value]) -> Callable[[Any], _Value | None]:
    """Return a reader that takes null for None."""
    return lambda value: None if value is None else read(value)


def list_of(
    read: Callable[[Any], _Value], most: int | None = None
) -> Callable[[Any], tuple[_Value, ...]]:
    """Return a reader of lists, of up to `most` items."""

    def read_all(value: Any) -> tuple[_Value, ...]:
        if not isinstance(value, list) or (most is not None and len(value) > most):
            raise ValueError("not such a list")
        return tuple(map(read, value))

    return read_all
