"""Parsing and formatting of times, sizes, texts, addresses and folders on the command line. Pure, but
for the command's clock.

A value that passes one of these types is one that the client can put into a request. Too large a
number, or a text that is not UTF-8, is refused here, under the name of its option.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import click
from spoolrack_store.model.message_content import MAX_DELAY
from spoolrack_store.model.names import is_word
from spoolrack_store.model.reservation_requests import MAX_STREAM_NAME
from spoolrack_store.model.settings import (
    MAX_BYTES,
    MAX_COUNT,
    MAX_VISIBILITY,
    SCHEMA,
    Setting,
    SettingKind,
)
from spoolrack_store.model.shards import parse_shard
from spoolrack_store.model.stage_requests import MAX_STAGE_NAME, MAX_WRITER_NAME

from .command_clock import current_time

if TYPE_CHECKING:
    _ParamType = click.ParamType[Any]
else:
    _ParamType = click.ParamType  # Not generic before click 8.5.

_SPAN: Final = re.compile(r"(?P<number>\d+(\.\d+)?)\s*(?P<unit>ms|s|m|h|d)?", re.ASCII)
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZE: Final = re.compile(
    r"(?P<number>\d+(\.\d+)?)\s*(?P<unit>[kmgt]?)(?P<binary>i?)b?", re.ASCII | re.IGNORECASE
)
_PART: Final = re.compile(r"0?\.\d+", re.ASCII)
_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_ADDRESS: Final = re.compile(
    r"(?:\[(?P<six>[0-9A-Fa-f:.%]+)\]|(?P<host>[^\s:\[\]/@]*)):(?P<port>[0-9]{1,5})"
)
LONGEST: Final = 100 * 365 * 86400.0
"""Seconds of the longest span if nothing else bounds it: 100 years, which every timer can wait for."""
_SHOWN: Final = 60
"""Characters of a refused value that an error repeats."""

COUNT: Final = click.IntRange(0, MAX_COUNT)
"""A number of messages, or of receives."""


class _Value(_ParamType):
    """A type whose `read` raises `ValueError` for a value that is refused."""

    def convert(
        self, value: Any, parameter: click.Parameter | None, context: click.Context | None
    ) -> Any:
        try:
            return self.read(value)
        except ValueError as error:
            self.fail(str(error), parameter)

    def read(self, value: Any) -> Any:
        raise NotImplementedError


class Span(_Value):
    """A span of time, in seconds."""

    name = "duration"

    def __init__(self, least: float = 0.0, most: float = LONGEST) -> None:
        self.least = least
        self.most = most

    def read(self, value: Any) -> float:
        if isinstance(value, int | float):
            seconds = value
        else:
            match = _SPAN.fullmatch(value.strip())
            if match is None:
                raise ValueError(
                    f"{quoted(value)} is not a span of time: write 250ms, 30s, 5m, 2h or 1d"
                )
            seconds = float(match["number"]) * _SECONDS[match["unit"] or "s"]
        if not self.least <= seconds <= self.most:
            raise ValueError(
                f"{quoted(value)} is not from {span_text(self.least)} to {span_text(self.most)}"
            )
        return float(seconds)


class Moment(_Value):
    """A moment; a span is one before now, or after now if it `is_ahead`."""

    name = "time"

    def __init__(self, *, is_ahead: bool = False) -> None:
        self.is_ahead = is_ahead

    def read(self, value: Any) -> datetime:
        if isinstance(value, datetime):
            return value
        text = value.strip()
        if text == "now":
            return current_time()
        span = _SPAN.fullmatch(text)
        if span is not None and span["unit"]:
            away = float(span["number"]) * _SECONDS[span["unit"]]
            if away > LONGEST:
                where = "ahead" if self.is_ahead else "ago"
                raise ValueError(f"{quoted(value)} is more than {span_text(LONGEST)} {where}")
            return current_time() + timedelta(seconds=away if self.is_ahead else -away)
        try:
            return datetime.fromisoformat(text).astimezone(UTC)
        except (ValueError, OverflowError) as error:
            raise ValueError(
                f"{quoted(value)} is not a time: write 2026-11-23T10:00Z, or 2h for "
                f"{'in two hours' if self.is_ahead else 'two hours ago'}"
            ) from error


class Size(_Value):
    """A size in bytes; k, M and G are powers of 1024, as in ls -h."""

    name = "size"

    def __init__(self, least: int = 0, most: int = MAX_BYTES) -> None:
        self.least = least
        self.most = most

    def read(self, value: Any) -> int:
        if isinstance(value, int | float):
            size = value
        else:
            match = _SIZE.fullmatch(value.strip())
            if match is None:
                raise ValueError(f"{quoted(value)} is not a size: write 4096, 64k, 10M or 2G")
            size = float(match["number"]) * 1024 ** _POWERS[match["unit"].lower()]
        if not self.least <= size <= self.most:
            raise ValueError(
                f"{quoted(value)} is not from {size_text(self.least)} to {size_text(self.most)}"
            )
        return int(size)


class Text(_Value):
    """A text, in UTF-8. An empty one is refused: it is mostly a variable that was not set."""

    name = "text"

    def __init__(self, *, may_be_empty: bool = False, any_bytes: bool = False) -> None:
        """`any_bytes`: the argument stays bytes, as `os.fsencode` has them."""
        self.may_be_empty = may_be_empty
        self.any_bytes = any_bytes

    def read(self, value: Any) -> str:
        text = str(value)
        if not text and not self.may_be_empty:
            raise ValueError("it is empty: give a value, or leave it out")
        if "\0" in text:
            raise ValueError(f"{quoted(text)} has a NUL character")
        if not self.any_bytes and not is_utf8(text):
            raise ValueError(f"{quoted(text)} is not UTF-8")
        return text


class Label(_Value):
    """A name and a text, with "=" between them."""

    name = "name=text"

    def __init__(self, what: str = "label", example: str = "team=checkout") -> None:
        self._what = what
        self._example = example

    def read(self, value: Any) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        name, equals, text = Text().read(value).partition("=")
        if not name or not equals:
            raise ValueError(f"{quoted(value)} is not a {self._what}: write {self._example}")
        return name, text


class Word(_Value):
    """A name that becomes part of a file's name: letters, digits, '_' and '-'."""

    name = "name"

    def __init__(self, most: int) -> None:
        self.most = most

    def read(self, value: Any) -> str:
        if not is_word(value, self.most):
            raise ValueError(
                f"{quoted(value)} is not a name of 1 to {self.most} letters, digits, '_' and '-'"
            )
        return str(value)


class FilePath(Text):
    """A file's name, which may be any bytes."""

    name = "file"

    def __init__(self) -> None:
        super().__init__(any_bytes=True)


class FolderPath(FilePath):
    """A folder, which may be missing."""

    name = "dir"


class Watermark(_Value):
    """A part of the memory, as a float below 1; or a size in bytes; or None for "off"."""

    name = "part|size|off"

    def read(self, value: Any) -> float | int | None:
        if value is None or isinstance(value, int | float):
            return value
        text = value.strip()
        if text == "off":
            return None
        if _PART.fullmatch(text) and float(text) > 0:
            return float(text)
        match = _SIZE.fullmatch(text)
        if match is None or not match["unit"] or float(match["number"]) == 0:
            raise ValueError(f"{value!r} is no watermark: write 0.5, 2G or off")
        return int(float(match["number"]) * 1024 ** _POWERS[match["unit"].lower()])


class ShardNumber(_Value):
    """A shard, as its number and their count."""

    name = "number/count"

    def read(self, value: Any) -> str:
        return str(parse_shard(value))


class Account(_Value):
    """An account of Amazon, as SQS shows it."""

    name = "account"

    def read(self, value: Any) -> str:
        if not re.fullmatch("[0-9]{12}", value):
            raise ValueError(f"{quoted(value)} is no account: it must be 12 digits")
        return str(value)


class Address(_Value):
    """An address to listen on: a host and a port."""

    name = "host:port"

    def read(self, value: Any) -> tuple[str, int] | None:
        match = _ADDRESS.fullmatch(value.strip())
        host = None if match is None else match["six"] or match["host"] or "0.0.0.0"
        if match is None or host is None or int(match["port"]) > 65535 or not _may_be_a_host(host):
            raise ValueError(f"{quoted(value)} is not an address: write 127.0.0.1:50051 or [::1]:50051")
        return host, int(match["port"])


def _may_be_a_host(host: str) -> bool:
    """Return whether a resolver can be asked for the host."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return True


VISIBILITY: Final = Span(0.001, MAX_VISIBILITY / 1_000)
DELAY: Final = Span(0, MAX_DELAY / 1_000)
STAGE: Final = Word(MAX_STAGE_NAME)
STREAM: Final = Word(MAX_STREAM_NAME)
WRITER: Final = Word(MAX_WRITER_NAME)


def setting_type(setting: Setting) -> click.ParamType[Any]:
    """Return the type of the values of a queue's setting."""
    match setting.kind:
        case SettingKind.SPAN:
            return Span(setting.least / 1_000, setting.most / 1_000)
        case SettingKind.COUNT:
            return click.IntRange(setting.least, setting.most)
        case SettingKind.RATE:
            return click.FloatRange(setting.least / 1_000, setting.most / 1_000)
        case SettingKind.SIZE:
            return Size(setting.least, setting.most)
        case SettingKind.CHOICE:
            return click.Choice(setting.choices)
        case SettingKind.QUEUE:
            return Text(may_be_empty=True)


SETTING_TYPES: Final = {setting.name: setting_type(setting) for setting in SCHEMA.values()}


def is_utf8(text: str) -> bool:
    """Return whether a text of the command line was UTF-8: Python passes other bytes as surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def quoted(value: object) -> str:
    """Return a refused value for an error: printable, and not too long."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def span_text(seconds: float) -> str:
    """Return a span as `Span` reads it, if it has one unit; else in the two largest."""
    if seconds < 1:
        return f"{round(seconds * 1000)}ms" if seconds else "0s"
    whole = round(seconds)
    if whole < 10 and whole != seconds:
        return f"{seconds:.1f}s"
    parts = []
    for unit in ("d", "h", "m", "s"):
        count, whole = divmod(whole, int(_SECONDS[unit]))
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2])


def age_text(moment: datetime, now: datetime) -> str:
    """Return the span from a moment to now; none if it is ahead."""
    return span_text(max(0.0, (now - moment).total_seconds()))


def left_text(moment: datetime, now: datetime) -> str:
    """Return the span from now to a moment; none if it has passed."""
    return age_text(now, moment)


def size_text(size: int) -> str:
    if size < 1024:
        return f"{size} B"
    number = float(size)
    for unit in ("KiB", "MiB", "GiB"):
        number /= 1024
        if number < 1024:
            return f"{number:.1f} {unit}"
    return f"{number / 1024:.1f} TiB"


def moment_text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def plural(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"
