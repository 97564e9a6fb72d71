"""The durability barrier: what a commit has changed, and its syncs.

`Syncer` records which folders have changed since they were last made durable, and makes them so. A
rename is on stable media only when both its folders are, and a new file only when its content and its
folder are. A commit therefore syncs every folder that was dirtied since the last one, of any process.
One commit serves all operations that wait for it.

The syncs of a commit run one after the other, or at once. On a local disk the first one writes the
journal, and the further ones find nothing to do, unless something else was written meanwhile. At once,
a new file costs a second journal: its folder's sync doesn't wait for its blocks. Where each sync costs
the way to another host, an answer waits for one of them if they run at once. The syncer measures which
it is.

After a sync has failed, no process can tell any more what is durable: the kernel marks the pages clean,
and a repetition that succeeds proves nothing. So a failure is final until a restart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from math import inf
from typing import Final, Protocol

from ..model.statistics import Statistics
from .disk import FORBIDDEN, OUT_OF_HANDLES, Disk, FileKind, SyncFailed

FEW_FOLDERS: Final = 8
"""Up to so many folders are synced one by one; above, one sync of the file system is cheaper."""
FEW_FILES: Final = 64
"""The same of files: a start, and a process that takes over from a dead one, may find thousands."""

DEAR: Final = 0.001
"""Seconds. Syncs run at once where that saves as much: a thread costs a tenth."""
OFTEN: Final = 3
"""By so much, commits that were dear must outnumber the others: a busy machine delays some."""
AT_ONCE: Final = 100
"""Then so many commits sync at once before one measures again."""

LONE_SECONDS: Final = 0.005
"""Of the syncs of a lone message, before any is measured."""
SYNC_SAMPLES: Final = 8
"""Over about so many commits their mean moves."""

_ROOT: Final = "."


class OverwrittenFile(Protocol):
    """An open file, durable with its name, whose data were overwritten."""

    path: str
    is_synced: bool
    """Whether the data are durable: set by the sync that covers them."""

    def sync(self, path: str) -> None:
        """Make the data durable. `FileNotFoundError` if the file has no name any more."""


@dataclass(slots=True)
class _SyncOrder:
    """Whether the syncs of a kind of commit run at once."""

    dear: int = 0
    """By so much, commits whose further syncs were dear outnumber the others."""
    at_once: int = 0
    """Commits left that sync at once."""


class Syncer:
    """The files and folders that are not synced yet. Not thread-safe, but for `Barrier.sync`, which may
    run beside other calls."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.statistics = Statistics()
        """The counts of all parts that have the root open in this process: they find them here."""
        self._dirty: dict[str, None] = {}
        self._files_unsynced = False
        self._files: dict[str, None] = {}
        self._overwritten: list[OverwrittenFile] = []
        self.lone_seconds = LONE_SECONDS
        """Seconds that the syncs of a commit of few files took of late: a moving mean."""
        self.is_in_doubt = False
        """Let the next commit sync, whether or not an answer waits for it."""
        self._orders = _SyncOrder(), _SyncOrder()
        """Of commits of folders alone, and of those with a new file."""
        self._is_early = disk.several_hosts
        """Whether a commit is synced as it begins, under `LOCK`."""
        self._failure: SyncFailed | None = None
        """Why such a sync has failed, or that it was interrupted."""
        self.is_unconfirmed = False
        """Whether there was one since this was last set to False."""

    def folder_changed(self, folder: str) -> None:
        self._dirty[folder] = None

    def file_written(self) -> None:
        """Note that a file was written and not synced: only a sync of the whole file system will do."""
        self._files_unsynced = True

    def lone_file_written(self, path: str) -> None:
        """Note that one file was written and not synced: the next commit syncs it alone."""
        self._files[path] = None

    def file_overwritten(self, file: OverwrittenFile) -> None:
        """Note a file, durable with its name, whose data were overwritten: the next commit syncs
        them."""
        self._overwritten.append(file)

    def file_moved(self, source: str, target: str) -> None:
        """Note the new path of a file that has to be synced."""
        if source in self._files:
            del self._files[source]
            self._files[target] = None

    def note_io_error(self) -> None:
        """Note a change that was refused with an I/O error: one place may be damaged, or the disk
        dead."""
        self._dirty[_ROOT] = None
        self.is_in_doubt = True

    @property
    def is_dirty(self) -> bool:
        return bool(self._dirty or self._files or self._overwritten) or self._files_unsynced

    def begin(self) -> Barrier:
        """Take over all unsynced files and folders, to be synced once by the commit; raise
        `SyncFailed`."""
        barrier = Barrier(
            self, list(self._files), list(self._dirty), self._files_unsynced, self._overwritten
        )
        self._overwritten = []
        self._files.clear()
        self._dirty.clear()
        self._files_unsynced = False
        self.is_in_doubt = False
        if self._is_early:
            self._failure, self.is_unconfirmed = SyncFailed("a sync was interrupted"), True
            try:
                barrier.sync()
            except SyncFailed as error:
                self._failure = error
                raise
            self._failure = None
            return Barrier(self, [], [], False, [])
        return barrier

    def begin_data(self) -> Barrier:
        """Take over the overwritten files alone."""
        overwritten, self._overwritten = self._overwritten, []
        return Barrier(self, [], [], False, overwritten)

    def require_synced(self) -> None:
        """Raise `SyncFailed` if a sync under `LOCK` has failed or was interrupted."""
        if self._failure is not None:
            raise self._failure

    def others_changed(self) -> None:
        """Let the next commit sync what other processes have changed."""
        if not self._is_early:  # Otherwise they have done so.
            self.file_written()

    def _sync(
        self, files: list[str], folders: list[str], whole: bool, overwritten: list[OverwrittenFile]
    ) -> None:
        statistics = self.statistics
        began = statistics.watch()
        try:
            self._sync_now(files, folders, whole, overwritten)
        except SyncFailed:
            statistics.failed_syncs += 1
            raise
        for file in overwritten:
            file.is_synced = True
        if whole or files or folders or overwritten:
            took = statistics.watch() - began
            statistics.syncs.observe(took)
            if not whole and len(files) <= 1:
                self.lone_seconds += (took - self.lone_seconds) / SYNC_SAMPLES

    def _sync_now(
        self, files: list[str], folders: list[str], whole: bool, overwritten: list[OverwrittenFile]
    ) -> None:
        try:
            are_many = len(folders) > FEW_FOLDERS or len(files) + len(overwritten) > FEW_FILES
            if whole or (are_many and self._disk.can_sync_all):
                self._disk.sync_all()
                return
            for file in overwritten:
                self.sync_path(file.path, file.sync)
            # First the files: on most file systems that makes their names durable, too, and the folders
            # are quick.
            disk, watch = self._disk, self.statistics.watch
            order = self._orders[bool(files)]
            objects = [*zip(files, repeat(disk.sync_file)), *zip(folders, repeat(disk.sync_folder))]
            if order.at_once and len(objects) > 1:
                order.at_once -= 1
                disk.run_at_once([partial(self.sync_path, *each) for each in objects])
                return
            ends = [watch()]
            for path, sync in objects:
                self.sync_path(path, sync)
                ends.append(watch())
        except OSError as error:
            raise SyncFailed(str(error)) from error
        if len(objects) > 1:
            began, first, *_, last = ends
            saved = last - first - ((first - began) / 2 if files else 0)
            order.dear = max(0, order.dear + (1 if saved > DEAR else -1))
            if order.dear >= OFTEN:
                order.dear, order.at_once = OFTEN, AT_ONCE

    def sync_path(self, path: str, sync: Callable[[str], None]) -> None:
        """Sync one path, whatever has become of it; raise `OSError` if that has failed."""
        try:
            sync(path)
        except FileNotFoundError:
            # It was taken away, with what lay in it. Make that durable, so that it can't come back
            # with what had left it before.
            if self._disk.can_sync_all:
                self._disk.sync_all()
            else:
                self._sync_all_below(_ROOT)
        except OSError as error:
            # It couldn't be opened, so no sync has failed; and `sync_all` opens nothing.
            if error.errno not in OUT_OF_HANDLES | FORBIDDEN or not self._disk.can_sync_all:
                raise
            self._disk.sync_all()

    def _sync_all_below(self, folder: str) -> None:
        """Wherever it has gone, it is synced, and what it has left, too."""
        try:
            self._disk.sync_folder(folder)
            found = self._disk.scan(folder)
        except FileNotFoundError:
            return  # It goes on moving: its next move syncs it.
        for each in found:
            if each.kind is FileKind.FOLDER:
                self._sync_all_below(each.name if folder == _ROOT else f"{folder}/{each.name}")


class Barrier:
    """The unsynced files and folders of one commit."""

    def __init__(
        self,
        syncer: Syncer,
        files: list[str],
        folders: list[str],
        whole: bool,
        overwritten: list[OverwrittenFile],
    ) -> None:
        self._syncer = syncer
        self._files = files
        self._folders = folders
        self._whole = whole
        self._overwritten = overwritten

    @property
    def seconds(self) -> float:
        """How long its sync will take, by what those of few files took of late; infinity for more."""
        is_small = not self._whole and len(self._files) <= 1
        return self._syncer.lone_seconds if is_small else inf

    def sync(self) -> None:
        """Return once all of them are on stable media; raises `SyncFailed`."""
        self._syncer._sync(self._files, self._folders, self._whole, self._overwritten)
