"""Queues, bindings and publications, as kombu's virtual transports need them, on a client.

Owns the names of queues and the records of bindings. Bindings are shared by all processes: each is a
message in the queue `kombu.bindings`, which is only ever listed. A temporary queue is one that kombu
declares with `expires`, as exclusive or with `auto_delete`: the server removes it when it is idle, by
the queue's setting `expires`. Before that it is deleted at the end of the connection that consumes
from it, or for which it is exclusive, and at the end of a program that declared it. A lost connection
deletes none: the next one uses it, or a reply is in it.

What can fail: each call to the server, with a `SpoolrackError`.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import logging
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random, sample
from typing import Final, NamedTuple
from weakref import WeakSet

from .._blocking import Client, Queue
from .._retry import RetryPolicy
from .._settings import Settings
from .._values import QueueInfo
from ..errors import (
    DiskFull,
    Draining,
    MemoryLimit,
    MessageNotFound,
    QueueBeingDeleted,
    QueueExists,
    QueueFull,
    QueueNotFound,
    SendingPaused,
    SpoolrackError,
    Timeout,
    Unreachable,
)

log = logging.getLogger("spoolrack")

BINDINGS: Final = "kombu.bindings"
"""The queue of the records."""
TABLE_AGE: Final = 1.0
"""Seconds for which a table of bindings is used again."""
LEAST_EXPIRY: Final = 60.0
"""Seconds that a temporary queue is kept idle at least: a worker finds its mailbox when it connects
again."""
LEAST_RETENTION: Final = 86_400.0
"""Seconds that a message stays in a temporary queue, if the queue has no `message_ttl`."""
PATIENCE: Final = 2.0
"""Seconds that a worker, or the end of a connection, waits for an answer of the server."""
DECLARE_TIMEOUT: Final = 5.0
"""Seconds that a worker waits for one step of a declaration: after an error it connects again, and can
be stopped."""
SILENCE: Final = 10.0
"""Seconds for which a server that hasn't answered in time is asked nothing that may be left undone."""
TRIES: Final = 7
"""Tries of a call, or of a stream, to reach a server that has an alternate: about 3 s."""
SAMPLE: Final = 4
"""Other bindings that are looked at when one is added: those of queues that are gone are deleted."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_.-]")
_KEPT: Final = 60
"""Characters that are kept of a name that isn't one of Spoolrack's."""
_DIGITS: Final = 16
_GONE: Final = (QueueNotFound, QueueBeingDeleted)
REFUSALS: Final = (DiskFull, MemoryLimit, QueueFull, SendingPaused)
"""Errors of a server that takes no sends now, and does all else."""
SILENT: Final = (Draining, Timeout, Unreachable)
"""Errors of a server that doesn't answer."""
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


def in_worker_process() -> bool:
    """Return whether this is a process of a worker, or one of its children."""
    return "celery.worker.state" in sys.modules


def _declare_timeout() -> float | None:
    return DECLARE_TIMEOUT if in_worker_process() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries(RetryPolicy):
    """The client's policy, but for refusals: a full queue is the caller's business, and an event loop
    waits for none; nor for a server that is away, if kombu has another one to connect to."""

    has_alternates: bool = False

    def pause(self, error: SpoolrackError, *, failed: int, left: float, random: Random) -> float | None:
        if isinstance(error, QueueFull) or (isinstance(error, REFUSALS) and in_event_loop()):
            return None
        if isinstance(error, SILENT) and failed >= TRIES and (self.has_alternates or in_event_loop()):
            return None
        return RetryPolicy.pause(self, error, failed=failed, left=left, random=random)


_silences: Final[dict[str, tuple[float, str]]] = {}
"""Servers that haven't answered in time, by their URLs: until when that is believed, and the error. All
connections of the process share it, so that an end waits once. Each change is one atomic call."""


class Binding(NamedTuple):
    """A row of an exchange's table, as kombu's exchange types read it."""

    routing_key: str
    pattern: str | None
    queue: str


class _StoredBinding(NamedTuple):
    """A message in the queue of bindings."""

    id: str
    exchange: str
    binding: Binding


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
        self._table: list[_StoredBinding] | None = None
        self._table_read = 0.0
        self._own_bindings: set[tuple[str, Binding]] = set()
        """Bindings of this connection."""
        self._declared_queues: set[str] = set()
        """Temporary queues that this connection declared: the program's end deletes them."""
        self._owned_queues: set[str] = set()
        """Those that are deleted at the end of this connection."""
        self._pid = os.getpid()
        self._deferred_steps: dict[tuple[str, object], Callable[[], QueueInfo | None]] = {}
        """Refused steps of declarations: by queue and binding, None: its creation."""
        self._dropped = 0
        self._warned = -WARN_EVERY

    @property
    def silence(self) -> str:
        """What says that the server doesn't answer now; empty: it does, or that isn't known."""
        until, why = _silences.get(self._client._context.transport.target, (0.0, ""))
        return why if time.monotonic() < until else ""

    @property
    def patience(self) -> float:
        """Seconds to wait for an answer: a moment only of a server that is known not to answer."""
        return PATIENCE / 20 if self.silence else PATIENCE

    def note_silence(self, why: str) -> None:
        """Note for `SILENCE` seconds that the server doesn't answer."""
        _silences[self._client._context.transport.target] = time.monotonic() + SILENCE, why

    @contextlib.contextmanager
    def noting_silence(self) -> Iterator[None]:
        """Note whether the server answers what the block asks."""
        try:
            yield
        except SILENT as error:
            self.note_silence(str(error))
            raise
        _silences.pop(self._client._context.transport.target, None)

    def open(self, timeout: float) -> None:
        """Check that the server answers, within `timeout` seconds."""
        self._create(BINDINGS, {}, timeout)
        _open.add(self)

    def close(self) -> None:
        """Delete the temporary queues of this connection, and close the client. Idempotent."""
        if self._pid != os.getpid():
            return
        try:
            for name in list(self._owned_queues):
                if self.silence:
                    log.info("queues of replies stay until they expire: %s", self.silence)
                    break
                with self.noting_silence():
                    self.delete(name, PATIENCE)
        finally:
            self.keep_queues()
            self._client.close()

    def close_for_good(self) -> None:
        """Delete all temporary queues that this connection declared, too: the program ends."""
        self._owned_queues |= self._declared_queues
        self.close()

    def keep_queues(self) -> None:
        """Delete no temporary queue at the end of this connection."""
        self._declared_queues.clear()
        self._owned_queues.clear()

    def consumes_from(self, name: str) -> None:
        """Note that this connection consumes from a queue: it deletes its temporary one."""
        if name in self._declared_queues:
            self._owned_queues.add(name)

    def queue(self, name: str) -> Queue:
        return self._client.queue(spoolrack_name(self._prefix + name))

    def declare(
        self,
        name: str,
        *,
        expires: float | None = None,
        message_ttl: float | None = None,
        is_exclusive: bool = False,
        is_auto_delete: bool = False,
    ) -> QueueInfo | None:
        """Create a queue if it is missing; spans are in seconds. Return what it has, if the answer says
        it."""
        settings: Settings = {}
        if message_ttl:
            settings["retention"] = message_ttl
        if expires or is_exclusive or is_auto_delete:
            idle = max(expires or 0.0, LEAST_EXPIRY)
            settings["expires"] = idle
            settings["retention"] = message_ttl or max(idle, LEAST_RETENTION)
            if expires or is_exclusive:  # Others may consume from one that is only deleted by itself.
                self._declared_queues.add(name)
            if is_exclusive:
                self._owned_queues.add(name)
        create = partial(self._create, name, settings, _declare_timeout())
        return self._take_or_defer((name, None), create)

    def _take_or_defer(
        self, key: tuple[str, object], step: Callable[[], QueueInfo | None]
    ) -> QueueInfo | None:
        """Take a step of a declaration; return its answer, None if it is taken later. In an event loop
        one that the server refuses is: the worker consumes meanwhile from the queues that exist."""
        if not self.is_missing(key[0]):
            try:
                found = step()
                self._deferred_steps.pop(key, None)
                return found
            except REFUSALS as error:
                if not in_event_loop():
                    raise
                log.warning("the queue %s is declared once the server allows it: %s", key[0], error)
        self._deferred_steps[key] = step
        return None

    def declare_deferred(self) -> None:
        """Take the steps that were deferred, up to the first that is refused again."""
        for key, step in list(self._deferred_steps.items()):
            try:
                step()
            except REFUSALS:
                return
            del self._deferred_steps[key]

    def is_missing(self, name: str) -> bool:
        """Return whether the creation of a queue was deferred."""
        return (name, None) in self._deferred_steps

    def _create(self, name: str, settings: Settings, timeout: float | None = None) -> QueueInfo | None:
        """Create a queue or find it; return what it has, None if its settings differ."""
        name = spoolrack_name(self._prefix + name)
        try:
            return self._client.create_queue(name, timeout=timeout, **settings)._created
        except QueueExists:  # The settings of a queue are its operator's.
            return None

    def info(self, name: str, timeout: float | None = None) -> QueueInfo | None:
        """Return a queue's settings and counts; None if there is no such queue."""
        try:
            return self.queue(name).info(timeout=timeout or _declare_timeout())
        except _GONE:
            return None

    def delete(self, name: str, timeout: float | None = None) -> None:
        """Delete a queue with its bindings; it may be gone already."""
        self._owned_queues.discard(name)
        self._declared_queues.discard(name)
        for key in [key for key in self._deferred_steps if key[0] == name]:
            del self._deferred_steps[key]
        self._own_bindings = {each for each in self._own_bindings if each[1].queue != name}
        self._delete_records(
            [record for record in self._read(timeout) if record.binding.queue == name], timeout
        )
        with contextlib.suppress(*_GONE):
            self._client.delete_queue(spoolrack_name(self._prefix + name), timeout=timeout)

    def bind(self, exchange: str, binding: Binding) -> None:
        self._take_or_defer(
            (binding.queue, (exchange, binding)), partial(self._bind, exchange, binding)
        )

    def _bind(self, exchange: str, binding: Binding) -> None:
        self._own_bindings.add((exchange, binding))
        timeout = _declare_timeout()
        if binding in self.table(exchange, fresh=True, timeout=timeout):
            return
        others = self._table or []
        self._send(exchange, binding, timeout)
        queues = {each.binding.queue for each in sample(others, min(SAMPLE, len(others)))}
        self._unbind_missing(queues, timeout)

    def unbind(self, exchange: str, binding: Binding) -> None:
        self._own_bindings.discard((exchange, binding))
        self._delete_records([each for each in self._read() if each[1:] == (exchange, binding)])

    def _unbind_missing(self, queues: Iterable[str], timeout: float | None = None) -> None:
        """Delete the bindings of those queues that are gone: they expired, or were deleted."""
        missing = {name for name in queues if self.info(name, timeout) is None}
        if not missing:
            return
        records = [each for each in self._read(timeout) if each.binding.queue in missing]
        self._delete_records(records, timeout)
        for _, exchange, binding in records:
            # Made anew meanwhile, and bound by the old record.
            if self.info(binding.queue, timeout) is not None:
                self._send(exchange, binding, timeout)

    def table(self, exchange: str, *, fresh: bool, timeout: float | None = None) -> list[Binding]:
        """Return the bindings of an exchange: as they are now if `fresh`, or as they were up to
        `TABLE_AGE` ago."""
        records = self._table
        if fresh or records is None or time.monotonic() - self._table_read > TABLE_AGE:
            records = self._read(timeout)
        if not records and self._own_bindings:
            # The queue of bindings was purged.
            for bound in self._own_bindings:
                self._send(*bound, timeout)
            records = self._read(timeout)
        return [record.binding for record in records if record.exchange == exchange]

    def publish_or_drop(self, publish: Callable[[float], None], routing_key: str) -> None:
        """Call `publish` with the seconds that it may take; drop the message if the server refuses it
        or doesn't answer."""
        why = self.silence
        level = logging.INFO  # The outage itself is a warning.
        if not why:
            try:
                with self.noting_silence():
                    publish(PATIENCE)
                return
            except SILENT as error:
                why = str(error)
            except REFUSALS as error:
                why = str(error)
                level = logging.WARNING
        self._dropped += 1
        if time.monotonic() - self._warned >= WARN_EVERY:
            self._warned = time.monotonic()
            log.log(
                level,
                "%d events and replies were dropped, the last one for %s: %s",
                *(self._dropped, routing_key, why),
            )
            self._dropped = 0

    def publish(
        self,
        queues: Sequence[str],
        body: bytes,
        delay: float | None,
        priority: int = 0,
        *,
        is_transient: bool,
        timeout: float | None = None,
    ) -> None:
        """Send a message to all of the queues of a shard that are there, or to none. If all are gone, a
        transient message is dropped, and another one raises `QueueNotFound`."""
        home = self._client._context.transport.home
        by_shard: dict[str, list[str]] = {}
        for name in queues:
            by_shard.setdefault(home(self.queue(name).name), []).append(name)
        for left in by_shard.values():
            while left:
                try:
                    self._publish(left, body, delay, priority, timeout)
                    break
                except _GONE:
                    there = [name for name in left if self.info(name, timeout) is not None]
                    if there == left or not (there or is_transient):
                        raise
                    self._unbind_missing(set(left) - set(there), timeout)
                    left = there

    def _publish(
        self,
        queues: Collection[str],
        body: bytes,
        delay: float | None,
        priority: int,
        timeout: float | None,
    ) -> None:
        if len(queues) == 1:
            for name in queues:
                self.queue(name).send(body, delay=delay, priority=priority, timeout=timeout)
            return
        with self._client.batch(timeout=timeout) as batch:
            for name in queues:
                batch.send_to(self.queue(name), body, delay=delay, priority=priority)

    def _send(self, exchange: str, binding: Binding, timeout: float | None = None) -> None:
        self._table = None
        record = json.dumps({"exchange": exchange, **binding._asdict()})
        self._records.send(record, timeout=timeout)

    def _delete_records(self, records: Iterable[_StoredBinding], timeout: float | None = None) -> None:
        for record in records:
            self._table = None
            with contextlib.suppress(MessageNotFound):
                self._records.delete_by_id(record.id, timeout=timeout)

    def _read(self, timeout: float | None = None) -> list[_StoredBinding]:
        bindings = []
        for message in self._records.peek(timeout=timeout):
            # An older version had records of expiring queues, too. Any other message isn't kombu's.
            with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
                record = json.loads(message.body)
                bindings.append(_StoredBinding(message.id, record.pop("exchange"), Binding(**record)))
        self._table, self._table_read = bindings, time.monotonic()
        return bindings


_open: Final[WeakSet[Broker]] = WeakSet()


@atexit.register
def _close_what_is_left_open() -> None:
    """Delete, at the program's end, the temporary queues of connections that were not closed."""
    for broker in list(_open):
        try:
            broker.close_for_good()
        except SpoolrackError as error:
            log.info("queues of replies stay until they expire: %s", error)
