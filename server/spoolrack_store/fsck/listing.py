"""All message names under a root, as one listing shows them.

A listing isn't one moment: a running server moves names while folders are read. Only what two
listings in a row show alike is believed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..files.disk import FileKind, FolderEntry
from ..files.layout import COPY, QUARANTINE, QUEUES, body_owner
from ..model.message_ids import is_id
from ..model.names import Name, is_queue_name, name_at
from .findings import Findings

SHARED: Final = ("new", "delay", "remove", QUARANTINE)
"""The folders that hold messages of all queues."""

Paths = dict[str, list[str]]
"""By the text of a file's stem, the paths of all its names."""


class Lister:
    """A listing of message names, which can be repeated."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
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
            elif folder == "new" and entry.kind is FileKind.FILE and is_queue_name(queue) and is_id(id):
                self._findings.add_leftover(path, "put here by hand: it waits to be adopted")
            else:
                self._findings.add_foreign(path)
            return None
        if entry.kind is not FileKind.FILE:
            self._findings.add_foreign(path, "its name is a message file's, and it is none")
            return None
        return name
