"""The options of the data source: the values that each takes, and its default.

Spark hands options over as text, in any case. What can fail: an option that can't be what it is, or
whose name is nearly one of ours, is an `InvalidOption` that says which and what to do.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from .._credentials import NONE, Credentials
from .._transports.url import DEFAULT_PORT
from ..v1 import queue_pb2 as pb
from ._credentials_option import InvalidOption as InvalidOption
from ._credentials_option import credentials_in
from ._light_client import LightClient

MAX_MESSAGES: Final = 100_000
"""The contract's most for one reservation."""
MAX_HOLD: Final = 12 * 60 * 60
MAX_WAIT: Final = 20
MAX_DELAY: Final = 24 * 60 * 60
KAFKAS: Final = {
    "kafka.bootstrap.servers": "endpoint",
    "subscribe": "queue",
    "subscribepattern": "queue",
    "topic": "queue",
    "maxoffsetspertrigger": "maxMessagesPerTrigger",
    "minpartitions": "numPartitions",
    "failondataloss": "onLostReservation",
    "minoffsetspertrigger": "minMessagesPerTrigger",
    "maxtriggerdelay": "maxTriggerDelaySeconds",
}
"""Options of Spark's source and sink of Kafka, in lower case, and the option here that does that."""
KAFKAS_ALONE: Final = {
    "startingoffsets": "a queue has no offsets, and a query takes what is ready",
    "endingoffsets": "a queue has no offsets, and a query takes what is ready",
    "startingtimestamp": "a queue has no offsets, and a query takes what is ready",
    "endingtimestamp": "a queue has no offsets, and a query takes what is ready",
    "startingoffsetsbytimestamp": "a queue has no offsets, and a query takes what is ready",
    "endingoffsetsbytimestamp": "a queue has no offsets, and a query takes what is ready",
    "assign": "a queue has no partitions, and the option queue names what a query reads",
    "includeheaders": "the column attributes is there unless the option columns says otherwise",
    "groupidprefix": "a query shares a queue without a group",
}
"""Options of Kafka that nothing here does, in lower case, and what is instead."""
NAMES: Final = (
    "endpoint",
    "queue",
    "credentials",
    "retrySeconds",
    "maxMessagesPerTrigger",
    "maxBytesPerTrigger",
    "minMessagesPerTrigger",
    "maxTriggerDelaySeconds",
    "numPartitions",
    "waitSeconds",
    "holdSeconds",
    "onLostReservation",
    "onUnreadBatch",
    "onOldCheckpoint",
    "onMissingQueue",
    "mode",
    "txnId",
    "onDifferentRows",
    "columns",
    "states",
    "sentAfter",
    "sentBefore",
)
READ: Final = (
    *("id", "body", "attributes", "sent_at", "receive_count", "binary_attributes", "group"),
    *("priority", "body_size", "state", "first_received_at", "deliver_at", "lease_expires_at", "queue"),
)
"""The columns of a queue that is read."""
READ_UNASKED: Final = READ[:7]
READ_UNASKED_OF_SEVERAL: Final = ("queue", *READ_UNASKED)
STATES: Final = {
    "ready": pb.MESSAGE_STATE_READY,
    "leased": pb.MESSAGE_STATE_LEASED,
    "delayed": pb.MESSAGE_STATE_DELAYED,
}
_AUTHORITY: Final = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^\s/:\[\]@?#,]+)(:[0-9]{1,5})?/?")
_QUEUE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")
_QUEUE_PATTERN: Final = re.compile(r"[A-Za-z0-9*?][A-Za-z0-9_.*?-]{0,79}")
_WRITER: Final = re.compile(r"[A-Za-z0-9_-]{1,80}")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueAddress:
    """Which queue of which server, and who asks. The driver pickles it for the executors."""

    address: str
    """`host:port`."""
    queue: str
    """Empty: of several queues, which are named elsewhere."""
    retry_seconds: float = 300.0
    """How long a call that may succeed later is repeated, before it fails."""
    credentials: Credentials = NONE

    @property
    def caller(self) -> LightClient:
        """A client of the server, for one process."""
        return LightClient(self.address, self.retry_seconds, self.credentials)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    place: QueueAddress
    """Its queue is the only one, unless there are `queues`."""
    queues: tuple[str, ...] = ()
    """Names and patterns, of a query that has several or a pattern."""
    max_messages: int = 50_000
    """In one micro-batch."""
    max_bytes: int = 64 * 1024 * 1024
    """Of bodies and attributes in one micro-batch; always at least one message."""
    min_messages: int = 0
    """Ready messages that a micro-batch waits for, ..."""
    max_trigger_delay: float = 900.0
    """... up to so many seconds since the last one."""
    partitions: int | None = None
    """Tasks of one micro-batch. None: as many as are worth their while."""
    wait_seconds: float = 0.0
    """How long a query that finds no message waits for one, before Spark asks its other sources."""
    hold_seconds: float = 600.0
    """How long messages stay with a query that is away."""
    redelivers: bool = False
    """The fate of a batch whose messages were given to others: it is empty, and they come again.
    False: the query fails."""
    waits_for_queue: bool = False
    """Whether a streaming query waits for a queue that doesn't exist. False: it fails."""
    columns: tuple[str, ...] = READ_UNASKED
    states: tuple[pb.MessageState.ValueType, ...] = ()
    """Of a batch read: only messages in these states. None: in all."""
    since: int | None = None
    """Of a batch read: only messages that were sent from this Unix millisecond on."""
    until: int | None = None
    """Of a batch read: only messages that were sent before this Unix millisecond."""
    deletes_unread: bool = False
    """Whether a batch that is done for Spark is deleted if no task has read it. False: the query
    fails."""
    skips_done: bool = False
    """Whether batches of the checkpoint that are done and deleted are passed over. False: the query
    fails."""

    @property
    def only_queue(self) -> str | None:
        """The queue of a query of one. None: of several."""
        return None if self.queues else self.place.queue

    @property
    def named(self) -> tuple[str, ...]:
        """The queues that are named, beside those that match a pattern."""
        return tuple(word for word in self.queues or (self.place.queue,) if not is_pattern(word))


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    place: QueueAddress
    is_direct: bool = False
    """Send each row at once, by its deduplication_id. False: the rows of a batch appear together."""
    transaction: str = ""
    """Names a batch write: a second one of the same name writes nothing."""
    skips_different: bool = False
    """The fate of a batch that was published before, with other rows: it counts as done. False: the
    write fails."""


def read_options(options: Mapping[str, str]) -> ReadOptions:
    given = known(options)
    partitions = whole(given, "numPartitions", 0, least=0, most=10_000)
    wait_seconds = _seconds(given, "waitSeconds", 0.0, least=0.0, most=MAX_WAIT)
    queues = _queues(given)
    if queues and wait_seconds:
        raise InvalidOption(
            "waitSeconds is for a query of one queue: leave it out, and set a trigger's processingTime."
        )
    columns = READ_UNASKED_OF_SEVERAL if queues else READ_UNASKED
    return ReadOptions(
        place=_place(given, is_several=bool(queues)),
        queues=queues,
        max_messages=whole(given, "maxMessagesPerTrigger", 50_000, most=MAX_MESSAGES),
        max_bytes=whole(given, "maxBytesPerTrigger", 64 * 1024 * 1024, most=2**40),
        min_messages=whole(given, "minMessagesPerTrigger", 0, least=0, most=10**9),
        max_trigger_delay=_seconds(given, "maxTriggerDelaySeconds", 900.0, least=0.0, most=MAX_DELAY),
        partitions=partitions or None,
        wait_seconds=wait_seconds,
        hold_seconds=_seconds(given, "holdSeconds", 600.0, least=1.0, most=MAX_HOLD),
        redelivers=_chosen(given, "onLostReservation", "redeliver"),
        columns=listed(given, "columns", READ) or columns,
        states=tuple(STATES[state] for state in listed(given, "states", [*STATES])),
        since=moment(given, "sentAfter"),
        until=moment(given, "sentBefore"),
        deletes_unread=_chosen(given, "onUnreadBatch", "delete"),
        skips_done=_chosen(given, "onOldCheckpoint", "skip"),
        waits_for_queue=_chosen(given, "onMissingQueue", "wait"),
    )


def _chosen(given: Mapping[str, str], name: str, other: str) -> bool:
    """Return whether an option that is `fail` by default is the `other` word."""
    word = given.get(name.lower(), "fail").lower()
    if word not in ("fail", other):
        raise InvalidOption(f"{name} is {word!r}: it may be 'fail' or {other!r}.")
    return word == other


def write_options(options: Mapping[str, str]) -> WriteOptions:
    given = known(options)
    mode = given.get("mode", "staged").lower()
    if mode not in ("staged", "direct"):
        raise InvalidOption(f"mode is {mode!r}: it may be 'staged' or 'direct'.")
    different = given.get("ondifferentrows", "fail").lower()
    if different not in ("fail", "skip"):
        raise InvalidOption(f"onDifferentRows is {different!r}: it may be 'fail' or 'skip'.")
    transaction = given.get("txnid", "")
    if transaction and _WRITER.fullmatch(transaction) is None:
        raise InvalidOption(
            f"txnId is {transaction!r}: use 1 to 80 letters, digits, '_' and '-'. It names one write."
        )
    if transaction and mode == "direct":
        raise InvalidOption(
            "txnId goes with mode 'staged': a direct write is made once by its deduplication_id column."
        )
    return WriteOptions(
        place=_place(given),
        is_direct=mode == "direct",
        transaction=transaction,
        skips_different=different == "skip",
    )


def queue_address(
    endpoint: str, queue: str, *, credentials: str | None = None, retry_seconds: float = 300.0
) -> QueueAddress:
    """Return the address of a queue; raise `InvalidOption` for an impossible one."""
    if _QUEUE.fullmatch(queue) is None:
        raise InvalidOption(
            f"queue is {queue!r}: a queue's name has 1 to 80 letters, digits, '_', '.' and '-', and "
            "begins with a letter or a digit."
        )
    return _address(endpoint, queue, credentials, retry_seconds)


def _address(endpoint: str, queue: str, credentials: str | None, retry_seconds: float) -> QueueAddress:
    scheme, separator, address = endpoint.rpartition("://")
    is_secure = scheme == "grpcs"
    parts = _AUTHORITY.fullmatch(address)
    if separator and scheme not in ("grpc", "grpcs"):
        parts = None
    if parts is None or not 0 < int((parts[2] or f":{DEFAULT_PORT}")[1:]) < 65536:
        raise InvalidOption(
            f"endpoint is {endpoint!r}: it must name a server as host:port, grpc://host:port or grpcs://host:port."
        )
    address = f"{parts[1]}{parts[2] or f':{DEFAULT_PORT}'}"
    return QueueAddress(
        address=address,
        queue=queue,
        retry_seconds=retry_seconds,
        credentials=credentials_in(credentials or "", address, parts[1], is_secure=is_secure),
    )


def known(options: Mapping[str, str], names: Sequence[str] = NAMES) -> dict[str, str]:
    """Return the options by their names in small letters. Those that Spark adds are kept."""
    given = {name.lower(): value for name, value in options.items()}
    ours = {name.lower(): name for name in names}
    for name in given:
        if name in KAFKAS:
            raise InvalidOption(f"The option {name!r} is Kafka's: use {KAFKAS[name]} (docs/spark.md).")
        if name in KAFKAS_ALONE:
            raise InvalidOption(
                f"The option {name!r} is Kafka's: {KAFKAS_ALONE[name]}. Leave it out (docs/spark.md)."
            )
        if name not in ours and (near := difflib.get_close_matches(name, ours, 1, 0.8)):
            raise InvalidOption(f"There is no option {name!r}: is it {ours[near[0]]}?")
    return given


def _place(given: Mapping[str, str], *, is_several: bool = False) -> QueueAddress:
    """Return the address of the queue; of several queues that of their server."""
    for name in ("endpoint", "queue"):
        if not given.get(name):
            raise InvalidOption(f"The option {name} is missing: .option({name!r}, ...).")
    credentials = given.get("credentials")
    retry_seconds = _seconds(given, "retrySeconds", 300.0, least=0.0, most=86_400.0)
    if is_several:
        return _address(given["endpoint"], "", credentials, retry_seconds)
    return queue_address(
        given["endpoint"], given["queue"], credentials=credentials, retry_seconds=retry_seconds
    )


def is_pattern(word: str) -> bool:
    """Return whether a word of the option `queue` is a pattern: `*` is any text, `?` one character."""
    return "*" in word or "?" in word


def _queues(given: Mapping[str, str]) -> tuple[str, ...]:
    """Return names and patterns; none if there is one name alone, or nothing."""
    words = listed(given, "queue", ())
    if len(words) < 2 and not any(map(is_pattern, words)):
        return ()
    for word in words:
        if _QUEUE_PATTERN.fullmatch(word) is None:
            raise InvalidOption(
                f"queue has {word!r}: it may have names of queues, and patterns as orders-*, divided "
                "by commas."
            )
    return words


def listed(given: Mapping[str, str], name: str, among: Sequence[str]) -> tuple[str, ...]:
    """Return the words of an option, which commas divide; raise `InvalidOption` for one that isn't
    `among` these, if there are any."""
    words = tuple(filter(None, (word.strip() for word in given.get(name.lower(), "").split(","))))
    if among and (others := [word for word in words if word not in among]):
        raise InvalidOption(f"{name} has {', '.join(others)}: it may have {', '.join(among)}.")
    if len(set(words)) < len(words):
        raise InvalidOption(f"{name} is {given[name.lower()]!r}: each word may be there once.")
    return words


def moment(given: Mapping[str, str], name: str) -> int | None:
    """Return the time that an option says, in Unix milliseconds; None if it isn't given."""
    text = given.get(name.lower(), "").strip()
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


def whole(given: Mapping[str, str], name: str, default: int, *, least: int = 1, most: int) -> int:
    text = given.get(name.lower(), str(default)).strip()
    if not (text.isascii() and text.isdecimal() and least <= int(text) <= most):
        raise InvalidOption(f"{name} is {text!r}: it must be a whole number from {least} to {most}.")
    return int(text)


def _seconds(
    given: Mapping[str, str], name: str, default: float, *, least: float, most: float
) -> float:
    text = given.get(name.lower(), str(default))
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not least <= seconds <= most:
        raise InvalidOption(f"{name} is {text!r}: it must be from {least:g} to {most:g} seconds.")
    return seconds
