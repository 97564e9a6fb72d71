"""What lies in `new/` after the death of the process that wrote it.

What is there whole may have been acknowledged, so it is delivered; size and checksum tell it from what
was still being written, which nobody was told about. Who it belonged to, and whether that process is
dead, must be known to the caller.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from ..files import layout
from ..files.reader import Damaged, Forbidden, Gone, read_message
from ..files.syncer import SyncFailed
from ..index.hidden import Hidden
from ..index.ready import BatchFolder
from ..model.clock import Millis
from ..model.errors import StoreError
from ..model.names import Batch, Entry, Filed, Item, length_of, parse_entry, unsent
from ..model.settings import MAX_DELAY, MAX_VISIBILITY
from ..model.transitions import Move, State
from .beliefs import MARGIN
from .publisher import Written
from .root import Root, path_in
from .sender import Sender

log = logging.getLogger(__name__)


class Heir:
    """Not thread-safe."""

    def __init__(self, root: Root, sender: Sender) -> None:
        self._root = root
        self._sender = sender
        self.delivered = 0
        """Messages found whole."""
        self.undone = 0
        """Files and folders that were never written whole."""

    def take_over(
        self, path: str, filed: Filed, item: str | BatchFolder, *, superseded: int = 0
    ) -> None:
        """Publish `item` after the next sync, or remove it if it was never sent.

        `superseded` of a folder's entries are known to be in later states elsewhere.
        """
        try:
            self._check(path, filed.item, item, superseded)
        except Damaged as error:
            if error.torn:
                # It was being written when the process died: nobody was told that it is sent.
                self._undo_send(path, filed)
            else:
                self._quarantine(path, str(error))
            return
        except (Gone, Forbidden, StoreError) as error:
            log.error("%a can't be read, and is not delivered before the next start: %s", path, error)
            return
        names = [item] if isinstance(item, str) else item.names
        try:
            self._sender.deduplication.take_over(filed.queue, names)
        except StoreError as error:
            log.error("%a is not delivered for now: %s", path, error)
            return
        self.delivered += len(names)
        left = 0 if filed.due is None else min(filed.due - self._root.clock.wall(), MAX_DELAY)
        written = Written(
            queue=filed.queue,
            item=replace(filed.item, owner=None),
            names=[str(replace(parse_entry(name), owner=None)) for name in names],
            bytes=sum(map(length_of, names)),
            path=path,
            due=filed.due,
            due_monotonic=Millis(self._root.clock.monotonic() + left),
        )
        if filed.token is not None:
            written.lease = self._lease(filed, written)
        # Only once what was read is durable: the crash may have come before the sync.
        self._root.after_sync.append(lambda: self._sender.publisher.publish(written))

    def _lease(self, filed: Filed, written: Written) -> Hidden:
        """The lease that the name tells of, which a consumer may know of: it goes on."""
        assert filed.due is not None
        clock, chores = self._root.clock, self._root.chores
        left = min(filed.due - clock.wall(), MAX_VISIBILITY)
        if self._root.is_shared:
            left += MARGIN  # Its end was told by another's clock.
        return Hidden(
            BatchFolder(written.item, written.names, written.bytes)
            if isinstance(written.item, Batch)
            else str(written.item),
            due=filed.due,
            due_monotonic=Millis(clock.monotonic() + max(left, chores.wait)),
            token=filed.token,
        )

    def _undo_send(self, path: str, filed: Filed) -> None:
        self.undone += 1
        target = layout.removed(filed.queue, unsent(filed.item))
        is_folder = isinstance(filed.item, Batch)
        try:
            self._root.folders.move(
                Move.DELETE, State.SENT, path, State.REMOVED, target, is_folder=is_folder
            )
        except StoreError as error:
            log.error("%a was never sent, and can't be removed: %s", path, error)

    def _check(self, path: str, item: Item, read: str | BatchFolder, superseded: int) -> None:
        """Raise `Damaged` if what lies in `new/` isn't, whole, what was sent."""
        if isinstance(read, str):
            self._check_file(path, parse_entry(read))
            return
        assert isinstance(item, Batch)
        there = len(read) + superseded
        if there < item.count:
            raise Damaged(f"{there} of its {item.count} messages are there", torn=True)
        for name in read.names:
            self._check_file(path_in(path, name), parse_entry(name))

    def _check_file(self, path: str, entry: Entry) -> None:
        disk = self._root.disk
        # Whoever wrote it may have died because a sync failed.
        read_message(disk, path, entry, afresh=True)
        if not disk.can_sync_all:
            # Else the next sync, which covers the whole file system, does it.
            try:
                disk.sync_file(path)
            except OSError as error:
                raise SyncFailed(str(error)) from error

    def _quarantine(self, path: str, why: str) -> None:
        try:
            self._root.folders.quarantine(path, why)
        except StoreError as error:
            log.error("%a is not served (%s), and can't be put aside: %s", path, why, error)
