"""Reads the messages of an archive in the order of their sends.

It needs no root and no lock: files of an archive are never changed, and one that is removed
meanwhile is passed over.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import merge
from itertools import groupby

from .engine.entries import Groups
from .files.body_file import body_pieces, open_body
from .files.disk import FileKind
from .files.layout import ARCHIVE, BODY
from .files.local_disk import LocalDisk
from .model.batch_file import Damaged, Line, body, decode
from .model.clock import Millis
from .model.members import indexes
from .model.message_content import Attributes
from .model.message_ids import sent_at
from .model.names import Name, name_at
from .model.operations import MAX_BODY_IN_MEMORY


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedMessage:
    id: str
    sent_at: Millis
    body: bytes
    body_path: str | None = None
    """Of a body above `MAX_BODY_IN_MEMORY`, which `body` leaves out: its file in the archive."""
    attributes: Attributes
    group: str
    """Empty: none."""
    priority: int


def archive_of(root: str | os.PathLike[str]) -> str:
    """Return the folder of a root's archive, in which each queue has a folder."""
    return os.path.join(root, ARCHIVE)


def read_archive(
    folder: str | os.PathLike[str],
    since: Millis,
    until: Millis,
    problem: Callable[[str, str], None],
) -> Iterator[ArchivedMessage]:
    """Yield the messages of `archive/<queue>` that were sent from `since` to before `until`.

    Both are Unix times. The messages come in the order of their ids, each once.

    Call `problem` with the path and the reason for each file or message that can't be read. Raise
    `OSError` if the folder can't be listed.
    """
    disk = LocalDisk(folder)
    above = os.fspath(folder)
    try:
        found: list[tuple[str, str]] = []
        for day in disk.scan("."):
            if day.kind is FileKind.FOLDER:
                names = (file.name for file in disk.scan(day.name))
                found += [(name, f"{day.name}/{name}") for name in names if not name.endswith(BODY)]
        files: list[tuple[Name, str]] = []
        for text, path in sorted(found):
            name = name_at(f"queues/q/{text}")
            if name is None:
                problem(path, "this is not the name of a message file")
            elif since <= sent_at(name.stem.id) < until:
                files.append((name, path))
        # Of a batch there may be several files: its messages were deleted at different times.
        for _, together in groupby(files, lambda each: each[0].stem.id):
            read = (_read(disk, above, path, name, problem) for name, path in together)
            last = ""
            for message in merge(*read, key=lambda message: message.id):
                if message.id != last:
                    yield message
                last = message.id
    finally:
        disk.close()


def _read(
    disk: LocalDisk, folder: str, path: str, name: Name, problem: Callable[[str, str], None]
) -> Iterator[ArchivedMessage]:
    stem = name.stem
    try:
        content = disk.read(path)
        line = decode(stem, content, len(content))
    except FileNotFoundError:
        return  # Its time was over.
    except (OSError, Damaged) as error:
        problem(path, str(error))
        return
    body_path: str | None = None
    if line.is_external:
        try:
            content, body_path = _external_body(disk, folder, f"{path}{BODY}", line)
        except (OSError, Damaged) as error:
            problem(path, str(error))
            return
    groups = Groups(line.groups, stem.full)
    for index in indexes(name.members):
        try:
            found = b"" if body_path else body(line, content, index)
        except Damaged as error:
            problem(path, f"message {stem.message_id(index)}: {error}")
            continue
        attributes = line.attributes.get(index, {})
        yield ArchivedMessage(
            id=stem.message_id(index),
            sent_at=sent_at(stem.id),
            body=found,
            body_path=body_path,
            attributes=attributes,
            group=groups.of(index),
            priority=stem.priority,
        )


def _external_body(disk: LocalDisk, folder: str, path: str, line: Line) -> tuple[bytes, str | None]:
    """Check a body in a file of its own; return it, or its path if memory has no room for it."""
    with open_body(disk, path, line.sizes[0]) as file:
        pieces = body_pieces(file, line)
        if line.sizes[0] <= MAX_BODY_IN_MEMORY:
            return b"".join(pieces), None
        for _ in pieces:
            pass
    return b"", f"{folder}/{path}"
