"""A queue's settings: their defaults, their bounds, their form in a file.

Pure: what is valid by itself is decided here, what depends on other queues in `catalog`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Final

from .clock import DAY, HOUR, LAST_MOMENT, SECOND, Millis, span_text
from .errors import DamagedSettings, InvalidSetting
from .members import MOST
from .names import is_queue_name

MIB: Final = 1024 * 1024
MAX_VISIBILITY: Final = Millis(12 * HOUR)
MAX_DELAY: Final = Millis(365 * DAY)
MAX_RETENTION: Final = Millis(10 * 365 * DAY)
MAX_MESSAGE_SIZE: Final = 64 * MIB
MAX_ATTRIBUTES: Final = 1_000
"""Attributes of a message."""
MAX_ATTRIBUTES_SIZE: Final = 64 * 1024
"""Bytes of all attribute names and values of a message together, as sent."""
MAX_COUNT: Final = 1_000_000_000
MAX_BYTES: Final = 1 << 50
MAX_LABELS: Final = 64
MAX_LABEL_NAME: Final = 128
MAX_LABEL_VALUE: Final = 1_024
"""Characters."""
_SALT: Final = re.compile(r"[0-9a-z]{0,16}")
MIN_WINDOW: Final = Millis(SECOND)
MAX_WINDOW: Final = Millis(14 * DAY)
GROUP_ORDERS: Final = ("fair", "strict")
DEAD_LETTER_MOMENTS: Final = ("lease_end", "receive")
SPANS: Final = frozenset(
    {"visibility_timeout", "delivery_delay", "retention", "deduplication_window", "archive_retention"}
)
"""The settings that are spans of time, in milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """The settings of a queue. Zero means "no limit" wherever a limit is meant."""

    visibility_timeout: Millis = Millis(30 * SECOND)
    """How long a lease lasts, if the receive doesn't say; 1 ms to 12 hours."""
    delivery_delay: Millis = Millis(0)
    """How long a message is hidden after its send, if the send doesn't say; up to 365 days."""
    max_receives: int = 0
    """After so many receives without a delete a message goes to the dead-letter queue."""
    dead_letter_queue: str = ""
    retention: Millis = Millis(0)
    """Messages older than this are removed undelivered; counted from the send."""
    max_messages: int = 0
    """A send that would hold more messages than this in the queue, in any state, is refused."""
    max_bytes: int = 0
    """The same in bytes of bodies and attributes."""
    max_message_size: int = MIB
    """The largest body, in bytes; up to 64 MiB."""
    relaxed_leases: bool = False
    """Answer a receive, an extension or a release before it is on stable media: faster, and after a
    power loss such messages are ready again at once."""
    deduplication_window: Millis = Millis(300 * SECOND)
    """A deduplication id is remembered for so long after the send that first carried it; 1 second to
    14 days."""
    archive_retention: Millis = Millis(0)
    """How long the files of messages that have left the queue are kept in `archive/`; 0: not at all."""
    messages_per_file: int = 0
    """The most messages that a send writes as one file, up to 1,000; 0: no limit but that."""

    group_order: str = "fair"
    """"fair": groups of messages take turns, and each is received in the order of its sends. "strict":
    besides, a group has only one receive's messages leased at a time."""
    dead_letter_at: str = "lease_end"
    """"lease_end": a message goes to the dead-letter queue when its last lease ends. "receive": it
    stays in the queue until the next receive would lease it, as with Amazon SQS."""

    def __post_init__(self) -> None:
        if self.group_order not in GROUP_ORDERS:
            raise InvalidSetting(
                name="group_order",
                value=self.group_order,
                rule=f"must be one of {', '.join(GROUP_ORDERS)}",
            )
        if self.dead_letter_at not in DEAD_LETTER_MOMENTS:
            raise InvalidSetting(
                name="dead_letter_at",
                value=self.dead_letter_at,
                rule=f"must be one of {', '.join(DEAD_LETTER_MOMENTS)}",
            )
        _within("visibility_timeout", self.visibility_timeout, 1, MAX_VISIBILITY)
        _within("delivery_delay", self.delivery_delay, 0, MAX_DELAY)
        _within("max_receives", self.max_receives, 0, MAX_COUNT)
        _within("retention", self.retention, 0, MAX_RETENTION)
        _within("archive_retention", self.archive_retention, 0, MAX_RETENTION)
        _within("max_messages", self.max_messages, 0, MAX_COUNT)
        _within("max_bytes", self.max_bytes, 0, MAX_BYTES)
        _within("max_message_size", self.max_message_size, 1, MAX_MESSAGE_SIZE)
        _within("messages_per_file", self.messages_per_file, 0, MOST)
        _within("deduplication_window", self.deduplication_window, MIN_WINDOW, MAX_WINDOW)
        _of_type("relaxed_leases", self.relaxed_leases, bool, "must be true or false")
        _of_type("dead_letter_queue", self.dead_letter_queue, str, "must be a queue name")
        if self.dead_letter_queue and not is_queue_name(self.dead_letter_queue):
            raise InvalidSetting(
                name="dead_letter_queue", value=self.dead_letter_queue, rule="must be a queue name"
            )
        if bool(self.dead_letter_queue) != bool(self.max_receives):
            raise InvalidSetting(
                name="max_receives",
                value=self.max_receives,
                rule="goes with a dead_letter_queue: set both or neither",
            )

    def changed(self, changes: Mapping[str, object]) -> QueueSettings:
        """These settings with some replaced; raises `InvalidSetting` for an unknown one."""
        known = {field.name for field in fields(self)}
        for name, value in changes.items():
            if name not in known:
                raise InvalidSetting(name=name, value=value, rule="is not a setting of a queue")
        return replace(self, **changes)  # type: ignore[arg-type]  # checked in __post_init__

    def differing(self, other: QueueSettings) -> str:
        """In words, what of these settings is not as in `other`."""
        mine, theirs = asdict(self), asdict(other)
        return ", ".join(
            f"{key} is {_shown(key, mine[key])}, not {_shown(key, theirs[key])}"
            for key in mine
            if mine[key] != theirs[key]
        )


def _shown(name: str, value: object) -> str:
    return span_text(value) if name in SPANS and isinstance(value, int) else repr(value)


def _within(name: str, value: object, least: int, most: int) -> None:
    told = value
    if isinstance(value, int) and not isinstance(value, bool):
        if least <= value <= most:
            return
        told = span_text(value) if name in SPANS else value
    rule = f"must be from {_shown(name, least)} to {_shown(name, most)}"
    raise InvalidSetting(name=name, value=told, rule=rule)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A settings file: the settings, or that the queue is deleted."""

    settings: QueueSettings | None
    created_at: Millis
    salt: str = ""
    """Tells the queue from another one that was made under the same name: its deduplication ids don't
    count for the other."""
    labels: Mapping[str, str] = field(default_factory=dict)


def check_labels(labels: Mapping[str, object]) -> None:
    """Raise `InvalidSetting` for labels that no queue can have."""
    if len(labels) > MAX_LABELS:
        raise InvalidSetting(name="labels", value=len(labels), rule=f"can be {MAX_LABELS} at most")
    for name, value in labels.items():
        _of_type("labels", value, str, "must be text")
        assert isinstance(value, str)
        try:
            f"{name}{value}".encode()
        except UnicodeEncodeError as error:
            raise InvalidSetting(name="labels", value=name, rule="must be Unicode text") from error
        if not 1 <= len(name) <= MAX_LABEL_NAME or len(value) > MAX_LABEL_VALUE:
            raise InvalidSetting(
                name="labels",
                value=name,
                rule=f"must have names of 1 to {MAX_LABEL_NAME} characters, and values of up to "
                f"{MAX_LABEL_VALUE}",
            )


def _of_type(name: str, value: object, kind: type, rule: str) -> None:
    # The types above bind programs that are checked; a settings file may hold anything.
    if not isinstance(value, kind):
        raise InvalidSetting(name=name, value=value, rule=rule)


def encode(record: Record) -> bytes:
    """The content of a settings file; without settings it is the tombstone of a deleted queue."""
    content: dict[str, object] = {"created_at": record.created_at}
    if record.salt:
        content["salt"] = record.salt
    if record.settings is None:
        content["deleted"] = True
    else:
        if record.labels:
            content["labels"] = dict(record.labels)
        content.update(asdict(record.settings))
    return json.dumps(content, indent=2, sort_keys=True).encode() + b"\n"


def decode(content: bytes, name: str) -> Record:
    """Return the record in the settings file `name`; raise `DamagedSettings` if it isn't one.

    A setting of a later version is passed over; one that is missing has its default.
    """
    try:
        values = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DamagedSettings(file=name, why=str(error)) from error
    if not isinstance(values, dict):
        raise DamagedSettings(file=name, why="not a JSON object")
    try:
        _within("created_at", values.get("created_at"), 0, LAST_MOMENT)
    except InvalidSetting as error:
        raise DamagedSettings(file=name, why=str(error)) from error
    created_at, salt = Millis(values["created_at"]), values.get("salt", "")
    if not isinstance(salt, str) or not _SALT.fullmatch(salt):
        raise DamagedSettings(file=name, why="its salt is not up to 16 letters and digits")
    if values.get("deleted") is True:
        return Record(settings=None, created_at=created_at, salt=salt)
    known = {field.name for field in fields(QueueSettings)}
    labels = values.get("labels", {})
    try:
        _of_type("labels", labels, dict, "must be an object")
        check_labels(labels)
        settings = QueueSettings(**{key: value for key, value in values.items() if key in known})
    except InvalidSetting as error:
        raise DamagedSettings(file=name, why=str(error)) from error
    return Record(settings=settings, created_at=created_at, salt=salt, labels=labels)
