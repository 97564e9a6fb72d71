"""Makes a folder whose files are hard links to those of another one."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from ..model.errors import TargetUnusable
from .disk import FileKind
from .local_disk import LocalDisk, is_for_group

_PARTIAL: Final = ".partial"
_FOLDER: Final = -1
"""In place of an inode."""


class Links:
    """A folder under construction: `<target>.partial`, and `target` once it is complete."""

    def __init__(self, source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
        """Raise `TargetUnusable`, and `OSError` if `source` can't be read."""
        self._source = Path(source).resolve(strict=True)
        self._target = Path(target).absolute()
        self._partial = self._target.with_name(self._target.name + _PARTIAL)
        self._mode = stat.S_IMODE(self._source.stat().st_mode)
        self._copies: dict[int, Path] = {}
        """By inode the copies of files that can have no more links."""
        self.copied = 0
        self._names: dict[str, dict[str, int]] = {}
        """By folder what is linked: the inodes of files in the source, by name."""
        for path in (self._target, self._partial):
            if path.exists() or path.is_symlink():
                raise TargetUnusable(
                    root=os.fspath(path), why="it is there already: choose another name, or remove it"
                )
        above = self._target.parent.resolve()
        if above == self._source or self._source in above.parents:
            raise self._unusable("it lies in the root: choose a place beside it")
        try:
            if above.stat().st_dev != self._source.stat().st_dev:
                raise self._unusable(
                    "it is on another file system than the root, where no hard link leads: choose a "
                    "place on the same one, and copy it from there with rsync -aH"
                )
        except OSError as error:
            raise self._unusable(f"{error.strerror}: {error.filename}") from error

    def __enter__(self) -> Links:
        """Begin the folder."""
        try:
            self._make(self._partial, self._mode)
        except OSError as error:
            raise self._unusable(f"{error.strerror}: {error.filename}") from error
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Remove a folder that isn't whole."""
        if kind is not None:
            shutil.rmtree(self._partial)

    def make(self, folder: str) -> None:
        """Make an empty folder."""
        self._make(self._partial / folder, stat.S_IMODE((self._source / folder).stat().st_mode))

    def follow(self, folder: str, takes: Callable[[str], bool] | None = None) -> int:
        """Make a folder what it is in the source, but for files whose names `takes` refuses; return the
        number of files that had to be linked.

        It may be repeated: what is linked already costs a comparison of its name.
        """
        known = self._names.get(folder, {})
        if folder not in self._names:
            self.make(folder)
        names: dict[str, int] = {}
        self._names[folder] = names
        linked = 0
        with os.scandir(self._source / folder) as found:
            for entry in found:
                name, inode = entry.name, entry.inode()
                is_folder = entry.is_dir(follow_symlinks=False)
                if name in names or not (is_folder or takes is None or takes(name)):
                    continue
                if name in known and known[name] != (_FOLDER if is_folder else inode):
                    self._drop(folder, name, known.pop(name))
                try:
                    if is_folder:
                        linked += self.follow(f"{folder}/{name}")
                    elif name not in known:
                        self._link(entry, self._partial / folder / name)
                        linked += 1
                except FileNotFoundError:
                    # A queue may have been deleted, and the reaper needs no lock.
                    if f"{folder}/{name}" in self._names:
                        known[name] = _FOLDER
                    continue
                names[name] = known.pop(name, _FOLDER if is_folder else inode)
        for name, inode in known.items():
            self._drop(folder, name, inode)
        return linked

    def put(self, path: str, content: bytes) -> None:
        """Write a file that the source has under another name."""
        folder, _, name = path.rpartition("/")
        target = self._partial / path
        target.touch(0o600, exist_ok=False)
        target.chmod(0o660 if is_for_group(self._mode) else 0o600)
        target.write_bytes(content)
        self._names[folder][name] = target.stat().st_ino
        self.copied += 1

    @property
    def files(self) -> int:
        """Names of files that are linked."""
        return sum(len(names) - list(names.values()).count(_FOLDER) for names in self._names.values())

    def finish(self, files: Mapping[str, bytes]) -> None:
        """Write the last files, make all durable, and give the folder its name. Raise `OSError`."""
        disk = LocalDisk(self._partial)
        try:
            for name, content in files.items():
                disk.create(name, [content], sync=True)
            if disk.can_sync_all:
                disk.sync_all()
            else:
                self._sync_each(disk, ".")
        finally:
            disk.close()
        self._partial.rename(self._target)
        above = LocalDisk(self._target.parent)
        try:
            above.sync_folder(".")
        finally:
            above.close()

    def _sync_each(self, disk: LocalDisk, folder: str) -> None:
        for found in disk.scan(folder):
            path = f"{folder}/{found.name}"
            if found.kind is FileKind.FOLDER:
                self._sync_each(disk, path)
            elif found.kind is FileKind.FILE:
                disk.sync_file(path)
        disk.sync_folder(folder)

    def _drop(self, folder: str, name: str, inode: int) -> None:
        """Remove what the source has no longer."""
        path = f"{folder}/{name}"
        if inode != _FOLDER:
            (self._partial / path).unlink()
            return
        shutil.rmtree(self._partial / path)
        for below in [each for each in self._names if f"{each}/".startswith(f"{path}/")]:
            del self._names[below]

    def _link(self, entry: os.DirEntry[str], target: Path) -> None:
        """Link a file. One that has as many links as the file system allows is copied once, and the
        copy is linked."""
        copy = self._copies.get(entry.inode())
        try:
            os.link(entry.path if copy is None else copy, target, follow_symlinks=False)
        except FileNotFoundError:
            if copy is None:
                raise
            del self._copies[entry.inode()]  # The name that had it is gone in the source.
            self._link(entry, target)
        except OSError as error:
            if error.errno != errno.EMLINK:
                raise
            shutil.copy2(entry.path, target, follow_symlinks=False)
            self._copies[entry.inode()] = target
            self.copied += 1

    def _unusable(self, why: str) -> TargetUnusable:
        return TargetUnusable(root=os.fspath(self._target), why=why)

    @staticmethod
    def _make(path: Path, mode: int) -> None:
        path.mkdir(mode=0o700)
        path.chmod(mode)
