"""The files of all messages, wherever they lie: sent, in queues, hidden, deleted and not unlinked."""

from __future__ import annotations

from collections.abc import Iterator

from power_disk import PowerDisk
from spoolrack_store.files import layout
from spoolrack_store.files.disk import Kind
from spoolrack_store.model.names import id_of


def body_of(disk: PowerDisk, id: str) -> bytes | None:
    """What is in the file of a message."""
    inside = (layout.NEW, layout.QUEUES, layout.DELAY, layout.REMOVE)
    return next((body for each, body in _files_in(disk, *inside) if each == id), None)


def removed(disk: PowerDisk) -> Iterator[tuple[str, bytes]]:
    """What was deleted, by id."""
    return _files_in(disk, layout.REMOVE)


def _files_in(disk: PowerDisk, *folders: str) -> Iterator[tuple[str, bytes]]:
    waiting = list(folders)
    while waiting:
        folder = waiting.pop()
        for found in disk.scan(folder):
            path = f"{folder}/{found.name}"
            if found.kind is Kind.FOLDER:
                waiting.append(path)
            else:
                yield id_of(found.name.rpartition(":")[2]), disk.read(path)
