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
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final, TypeVar

import click
from spoolrack import MessageFacts, MessageState, QueueInfo, Redrive, Reservation, Schedule, StageInfo
from spoolrack_store.model.terminal_text import printable

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


def announce_stdin(what: str) -> None:
    """Print, if standard input is a terminal, that `what` is read from it, and how to end the input."""
    if sys.stdin.isatty():
        print_status(
            f"reading {what} from the terminal: Ctrl-D on a line of its own ends it, Ctrl-C cancels"
        )


def message_line(message: MessageFacts, queue: str | None = None) -> bytes:
    """Return a message as a line of JSON; bodies and attributes that aren't text are base64."""
    fields: dict[str, object] = {"id": message.id}
    if queue is not None:
        fields["queue"] = queue
    if message.is_body_left_out:
        fields["body"] = None
    else:
        try:
            fields["body"] = message.body.decode()
        except UnicodeDecodeError:
            fields["body_base64"] = base64.b64encode(message.body).decode()
    if message.path is not None:
        fields["body_path"] = str(message.path)
    fields["attributes"] = {k: v for k, v in message.attributes.items() if isinstance(v, str)}
    binary = binary_attributes(message)
    if binary:
        fields["binary_attributes"] = binary
    if message.group:
        fields["group"] = message.group
    if message.priority:
        fields["priority"] = message.priority
    fields["body_size"] = message.size
    fields["state"] = message.state.value
    fields["send_time"] = _moment(message.sent_at)
    fields["receive_count"] = message.receive_count
    fields["first_receive_time"] = _moment(message.first_received_at)
    if message.state is MessageState.DELAYED:
        fields["deliver_time"] = _moment(message.deliver_at)
    else:
        fields["lease_expire_time"] = _moment(message.lease_expires_at)
    if message.receipt:
        fields["receipt"] = message.receipt
    if message.dead_letter_records:
        fields["dead_letter_records"] = [
            {
                "source_queue": record.source_queue,
                "reason": record.reason,
                "receive_count": record.receive_count,
                "first_receive_time": _moment(record.first_received_at),
                "dead_letter_time": _moment(record.dead_lettered_at),
                "explanation": record.explanation,
                "redrive_queue": record.redrive_queue,
                "redrive_time": _moment(record.redriven_at),
            }
            for record in message.dead_letter_records
        ]
    return _UNPRINTABLE.sub(_escaped, json.dumps(fields, ensure_ascii=False)).encode() + b"\n"


def schedule_json(schedule: Schedule) -> str:
    """Return a schedule as a JSON object; bytes that aren't text are base64."""
    fields: dict[str, object] = {"queue": schedule.queue, "name": schedule.name}
    fields |= {"cron": schedule.cron, "time_zone": schedule.time_zone}
    try:
        fields["body"] = schedule.body.decode()
    except UnicodeDecodeError:
        fields["body_base64"] = base64.b64encode(schedule.body).decode()
    fields["attributes"] = {k: v for k, v in schedule.attributes.items() if isinstance(v, str)}
    fields["binary_attributes"] = {
        k: base64.b64encode(v).decode() for k, v in schedule.attributes.items() if isinstance(v, bytes)
    }
    fields |= {"group": schedule.group, "paused": schedule.paused}
    fields["create_time"] = _moment(schedule.created_at)
    fields["last_tick_time"] = _moment(schedule.last_tick_at)
    fields["next_tick_time"] = _moment(schedule.next_tick_at)
    return json.dumps(fields)


_UNPRINTABLE: Final = re.compile(r"[^\x20-\x7e]")


def _escaped(match: re.Match[str]) -> str:
    """Return a character as JSON escapes it, unless it can be shown as it is."""
    if match[0].isprintable():
        return match[0]
    return json.dumps(match[0])[1:-1].replace("\x7f", "\\u007f")


def binary_attributes(message: MessageFacts) -> dict[str, str]:
    return {
        name: base64.b64encode(value).decode()
        for name, value in message.attributes.items()
        if not isinstance(value, str)
    }


def queue_json(info: QueueInfo, indent: int | None = None) -> str:
    """Return a queue as a JSON object; spans are seconds."""
    blocking = info.blocking_message
    fields: dict[str, Any] = {
        "name": info.name,
        "create_time": _moment(info.created_at),
        "version": info.version,
        "settings": asdict(info.settings),
        "labels": dict(info.labels),
        "counts": {
            "ready_count": info.counts.ready_count,
            "leased_count": info.counts.leased_count,
            "delayed_count": info.counts.delayed_count,
            "byte_count": info.counts.byte_count,
            "oldest_age": info.counts.oldest_age,
        },
        "blocking_message": None
        if blocking is None
        else {
            "id": blocking.id,
            "receive_count": blocking.receive_count,
            "explanation": blocking.explanation,
        },
    }
    if info.obstacles:
        fields["obstacles"] = [asdict(each) for each in info.obstacles]
    if info.oldest_leases:
        fields["oldest_leases"] = [
            {
                "message_id": each.message_id,
                "message_count": each.message_count,
                "first_receive_time": _moment(each.first_received_at),
                "lease_expire_time": _moment(each.lease_expires_at),
                "receive_count": each.receive_count,
                "stream": each.stream,
                "consumer": each.consumer,
                "receive_time": _moment(each.received_at),
            }
            for each in info.oldest_leases
        ]
    return json.dumps(fields, indent=indent)


def stage_json(stage: StageInfo) -> str:
    """Return a stage as a JSON object."""
    return json.dumps(
        {
            "name": stage.name,
            "chunk_count": stage.chunk_count,
            "message_counts": dict(stage.message_counts),
            "expire_time": _moment(stage.expires_at),
        }
    )


def reservation_json(reservation: Reservation) -> str:
    """Return a reservation as a JSON object."""
    fields = {
        "queue": reservation.queue,
        "stream": reservation.stream,
        "sequence_number": reservation.sequence_number,
        "message_count": reservation.message_count,
        "byte_count": reservation.byte_count,
        "state": reservation.state,
        "read_count": reservation.read_count,
        "expire_time": _moment(reservation.expires_at),
    }
    return json.dumps(fields)


def redrive_json(redrive: Redrive) -> str:
    """Return a redrive as a JSON object."""
    fields = {
        "id": redrive.id,
        "queue": redrive.queue,
        "destination": redrive.destination,
        "source_queue": redrive.source_queue,
        "max_messages_per_second": redrive.max_messages_per_second,
        "state": redrive.state,
        "moved_count": redrive.moved_count,
        "failed_count": redrive.failed_count,
        "last_failure": redrive.last_failure,
        "remaining_count": redrive.remaining_count,
        "start_time": _moment(redrive.started_at),
        "end_time": _moment(redrive.ended_at),
    }
    return json.dumps(fields)


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="milliseconds")


def print_list(
    found: Sequence[T],
    to_json: Callable[[T], str] | None,
    table_of: Callable[[Sequence[T]], Sequence[str]],
) -> None:
    """Print a line of JSON for each item, or a table of all; nothing if there are none."""
    if to_json is not None:
        print_results(*map(to_json, found))
    elif found:
        print_results(*table_of(found))


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
