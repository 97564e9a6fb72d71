"""Expiry: a queue with `expires` is removed once it has been idle for that time.

Idle: the queue holds no message, no receive or reserve waits for one, and no request names it. Each
process measures by its own monotonic clock, from when it first saw the queue: a start counts as use.
Uses of other processes show in the time of the folder's last change: moves of messages change it, and a
process touches the folder where its own use moves nothing. A removal is `DeleteQueue`, under the lock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from ..files.disk import explaining
from ..model.clock import SECOND, Millis, span_text
from ..model.operations import CreateQueue, DeleteQueue, Request
from .catalog import Catalog, QueueRecord
from .deadlines import Deadlines
from .moves import Moves
from .part import Part, postponing

log = logging.getLogger(__name__)

LOOKS: Final = 4
"""Looks at a queue while it expires: the folder is touched as often."""


@dataclass(slots=True)
class _Use:
    """The last use of a queue, as far as this process knows."""

    salt: str
    since: Millis
    """Monotonic, as all times here."""
    changed_ns: int
    """When the folder had changed at the last look."""
    touched: Millis


class Expiry(Part):
    """The idle queues. Not thread-safe."""

    def __init__(self, moves: Moves, catalog: Catalog) -> None:
        self._moves = moves
        self._catalog = catalog
        self._uses: dict[str, _Use] = {}
        self._looks = Deadlines[str]()
        """When each queue is looked at next."""
        self._next = Millis(0)
        """No look comes before: the queues of one second share a commit."""
        self._sent: set[str] | None = None
        """Queues to which any process has sent what isn't enqueued, if this commit has looked."""
        self.pending = (catalog.newly_expiring, self._looks.times)
        self.is_awaited: Callable[[str], bool] = lambda queue: False
        """Whether a receive or reserve of this process waits for the queue."""

    def next_due(self) -> Millis | None:
        if self._catalog.newly_expiring:
            return self._next
        due = self._looks.next()
        return None if due is None else max(due, self._next)

    def note(self, requests: Iterable[Request[Any]]) -> None:
        """Count requests as uses of their queues."""
        for request in requests:
            queue = request.name if isinstance(request, CreateQueue) else getattr(request, "queue", "")
            use = self._uses.get(queue)
            if use is not None and queue in self._catalog.expiring:
                self._count(self._catalog.records[queue], use)

    def _count(self, record: QueueRecord, use: _Use) -> None:
        """Count a use of this process, and show it to the others."""
        use.since = now = self._moves.clock.monotonic()
        is_shared = self._moves.changes is not None and self._moves.changes.is_shared
        if is_shared and now - use.touched >= _pause(record):
            use.touched = now
            self._moves.disk.touch(f"queues/{record.name}")

    def advance(self) -> None:
        """Look at the queues whose time has come, as many as the commit may; remove those that are idle
        for long enough."""
        now, new, effort = (
            self._moves.clock.monotonic(),
            self._catalog.newly_expiring,
            self._moves.effort,
        )
        self._sent = None
        for _ in range(effort.share()):
            name = next(iter(new), None) or self._looks.pop(now)
            if name is None:
                self._next = Millis(now + SECOND)
                return
            new.pop(name, None)
            effort.spend()
            self._look(name, now)

    def _look(self, name: str, now: Millis) -> None:
        record, use = self._catalog.records.get(name), self._uses.get(name)
        if record is None or name not in self._catalog.expiring:
            self._uses.pop(name, None)
            return
        self._looks.set(name, Millis(now + _pause(record)))
        if use is None or use.salt != record.salt:
            self._uses[name] = _Use(record.salt, now, self._changed_ns(name), Millis(0))
        elif self._is_idle(record, use, now) and not self._is_needed(record):
            self._moves.effort.spend()
            self._remove(record)

    def _is_idle(self, record: QueueRecord, use: _Use, now: Millis) -> bool:
        """Return whether a queue has been idle for long enough."""
        queue = self._moves.index.queues.get(record.name)
        if self.is_awaited(record.name) or (queue and queue.total):
            self._count(record, use)
        changed_ns = self._changed_ns(record.name)
        if changed_ns != use.changed_ns:
            use.changed_ns, use.since = changed_ns, now
        is_shared = self._moves.changes is not None and self._moves.changes.is_shared
        # Another process may touch the folder so much later than it is used.
        patience = record.settings.expires + (2 * _pause(record) if is_shared else 0)
        return now - use.since >= patience

    def _is_needed(self, record: QueueRecord) -> bool:
        """Return whether an idle queue will be used: by a schedule, as a dead-letter queue, or by a
        send of any process that isn't enqueued yet."""
        if record.schedules or self._catalog.sources.get(record.name):
            return True
        if self._sent is None:
            self._sent = {name.queue for name in self._moves.names_sent()}
        return record.name in self._sent

    def _remove(self, record: QueueRecord) -> None:
        with postponing(log, "the removal of the queue %s, which has expired,", record.name):
            self._catalog.delete(DeleteQueue(name=record.name, if_version=record.version))
            span = span_text(record.settings.expires)
            log.info("the queue %s is removed: it was idle for its expires of %s", record.name, span)

    def _changed_ns(self, name: str) -> int:
        with explaining():
            return self._moves.disk.facts(f"queues/{name}").changed_ns


def _pause(record: QueueRecord) -> Millis:
    """Return the milliseconds between two looks at a queue."""
    return Millis(max(record.settings.expires // LOOKS, SECOND))
