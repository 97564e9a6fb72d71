"""Times, sizes, addresses and folders as people write and read them. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    _ParamType = click.ParamType[Any]
else:
    _ParamType = click.ParamType  # Not generic before click 8.5.

_SPAN: Final = re.compile(r"(?P<number>\d+(\.\d+)?)\s*(?P<unit>ms|s|m|h|d)?", re.ASCII)
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZE: Final = re.compile(
    r"(?P<number>\d+(\.\d+)?)\s*(?P<unit>[kmgt]?)(?P<binary>i?)b?", re.ASCII | re.IGNORECASE
)
_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_ADDRESS: Final = re.compile(
    r"(?:\[(?P<six>[0-9A-Fa-f:.%]+)\]|(?P<host>[^\s:\[\]/@]*)):(?P<port>[0-9]{1,5})"
)


class Span(_ParamType):
    """A span of time, in seconds."""

    name = "duration"

    def convert(
        self, value: Any, parameter: click.Parameter | None, context: click.Context | None
    ) -> float:
        if isinstance(value, int | float):
            return float(value)
        match = _SPAN.fullmatch(value.strip())
        if match is None:
            self.fail(f"{value!r} is not a span of time: write 250ms, 30s, 5m, 2h or 1d", parameter)
        return float(match["number"]) * _SECONDS[match["unit"] or "s"]


class Size(_ParamType):
    """A size in bytes; k, M and G are powers of 1024, as in ls -h."""

    name = "size"

    def convert(
        self, value: Any, parameter: click.Parameter | None, context: click.Context | None
    ) -> int:
        if isinstance(value, int):
            return value
        match = _SIZE.fullmatch(value.strip())
        if match is None:
            self.fail(f"{value!r} is not a size: write 4096, 64k, 10M or 2G", parameter)
        return int(float(match["number"]) * 1024 ** _POWERS[match["unit"].lower()])


class Address(_ParamType):
    """Where to listen: a host and a port."""

    name = "host:port"

    def convert(
        self, value: Any, parameter: click.Parameter | None, context: click.Context | None
    ) -> tuple[str, int] | None:
        match = _ADDRESS.fullmatch(value.strip())
        if match is None or int(match["port"]) > 65535:
            self.fail(f"{value!r} is not an address: write 127.0.0.1:50051 or [::1]:50051", parameter)
        return match["six"] or match["host"] or "0.0.0.0", int(match["port"])


class Folder(_ParamType):
    """A folder, which need not be there. An empty name is a variable that somebody forgot to set."""

    name = "dir"

    def convert(
        self, value: Any, parameter: click.Parameter | None, context: click.Context | None
    ) -> str:
        if not value:
            self.fail("'' is no folder: name one, or leave the option out", parameter)
        return str(value)


def span_text(seconds: float) -> str:
    """A span as `Span` reads it, if it has one unit; else in the two largest."""
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


def printable(text: str | bytes) -> str:
    """Text that does a terminal no harm: what isn't printable is escaped."""
    if isinstance(text, bytes):
        text = text.decode(errors="backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def plural(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"
