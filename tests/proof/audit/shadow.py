"""The root as its system calls leave it: folders, files under their names, and what isn't durable yet.

A change of a name is durable once every folder that it touches was synced by a call that began after
the change was done, and has ended; a file's content once the file was. Other
write-back of a file system isn't counted on. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class File:
    """The state that all hard links of a file share."""

    names: set[str] = field(default_factory=set)
    """The paths under which it is there."""
    content: bytes = b""
    """All that was ever written to it, in order."""
    unsynced: bool = False
    """Whether there is content that no sync has covered."""
    changes: list[Change] = field(default_factory=list)
    """Of its names, in order."""
    is_spare: bool = False
    """Whether nothing that matters was written to it so far."""


@dataclass(slots=True, eq=False)
class Change:
    """A name that was made (`source` is ""), linked, moved or removed (`target` is "")."""

    number: int
    line: int
    source: str
    target: str
    waits_for: set[str]
    """The folders that must be synced yet."""
    is_link: bool = False
    excused: bool = False
    """Whether no answer has to wait for it."""

    def __str__(self) -> str:
        if not self.source:
            what = f"{self.target} was made"
        elif not self.target:
            what = f"{self.source} was removed"
        else:
            what = f"{self.source} was {'linked' if self.is_link else 'moved'} to {self.target}"
        return f"{what} in line {self.line}"


@dataclass(slots=True)
class Sync:
    """A sync that has begun, and the changes that it covers if it succeeds."""

    changes: list[Change]
    files: dict[File, int]
    """With how much of each was written by then."""
    folder: str | None
    """None: the whole file system."""


class Shadow:
    def __init__(self) -> None:
        self.folders: set[str] = {""}
        self.files: dict[str, File] = {}
        """By path: a file has as many as it has links."""
        self.pending: list[Change] = []
        """Undurable changes, in order."""
        self._unsynced: dict[File, None] = {}
        self.changes = 0

    # Changes.

    def make_folder(self, path: str, line: int) -> None:
        self.folders.add(path)
        self._change(line, "", path, {folder_of(path)})

    def make(self, path: str, line: int) -> File:
        file = self.files[path] = File({path})
        file.changes.append(self._change(line, "", path, {folder_of(path)}))
        return file

    def write(self, file: File, content: bytes) -> None:
        file.content += content
        file.unsynced = True
        self._unsynced[file] = None

    def move(self, source: str, target: str, line: int, *, is_link: bool = False) -> Change:
        file = self.files.get(source)
        assert file is not None, f"line {line}: {source} was never made"
        folders = {folder_of(target)} if is_link else {folder_of(source), folder_of(target)}
        if not is_link:
            del self.files[source]
            file.names.discard(source)
        self.files[target] = file
        file.names.add(target)
        change = self._change(line, source, target, folders)
        change.is_link = is_link
        file.changes.append(change)
        return change

    def remove(self, path: str, line: int) -> Change:
        if path in self.folders:
            self.folders.discard(path)
        else:
            file = self.files.pop(path)
            file.names.discard(path)
            if not file.names:
                file.unsynced = False
                self._unsynced.pop(file, None)
        return self._change(line, path, "", {folder_of(path)})

    # Syncs.

    def begin_sync(self, path: str | None) -> Sync:
        """Of a file, of a folder, or with None of everything."""
        if path is None:
            return Sync(list(self.pending), {file: len(file.content) for file in self._unsynced}, None)
        if path in self.files:
            return Sync([], {self.files[path]: len(self.files[path].content)}, path)
        return Sync([change for change in self.pending if path in change.waits_for], {}, path)

    def end_sync(self, sync: Sync) -> None:
        """Note that a sync has succeeded."""
        for change in sync.changes:
            if sync.folder is None:
                change.waits_for.clear()
            else:
                change.waits_for.discard(sync.folder)
        self.pending = [change for change in self.pending if change.waits_for]
        for file, length in sync.files.items():
            if len(file.content) == length:
                file.unsynced = False
                self._unsynced.pop(file, None)

    # Undurable changes.

    def late(self, path: str) -> list[Change]:
        """Return the changes without which nothing would be at `path`, as far as they aren't
        durable."""
        return [c for c in self.pending if c.target and c.target in (path, folder_of(path))]

    def doubts_about(self, path: str) -> list[str]:
        """Why a power cut could take the file from where it is, or its content."""
        doubts = [str(change) for change in self.late(path)]
        if self.files[path].unsynced:
            doubts.append(f"{path} isn't synced")
        return doubts

    @property
    def unsynced_files(self) -> list[str]:
        return sorted(min(file.names) for file in self._unsynced if not file.is_spare)

    def _change(self, line: int, source: str, target: str, folders: set[str]) -> Change:
        self.changes += 1
        change = Change(self.changes, line, source, target, folders)
        self.pending.append(change)
        return change


def folder_of(path: str) -> str:
    return path.rpartition("/")[0]
