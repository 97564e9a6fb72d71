"""A queue's settings: their schema, and their form in a file.

`QueueSettings` is the schema: each field has its default, its bounds and its help beside it. The
options of the command line and the conversions to and from the contract and JSON are made from it.
`make stubs` writes from it what is a file: the client's classes, docs/reference/settings.md, the
dashboard's list, the schemas of HTTP and of the chart. So a new setting is a field here, a field of the
contract, and the code that uses it.

Pure: the validity of each value is checked here, the relations to other queues in `catalog`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from difflib import get_close_matches
from enum import Enum
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final

from .clock import DAY, HOUR, LAST_MOMENT, SECOND, Millis, span_text
from .errors import DamagedSettings, InvalidSetting, TornSettings
from .members import MOST
from .message_content import MAX_DELAY
from .names import QUEUE_NAME, is_queue_name
from .schedule import Schedule, from_json, to_json
from .sealed import NotWhole, Torn, number, seal, text, unseal, value_in

MIB: Final = 1024 * 1024
MAX_VISIBILITY: Final = Millis(12 * HOUR)
MAX_RETENTION: Final = Millis(10 * 365 * DAY)
MAX_WINDOW: Final = Millis(14 * DAY)
MAX_MESSAGE_SIZE: Final = 1024**4
MAX_COUNT: Final = 1_000_000_000
MAX_BACKOFF_FACTOR: Final = 1_000
MAX_RATE: Final = 1_000_000_000
"""Leases in a thousand seconds."""
_PARTS: Final = 1 << 32
"""The number of steps that the jitter of a message is drawn from."""
MAX_BYTES: Final = 1 << 50
MAX_LABELS: Final = 64
MAX_LABEL_NAME: Final = 128
MAX_LABEL_VALUE: Final = 1_024
"""Characters."""
_SALT: Final = re.compile(r"[0-9a-z]{0,16}")
_salt: Final = text(lambda value: _SALT.fullmatch(value) is not None)


class SettingKind(Enum):
    """The type of a setting, and its unit."""

    SPAN = "span"
    """Milliseconds in the store, seconds in JSON and in the client."""
    COUNT = "count"
    SIZE = "size"
    """Bytes."""
    RATE = "rate"
    """Thousandths in the store, leases a second in the contract, JSON and the client."""
    QUEUE = "queue"
    """The name of a queue; empty for none."""
    CHOICE = "choice"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A row of the schema."""

    name: str
    kind: SettingKind
    default: int | str
    help: str
    """One sentence, for the help of the command line, the docs and the client."""
    least: int = 0
    most: int = 0
    choices: tuple[str, ...] = ()
    """Of a CHOICE; the first is the default."""
    zero: str = ""
    """The meaning of 0, or of an empty name. Empty: it is like any other."""

    @property
    def option(self) -> str:
        """The setting's name on the command line, without the dashes before it."""
        return self.name.replace("_", "-")

    @property
    def title(self) -> str:
        """The setting's name in text."""
        return self.name.replace("_", " ").replace("dead letter", "dead-letter")

    @property
    def is_span(self) -> bool:
        return self.kind is SettingKind.SPAN

    @property
    def scale(self) -> int:
        """How many of the store's units are one outside of it."""
        return 1_000 if self.kind in (SettingKind.SPAN, SettingKind.RATE) else 1

    def check(self, value: object) -> None:
        """Raise `InvalidSetting` for an invalid value."""
        match self.kind:
            case SettingKind.CHOICE:
                if value not in self.choices:
                    rule = f"must be one of {', '.join(self.choices)}"
                    raise InvalidSetting(name=self.name, value=value, rule=rule)
            case SettingKind.QUEUE:
                # The types of the fields bind programs that are checked; a file may hold anything.
                if not isinstance(value, str) or (value and not is_queue_name(value)):
                    raise InvalidSetting(name=self.name, value=value, rule="must be a queue name")
            case _ if type(value) is not int or not self.least <= value <= self.most:
                is_number = type(value) is int
                kind = "" if self.scale > 1 or is_number else "an integer "
                rule = f"must be {kind}from {self.text(self.least)} to {self.text(self.most)}"
                shown = self.text(value) if self.scale > 1 and is_number else value
                raise InvalidSetting(name=self.name, value=shown, rule=rule)

    def text(self, value: object) -> str:
        """Return a value as an error shows it."""
        if self.scale == 1 or not isinstance(value, int):
            return repr(value)
        return span_text(value) if self.is_span else f"{value / 1_000:,.12g} a second"


def _row(kind: SettingKind, default: int | str, help: str, **more: Any) -> Any:
    metadata = {"kind": kind, "default": default, "help": help, **more}
    return dataclasses.field(default=default, metadata=metadata)


def _span(default: int, help: str, **more: Any) -> Any:
    return _row(SettingKind.SPAN, default, help, **more)


def _count(help: str, *, default: int = 0, most: int = MAX_COUNT, **more: Any) -> Any:
    return _row(SettingKind.COUNT, default, help, most=most, **more)


def _size(default: int, help: str, **more: Any) -> Any:
    return _row(SettingKind.SIZE, default, help, **more)


def _rate(help: str) -> Any:
    return _row(SettingKind.RATE, 0, help, most=MAX_RATE, zero="no limit")


def _choice(*choices: str, help: str) -> Any:
    return _row(SettingKind.CHOICE, choices[0], help, choices=choices)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """The settings of a queue."""

    visibility_timeout: Millis = _span(
        30 * SECOND,
        "Length of a lease, if the receive states none.",
        least=1,
        most=MAX_VISIBILITY,
    )
    delivery_delay: Millis = _span(
        0,
        "Delay of a message, if the send states none.",
        most=MAX_DELAY,
        zero="none",
    )
    max_receives: int = _count(
        "Number of receives without a delete after which a message moves to the dead-letter queue.",
        zero="never",
    )
    dead_letter_queue: str = _row(
        SettingKind.QUEUE,
        "",
        "The queue for messages that were received max_receives times.",
        zero="none",
    )
    dead_letter_at: str = _choice(
        "lease_end",
        "receive",
        help="When a message moves to the dead-letter queue: at the end of its last lease, or at the "
        "next receive.",
    )
    retention: Millis = _span(
        0,
        "Age, counted from the send or the last redrive, at which a message is removed undelivered.",
        most=MAX_RETENTION,
        zero="no limit",
    )
    max_messages: int = _count(
        "Bound on messages in the queue, in all states. A send above it is refused.",
        zero="no limit",
    )
    max_bytes: int = _size(
        0,
        "Bound on bytes of bodies and attributes in the queue. A send above it is refused.",
        most=MAX_BYTES,
        zero="no limit",
    )
    max_message_size: int = _size(MIB, "The largest body.", least=1, most=MAX_MESSAGE_SIZE)
    lease_durability: str = _choice(
        "strict",
        "relaxed",
        help="Whether a receive, an extension or a release is on stable media before its answer. "
        '"relaxed" is faster: after a power loss leased messages are ready again.',
    )
    deduplication_window: Millis = _span(
        300 * SECOND,
        "Time for which a deduplication id is remembered after its first send.",
        least=SECOND,
        most=MAX_WINDOW,
    )
    messages_per_file: int = _count(
        "Bound on the messages that a send stores as one file. 1: each message has a file of its own.",
        most=MOST,
        zero=f"up to {MOST:,}",
    )
    group_order: str = _choice(
        "fair",
        "strict",
        help='Groups take turns. With "strict" a message of a group also waits while an earlier one of '
        "the group is leased or delayed.",
    )
    max_leased: int = _count(
        "Bound on messages that are leased at a time. Receives find no more until a lease ends.",
        zero="no limit",
    )
    group_max_leased: int = _count(
        "Bound on messages of one group that are leased at a time.",
        zero="no limit",
    )
    rate: int = _rate("Leases that begin in a second at most; 0.1 is one in ten seconds.")
    rate_burst: int = _count(
        "Leases that may begin at once after a rest, within the rate.", default=1, least=1
    )
    group_rate: int = _rate("Leases of one group that begin in a second at most.")
    group_rate_burst: int = _count(
        "Leases of one group that may begin at once after a rest, within the group rate.",
        default=1,
        least=1,
    )
    priority_aging: Millis = _span(
        Millis(0),
        "Head start for each step of its priority: a message counts as sent earlier by this time.",
        most=MAX_DELAY,
        zero="a higher priority is always received first",
    )
    backoff_initial: Millis = _span(
        SECOND,
        "Back-off after the first receive: delay of a message after a release that states none.",
        most=MAX_VISIBILITY,
        zero="ready at once after every failure",
    )
    backoff_factor: int = _count(
        "Factor of the back-off for each further receive.",
        default=2,
        least=1,
        most=MAX_BACKOFF_FACTOR,
    )
    backoff_maximum: Millis = _span(
        300 * SECOND,
        "Upper bound of the back-off.",
        least=1,
        most=MAX_VISIBILITY,
    )
    backoff_jitter: int = _count(
        "Percentage by which the back-off is shortened at most; differs by message and receive.",
        default=50,
        most=100,
        zero="none",
    )
    backoff_at: str = _choice(
        "release",
        "lease_end",
        help="Whether the back-off applies to a release only, or to an expired lease, too.",
    )
    archive_retention: Millis = _span(
        0,
        "Time for which the root's archive keeps the files of messages that have left the queue.",
        most=MAX_RETENTION,
        zero="no archive",
    )
    expires: Millis = _span(
        0,
        "Idle time after which the queue is removed. Idle: no message, no waiting receive, and no "
        "request that uses it.",
        most=MAX_RETENTION,
        zero="never",
    )
    sending: str = _choice(
        "open",
        "paused",
        help="Whether the queue accepts sends and publications. A paused queue refuses them.",
    )
    receiving: str = _choice(
        "open",
        "paused",
        help="Whether receives get messages. In a paused queue they find none, and wait.",
    )

    def __post_init__(self) -> None:
        for setting in SCHEMA.values():
            setting.check(getattr(self, setting.name))
        if bool(self.dead_letter_queue) != bool(self.max_receives):
            raise InvalidSetting(
                name="max_receives",
                value=self.max_receives,
                rule="goes with a dead_letter_queue: set both or neither",
            )

    @property
    def limits_leases(self) -> bool:
        """Whether leases have a bound or a rate."""
        return bool(self.max_leased or self.rate or self.group_max_leased or self.group_rate)

    def changed(self, changes: Mapping[str, object]) -> QueueSettings:
        """Return these settings with some replaced; raise `InvalidSetting` for an unknown one."""
        for name, value in changes.items():
            if name not in SCHEMA:
                near = get_close_matches(name, SCHEMA, 1)
                told = f"the nearest is {near[0]}" if near else "docs/reference/settings.md has all"
                raise InvalidSetting(
                    name=name, value=value, rule=f"is not a setting of a queue; {told}"
                )
        return replace(self, **changes)  # type: ignore[arg-type]  # checked in __post_init__

    def backoff(self, id: str, receives: int) -> Millis:
        """Return the delay of a message after a failed receive, the `receives`-th; messages of one name
        share that of the first message, by `id`.

        The jitter is a hash, not a draw: all processes, and a start, find the same end for a lease that
        has expired.
        """
        whole, most = self.backoff_initial, self.backoff_maximum
        for _ in range(1, receives):
            if not whole or whole >= most or self.backoff_factor == 1:
                break
            whole = Millis(whole * self.backoff_factor)
        whole = min(whole, most)
        digest = blake2b(f"{id},r{receives}".encode("ascii"), digest_size=4).digest()
        part = int.from_bytes(digest, "big")
        return Millis(whole - whole * self.backoff_jitter * part // (100 * _PARTS))

    def differing(self, other: QueueSettings) -> str:
        """Return in words the settings that differ from those of `other`."""
        mine, theirs = asdict(self), asdict(other)
        return ", ".join(
            f"{key} is {SCHEMA[key].text(mine[key])}, not {SCHEMA[key].text(theirs[key])}"
            for key in mine
            if mine[key] != theirs[key]
        )


def thousandths(name: str, value: object) -> int:
    """Return a rate as the store has it; raise `InvalidSetting` for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e15:
        raise InvalidSetting(name=name, value=value, rule="must be a number of leases a second")
    found = round(value * 1_000)
    if value and not found:
        rule = "must be 0, for no limit, or at least 0.001 a second"
        raise InvalidSetting(name=name, value=value, rule=rule)
    return found


SCHEMA: Final[Mapping[str, Setting]] = {
    field.name: Setting(name=field.name, **field.metadata) for field in fields(QueueSettings)
}
"""The settings by name, in their order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The content of a settings file: the settings, or a tombstone."""

    settings: QueueSettings | None
    created_at: Millis
    salt: str = ""
    """Tells the queue from another one that was made under the same name: its deduplication ids don't
    count for the other."""
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    schedules: Mapping[str, Schedule] = dataclasses.field(default_factory=dict)


def check_labels(labels: Mapping[str, object]) -> None:
    """Raise `InvalidSetting` for invalid labels."""
    if len(labels) > MAX_LABELS:
        raise InvalidSetting(name="labels", value=len(labels), rule=f"can be {MAX_LABELS} at most")
    for name, value in labels.items():
        if not isinstance(value, str):
            raise InvalidSetting(name="labels", value=value, rule="must be text")
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


def _settings(**values: Any) -> QueueSettings:
    """Return the settings with these values: of many queues that have the same, one object."""
    try:
        return _known_settings(**values)
    except TypeError:  # A value that can't be in a table is no setting's.
        return QueueSettings(**values)


@lru_cache(maxsize=256, typed=True)
def _known_settings(**values: Any) -> QueueSettings:
    return QueueSettings(**values)


def encode(record: Record) -> bytes:
    """Return the content of a settings file; without settings it is the tombstone of a deleted
    queue."""
    content: dict[str, object] = {"created_at": record.created_at}
    if record.salt:
        content["salt"] = record.salt
    if record.settings is None:
        content["deleted"] = True
    else:
        if record.labels:
            content["labels"] = dict(record.labels)
        if record.schedules:
            content["schedules"] = to_json(record.schedules)
        content.update(asdict(record.settings))
    return seal(content)


def decode(content: bytes, name: str) -> Record:
    """Return the record in the settings file `name`; raise `DamagedSettings` if it isn't one, or
    `TornSettings`.

    A setting of a later version is passed over; one that is missing has its default.
    """
    try:
        values: dict[str, Any] = unseal(content)
        created_at = value_in(values, "created_at", number(LAST_MOMENT))
        salt = value_in(
            {"salt": "", **values}, "salt", text(lambda salt: _SALT.fullmatch(salt) is not None)
        )
        if values.get("deleted") is True:
            return Record(settings=None, created_at=created_at, salt=salt)
        labels = values.get("labels", {})
        if not isinstance(labels, dict):
            raise NotWhole("its labels are no object")
        check_labels(labels)
        return Record(
            settings=_settings(**{key: value for key, value in values.items() if key in SCHEMA}),
            created_at=created_at,
            salt=salt,
            labels=labels,
            schedules=from_json(values.get("schedules", {})),
        )
    except Torn as error:
        raise TornSettings(file=name, why=str(error)) from error
    except (InvalidSetting, ValueError, RecursionError) as error:
        raise DamagedSettings(file=name, why=str(error)) from error


_FILE: Final = re.compile(rf"config/(?P<queue>{QUEUE_NAME})\.(?P<version>[1-9][0-9]{{0,14}})\.json")


def settings_path(queue: str, version: int) -> str:
    """Return the path of one version of a queue's settings."""
    return f"config/{queue}.{version}.json"


def parse_settings_path(path: str) -> tuple[str, int] | None:
    """Return queue and version of a settings file; None for any other path."""
    match = _FILE.fullmatch(path)
    return match and (match["queue"], int(match["version"]))
