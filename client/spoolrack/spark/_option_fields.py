"""Options of data sources as fields of dataclasses: each with its name, its values and its default.

Spark hands options over as text, in any case. What can fail: an option that can't be what it is, or
whose name is nearly one of ours, is an `InvalidOption` that says which and what to do.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from ..errors import InvalidRequest

_NO_OFFSETS: Final = "a queue has no offsets, and a query takes what is ready. Leave it out"
KAFKAS: Final = {
    "kafka.bootstrap.servers": "use endpoint",
    "subscribe": "use queue",
    "subscribepattern": "use queue",
    "topic": "use queue",
    "maxoffsetspertrigger": "use maxMessagesPerTrigger",
    "minpartitions": "use numPartitions",
    "failondataloss": "use onLostReservation",
    "minoffsetspertrigger": "use minMessagesPerTrigger",
    "maxtriggerdelay": "use maxTriggerDelaySeconds",
    "startingoffsets": _NO_OFFSETS,
    "endingoffsets": _NO_OFFSETS,
    "startingtimestamp": _NO_OFFSETS,
    "endingtimestamp": _NO_OFFSETS,
    "startingoffsetsbytimestamp": _NO_OFFSETS,
    "endingoffsetsbytimestamp": _NO_OFFSETS,
    "assign": (
        "a queue has no partitions, and the option queue names what a query reads. Leave it out"
    ),
    "includeheaders": (
        "the column attributes is there unless the option columns says otherwise. Leave it out"
    ),
    "groupidprefix": "a query shares a queue without a group. Leave it out",
}
"""Options of Spark's source and sink of Kafka, in lower case, and what to do here."""


class InvalidOption(InvalidRequest, ValueError):
    """An option of the Spark data source is invalid."""


def option(name: str, default: Any, parse: Callable[..., Any], *values: Any) -> Any:
    """Return a dataclass's field that the option `name` fills: by `parse`, which is given the name, the
    text and the `values` that it may have."""
    return dataclasses.field(
        default=default, metadata={"name": name, "parse": lambda text: parse(name, text, *values)}
    )


def names_in(*kinds: type) -> tuple[str, ...]:
    """Return the names of the options that fill fields of dataclasses."""
    return tuple(
        field.metadata["name"] for kind in kinds for field in dataclasses.fields(kind) if field.metadata
    )


def values_in(kind: type, options: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of a dataclass's fields whose options are `given`."""
    return {
        field.name: field.metadata["parse"](options[field.metadata["name"].lower()])
        for field in dataclasses.fields(kind)
        if field.metadata and field.metadata["name"].lower() in options
    }


def known(options: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """Return the options by their names in small letters. Those that Spark adds are kept."""
    by_name = {name.lower(): value for name, value in options.items()}
    ours = {name.lower(): name for name in names}
    for name in by_name:
        if name in KAFKAS:
            raise InvalidOption(
                f"The option {name!r} is Kafka's: {KAFKAS[name]} (docs/how-to/spark.md)."
            )
        if name not in ours and (near := difflib.get_close_matches(name, ours, 1, 0.8)):
            raise InvalidOption(f"There is no option {name!r}: is it {ours[near[0]]}?")
    return by_name


def whole(name: str, text: str, least: int, most: int) -> int:
    text = text.strip()
    if not (text.isascii() and text.isdecimal() and least <= int(text) <= most):
        raise InvalidOption(f"{name} is {text!r}: it must be a whole number from {least} to {most}.")
    return int(text)


def partitions(name: str, text: str) -> int | None:
    """Return a number of tasks; None: as many as are worth their while."""
    return whole(name, text, 0, 10_000) or None


def seconds(name: str, text: str, least: float, most: float) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not least <= found <= most:
        raise InvalidOption(f"{name} is {text!r}: it must be from {least:g} to {most:g} seconds.")
    return found


def either(name: str, text: str, usual: str, other: str) -> bool:
    """Return whether the option is the `other` word."""
    word = text.lower()
    if word not in (usual, other):
        raise InvalidOption(f"{name} is {word!r}: it may be {usual!r} or {other!r}.")
    return word == other


def one_of(name: str, text: str, *among: str) -> str:
    word = text.lower()
    if word not in among:
        raise InvalidOption(f"{name} is {word!r}: it may be {' or '.join(map(repr, among))}.")
    return word


def words(name: str, text: str, *among: str) -> tuple[str, ...]:
    """Return words that commas divide, each once, and `among` these if there are any."""
    found = tuple(filter(None, map(str.strip, text.split(","))))
    if among and (others := [word for word in found if word not in among]):
        raise InvalidOption(f"{name} has {', '.join(others)}: it may have {', '.join(among)}.")
    if len(set(found)) < len(found):
        raise InvalidOption(f"{name} is {text!r}: each word may be there once.")
    return found


def moment(name: str, text: str) -> int | None:
    """Return a time in Unix milliseconds; None if there is none."""
    text = text.strip()
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
        if found.tzinfo is None:
            found = found.replace(tzinfo=UTC)
        return math.ceil(found.timestamp() * 1_000)
    except (ValueError, OverflowError) as error:
        raise InvalidOption(
            f"{name} is {text!r}: it must be a time as 2026-11-23T16:00:00, of UTC where "
            "it names no zone."
        ) from error
