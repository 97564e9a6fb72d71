"""The output of messages and tables: the only place that prints.

Messages go to standard output unbuffered, so that a message is known to be written before it is
deleted. Terminal escapes: unprintable characters of texts from outside (a body, an attribute, a name,
an error) are escaped. Only bodies stay as they are where no terminal shows them.
"""

from __future__ import annotations

import base64
import json
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any, Final, TypeVar

import click
from spoolrack import Attributes, MessageFacts, MessageState, QueueInfo, Schedule
from spoolrack.errors import Timeout, Unreachable
from spoolrack_store.model.terminal_text import printable

from .exit_codes import OK, UNAVAILABLE

PROGRAM: Final = "spoolrack"
T = TypeVar("T")


class Output:
    """Standard output, without a buffer in between."""

    def __init__(self) -> None:
        sys.stdout.flush()
        self._file = sys.stdout.fileno()
        self._is_file = stat.S_ISREG(os.fstat(self._file).st_mode)
        self._is_terminal = os.isatty(self._file)

    def write(self, content: bytes) -> None:
        """Return once all of it was taken; raise `BrokenPipeError` if the reader is gone."""
        left = memoryview(content)
        while left:
            left = left[os.write(self._file, left) :]

    def write_body(self, body: bytes, *, is_only: bool) -> None:
        """Write a body and a line feed. A single one is written to a file or a pipe as it is.

        At a terminal all but tabs and line feeds is escaped.
        """
        if self._is_terminal:
            text = body.decode(errors="backslashreplace")
            body = "".join(c if c in "\t\n" else printable(c) for c in text).encode()
        self.write(body if is_only and not self._is_terminal else body + b"\n")

    def sync(self) -> None:
        """Return once the output is on stable media, if it goes to a file."""
        if self._is_file:
            os.fsync(self._file)


def print_results(*lines: str) -> None:
    """Print results, each on one line."""
    for line in lines:
        click.echo(printable(line))


def print_status(line: str) -> None:
    """Print a status for the user, beside the results."""
    sys.stderr.write(f"{PROGRAM}: {printable(line)}\n")
    sys.stderr.flush()


def print_empty(line: str) -> None:
    """Print, if standard output is a terminal, that there are no results: a user sees nothing else."""
    if sys.stdout.isatty():
        print_status(line)


def announce_stdin(what: str) -> None:
    """Print, if standard input is a terminal, that `what` is read from it, and how to end the input."""
    if sys.stdin.isatty():
        print_status(
            f"reading {what} from the terminal: Ctrl-D on a line of its own ends it, Ctrl-C cancels"
        )


def message_line(message: MessageFacts, queue: str | None = None) -> bytes:
    """Return a message as a line of JSON; bodies and attributes that aren't text are base64."""
    entries: dict[str, object] = {"id": message.id}
    if queue is not None:
        entries["queue"] = queue
    entries |= {"body": None} if message.is_body_left_out else _body(message.body)
    if message.path is not None:
        entries["body_path"] = str(message.path)
    entries["attributes"] = text_attributes(message.attributes)
    binary = binary_attributes(message.attributes)
    if binary:
        entries["binary_attributes"] = binary
    if message.group:
        entries["group"] = message.group
    if message.priority:
        entries["priority"] = message.priority
    entries["body_size"] = message.body_size
    entries["state"] = message.state.value
    entries["send_time"] = _moment(message.sent_at)
    entries["receive_count"] = message.receive_count
    entries["first_receive_time"] = _moment(message.first_received_at)
    if message.state is MessageState.DELAYED:
        entries["deliver_time"] = _moment(message.deliver_at)
    else:
        entries["lease_expire_time"] = _moment(message.lease_expires_at)
    if message.receipt:
        entries["receipt"] = message.receipt
    if message.dead_letter_records:
        entries["dead_letter_records"] = [_fields_of(record) for record in message.dead_letter_records]
    return _UNPRINTABLE.sub(_escaped, json.dumps(entries, ensure_ascii=False)).encode() + b"\n"


def schedule_json(schedule: Schedule) -> str:
    """Return a schedule as a JSON object; bytes that aren't text are base64."""
    entries = _fields_of(schedule)
    entries |= {"attributes": text_attributes(schedule.attributes), **_body(entries.pop("body"))}
    return json.dumps(entries | {"binary_attributes": binary_attributes(schedule.attributes)})


def _body(body: bytes) -> dict[str, str]:
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"binary_body": base64.b64encode(body).decode()}


_UNPRINTABLE: Final = re.compile(r"[^\x20-\x7e]")


def _escaped(match: re.Match[str]) -> str:
    """Return a character as JSON escapes it, unless it can be shown as it is."""
    if match[0].isprintable():
        return match[0]
    return json.dumps(match[0])[1:-1].replace("\x7f", "\\u007f")


def text_attributes(attributes: Attributes) -> dict[str, str]:
    return {name: value for name, value in attributes.items() if isinstance(value, str)}


def binary_attributes(attributes: Attributes) -> dict[str, str]:
    """Return the attributes that aren't text, in base64."""
    return {
        name: base64.b64encode(value).decode()
        for name, value in attributes.items()
        if not isinstance(value, str)
    }


def queue_json(info: QueueInfo, indent: int | None = None) -> str:
    """Return a queue as a JSON object; spans are seconds."""
    blocking = info.blocking_message
    entries: dict[str, Any] = {
        "name": info.name,
        "create_time": _moment(info.created_at),
        "version": info.version,
        "settings": asdict(info.settings),
        "labels": dict(info.labels),
        "counts": asdict(info.counts),
        "blocking_message": None if blocking is None else asdict(blocking),
    }
    if info.obstacles:
        entries["obstacles"] = [asdict(each) for each in info.obstacles]
    if info.oldest_leases:
        entries["oldest_leases"] = [_fields_of(each) for each in info.oldest_leases]
    if info.shard:
        entries["shard"] = info.shard
    return json.dumps(entries, indent=indent)


_TIMES: Final = {
    "created_at": "create_time",
    "dead_lettered_at": "dead_letter_time",
    "ended_at": "end_time",
    "expires_at": "expire_time",
    "first_received_at": "first_receive_time",
    "last_tick_at": "last_tick_time",
    "lease_expires_at": "lease_expire_time",
    "next_tick_at": "next_tick_time",
    "received_at": "receive_time",
    "redriven_at": "redrive_time",
    "started_at": "start_time",
}
"""Names of times in the contract."""


def record_json(record: Any) -> str:
    """Return a stage, a reservation or a redrive as a JSON object."""
    return json.dumps(_fields_of(record))


def _fields_of(record: Any) -> dict[str, Any]:
    """Return the fields of a value of the client, by their names in the contract."""
    names = [each.name for each in fields(record) if not each.name.startswith("_")]
    values = {name: getattr(record, name) for name in names}
    return {
        _TIMES.get(name, name): _moment(value)
        if name in _TIMES
        else dict(value)
        if isinstance(value, Mapping)
        else value
        for name, value in values.items()
    }


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="milliseconds")


def print_list(
    items: Iterable[T],
    to_json: Callable[[T], str] | None,
    table_of: Callable[[Sequence[T]], Sequence[str]],
    away: Sequence[str] = (),
) -> int:
    """Print a line of JSON for each item, or a table of all; for none a status, at a terminal only.
    Return the exit code: with shards, what could be listed is printed first, and then a line for each
    that is `away`."""
    found, more_away = read_list(items)
    away = [*away, *more_away]
    if to_json is not None:
        print_results(*map(to_json, found))
    elif found:
        print_results(*table_of(found))
    elif not away:
        print_empty("nothing to list")
    for line in away:
        print_status(line)
    return UNAVAILABLE if away else OK


def read_list(items: Iterable[T]) -> tuple[list[T], list[str]]:
    """Return the items of a list, and a line for each shard that is away."""
    listing: list[T] = []
    try:
        for item in items:
            listing.append(item)
    except (Timeout, Unreachable) as error:
        if "shard" not in error.metadata:
            raise
        return listing, [printable(line) for line in str(error).splitlines()]
    return listing, []


def columns(
    headers: Sequence[str], rows: Sequence[Sequence[str]], *, right: frozenset[int]
) -> list[str]:
    """Return rows under headers, in columns, a line each; those in `right` end at one edge."""
    table = [headers, *([printable(cell) for cell in row] for row in rows)]
    widths = [max(len(row[at]) for row in table) for at in range(len(headers))]
    return [
        "  ".join(
            cell.rjust(width) if at in right else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]
