"""The options of the data source: the values that each takes, and its default.

What can fail: as with `_option_fields`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from .._credentials import NONE, Credentials
from .._transports.url import addresses_of, server_of
from ..errors import InvalidUrl
from ..v1 import queue_pb2 as pb
from ._credentials_option import credentials_in
from ._light_client import LightClient
from ._option_fields import InvalidOption as InvalidOption
from ._option_fields import (
    either,
    known,
    moment,
    names_in,
    one_of,
    option,
    partitions,
    seconds,
    values_in,
    whole,
    words,
)

MAX_MESSAGES: Final = 100_000
"""The contract's most for one reservation."""
MAX_HOLD: Final = 12 * 60 * 60
MAX_WAIT: Final = 20
MAX_DELETE_DELAY: Final = 60 * 60
MAX_DELAY: Final = 24 * 60 * 60
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
_QUEUE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")
_QUEUE_PATTERN: Final = re.compile(r"[A-Za-z0-9*?][A-Za-z0-9_.*?-]{0,79}")
_WRITER: Final = re.compile(r"[A-Za-z0-9_-]{1,80}")


def _states(name: str, text: str) -> tuple[pb.MessageState.ValueType, ...]:
    return tuple(STATES[state] for state in words(name, text, *STATES))


def _transaction(name: str, text: str) -> str:
    if text and _WRITER.fullmatch(text) is None:
        raise InvalidOption(
            f"{name} is {text!r}: use 1 to 80 letters, digits, '_' and '-'. It names one write."
        )
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueAddress:
    """A queue, its server and the query's credentials. The driver pickles it for the executors."""

    address: str
    """`host:port`; of all shards, in order, with commas between them."""
    queue: str
    """Empty: of several queues, which are named elsewhere."""
    retry_seconds: float = option("retrySeconds", 300.0, seconds, 0.0, 86_400.0)
    """How long a call that may succeed later is repeated, before it fails."""
    credentials: Credentials = NONE

    @property
    def caller(self) -> LightClient:
        """Return this process's client of the queue's server, or of those of several queues."""
        every = LightClient(self.address, self.retry_seconds, self.credentials)
        return every.of(self.queue) if self.queue else every


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    place: QueueAddress
    """Its queue is the only one, unless there are `queues`."""
    queues: tuple[str, ...] = ()
    """Names and patterns, of a query that has several or a pattern."""
    max_messages: int = option("maxMessagesPerTrigger", 50_000, whole, 1, MAX_MESSAGES)
    """In one micro-batch."""
    max_bytes: int = option("maxBytesPerTrigger", 64 * 1024 * 1024, whole, 1, 2**40)
    """Of bodies and attributes in one micro-batch; always at least one message."""
    min_messages: int = option("minMessagesPerTrigger", 0, whole, 0, 10**9)
    """Ready messages that a micro-batch waits for, ..."""
    max_trigger_delay: float = option("maxTriggerDelaySeconds", 900.0, seconds, 0.0, MAX_DELAY)
    """... up to so many seconds since the last one."""
    partitions: int | None = option("numPartitions", None, partitions)
    """Tasks of one micro-batch. None: as many as are worth their while."""
    wait_seconds: float = option("waitSeconds", 0.0, seconds, 0.0, MAX_WAIT)
    """How long a query that finds no message waits for one, before Spark asks its other sources."""
    hold_seconds: float = option("holdSeconds", 600.0, seconds, 1.0, MAX_HOLD)
    """How long messages stay with a query that is away."""
    delete_delay_seconds: float = option("deleteDelaySeconds", 0.0, seconds, 0.0, MAX_DELETE_DELAY)
    """How long a finished batch stays leased before it is deleted."""
    on_lost: str = option("onLostReservation", "fail", one_of, "fail", "redeliver", "delete")
    """The fate of a batch whose hold is over. `fail`: the query fails. `redeliver`: it is empty, and
    its messages come again. `delete`: it is empty and counts as finished; of its messages those come
    again that another reader has leased since, or that no task has read."""
    deletes_unread: bool = option("onUnreadBatch", False, either, "fail", "delete")
    """Whether a batch that is done for Spark is deleted if no task has read it. False: the query
    fails."""
    skips_done: bool = option("onOldCheckpoint", False, either, "fail", "skip")
    """Whether batches of the checkpoint that are done and deleted are passed over. False: the query
    fails."""
    waits_for_queue: bool = option("onMissingQueue", False, either, "fail", "wait")
    """Whether a streaming query waits for a queue that doesn't exist. False: it fails."""
    columns: tuple[str, ...] = option("columns", READ_UNASKED, words, *READ)
    is_text: bool = False
    """Whether the column `body` is a string. False: it is binary."""
    states: tuple[pb.MessageState.ValueType, ...] = option("states", (), _states)
    """Of a batch read: only messages in these states. None: in all."""
    since: int | None = option("sentAfter", None, moment)
    """Of a batch read: only messages that were sent from this Unix millisecond on."""
    until: int | None = option("sentBefore", None, moment)
    """Of a batch read: only messages that were sent before this Unix millisecond."""

    @property
    def only_queue(self) -> str | None:
        """The queue of a query of one. None: of several."""
        return None if self.queues else self.place.queue

    @property
    def shards(self) -> int:
        """Number of servers that the query's offsets are of: that of one queue is on one."""
        return len(self.place.address.split(",")) if self.queues else 1

    @property
    def named(self) -> tuple[str, ...]:
        """The queues that are named, beside those that match a pattern."""
        return tuple(word for word in self.queues or (self.place.queue,) if not is_pattern(word))


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    place: QueueAddress
    is_direct: bool = option("mode", False, either, "staged", "direct")
    """Send each row at once, by its deduplication_id. False: the rows of a batch appear together."""
    transaction: str = option("txnId", "", _transaction)
    """Names a batch write: a second one of the same name writes nothing."""
    skips_different: bool = option("onDifferentRows", False, either, "fail", "skip")
    """The fate of a batch that was published before, with other rows: it counts as done. False: the
    write fails."""


NAMES: Final = (
    *("endpoint", "queue", "credentials"),
    *names_in(QueueAddress, ReadOptions, WriteOptions),
)


def read_options(options: Mapping[str, str]) -> ReadOptions:
    texts = known(options, NAMES)
    queues = _queues(texts)
    values = values_in(ReadOptions, texts)
    if queues and values.get("wait_seconds"):
        raise InvalidOption(
            "waitSeconds is for a query of one queue: leave it out, and set a trigger's processingTime."
        )
    if not values.get("columns"):
        values["columns"] = READ_UNASKED_OF_SEVERAL if queues else READ_UNASKED
    return ReadOptions(place=_place(texts, is_several=bool(queues)), queues=queues, **values)


def write_options(options: Mapping[str, str]) -> WriteOptions:
    texts = known(options, NAMES)
    found = WriteOptions(place=_place(texts), **values_in(WriteOptions, texts))
    if found.transaction and found.is_direct:
        raise InvalidOption(
            "txnId goes with mode 'staged': a direct write is made once by its deduplication_id column."
        )
    return found


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


def _address(
    endpoint: str, queue: str, credentials: str | None = None, retry_seconds: float = 300.0
) -> QueueAddress:
    try:
        servers = [server_of(each) for each in addresses_of(endpoint)]
    except InvalidUrl as error:
        raise InvalidOption(
            f"endpoint is {endpoint!r}: it must name a server as host:port, grpc://host:port or "
            "grpcs://host:port, or the servers of all shards, each once, with commas between them."
        ) from error
    if len({is_secure for _, _, is_secure in servers}) > 1:
        raise InvalidOption(
            f"endpoint is {endpoint!r}: either all shards are grpcs://, or none. Write it before the "
            "first one only."
        )
    checked = [
        credentials_in(credentials or "", address, host, is_secure=is_secure)
        for address, host, is_secure in servers
    ]
    return QueueAddress(
        address=",".join(address for address, _, _ in servers),
        queue=queue,
        retry_seconds=retry_seconds,
        credentials=checked[0],
    )


def _place(options: Mapping[str, str], *, is_several: bool = False) -> QueueAddress:
    """Return the address of the queue; of several queues that of their server."""
    for name in ("endpoint", "queue"):
        if not options.get(name):
            raise InvalidOption(
                f"The option {name} is missing: .option({name!r}, ...). Spark passes a Python data "
                "source none of the OPTIONS of a table: write FROM t WITH (endpoint '...', queue "
                "'...'), INSERT INTO t WITH (...), or .option(...).table('t')."
            )
    more: dict[str, Any] = {
        "credentials": options.get("credentials"),
        **values_in(QueueAddress, options),
    }
    if is_several:
        return _address(options["endpoint"], "", **more)
    return queue_address(options["endpoint"], options["queue"], **more)


def is_pattern(word: str) -> bool:
    """Return whether a word of the option `queue` is a pattern: `*` is any text, `?` one character."""
    return "*" in word or "?" in word


def _queues(options: Mapping[str, str]) -> tuple[str, ...]:
    """Return names and patterns; none if there is one name alone, or nothing."""
    names = words("queue", options.get("queue", ""))
    if len(names) < 2 and not any(map(is_pattern, names)):
        return ()
    for word in names:
        if _QUEUE_PATTERN.fullmatch(word) is None:
            raise InvalidOption(
                f"queue has {word!r}: it may have names of queues, and patterns as orders-*, divided "
                "by commas."
            )
    return names
