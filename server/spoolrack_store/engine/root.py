"""An open root: what the parts of the engine share.

It owns nothing but the references, and the list of what may be done only after the next sync.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from ..files import layout
from ..files.disk import Disk, Found, Kind
from ..files.folders import Folders
from ..files.syncer import Syncer
from ..index.hidden import Hidden, Index, Unlisted
from ..index.ready import BatchFolder
from ..model.chores import ALL_CHORES, Chores
from ..model.clock import Clock, Millis
from ..model.errors import StoreError
from ..model.figures import Statistics
from ..model.ids import IdMaker, is_id
from ..model.names import Batch, Item, NotAName, parse_entry, parse_filed, parse_item
from .recent import RECENT_BYTES, Recent

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Root:
    disk: Disk
    syncer: Syncer
    folders: Folders
    index: Index
    clock: Clock
    random: Random
    ids: IdMaker
    owner: str
    """The name under which this process writes; its lock in `owners/` says that it lives."""
    choice: int = 1
    """A receive takes any of so many of the oldest messages, to keep peers out of each other's way."""
    chores: Chores = ALL_CHORES
    """What this process does without being asked."""
    recent: Recent = field(default_factory=lambda: Recent(RECENT_BYTES))
    lost_races: int = 0
    """Claims that somebody else was faster with, since the start."""
    histories: set[str] = field(default_factory=set)
    """What lies in `history/`: few messages have one, and the reaper unlinks it with the message."""
    knows_histories: bool = True
    """Whether nobody else writes there. If not, each message may have one."""
    is_shared: bool = False
    """Whether other processes have the root open, too."""
    unread: set[str] = field(default_factory=set)
    """Queues of which the start could not read everything: what isn't known of them may be there."""
    after_sync: list[Callable[[], None]] = field(default_factory=list)
    """To be done once all that was done before is durable. May not raise a `StoreError`."""

    @property
    def statistics(self) -> Statistics:
        return self.syncer.statistics

    def due_after(self, span: int) -> tuple[Millis, Millis]:
        """Unix time and monotonic time, `span` milliseconds from now."""
        return Millis(self.clock.wall() + span), Millis(self.clock.monotonic() + span)

    def commit_soon(self) -> None:
        """Let the next commit make durable what was done, whatever is asked of it."""
        self.after_sync.append(_nothing)

    def everything_changed(self) -> None:
        """Let the next commit make durable whatever anybody has done so far."""
        if self.disk.can_sync_all:
            self.syncer.file_written()
            return
        # Also what is of queues that are being deleted.
        queues = [layout.queue_folder(found.name) for found in self._folders_in(layout.QUEUES)]
        for folder in (*layout.ALL, *queues):
            self.syncer.folder_changed(folder)
        stages = [
            path_in(folder, found.name)
            for folder in (layout.STAGED, layout.PUBLISHED)
            for found in self._folders_in(folder)
        ]
        for stage in stages:
            self.syncer.folder_changed(stage)
        for folder in (layout.NEW, layout.DELAY, *queues, *stages):
            for batch in self._folders_in(folder):
                self.syncer.folder_changed(path_in(folder, batch.name))

    def make_again(self, folder: str) -> None:
        """Make a queue's folder, if it is missing.

        A purge may have taken it away: a crash must not keep another in its place, and forget where it
        went, with the deduplication ids in it.
        """
        if not self.folders.is_there(folder):
            self.everything_changed()
            self.syncer.begin().sync()
            self.folders.make(folder)

    def _folders_in(self, folder: str) -> list[Found]:
        return [found for found in self.folders.scan(folder) if found.kind is Kind.FOLDER]

    def has_messages_of(self, queue: str) -> bool:
        """Whether anything lies in the root that belongs to the queue, whether or not there is one."""
        prefix = f"{queue}:"
        # What was put into `new/` by hand may be waiting for a queue that never was.
        return bool(self.folders.scan(layout.queue_folder(queue))) or any(
            found.name.startswith(prefix) and not is_id(found.name.removeprefix(prefix))
            for folder in (layout.DELAY, layout.NEW)
            for found in self.folders.scan(folder)
        )

    def has_messages_in_queue(self, queue: str) -> bool:
        """Whether a message of the queue is ready, leased or delayed, as far as its name says."""
        return any(map(is_entry_or_batch, self.folders.scan(layout.queue_folder(queue)))) or any(
            _is_filed_under(queue, found.name) for found in self.folders.scan(layout.DELAY)
        )

    def may_have_history(self, queue: str, id: str) -> bool:
        """Whether a message may have one there; asks no disk."""
        return not self.knows_histories or layout.name_of(layout.history(queue, id)) in self.histories

    def was_faster(self, source: str) -> None:
        """Somebody else has taken what was at `source`."""
        # With others there it is what happens every day.
        level = logging.DEBUG if self.is_shared else logging.WARNING
        log.log(level, "%s was taken away by somebody else", source)

    def drop_after_sync(self, folder: str) -> None:
        """Remove the batch folder, which is empty now, once the moves out of it are durable."""

        def drop() -> None:
            try:
                self.folders.drop_folder(folder)
            except StoreError as error:
                log.warning("the empty %s stays until the next start: %s", folder, error)

        self.after_sync.append(drop)

    def path_of(self, queue: str, hidden: Hidden | Unlisted) -> str:
        return layout.hidden(queue, item_of(hidden.item), hidden.due, hidden.token)


def is_entry(found: Found) -> bool:
    """Whether it is a message, as far as its name says."""
    try:
        return found.kind is Kind.FILE and parse_entry(found.name).is_tagged
    except NotAName:
        return False


def is_entry_or_batch(found: Found) -> bool:
    """Whether it is a message or a batch's folder, as far as its name says."""
    try:
        is_batch = isinstance(parse_item(found.name), Batch)
    except NotAName:
        return False
    return found.kind is Kind.FOLDER if is_batch else is_entry(found)


def _is_filed_under(queue: str, name: str) -> bool:
    try:
        return name.startswith(f"{queue}:") and parse_filed(name).queue == queue
    except NotAName:
        return False


def _nothing() -> None:
    """It is enough that there was a sync."""


def item_of(item: str | BatchFolder | Batch) -> Item:
    if isinstance(item, str):
        return parse_item(item)
    return item.batch if isinstance(item, BatchFolder) else item


def path_in(folder: str, name: str) -> str:
    return f"{folder}/{name}"


def place_of_ready(queue: str, name: str, folder: BatchFolder | None) -> str:
    """Where the ready entry `name` lies."""
    if folder is None:
        return layout.ready(queue, name)
    return path_in(layout.ready(queue, folder.batch), name)
