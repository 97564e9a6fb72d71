"""Adopts messages that somebody `mv`ed into `new/`: a regular file named `<queue>:<any uuid>`.

Such a file says neither its size nor its checksum, so it must first be left alone for two seconds:
then it is taken for complete, synced, summed, and renamed to an id of its arrival. From then on it is a
message like any other, with the same promises. What isn't a regular file with one link is left alone.
"""

from __future__ import annotations

import errno
import logging
import zlib
from dataclasses import replace
from typing import Final

from ..files import layout
from ..files.disk import Facts, Kind
from ..files.folders import explained
from ..files.syncer import SyncFailed
from ..model.clock import SECOND, Millis
from ..model.errors import StoreError
from ..model.names import Entry, NotAName, parse_filed
from ..model.transitions import Move, State
from .catalog import Catalog
from .publisher import Publisher, Written
from .root import Root, path_in

log = logging.getLogger(__name__)

UNCHANGED_FOR: Final = Millis(2 * SECOND)
LOOK_EVERY: Final = Millis(2 * SECOND)
_FAILED_SYNC: Final = frozenset({errno.EIO, errno.ENOSPC, errno.EDQUOT})
"""What fsync(2) itself says, and open(2) of a file that is there doesn't."""


class Adoption:
    """Not thread-safe."""

    def __init__(self, root: Root, catalog: Catalog, publisher: Publisher) -> None:
        self._root = root
        self._catalog = catalog
        self._publisher = publisher
        self._seen: dict[str, tuple[Facts, Millis]] = {}
        """What was found untagged in `new/`, and since when it is as it is, monotonic."""

    def look(self) -> None:
        """Adopt what has been unchanged for long enough. The next commit makes it durable.

        Raises `SyncFailed` if a file can't be made durable.
        """
        root = self._root
        now = root.clock.monotonic()
        there: dict[str, tuple[Facts, Millis]] = {}
        for found in root.folders.scan(layout.NEW):
            if found.kind is not Kind.FILE or not self._is_untagged(found.name):
                continue
            path = path_in(layout.NEW, found.name)
            try:
                facts = root.disk.facts(path)
            except OSError as error:
                log.warning("%a can't be looked at, and is not adopted: %s", path, error)
                continue
            if facts.links != 1:
                continue  # It has a second name somewhere, through which it could be changed.
            before = self._seen.get(found.name)
            since = before[1] if before is not None and before[0] == facts else now
            there[found.name] = (facts, since)
            if now - since >= max(UNCHANGED_FOR, root.chores.wait):
                del there[found.name]
                self._adopt(path, parse_filed(found.name).queue)
        self._seen = there

    def _is_untagged(self, name: str) -> bool:
        try:
            filed = parse_filed(name)
        except NotAName:
            return False
        item = filed.item
        return (
            isinstance(item, Entry)
            and str(item) == item.id
            and filed.due is None
            and filed.queue in self._catalog.queues
        )

    def _sync(self, path: str) -> None:
        """Make the file durable; raises `OSError` if it can't be opened, else `SyncFailed`."""
        try:
            self._root.disk.sync_file(path)
        except OSError as error:
            if error.errno in _FAILED_SYNC:
                # The kernel takes it for written now: a repetition would succeed, and prove nothing.
                raise SyncFailed(str(error)) from error
            raise

    def _adopt(self, path: str, queue: str) -> None:
        root = self._root
        limit = self._catalog.queues[queue].settings.max_message_size
        try:
            body = root.disk.read(path, limit + 1)
            if len(body) > limit:
                root.folders.quarantine(path, f"more than the {limit} bytes that {queue} takes")
                return
            self._sync(path)
            entry = Entry(id=root.ids.make(), size=len(body), crc=zlib.crc32(body))
            target = layout.sent(queue, replace(entry, owner=root.owner))
            moved = root.folders.move(Move.ADOPT, State.SENT, path, State.SENT, target)
        except OSError as error:
            log.error("%a can't be adopted: %s", path, explained(error))
            return
        except StoreError as error:
            log.error("%a can't be adopted: %s", path, error)
            return
        if moved:
            log.info("adopted %s as message %s of the queue %s", path, entry.id, queue)
            written = Written(
                queue=queue,
                item=entry,
                names=[str(entry)],
                bytes=entry.length,
                path=target,
                due=None,
                due_monotonic=root.clock.monotonic(),
            )
            root.after_sync.append(lambda: self._publisher.publish(written))
