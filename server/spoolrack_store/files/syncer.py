"""Knows which folders have changed since they were last made durable, and makes them so.

A rename is on stable media only when both its folders are, and a new file only when its content and its
folder are. A commit therefore syncs every folder that was dirtied since the last one, of any process.
One commit serves all operations that wait for it.

After a sync has failed, no process can tell any more what is durable: the kernel marks the pages clean,
and a repetition that succeeds proves nothing. So a failure is final until a restart.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Final

from ..model.errors import DiskError, DiskFull, StoreError
from ..model.statistics import Statistics
from . import layout
from .disk import FORBIDDEN, NO_ROOM, OUT_OF_HANDLES, Disk, FileKind

FEW_FOLDERS: Final = 8
"""Up to so many folders are synced one by one; above, one sync of the file system is cheaper."""

_ROOT: Final = "."


class SyncFailed(Exception):
    """The disk could not make data durable."""


def explained(error: OSError) -> StoreError:
    """Return the store's error for one of the system."""
    if error.errno == errno.EROFS:
        raise SyncFailed(str(error)) from error
    detail = str(error)
    return DiskFull(detail=detail) if error.errno in NO_ROOM else DiskError(detail=detail)


class Syncer:
    """Not thread-safe, but for `Commit.sync`, which may run while others go on dirtying."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.statistics = Statistics()
        """The counts of all parts that have the root open in this process: they find them here."""
        self._dirty: dict[str, None] = {}
        self._files_unsynced = False
        self._files: dict[str, None] = {}
        self.is_in_doubt = False
        """Let the next commit sync, whether or not an answer waits for it."""

    def folder_changed(self, folder: str) -> None:
        self._dirty[folder] = None

    def file_written(self) -> None:
        """Note that a file was written and not synced: only a sync of the whole file system will do."""
        self._files_unsynced = True

    def lone_file_written(self, path: str) -> None:
        """Note that one file was written and not synced: the next commit syncs it alone."""
        self._files[path] = None

    def file_moved(self, source: str, target: str) -> None:
        """Note the new path of a file that has to be synced."""
        if source in self._files:
            del self._files[source]
            self._files[target] = None

    def doubt(self) -> None:
        """Note a change that was refused with an I/O error: one place may be damaged, or the disk
        dead."""
        self._dirty[_ROOT] = None
        self.is_in_doubt = True

    @property
    def is_dirty(self) -> bool:
        return bool(self._dirty or self._files) or self._files_unsynced

    def begin(self) -> Commit:
        """Take over all that is dirty now: to be synced, once, by the commit."""
        commit = Commit(self, list(self._files), list(self._dirty), self._files_unsynced)
        self._files.clear()
        self._dirty.clear()
        self._files_unsynced = False
        self.is_in_doubt = False
        return commit

    def _sync(self, files: list[str], folders: list[str], whole: bool) -> None:
        statistics = self.statistics
        began = statistics.watch()
        try:
            self._sync_now(files, folders, whole)
        except SyncFailed:
            statistics.failed_syncs += 1
            raise
        if whole or files or folders:
            statistics.syncs.observe(statistics.watch() - began)

    def _sync_now(self, files: list[str], folders: list[str], whole: bool) -> None:
        try:
            if whole or (len(folders) > FEW_FOLDERS and self._disk.can_sync_all):
                self._disk.sync_all()
                return
            # First: on most file systems that makes the name durable, too, and the folder is quick.
            for file in files:
                self._sync_path(file, self._disk.sync_file)
            # First: a file isn't durable before its queue's folder is.
            for folder in sorted(folders, key=lambda folder: folder != layout.QUEUES):
                self._sync_path(folder, self._disk.sync_folder)
        except OSError as error:
            raise SyncFailed(str(error)) from error

    def _sync_path(self, path: str, sync: Callable[[str], None]) -> None:
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


class Commit:
    """The dirt of one moment."""

    def __init__(self, syncer: Syncer, files: list[str], folders: list[str], whole: bool) -> None:
        self._syncer = syncer
        self._files = files
        self._folders = folders
        self._whole = whole

    def sync(self) -> None:
        """Return once all of it is on stable media; raises `SyncFailed`."""
        self._syncer._sync(self._files, self._folders, self._whole)
