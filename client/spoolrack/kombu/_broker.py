"""Queues, bindings and publications, as kombu's virtual transports need them, on a client.

Owns the names of queues and the records of bindings. Bindings are shared by all processes: each is a
message in the queue `kombu.bindings`, which is only ever listed. A queue that kombu declares with
`expires` has a record of its own, which its connection writes anew while it lives; a queue whose
record is too old is deleted by the next connection that declares such a queue.

What can fail: each call to the server, with a `SpoolrackError`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import re
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Final, NamedTuple

from .._blocking import Client, Queue
from .._retry import RetryPolicy
from .._settings import Settings
from .._values import QueueInfo
from ..errors import (
    DiskFull,
    MemoryLimit,
    MessageNotFound,
    QueueBeingDeleted,
    QueueExists,
    QueueFull,
    QueueNotFound,
    SendingPaused,
    SpoolrackError,
)

log = logging.getLogger("spoolrack")

BINDINGS: Final = "kombu.bindings"
"""The queue of the records."""
TABLE_AGE: Final = 1.0
"""Seconds for which a table of bindings is used again."""
REFRESH: Final = 60.0
"""Seconds between two records of an expiring queue."""
LEAST_EXPIRY: Final = 5 * REFRESH
"""Seconds that an expiring queue lives without a record, at least: four refreshes may fail."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_.-]")
_KEPT: Final = 60
"""Characters that are kept of a name that isn't one of Spoolrack's."""
_DIGITS: Final = 16
_GONE: Final = (QueueNotFound, QueueBeingDeleted)
REFUSALS: Final = (DiskFull, MemoryLimit, QueueFull, SendingPaused)
"""Errors of a server that takes no sends now, and does all else."""
WARN_EVERY: Final = 60.0
"""Seconds between two warnings of transient messages that are dropped."""


class _EventLoop(threading.local):
    pid = 0
    """The process in which this thread runs a worker's event loop; 0: in none."""


_event_loop: Final = _EventLoop()


def runs_event_loop(is_running: bool) -> None:
    """Note that this thread runs a worker's event loop, or runs it no more."""
    _event_loop.pid = os.getpid() if is_running else 0


def in_event_loop() -> bool:
    """Return whether this thread runs a worker's event loop. Nothing there waits until the server takes
    sends again: the worker's acknowledgements make the room."""
    return _event_loop.pid == os.getpid()


class Retries(RetryPolicy):
    """The client's policy, but for refusals: a full queue is the caller's business, and an event loop
    waits for none."""

    __slots__ = ()

    def pause(self, error: SpoolrackError, *, failed: int, left: float, random: Random) -> float | None:
        if isinstance(error, QueueFull) or (isinstance(error, REFUSALS) and in_event_loop()):
            return None
        return super().pause(error, failed=failed, left=left, random=random)


class Binding(NamedTuple):
    """A row of an exchange's table, as kombu's exchange types read it."""

    routing_key: str
    pattern: str | None
    queue: str


@dataclass
class _Records:
    """The records in the queue of bindings, with the ids of their messages."""

    bindings: list[tuple[str, str, Binding]] = field(default_factory=list)
    """Id, exchange, binding."""
    expiring: dict[str, list[tuple[str, float]]] = field(default_factory=dict)
    """Ids and seconds of expiry, the oldest record first."""


def spoolrack_name(name: str) -> str:
    """Return the name of a kombu queue at the server: the same if it is allowed there, else one that
    is made of its allowed characters and of a digest."""
    if _NAME.fullmatch(name):
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGITS]
    kept = _FOREIGN.sub("-", name).lstrip("_.-")[:_KEPT]
    return f"{kept}-{digest}" if kept else digest


class Broker:
    """One connection's view of queues and exchanges."""

    def __init__(self, client: Client, prefix: str) -> None:
        """`prefix` begins the names of all queues, the one of the bindings included."""
        self._client = client
        self._prefix = prefix
        self._records = self.queue(BINDINGS)
        self._table: _Records | None = None
        self._table_read = 0.0
        self._owned: dict[str, float] = {}
        """Expiring queues that this connection declared, with their seconds."""
        self._refreshed = time.monotonic()
        self._deferred: dict[tuple[str, object], Callable[[], None]] = {}
        """Refused steps of declarations: by queue and binding, None: its creation."""
        self._dropped = 0
        self._warned = -WARN_EVERY

    def open(self, timeout: float) -> None:
        """Check that the server answers, within `timeout` seconds."""
        self._create(BINDINGS, {}, timeout)

    def close(self) -> None:
        """Delete the expiring queues of this connection, and close the client."""
        try:
            for name in list(self._owned):
                self.delete(name)
        finally:
            self._client.close()

    def queue(self, name: str) -> Queue:
        return self._client.queue(spoolrack_name(self._prefix + name))

    def declare(self, name: str, expires: float | None, message_ttl: float | None) -> None:
        """Create a queue if it is missing; with `expires` it is deleted with this connection."""
        settings: Settings = {}
        if message_ttl:
            settings["retention"] = message_ttl
        if expires:
            self._owned[name] = expires
            self._delete_expired(self._record_expiry(name))
        self._take_or_defer((name, None), partial(self._create, name, settings))

    def _take_or_defer(self, key: tuple[str, object], step: Callable[[], None]) -> None:
        """Take a step of a declaration. In an event loop one that the server refuses is taken later:
        the worker consumes meanwhile from the queues that exist."""
        if not self.is_missing(key[0]):
            try:
                step()
                self._deferred.pop(key, None)
                return
            except REFUSALS as error:
                if not in_event_loop():
                    raise
                log.warning("the queue %s is declared once the server allows it: %s", key[0], error)
        self._deferred[key] = step

    def declare_deferred(self) -> None:
        """Take the steps that were deferred, up to the first that is refused again."""
        for key, step in list(self._deferred.items()):
            try:
                step()
            except REFUSALS:
                return
            del self._deferred[key]

    def is_missing(self, name: str) -> bool:
        """Return whether the creation of a queue was deferred."""
        return (name, None) in self._deferred

    def _create(self, name: str, settings: Settings, timeout: float | None = None) -> None:
        with contextlib.suppress(QueueExists):  # The settings of a queue are its operator's.
            self._client.create_queue(spoolrack_name(self._prefix + name), timeout=timeout, **settings)

    def info(self, name: str) -> QueueInfo | None:
        """Return a queue's settings and counts; None if there is no such queue."""
        try:
            return self.queue(name).info()
        except _GONE:
            return None

    def delete(self, name: str) -> None:
        """Delete a queue with its bindings; it may be gone already."""
        self._owned.pop(name, None)
        for key in [key for key in self._deferred if key[0] == name]:
            del self._deferred[key]
        records = self._read()
        self._delete_records(
            [
                *(id for id, _, binding in records.bindings if binding.queue == name),
                *(id for id, _ in records.expiring.get(name, ())),
            ]
        )
        with contextlib.suppress(*_GONE):
            self._client.delete_queue(spoolrack_name(self._prefix + name))

    def bind(self, exchange: str, binding: Binding) -> None:
        self._take_or_defer(
            (binding.queue, (exchange, binding)), partial(self._bind, exchange, binding)
        )

    def _bind(self, exchange: str, binding: Binding) -> None:
        if binding not in self.table(exchange, fresh=True):
            self._send({"exchange": exchange, **binding._asdict()})

    def unbind(self, exchange: str, binding: Binding) -> None:
        self._delete_records(id for id, *bound in self._read().bindings if bound == [exchange, binding])

    def table(self, exchange: str, *, fresh: bool) -> list[Binding]:
        """Return the bindings of an exchange: as they are now if `fresh`, or as they were up to
        `TABLE_AGE` ago."""
        records = self._table
        if fresh or records is None or time.monotonic() - self._table_read > TABLE_AGE:
            records = self._read()
        return [binding for _, its_exchange, binding in records.bindings if its_exchange == exchange]

    def publish(
        self,
        queues: Sequence[str],
        body: bytes,
        delay: float | None,
        priority: int = 0,
        *,
        is_transient: bool,
    ) -> None:
        """Send a message to all of the queues, or to none. A transient message isn't sent to queues
        that are gone; another one raises `QueueNotFound`. In an event loop a transient message that the
        server refuses is dropped."""
        try:
            self._publish_where(queues, body, delay, priority, is_transient=is_transient)
        except REFUSALS as error:
            if not (is_transient and in_event_loop()):
                raise
            self._dropped += 1
            if time.monotonic() - self._warned >= WARN_EVERY:
                self._warned = time.monotonic()
                log.warning(
                    "%d events and replies were dropped, the last one for %s: %s",
                    *(self._dropped, ", ".join(queues), error),
                )
                self._dropped = 0

    def _publish_where(
        self,
        queues: Sequence[str],
        body: bytes,
        delay: float | None,
        priority: int,
        *,
        is_transient: bool,
    ) -> None:
        left = list(queues)
        while left:
            try:
                self._publish(left, body, delay, priority)
                return
            except _GONE:
                there = [name for name in left if self.info(name) is not None]
                if not is_transient or there == left:
                    raise
                left = there

    def _publish(
        self, queues: Collection[str], body: bytes, delay: float | None, priority: int
    ) -> None:
        if len(queues) == 1:
            for name in queues:
                self.queue(name).send(body, delay=delay, priority=priority)
            return
        with self._client.batch() as batch:
            for name in queues:
                batch.send_to(self.queue(name), body, delay=delay, priority=priority)

    def refresh(self) -> None:
        """Rewrite the records of this connection's expiring queues, if that is due."""
        if not self._owned or time.monotonic() - self._refreshed < REFRESH:
            return
        self._refreshed = time.monotonic()
        for name in list(self._owned):
            self._record_expiry(name)

    def _record_expiry(self, name: str) -> str:
        """Write a record of an expiring queue, and delete those before it; returns its id."""
        before = [id for id, _ in self._read().expiring.get(name, ())]
        written = self._send({"queue": name, "expires": self._owned[name]})
        self._delete_records(before)
        return written

    def _delete_expired(self, newest: str) -> None:
        """Delete the expiring queues whose newest record is too old at the record `newest`: both times
        are the server's."""
        now = _seconds(newest)
        for name, records in self._read().expiring.items():
            id, expires = records[-1]
            if name not in self._owned and now - _seconds(id) > max(expires, LEAST_EXPIRY):
                self.delete(name)

    def _send(self, record: dict[str, object]) -> str:
        self._table = None
        return self._records.send(json.dumps(record))

    def _delete_records(self, ids: Iterable[str]) -> None:
        for id in list(ids):
            self._table = None
            with contextlib.suppress(MessageNotFound):
                self._records.delete_by_id(id)

    def _read(self) -> _Records:
        found = _Records()
        for message in self._records.peek():
            record = json.loads(message.body)
            if "exchange" in record:
                exchange = record.pop("exchange")
                found.bindings.append((message.id, exchange, Binding(**record)))
            else:
                known = found.expiring.setdefault(record["queue"], [])
                known.append((message.id, record["expires"]))
        self._table, self._table_read = found, time.monotonic()
        return found


def _seconds(id: str) -> float:
    """Return the Unix time at which the server made an id: its first 48 bits are milliseconds."""
    return int(id.replace("-", "")[:12], 16) / 1000.0
