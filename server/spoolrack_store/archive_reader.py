"""Reads the messages of an archive in the order of their sends.

It needs no root and no lock: files of an archive are never changed, and one that is removed
meanwhile is passed over.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import groupby

from .engine.entries import Groups
from .files.body_file import body_pieces
from .files.disk import FileKind
from .files.layout import BODY
from .files.local_disk import LocalDisk
from .model.batch_file import Damaged, Line, body, decode
from .model.clock import Millis
from .model.message_content import Attributes
from .model.message_ids import batch_of, sent_at
from .model.names import NotAName, Stem, parse
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


def read_archive(
    folder: str | os.PathLike[str],
    since: Millis,
    until: Millis,
    problem: Callable[[str, str], None],
) -> Iterator[ArchivedMessage]:
    """Yield the messages of `archive/<queue>` that were sent from `since` to before `until`.

    Both are Unix times. The messages come in the order of their ids, each once: of a message that has
    been a dead letter there may be several files.

    Call `problem` with the path and the reason for each file or message that can't be read. Raise
    `OSError` if the folder can't be listed.
    """
    disk = LocalDisk(folder)
    above = os.fspath(folder)
    try:
        found: list[tuple[str, str]] = []
        bodies: set[str] = set()
        for day in disk.scan("."):
            if day.kind is not FileKind.FOLDER:
                continue
            for file in disk.scan(day.name):
                path = f"{day.name}/{file.name}"
                if file.name.endswith(BODY):
                    bodies.add(path.removesuffix(BODY))
                else:
                    found.append((file.name, path))
        stems: list[tuple[Stem, str]] = []
        for name, path in sorted(found):
            try:
                stem = parse(f"queues/q/{name}").stem
            except NotAName:
                problem(path, "this is not the name of a message file")
                continue
            if since <= sent_at(stem.id) < until:
                stems.append((stem, path))
        chosen = _chosen(stems, bodies)
        # A message of a batch that has been a dead letter has a file of its own, and its old place.
        for _, together in groupby(stems, lambda each: batch_of(each[0].id)):
            read = (_read(disk, above, path, stem, problem, chosen) for stem, path in together)
            yield from merge(*read, key=lambda message: message.id)
    finally:
        disk.close()


def _chosen(stems: Sequence[tuple[Stem, str]], bodies: Collection[str]) -> dict[str, str]:
    """Return the path to read of each message that has been a dead letter, by its id: the latest file,
    or the one beside which its body is."""
    dead = {stem.id for stem, _ in stems if stem.deaths}
    best: dict[str, tuple[bool, int, str]] = {}
    for stem, path in stems:
        if stem.id in dead and not stem.count:
            best[stem.id] = max(best.get(stem.id, (False, -1, "")), (path in bodies, stem.deaths, path))
    return {id: path for id, (_, _, path) in best.items()}


def _read(
    disk: LocalDisk,
    folder: str,
    path: str,
    stem: Stem,
    problem: Callable[[str, str], None],
    chosen: Mapping[str, str],
) -> Iterator[ArchivedMessage]:
    wanted = [
        index for index in range(stem.count or 1) if chosen.get(stem.message_id(index), path) == path
    ]
    if not wanted:
        return
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
    for index in wanted:
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
    pieces = body_pieces(disk, path, line)
    if line.sizes[0] <= MAX_BODY_IN_MEMORY:
        return b"".join(pieces), None
    for _ in pieces:
        pass
    return b"", f"{folder}/{path}"
