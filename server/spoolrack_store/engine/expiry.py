"""Expiry: a queue with `expires` is removed once it has been idle for so long.

Idle: the queue holds no message, no receive or reserve waits for one, and no request names it. Each
process measures by its own monotonic clock, from when it first saw the queue: a start counts as use.
Uses of other processes show in the time of the folder's last change: moves of messages change it, and a
process touches the folder where its own use moves nothing. A removal is `DeleteQueue`, under the lock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from ..files.disk import explained
from ..model.clock import SECOND, Millis, span_text
from ..model.errors import StoreError
from ..model.names import NotAName, parse
from ..model.operations import CreateQueue, DeleteQueue, Request
from .catalog import Catalog, QueueRecord
from .moves import Moves
from .part import Part

log = logging.getLogger(__name__)

LOOKS: Final = 4
"""Looks at a queue while it expires: the folder is touched as often."""
SLICE: Final = 100
"""Queues that one commit removes."""


@dataclass(slots=True)
class _Use:
    """The last use of a queue, as far as this process knows."""

    salt: str
    since: Millis
    """Monotonic, as all times here."""
    changed_ns: int
    """When the folder had changed at the last look."""
    look_at: Millis
    touched: Millis


class Expiry(Part):
    """The idle queues. Not thread-safe."""

    def __init__(self, moves: Moves, catalog: Catalog) -> None:
        self._moves = moves
        self._catalog = catalog
        self._uses: dict[str, _Use] = {}
        self._next = Millis(0)
        self.pending = (catalog.expiring, self._uses)
        self.is_awaited: Callable[[str], bool] = lambda queue: False
        """Whether a receive or reserve of this process waits for the queue."""

    def next_due(self) -> Millis | None:
        return self._next if any(self.pending) else None

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
        """Look at the queues whose time has come; remove those that are idle for long enough."""
        now, records = self._moves.clock.monotonic(), self._catalog.records
        for name in self._uses.keys() - self._catalog.expiring.keys():
            del self._uses[name]
        expired = []
        for name in self._catalog.expiring:
            record, use = records[name], self._uses.get(name)
            if use is None or use.salt != record.salt:
                look_at = Millis(now + _pause(record))
                self._uses[name] = _Use(record.salt, now, self._changed_ns(name), look_at, Millis(0))
            elif now >= use.look_at:
                use.look_at = Millis(now + _pause(record))
                if self._look(record, use):
                    expired.append(record)
        for record in islice(expired, SLICE):
            self._remove(record)
        left = (self._uses[record.name] for record in expired[SLICE:])
        for use in left:
            use.look_at = now
        looks = (use.look_at for use in self._uses.values())
        self._next = Millis(max(min(looks, default=now), now + SECOND))

    def _look(self, record: QueueRecord, use: _Use) -> bool:
        """Return whether a queue has been idle for long enough."""
        name, now = record.name, self._moves.clock.monotonic()
        queue = self._moves.index.queues.get(name)
        if self.is_awaited(name) or (queue and any(entry.held for entry in queue.entries)):
            self._count(record, use)
        changed_ns = self._changed_ns(name)
        if changed_ns != use.changed_ns:
            use.changed_ns, use.since = changed_ns, now
        is_shared = self._moves.changes is not None and self._moves.changes.is_shared
        # Another process may touch the folder so much later than it is used.
        patience = record.settings.expires + (2 * _pause(record) if is_shared else 0)
        return now - use.since >= patience and not self._is_needed(record)

    def _is_needed(self, record: QueueRecord) -> bool:
        """Return whether an idle queue will be used: by a schedule, as a dead-letter queue, or by a
        send of any process that isn't published yet."""
        if record.schedules or any(
            other.settings.dead_letter_queue == record.name for other in self._catalog.records.values()
        ):
            return True
        for each in self._moves.scan("new"):
            with suppress(NotAName):
                if parse(f"new/{each.name}").queue == record.name:
                    return True
        return False

    def _remove(self, record: QueueRecord) -> None:
        try:
            self._catalog.delete(DeleteQueue(name=record.name, if_version=record.version))
        except StoreError as error:
            log.warning("the queue %s, which has expired, stays for now: %s", record.name, error)
            return
        span = span_text(record.settings.expires)
        log.info("the queue %s is removed: it was idle for its expires of %s", record.name, span)

    def _changed_ns(self, name: str) -> int:
        try:
            return self._moves.disk.facts(f"queues/{name}").changed_ns
        except OSError as error:
            raise explained(error) from error


def _pause(record: QueueRecord) -> Millis:
    """Return the milliseconds between two looks at a queue."""
    return Millis(max(record.settings.expires // LOOKS, SECOND))
