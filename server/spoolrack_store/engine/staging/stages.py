"""Which stages there are, and what is in each: the folders in `staged/`.

A stage is a folder of chunks, and a chunk is a batch folder. While its content may not be durable, a
chunk's name has an owner; without one it is whole. Who is alone knows all of it; with others there it
is listed whenever it is needed, and whoever changes a stage holds the lock on its folder.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import partial

from ...files import layout
from ...files.disk import Kind
from ...files.reader import Damaged, Forbidden, Gone, read_message
from ...files.syncer import SyncFailed
from ...model.clock import Millis
from ...model.errors import DiskError, StoreError
from ...model.names import NotAName, parse_entry
from ...model.stage_names import Chunk, StageFolder, parse_chunk, parse_stage_folder
from ...model.staging import MAX_TIME_TO_LIVE
from ...model.transitions import Move, State
from ..root import Root, path_in

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Held:
    """A stage that was found, or made."""

    folder: StageFolder
    chunks: dict[int, Chunk] = field(default_factory=dict)
    """By number; whole, all of them."""
    unsure: list[Chunk] = field(default_factory=list)
    """With owners, who may have died while they wrote them, or failed to take them back."""
    is_unsynced: bool = False
    """Whether something in it may not be durable yet."""

    @property
    def path(self) -> str:
        return layout.staged(self.folder)

    @property
    def messages(self) -> int:
        return sum(chunk.batch.count for chunk in self.chunks.values())

    def is_within(self, allowed: Callable[[str], bool] | None) -> bool:
        """Whether all its messages are for queues that are allowed."""
        return allowed is None or all(allowed(chunk.queue) for chunk in self.chunks.values())

    @property
    def first(self) -> str:
        """The lowest id of a batch in it."""
        return min(chunk.batch.id for chunk in self.chunks.values())


class Stages:
    """Not thread-safe."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._known: dict[str, Held] | None = None
        """All stages by name; None if they must be listed."""
        self._ends: dict[StageFolder, Millis] = {}
        """When each expires, monotonic: a step of the clock must not drop it."""
        self._dropped: set[str] = set()
        """Folders that are dropped, and couldn't be emptied yet."""

    def forget(self) -> None:
        """Others may come: what is known may soon be wrong."""
        self._known = None

    def count(self) -> int | None:
        """How many there are; None if that must be looked up."""
        return None if self._known is None else len(self._known)

    # What there is.

    def find(self, names: Collection[str]) -> dict[str, Held]:
        """Those of the stages that are there, by name."""
        if self._root.folders.is_contended:
            return {
                folder.stage: self.read(folder)
                for folder in self.listed()
                if folder.stage in names and not folder.is_dropped
            }
        known = self._all()
        return {name: known[name] for name in names if name in known}

    def every(self) -> list[Held]:
        """All stages that hold anything, by name. Others may change them meanwhile."""
        if self._root.is_shared:
            found = [self.read(folder) for folder in self.listed() if not folder.is_dropped]
        else:
            found = list(self._all().values())
        return sorted((held for held in found if held.chunks), key=lambda held: held.folder.stage)

    def read(self, folder: StageFolder) -> Held:
        """What is in a stage's folder at this moment."""
        held = Held(folder)
        for found in self._root.folders.scan(held.path):
            try:
                chunk = parse_chunk(found.name)
            except NotAName:
                continue  # Nobody's: a start without others puts it aside.
            if found.kind is not Kind.FOLDER:
                continue
            if chunk.batch.owner is None:
                held.chunks[chunk.number] = chunk
            else:
                held.unsure.append(chunk)
        return held

    def _all(self) -> dict[str, Held]:
        if self._known is None:
            # Only once all of it is read: half of it would look as if the rest weren't there.
            found = {}
            for folder in self.listed():
                if folder.is_dropped:
                    self._take_over(folder)
                else:
                    found[folder.stage] = self.read(folder)
            self._known = found
        return self._known

    def listed(self) -> list[StageFolder]:
        """The stages' folders, dropped ones too."""
        folders = []
        for found in self._root.folders.scan(layout.STAGED):
            try:
                folder = parse_stage_folder(found.name)
            except NotAName:
                continue
            if found.kind is Kind.FOLDER:
                folders.append(folder)
        return sorted(folders, key=str)

    # What changes.

    def make(self, stage: str, time_to_live: Millis) -> Held:
        due, ends = self._root.due_after(time_to_live)
        held = Held(StageFolder(stage=stage, due=due))
        self._root.folders.make(held.path)
        self._ends[held.folder] = ends
        if self._known is not None:
            self._known[stage] = held
        return held

    def take_in(self, held: Held) -> None:
        """A stage is back whose publication came to nothing."""
        if self._known is not None:
            self._known[held.folder.stage] = held

    def leave(self, held: Held) -> None:
        """The stage isn't in `staged/` any more."""
        if self._known is not None:
            self._known.pop(held.folder.stage, None)

    def settle(self, held: Held, only: int | None = None) -> None:
        """Find out which of the chunks with an owner are whole, and take the others away.

        With a number, `only` of that one. Nobody may be writing there. Whole ones may not be durable.
        """
        unsure = [chunk for chunk in held.unsure if only in (None, chunk.number)]
        for chunk in unsure:
            held.unsure.remove(chunk)
            held.is_unsynced = True
            if chunk.number not in held.chunks and self.is_whole(held.path, chunk):
                held.chunks[chunk.number] = chunk
            else:
                self.remove(held.path, chunk)

    def is_whole(self, folder: str, chunk: Chunk) -> bool:
        """Whether all messages of the chunk are there, with what their names say."""
        path = layout.chunk_in(folder, chunk)
        try:
            names = [found.name for found in self._root.folders.scan(path)]
            for name in names:
                self._check(path_in(path, name), name)
        except (Damaged, NotAName) as error:
            log.info("%a was never written whole: %s", path, error)
            return False
        except (Gone, Forbidden) as error:
            raise DiskError(detail=f"{path} can't be read: {error}") from error
        return len(names) == chunk.batch.count

    def _check(self, path: str, name: str) -> None:
        disk = self._root.disk
        # Whoever wrote it may have died because a sync failed.
        read_message(disk, path, parse_entry(name), afresh=True)
        if not disk.can_sync_all:
            # Else the next sync, which covers the whole file system, does it.
            try:
                disk.sync_file(path)
            except OSError as error:
                raise SyncFailed(str(error)) from error

    def remove(self, folder: str, chunk: Chunk) -> None:
        """Delete a chunk."""
        self._root.folders.move(
            Move.DELETE,
            State.SENT,
            layout.chunk_in(folder, chunk),
            State.REMOVED,
            layout.removed(chunk.queue, replace(chunk.batch, owner=None)),
            is_folder=True,
        )

    # The end of a stage that nobody publishes.

    def drop(self, held: Held) -> bool:
        """Let nobody publish any of it, from the next sync on; False if somebody was faster."""
        target = layout.staged(replace(held.folder, is_dropped=True))
        # One rename decides. Its chunks follow when that is durable: before, a crash could leave a
        # part of the stage to be published.
        if not self._root.folders.shift(held.path, target):
            return False
        self.leave(held)
        self._ends.pop(held.folder, None)
        self._root.after_sync.append(partial(self.empty, target))
        return True

    def empty(self, path: str) -> None:
        """Delete what is in a dropped stage, once that it is dropped is durable."""
        try:
            for found in self._root.folders.scan(path):
                try:
                    self.remove(path, parse_chunk(found.name))
                except NotAName:
                    continue  # Nobody's: the next start puts it aside.
        except StoreError as error:
            log.warning("%a is dropped, and stays for now: %s", path, error)
            self._dropped.add(path)
            return
        self._dropped.discard(path)
        self._root.drop_after_sync(path)

    def retry(self) -> None:
        """Go on with what could not be deleted."""
        for path in list(self._dropped):
            self.empty(path)

    def expire(self) -> None:
        """Drop the stages that nobody has published in time."""
        root = self._root
        if root.folders.is_contended:
            folders = self.listed()
        else:
            folders = [held.folder for held in self._all().values()]
        self._ends = {folder: self._end_of(folder) for folder in folders if not folder.is_dropped}
        for folder in folders:
            if folder.is_dropped:
                self._take_over(folder)
            elif self._ends[folder] <= root.clock.monotonic():
                log.info("the stage %s has expired", folder.stage)
                self._expire(folder)

    def _take_over(self, folder: StageFolder) -> None:
        """Somebody may have died over a stage that is dropped, and may not be so durably."""
        self._root.everything_changed()
        self._root.after_sync.append(partial(self.empty, layout.staged(folder)))

    def _expire(self, folder: StageFolder) -> None:
        known = None if self._known is None else self._known.get(folder.stage)
        held = Held(folder) if known is None else known
        try:
            with self._root.folders.held(held.path):
                self.drop(held)
        except FileNotFoundError:
            return  # Published or dropped, by somebody else.

    def _end_of(self, folder: StageFolder) -> Millis:
        known = self._ends.get(folder)
        if known is not None:
            return known
        clock = self._root.clock
        left = max(0, min(folder.due - clock.wall(), MAX_TIME_TO_LIVE))
        return Millis(clock.monotonic() + left)
