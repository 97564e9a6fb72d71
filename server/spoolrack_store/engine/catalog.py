"""Which queues there are, and how each is set: the files in `config/`.

A queue exists from the moment its first settings file is durable to the moment its tombstone is. A
version is created exclusively and never replaced, so a change is one new file, and whoever reads
the folder sees the old settings or the new. What a tombstone dooms is emptied by `remover`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from ..files import layout
from ..files.disk import Kind
from ..files.folders import NameTaken, explained
from ..index.hidden import QueueIndex
from ..model.clock import SECOND, Millis
from ..model.errors import (
    DamagedSettings,
    InvalidQueueName,
    QueueBeingDeleted,
    QueueExists,
    QueueNotFound,
    StoreError,
)
from ..model.names import is_queue_name
from ..model.settings import QueueSettings, Record, decode
from .live import Live, check_target, living
from .root import Root
from .versions import SETTINGS_FILE, Versions

log = logging.getLogger(__name__)

Changed = TypeVar("Changed")

_RIVALS: Final = 3
"""So many times somebody else may be faster with the next version of a queue's settings."""
_WRITTEN_BY_NOW: Final = Millis(2 * SECOND)
"""Settings that aren't whole for so long were being written by somebody who has died."""


class Catalog:
    """Not thread-safe."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self.queues: dict[str, Live] = {}
        self.doomed: dict[str, int] = {}
        """Deleted queues that aren't emptied yet, with their tombstones' versions."""
        self.doubtful: set[str] = set()
        """Those of them of which others have written the tombstone, which may not be durable yet."""
        self.unread: dict[str, tuple[int, Millis]] = {}
        """Queues of which newer settings can't be read yet: their version, and since when."""
        self.reset: set[str] = set()
        """Queues that this start gave the default settings, and another `created_at`, for lost ones."""
        self._made: set[str] = set()
        self._ended: set[str] = set()
        """Queues of others that were made, or have ended, and whose indexes don't know it yet."""
        self._versions = Versions(root)

    def require(self, name: str) -> Live:
        """The queue `name`; raises `InvalidQueueName` or `QueueNotFound`."""
        live = self.queues.get(name)
        if live is not None:
            return live
        if not is_queue_name(name):
            raise InvalidQueueName(name=name)
        if self._root.is_shared:
            self.refresh()  # Somebody else may have made it a moment ago.
            if name in self.queues:
                return self.queues[name]
        raise QueueNotFound(queue=name)

    def require_open(self, name: str) -> Live:
        """The same for a send, which may be meant for the queue that is made again: if its name is
        still being freed, `QueueBeingDeleted`."""
        if name in self.doomed:
            raise QueueBeingDeleted(queue=name)
        return self.require(name)

    def create(self, name: str, settings: QueueSettings) -> Live:
        if not is_queue_name(name):
            raise InvalidQueueName(name=name)
        return self._unrivalled(lambda: self._create(name, settings))

    def _create(self, name: str, settings: QueueSettings) -> Live:
        if name in self.doomed:
            raise QueueBeingDeleted(queue=name)
        there = self.queues.get(name)
        if there is not None:
            if there.settings != settings:
                raise QueueExists(queue=name, differing=there.settings.differing(settings))
            return there
        check_target(name, settings, self.queues)
        version = self._versions.next_version(name, 0)
        # The folder first: one without settings is nothing, and settings without one are a queue.
        made = self._root.folders.make(layout.queue_folder(name))
        record = self._versions.first(settings)
        try:
            written_ns = self._versions.write(name, version, record)
        except StoreError:
            if made:
                self._root.folders.drop_folder(layout.queue_folder(name))
            raise
        live = living(name, version, record, written_ns)
        self._root.index.queues[name] = QueueIndex()
        self.queues[name] = live
        return live

    def update(self, name: str, changes: Mapping[str, object]) -> Live:
        return self._unrivalled(lambda: self._update(name, changes))

    def _update(self, name: str, changes: Mapping[str, object]) -> Live:
        there = self.require(name)
        settings = there.settings.changed(changes)
        if settings == there.settings:
            return there
        check_target(name, settings, self.queues)
        version = self._versions.next_version(name, there.version)
        written_ns = self._versions.write(name, version, there.record(settings))
        live = replace(there, settings=settings, version=version, written_ns=written_ns)
        self.queues[name] = live
        drop = partial(self._versions.drop, name, there.version, there.written_ns)
        self._root.after_sync.append(drop)
        return live

    def doom(self, name: str) -> None:
        """Write the tombstone. Once it is durable, the queue is deleted."""
        self._unrivalled(lambda: self._doom(name))

    def _doom(self, name: str) -> None:
        live = self.require(name)
        version = self._versions.next_version(name, live.version)
        # A dead letter may have just left: a crash that kept the tombstone and not that move would
        # delete it with the queue.
        self._root.folders.settle(layout.queue_folder(name))
        self._versions.write(name, version, live.record(None))
        del self.queues[name]
        self.reset.discard(name)
        self.doomed[name] = version
        self._root.after_sync.append(partial(self._versions.drop, name, live.version, live.written_ns))

    def _unrivalled(self, change: Callable[[], Changed]) -> Changed:
        """Make a change that rests on the newest version, whoever wrote it."""
        for _ in range(_RIVALS):
            if self._root.is_shared:
                self.refresh()
            try:
                return change()
            except NameTaken:
                log.info("somebody else changed the same queue first")
        return change()

    def is_still_doomed(self, name: str) -> bool:
        """Whether the queue is deleted and not buried, by anybody; False if that can't be told now."""
        if self._root.is_shared:
            try:
                self.refresh()
            except StoreError as error:
                log.warning("the deleted queue %s has to wait: %s", name, error)
                return False
        return name in self.doomed

    def bury_tombstone(self, name: str) -> None:
        """Forget the doomed queue `name`, of which nothing is left but files of its settings.

        The tombstone goes last: without it, an older version would count again, and beside it no newer
        one would. As long as one of them can't be unlinked, the queue is doomed, and the next tick
        tries again.
        """
        if not self.is_still_doomed(name):
            return
        try:
            # Also what a process that died has superseded, and did not come to unlink.
            self._versions.leave_older(name, self.doomed[name])
        except StoreError as error:
            log.warning("the deleted queue %s has to wait: %s", name, error)
            return
        if self._versions.drop_left(name):
            # What could be unlinked now must be so durably before the tombstone goes.
            if not self._versions.is_left(name):
                self._root.after_sync.append(lambda: self.bury_tombstone(name))
            return
        self._versions.drop(name, self.doomed[name])
        gone = not self._versions.is_left(name)
        if gone:
            del self.doomed[name]
        # Otherwise the tombstone is there still, and isn't superseded yet.
        self._versions.forget(name, gone=gone)

    def load(self) -> None:
        """Read `config/`: the newest readable version of each queue counts."""
        found: dict[str, dict[int, Record]] = {}
        damaged: dict[str, int] = {}
        for entry in self._root.folders.scan(layout.CONFIG):
            path = f"{layout.CONFIG}/{entry.name}"
            match = SETTINGS_FILE.fullmatch(entry.name)
            if match is None or entry.kind is not Kind.FILE:
                self._put_aside(path, "not a settings file")
                continue
            name, version = match["queue"], int(match["version"])
            try:
                record = decode(self._read(path), entry.name)
            except DamagedSettings as error:
                self._put_aside(path, str(error))
                damaged[name] = max(version, damaged.get(name, 0))
                continue
            found.setdefault(name, {})[version] = record
        for name, versions in sorted(found.items()):
            newest = max(versions)
            self._versions.require_durable(layout.config(name, newest))
            for version in versions.keys() - {newest}:
                # Not before the newest is durable: the crash may have come before its sync.
                self._root.after_sync.append(partial(self._versions.drop, name, version))
            self._take(name, newest, versions[newest])
        for name, version in sorted(damaged.items()):
            # Written half when a crash came, it never counted. With messages, it did.
            if name not in found and self._root.has_messages_of(name):
                self.use_defaults(name, version + 1, "damaged, and in quarantine")

    def use_defaults(self, name: str, version: int = 1, why: str = "lost") -> None:
        """Serve a queue that has messages and no settings; raises `StoreError`.

        A message is in `queues/` or `delay/` only after its queue is durable, and before its tombstone
        is unlinked. In `new/` a send may lie that came later, and was never answered.
        """
        record = self._versions.first(QueueSettings())
        self._versions.write(name, version, record)
        self._take(name, version, record)
        self.reset.add(name)
        log.error(
            "the settings of the queue %s are %s: its messages are served with the default settings, "
            "its deduplication ids are forgotten; set it up again with `spoolrack queues set %s`",
            name,
            why,
            name,
        )

    # What others do.

    def is_current(self, live: Live) -> bool:
        """Whether `live` is still the newest that is known of the queue, by anybody.

        Who deletes a queue writes the tombstone first, and then looks for what is in `new/`. Who sends
        writes into `new/` first, and then asks this. So one of them sees the other.
        """
        # A version whose writing failed may have been passed over.
        newer = (live.version + 1, live.version + 2)
        return (
            all(self._versions.written_ns(live.name, version) is None for version in newer)
            and self._versions.written_ns(live.name, live.version) == live.written_ns
        )

    def refresh(self) -> None:
        """Learn what others have written into `config/`.

        What is known of the messages stays as it is until `take_made`: this may be called in the midst
        of an operation on them.
        """
        listed = self._versions.listed()
        for name in (self.queues.keys() | self.doomed.keys()) - listed.keys():
            if name in self.queues and self._write_again(self.queues[name]):
                continue
            self.queues.pop(name, None)
            self.doomed.pop(name, None)
            self._versions.forget(name, gone=True)
            self._ended.add(name)
        for name in self.unread.keys() - listed.keys():
            del self.unread[name]
        for name, versions in sorted(listed.items()):
            self._learn(name, versions)
            if name in self.doomed:
                # Whoever wrote the tombstone may not live to unlink what it supersedes.
                self._versions.leave(name, [each for each in versions if each < self.doomed[name]])

    def _write_again(self, live: Live) -> bool:
        """Write settings that were unlinked by hand; False if the queue has ended, or has no messages.

        A tombstone is unlinked when nothing of its queue is left in `queues/` and `delay/`.
        """
        name = live.name
        if not self._root.has_messages_in_queue(name):
            return False
        version = self._versions.next_version(name, live.version)
        try:
            self._root.folders.make(layout.CONFIG)
            written_ns = self._versions.write(name, version, live.record(live.settings))
        except NameTaken:
            return True  # Another process was faster.
        except StoreError as error:
            log.error("the settings of the queue %s are lost, and can't be written: %s", name, error)
            return True
        log.error("the settings of the queue %s were lost: they are written again", name)
        self.queues[name] = replace(live, version=version, written_ns=written_ns)
        return True

    def take_made(self) -> set[str]:
        """The queues that others have made since the last call: what is in them isn't known yet.

        Of those that have ended nothing is known any more, and their credits are back.
        """
        indexes = self._root.index.queues
        for name in self._ended & indexes.keys():
            indexes.pop(name).forget_all()
            if name in self.queues or name in self.doomed:
                indexes[name] = QueueIndex()
                self._made.add(name)
        self._ended.clear()
        made, self._made = self._made, set()
        return made & indexes.keys()

    def put_aside_unread(self) -> None:
        """Whoever was writing settings that never became whole has died: a version is free again."""
        now = self._root.clock.monotonic()
        for name, (version, since) in list(self.unread.items()):
            if now - since >= _WRITTEN_BY_NOW:
                del self.unread[name]
                self._put_aside(layout.config(name, version), "never written whole")

    def _learn(self, name: str, versions: Sequence[int]) -> None:
        """Take in the newest version of one queue that can be read."""
        live = self.queues.get(name)
        for version in versions:
            written_ns = self._versions.written_ns(name, version)
            if self.doomed.get(name) == version or (
                live is not None and (live.version, live.written_ns) == (version, written_ns)
            ):
                record = None
                break
            try:
                record = decode(self._root.disk.read(layout.config(name, version)), name)
                break
            except FileNotFoundError:
                return  # Superseded: what came after it will be heard of.
            except (OSError, DamagedSettings) as error:
                # Mostly they are just being written, and nobody says when they have been.
                log.debug("new settings of the queue %s can't be read: %s", name, error)
                if self.unread.get(name, (0, 0))[0] != version:
                    self.unread[name] = version, self._root.clock.monotonic()
        else:
            return
        if version == versions[0]:
            self.unread.pop(name, None)
        if record is not None:
            self._take_over(name, version, record, written_ns or 0)

    def _take_over(self, name: str, version: int, record: Record, written_ns: int) -> None:
        """Others have written this. It may not be durable, and what we promise will rest on it."""
        root, live = self._root, self.queues.get(name)
        root.syncer.folder_changed(layout.CONFIG)
        root.syncer.folder_changed(layout.QUEUES)
        if live is None or not live.goes_on_as(version, record.created_at):
            if name in root.index.queues:
                self._ended.add(name)  # What is known under this name is another queue's.
            else:
                root.index.queues[name] = QueueIndex()
                self._made.add(name)
        if record.settings is None:
            self.queues.pop(name, None)
            self.doomed[name] = version
            self.doubtful.add(name)
            root.after_sync.append(lambda: self.doubtful.discard(name))
            return
        self.doomed.pop(name, None)
        self.queues[name] = living(name, version, record, written_ns)

    def _take(self, name: str, version: int, record: Record) -> None:
        if record.settings is None:
            self.doomed[name] = version
            return
        self.queues[name] = living(name, version, record, self._versions.noted_ns(name, version))
        self._root.index.queues[name] = QueueIndex()
        try:
            self._root.make_again(layout.queue_folder(name))
        except StoreError as error:
            log.warning("the folder of %s is made with its next message: %s", name, error)

    def _put_aside(self, path: str, why: str) -> None:
        try:
            self._root.folders.quarantine(path, why)
        except StoreError as error:
            log.error("%a doesn't count (%s), and can't be put aside: %s", path, why, error)

    def _read(self, path: str) -> bytes:
        """What can't be read now stops the start: without it, the messages would be nobody's."""
        try:
            return self._root.disk.read(path)
        except OSError as error:
            raise explained(error) from error
