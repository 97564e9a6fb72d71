"""The portable archive: queues and their messages as lines of JSON, written and read as a stream.

    {"type":"archive","format":"spoolrack archive 1","id":UUID,"time":MOMENT,"crc32":SUM}
    {"type":"queue","name":NAME,"settings":{...},"crc32":SUM}            all queues first
    {"type":"message","number":1,"queue":NAME,...,"crc32":SUM}           numbered from 1
    {"type":"end","messages":COUNT,"crc32":SUM}

SUM is the CRC-32 (zlib's) of the line's bytes before `,"crc32"`, in 8 hexadecimal digits. Pure, but for
the file that it is handed; one message is in memory at a time. docs/how-to/import-export.md has every
field.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import zlib
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from functools import partial
from math import isfinite
from types import NoneType
from typing import Any, BinaryIO, Final, cast
from uuid import UUID

from spoolrack import Message, QueueInfo, Settings

from ...kit.exit_codes import BAD_CONTENT, Failed
from ...kit.output import binary_attributes, text_attributes
from ...kit.units import plural
from .sources import ArchivedSchedule, Item, SourceQueue

FORMAT: Final = "spoolrack archive 1"
_TAIL: Final = re.compile(rb',"crc32":"([0-9a-f]{8})"}\n')
_TAIL_LENGTH: Final = len(b',"crc32":"00000000"}\n')
_LONGEST: Final = 256 * 1024 * 1024
"""Bytes that no line of ours reaches: of the largest body, with all that JSON escapes."""
_SCALARS: Final = (str, int, float, NoneType)
_MISMATCHES: Final = (KeyError, TypeError, ValueError, AttributeError)
"""Errors of a line that has a checksum and fields of another format."""
_CONTROLS: Final = bytes(n for n in range(32) if n not in b"\n\r\t")


def sealed(fields: Mapping[str, object]) -> bytes:
    """Return a line with its checksum."""
    head = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()[:-1]
    return head + b',"crc32":"%08x"}\n' % zlib.crc32(head)


def beginning(
    id: str,
    time: str,
    queues: Sequence[QueueInfo],
    schedules: Mapping[str, Sequence[ArchivedSchedule]],
) -> Iterator[bytes]:
    yield sealed({"type": "archive", "format": FORMAT, "id": id, "time": time})
    for info in queues:
        more: dict[str, object] = {"labels": dict(info.labels)} if info.labels else {}
        if schedules[info.name]:
            more["schedules"] = [_schedule_fields(each) for each in schedules[info.name]]
        yield sealed({"type": "queue", "name": info.name, "settings": asdict(info.settings), **more})


def _schedule_fields(schedule: ArchivedSchedule) -> dict[str, object]:
    named = ("name", "cron", "time_zone", "group", "paused")
    return {
        **{name: getattr(schedule, name) for name in named},
        **_attribute_fields(schedule.attributes),
        **_body(schedule.body),
    }


def _read_schedule(fields: Mapping[str, Any]) -> ArchivedSchedule:
    return ArchivedSchedule(
        name=_text(fields["name"]),
        cron=_text(fields["cron"]),
        time_zone=_text(fields["time_zone"]),
        group=_text(fields["group"]),
        paused=bool(fields["paused"]),
        attributes=_read_attributes(fields),
        body=_read_body(fields),
    )


def _attribute_fields(attributes: Mapping[str, str | bytes]) -> dict[str, object]:
    found = {
        "attributes": text_attributes(attributes),
        "binary_attributes": binary_attributes(attributes),
    }
    return {name: values for name, values in found.items() if values}


def message_line(number: int, message: Message) -> bytes:
    fields: dict[str, object] = {
        "type": "message",
        "number": number,
        "queue": message.queue_name,
        "id": message.id,
        "send_time": message.sent_at.isoformat(timespec="milliseconds"),
        "receive_count": message.receive_count,
    }
    if message.deliver_at is not None:
        fields["visible_at"] = message.deliver_at.isoformat(timespec="milliseconds")
    if message.group:
        fields["group"] = message.group
    if message.priority:
        fields["priority"] = message.priority
    return sealed(fields | _attribute_fields(message.attributes) | _body(message.body))


def ending(messages: int) -> bytes:
    return sealed({"type": "end", "messages": messages})


def _body(body: bytes) -> dict[str, object]:
    """Return a body as text if it is readable text, and else as base64, which then takes less room."""
    controls = len(body) - len(body.translate(None, _CONTROLS))
    if controls * 16 <= len(body):
        try:
            return {"body": body.decode()}
        except UnicodeDecodeError:
            pass  # Bytes, then.
    return {"body_base64": base64.b64encode(body).decode()}


def _read_body(fields: Mapping[str, Any]) -> bytes:
    text: str | None = fields.get("body")
    return _bytes(fields["body_base64"]) if text is None else text.encode()


def _read_attributes(fields: Mapping[str, Any]) -> dict[str, str | bytes]:
    binaries = fields.get("binary_attributes", {})
    return {
        **_texts(fields.get("attributes", {})),
        **{name: _bytes(value) for name, value in binaries.items()},
    }


class ExportArchive:
    """An archive as a source: read once, from its beginning to its end."""

    def __init__(self, file: BinaryIO, label: str, *, length: int | None, queue: str | None) -> None:
        """Read as far as the first message. `label` names the file in errors, and `queue` is another
        name for its queue, if there is but one. Raises `Failed` if it is no archive."""
        self._file = file
        self._label = label
        self.length = length
        self._lines = 0
        self._line_length = 0
        self._read = 0
        """Messages."""
        self._fault: Failed | None = None
        first = self._next()
        if first is None or first.get("format") != FORMAT:
            raise self._fault or self._broken("is not an archive that this version can read")
        try:
            # It becomes a file's name, and a part of every message's origin.
            self.name = f"archive:{UUID(first['id'])}"
            self.queues: dict[str, SourceQueue] = {}
            self._first = self._next()
            while self._first is not None and self._first.get("type") == "queue":
                self.queues[_text(self._first["name"])] = _read_queue(self._first)
                self._first = self._next()
        except _MISMATCHES as error:
            raise self._mismatch() from error
        self._renamed = self._rename(queue)

    def items(self) -> Iterator[Item]:
        fields, self._first = self._first, None
        while fields is not None:
            if fields.get("type") == "end":
                self._finish(fields)
                return
            try:
                item = self._item(fields)
            except _MISMATCHES:
                self._fault = self._mismatch()
                return
            self._read += 1
            yield item
            fields = self._next()

    def check(self) -> None:
        if self._fault is not None:
            raise self._fault

    def remove(self, items: Sequence[Item]) -> int:
        return 0

    def remove_rest(self, done_keys: Container[str]) -> bool:
        return False

    def _rename(self, queue: str | None) -> dict[str, str]:
        if queue is None:
            return {}
        if len(self.queues) != 1:
            raise self._broken(f"has {len(self.queues)} queues, and --queue is for one")
        (old,) = self.queues
        self.queues = {queue: self.queues[old]}
        return {old: queue}

    def _next(self) -> dict[str, Any] | None:
        """Return the next line; None if there is none that is whole: `check` then raises the reason."""
        line = self._file.readline(_LONGEST)
        self._lines += 1
        self._line_length = len(line)
        head, tail = line[:-_TAIL_LENGTH], _TAIL.fullmatch(line[-_TAIL_LENGTH:])
        if not line:
            self._fault = self._broken("has no end, something is missing")
        elif tail is None and not line.endswith(b"\n") and len(line) < _LONGEST:
            self._fault = self._broken(f"ends in the middle of line {self._lines}")
        elif tail is None or zlib.crc32(head) != int(tail[1], 16):
            what = "is not an archive" if self._lines == 1 else f"line {self._lines} is damaged"
            self._fault = self._broken(what)
        else:
            try:
                fields = json.loads(head + b"}")
            except (ValueError, RecursionError):
                fields = None
            if isinstance(fields, dict):
                return fields
            self._fault = self._mismatch()
        return None

    def _item(self, fields: dict[str, Any]) -> Item:
        number = self._read + 1
        if fields["type"] != "message" or str(fields["number"]) != str(number):
            raise ValueError(fields["type"])
        queue = self._renamed.get(fields["queue"], fields["queue"])
        if queue not in self.queues:
            raise ValueError(queue)
        visible_at = fields.get("visible_at")
        return Item(
            key=str(number),
            queue=queue,
            length=self._line_length,
            read=partial(bytes, _read_body(fields)),
            attributes=_read_attributes(fields),
            group=_text(fields.get("group", "")),
            priority=int(fields.get("priority", 0)),
            visible_at=None if visible_at is None else _millis(visible_at),
        )

    def _finish(self, fields: dict[str, Any]) -> None:
        if fields.get("messages") != self._read:
            self._fault = self._broken("says it has another number of messages")
        elif self._file.read(1):
            self._fault = self._broken(f"has more after its end in line {self._lines}")

    def _broken(self, what: str) -> Failed:
        after = f", after {plural(self._read, 'whole message')}" if self._read else ""
        return Failed(f"{self._label} {what}{after}", BAD_CONTENT)

    def _mismatch(self) -> Failed:
        return self._broken(f"line {self._lines} is not what an archive says")


def _read_queue(fields: Mapping[str, Any]) -> SourceQueue:
    return SourceQueue(
        settings=_settings(fields["settings"]),
        labels=_texts(fields.get("labels", {})),
        schedules=list(map(_read_schedule, fields.get("schedules", []))),
    )


def _settings(fields: dict[str, object]) -> Settings:
    # A setting of a later version is passed over, as in a settings file.
    known = {name: value for name, value in fields.items() if name in Settings.__annotations__}
    for name, value in known.items():
        if not isinstance(value, _SCALARS) or (isinstance(value, float) and not isfinite(value)):
            raise ValueError(name)
    return cast(Settings, known)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _texts(fields: dict[str, object]) -> dict[str, str]:
    return {name: _text(value) for name, value in fields.items()}


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(text) from error


def _millis(moment: str) -> int:
    return round(datetime.fromisoformat(moment).timestamp() * 1_000)
