"""The folders of vsqs and softlayer/mq as sources: a file is a message.

Knows which files are messages, and touches none but to remove it. Other programs may use the folders
meanwhile: nothing is lost, but a message that they take while it is imported is handled twice.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Collection, Container, Iterator, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import quote

from spoolrack import Settings
from spoolrack._values import MAX_BODY_IN_MEMORY
from spoolrack.vsqs import FileState, stored_messages

from ...kit.exit_codes import USAGE, Failed
from ...messages.body_files import sync_folder
from .sources import Item, SourceQueue

_NEW: Final = "new"
_QUEUES: Final = "queues"
_DELAY: Final = "delay"
_DEFAULT_SIZE: Final = 1024 * 1024
_OURS: Final = b"spoolrack "
"""How the file begins that makes a folder a root of ours."""
_V1_EPOCH: Final = 0x01B21DD213814000
"""1970 in the time of UUIDs of version 1: units of 100 ns since 1582."""

Listing = Callable[[], list[Item]]


class Folders:
    """A source whose messages are files. Each listing is new."""

    def __init__(self, name: str, listing: Listing, queues: Collection[str]) -> None:
        self.name = name
        self._listing = listing
        self._items = listing()
        self.length: int | None = sum(item.length for item in self._items)
        largest = dict.fromkeys(queues, _DEFAULT_SIZE)
        for item in self._items:
            largest[item.queue] = max(largest[item.queue], item.length)
        self.queues = {
            queue: SourceQueue(
                settings=Settings()
                if size == _DEFAULT_SIZE
                else Settings(max_message_size=min(size, MAX_BODY_IN_MEMORY))
            )
            for queue, size in largest.items()
        }

    def items(self) -> Iterator[Item]:
        return iter(self._items)

    def check(self) -> None:
        """Do nothing: a folder can't be incomplete."""

    def remove(self, items: Sequence[Item]) -> int:
        return sum(not _unlinked(item.path) for item in items)

    def remove_rest(self, done_keys: Container[str]) -> bool:
        left = self._listing()
        for item in left:
            if item.key in done_keys:
                _unlinked(item.path)
        for folder in {os.path.dirname(item.path) for item in (*self._items, *left)}:
            sync_folder(folder)
        return True


def vsqs_source(folder: str, queue: str | None) -> Folders:
    """Return the source of one vsqs queue's folder. Raises `Failed` for a folder of Spoolrack, or of
    several queues, and `OSError`."""
    folder = os.path.abspath(folder)
    _refuse_root(folder)
    _refuse_queues(folder)
    name = queue or os.path.basename(folder)

    def listing() -> list[Item]:
        return [
            Item(
                key=stored.id,
                queue=name,
                length=stored.size,
                read=stored.read,
                path=stored.path,
                # Rounded up: never visible before its lease is over.
                visible_at=None if stored.expiration is None else -(-stored.expiration // 1_000),
            )
            for stored in stored_messages(folder)
            if stored.state is not FileState.NEW
        ]

    return Folders(f"vsqs://{_quoted(folder)}", listing, [name])


def unfinished_in(folder: str) -> int:
    """Return the number of files in a vsqs folder that are being written, or were left unfinished: they
    are no messages."""
    return sum(stored.state is FileState.NEW for stored in stored_messages(folder))


def mq_source(root: str, delay_ms: int) -> Folders:
    """Return the source of all queues of a root of softlayer/mq. `delay_ms` is the time that its mover
    leaves messages in `delay/`. Raises `Failed` for a folder of Spoolrack, or one that is no root, and
    `OSError`."""
    root = os.path.abspath(root)
    _refuse_root(root)
    if _QUEUES not in os.listdir(root):
        raise Failed(f"{root} is not a root of softlayer/mq: it has no folder queues/", USAGE)

    def listing() -> list[Item]:
        by_key: dict[str, tuple[int, Item]] = {}
        # If a message is in two places, the later state wins, as everywhere.
        for entry in _files(os.path.join(root, _DELAY)):
            _add(by_key, entry, *_parted(entry.name), delay_ms)
        for folder in _folders(os.path.join(root, _QUEUES)):
            for entry in _files(folder.path):
                _add(by_key, entry, folder.name, entry.name, None)
        for entry in _files(os.path.join(root, _NEW)):
            _add(by_key, entry, *_parted(entry.name), None)
        ordered = sorted(by_key.values(), key=lambda one: (one[1].queue, one[0], one[1].key))
        return [item for _, item in ordered]

    # A queue that is empty is one, too, and so is one that a message was sent to and that never was.
    queues = {entry.name for entry in _folders(os.path.join(root, _QUEUES))}
    queues |= {item.queue for item in listing()}
    return Folders(f"mq://{_quoted(root)}", listing, sorted(queues))


def _add(
    by_key: dict[str, tuple[int, Item]],
    entry: os.DirEntry[str],
    queue: str,
    id: str,
    delay_ms: int | None,
) -> None:
    key = f"{queue}:{id}"
    if not queue or not id or key in by_key:
        return
    try:
        facts = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return
    # A rename sets the time of change, and nothing else changes a message: so long it has been there.
    due = None if delay_ms is None else facts.st_ctime_ns // 1_000_000 + delay_ms
    item = Item(
        key=key,
        queue=queue,
        length=facts.st_size,
        read=Path(entry.path).read_bytes,
        path=entry.path,
        visible_at=due,
    )
    by_key[key] = (_sent_at(id, facts.st_mtime_ns), item)


def _sent_at(id: str, written_ns: int) -> int:
    """Return when a message was sent, in units of 100 ns: from its id, or else from its file."""
    try:
        parsed = uuid.UUID(id)
    except ValueError:
        return written_ns // 100
    return parsed.time - _V1_EPOCH if parsed.version == 1 else written_ns // 100


def _parted(name: str) -> tuple[str, str]:
    queue, _, id = name.partition(":")
    return queue, id


def _files(folder: str) -> Iterator[os.DirEntry[str]]:
    try:
        entries = os.scandir(folder)
    except FileNotFoundError:
        return
    with entries:
        yield from (entry for entry in entries if entry.is_file(follow_symlinks=False))


def _folders(folder: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        yield from (entry for entry in entries if entry.is_dir(follow_symlinks=False))


def _unlinked(path: str) -> bool:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True


def _quoted(path: str) -> str:
    return quote(os.fsencode(path))


def _is_root(folder: str) -> bool:
    path = os.path.join(folder, "FORMAT")
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(len(_OURS)) == _OURS


def _refuse_root(folder: str) -> None:
    """Refuse a root of Spoolrack, or a folder inside one, as a source."""
    root = folder
    while not _is_root(root):
        if root == (root := os.path.dirname(root)):
            return
    where = "is" if root == folder else f"is in {root},"
    raise Failed(
        f"{folder} {where} a root of Spoolrack, and needs no import: use it with --root, or serve it",
        USAGE,
    )


def _refuse_queues(folder: str) -> None:
    """Refuse the folder of all queues, which is no queue: vsqs nests none."""
    below = sorted(entry.name for entry in _folders(folder))
    if below and next(stored_messages(folder), None) is None:
        raise Failed(
            f"{folder} holds no message of vsqs, but folders: name that of one queue, such as "
            f"{os.path.join(folder, below[0])}",
            USAGE,
        )
