"""All message names under a root, and the queues of `config/`, as one listing shows them.

A listing isn't one moment: a running server moves names while folders are read. Only what two
listings in a row show alike is believed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from ..files.disk import FileKind, FolderEntry
from ..files.layout import CONFIG, COPY, QUARANTINE, QUEUES, body_owner, spare_owner
from ..files.spares import read_seal
from ..model.errors import DamagedSettings, TornSettings
from ..model.message_ids import is_id
from ..model.names import Name, is_queue_name, name_at
from ..model.settings import Record, decode, parse_settings_path, settings_path
from .findings import Findings

SHARED: Final = ("new", "delay", "remove", QUARANTINE)
"""The folders that hold messages of all queues."""

Paths = dict[str, list[str]]
"""By the text of a file's stem, the paths of all its names."""


class Lister:
    """A listing of message names, which can be repeated."""

    def __init__(self, findings: Findings, owners: Collection[str] = ()) -> None:
        """`owners` have a file in `owners/`."""
        self._findings = findings
        self._owners = owners
        self._stems: dict[str, str] = {}
        """Of each path that was parsed, the text of its stem."""
        self.queues: set[str] = set()
        """Queues that have a folder."""

    def list(self) -> Paths:
        """Return all paths of message files by their stems; note other files."""
        paths: Paths = {}
        for folder in (*SHARED[:1], *self._queue_folders(), *SHARED[1:]):
            for entry in self._findings.scan(folder):
                path = f"{folder}/{entry.name}"
                stem = self._stems.get(path)
                if stem is None:
                    name = self._name(folder, path, entry)
                    if name is None:
                        continue
                    stem = self._stems[path] = name.stem.text
                paths.setdefault(stem, []).append(path)
        return paths

    def _queue_folders(self) -> Iterator[str]:
        for found in self._findings.scan(QUEUES):
            path = f"{QUEUES}/{found.name}"
            if found.kind is FileKind.FOLDER and is_queue_name(found.name):
                self.queues.add(found.name)
                yield path
            else:
                self._findings.add_foreign(path, "not a queue's folder")

    def _name(self, folder: str, path: str, entry: FolderEntry) -> Name | None:
        name = name_at(path)
        if name is None:
            queue, _, id = entry.name.partition(":")
            if folder == QUARANTINE:
                pass  # A foreign file, or the folder of one.
            elif folder == "new" and entry.name.endswith(COPY):
                self._findings.add_leftover(
                    path, "a copy of a file, being made: the next start unlinks it"
                )
            elif folder == "new" and body_owner(entry.name):
                self._findings.add_leftover(
                    path, "a body, being written: a start unlinks it if its process died"
                )
            elif folder == "new" and entry.kind is FileKind.FILE and (owner := spare_owner(entry.name)):
                if owner not in self._owners:
                    self._findings.add_leftover(path, self._about_spare(path))
            elif folder == "new" and entry.kind is FileKind.FILE and is_queue_name(queue) and is_id(id):
                self._findings.add_leftover(path, "put here by hand: it waits to be adopted")
            else:
                self._findings.add_foreign(path)
            return None
        if entry.kind is not FileKind.FILE:
            self._findings.add_foreign(path, "its name is a message file's, and it is none")
            return None
        return name

    def _about_spare(self, path: str) -> str:
        try:
            name = read_seal(self._findings.disk, path)
        except OSError as error:
            return f"a spare file of a process that is gone, which can't be read: {error.strerror}"
        if name is None:
            return "a spare file of a process that is gone: the next start unlinks it"
        return (
            f"sent to the queue {name.queue} in a spare file, by a process that is gone: the next "
            f"start gives it the name {name.path}"
        )


class Registry:
    """The queues, as `config/` is when this is made. Reads only."""

    def __init__(self, findings: Findings) -> None:
        """Read `config/`, and note the faults of the settings."""
        self.names: set[str] = set()
        """Queues with settings or a tombstone."""
        self.being_deleted: set[str] = set()
        """Those with a tombstone."""
        self.versions: dict[str, int] = {}
        """The highest version of each queue, damaged or not."""
        newest: dict[str, tuple[int, Record]] = {}
        for file in findings.scan(CONFIG):
            path = f"{CONFIG}/{file.name}"
            parsed = parse_settings_path(path)
            if parsed is None or file.kind is not FileKind.FILE:
                findings.add_foreign(path, "not a settings file")
                continue
            queue, version = parsed
            self.versions[queue] = max(version, self.versions.get(queue, 0))
            try:
                content = findings.disk.read(path)
                record = decode(content, file.name)
            except FileNotFoundError:
                continue  # A newer version has taken its place.
            except OSError as error:
                findings.add_unrepairable(path, f"it can't be read: {error.strerror}")
                self.names.add(queue)
                continue
            except TornSettings:
                # It is being written, or was when the power failed: no answer rests on it.
                why = f"these settings of the queue {queue} were never written whole"
                findings.add_leftover(path, why)
                continue
            except DamagedSettings as error:
                findings.add_foreign(path, str(error))
                continue
            if queue not in newest or newest[queue][0] < version:
                newest[queue] = version, record
        for queue, (version, record) in newest.items():
            self.names.add(queue)
            if record.settings is None:
                self.being_deleted.add(queue)
                findings.add_leftover(
                    settings_path(queue, version), f"the queue {queue} is being deleted"
                )
