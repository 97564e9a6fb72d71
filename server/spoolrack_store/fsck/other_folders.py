"""Inspects what no start reads: owners' files, dead-letter files, deduplication keys and the archive.

One function for each folder; `INSPECTIONS` lists them. A server may be at work: a file that is gone
when it is to be read has moved on, and one that isn't whole is being written, or was never answered.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..engine.deduplication import keys_in
from ..files.body_file import body_pieces, open_body
from ..files.disk import FileKind
from ..files.layout import (
    ARCHIVE,
    BODY,
    DEAD_LETTERS,
    KEYS,
    OWNERS,
)
from ..model.batch_file import Damaged, body, decode
from ..model.clock import end_of_day
from ..model.dead_letter_records import NotAHistory, decode_records
from ..model.members import indexes
from ..model.message_ids import is_id
from ..model.names import Name, is_dead_letter_path, is_owner, is_queue_name, name_at
from ..model.sealed import Torn
from .findings import Findings


def inspect_owners(findings: Findings) -> None:
    """Note the processes that have the root open by their files; they may be dead."""
    for name, path in _files(findings, OWNERS):
        if not is_owner(name):
            findings.add_foreign(path, "not an owner's file")
            continue
        content = _read(findings, path)
        if content is not None:
            findings.report.owners.append(content[:200].decode(errors="replace").strip())


def inspect_dead_letters(findings: Findings) -> None:
    """Note dead-letter files that can't be read."""
    for found in findings.scan(DEAD_LETTERS):
        path = f"{DEAD_LETTERS}/{found.name}"
        is_ours = found.kind is FileKind.FILE and is_dead_letter_path(path)
        content = _read(findings, path) if is_ours else None
        if content is None:
            continue  # A start puts aside what is none of ours.
        try:
            decode_records(content)
        except NotAHistory as error:
            findings.add_foreign(path, f"this dead-letter file is damaged: {error}")


def inspect_keys(findings: Findings) -> None:
    """Note segments of deduplication keys that are damaged."""
    for name, path in _files(findings, KEYS):
        content = _read(findings, path) if is_id(name) else None
        if not is_id(name):
            findings.add_foreign(path)
        elif content is not None:
            try:
                keys_in(content)
            except Torn:  # Its names were not unlinked.
                findings.add_leftover(path, "it was never written whole")
            except ValueError as error:
                findings.add_foreign(path, f"these deduplication keys are damaged: {error}")


def inspect_archive(findings: Findings) -> None:
    """Note archived messages that are damaged: the files stay, because a replay passes these over."""
    for queue in findings.scan(ARCHIVE):
        folder = f"{ARCHIVE}/{queue.name}"
        if queue.kind is not FileKind.FOLDER or not is_queue_name(queue.name):
            findings.add_foreign(folder, "not a queue's archive")
            continue
        for day in findings.scan(folder):
            path = f"{folder}/{day.name}"
            if day.kind is not FileKind.FOLDER or end_of_day(day.name) is None:
                findings.add_foreign(path, "not a day of an archive")
                continue
            for name, file in _files(findings, path):
                if name.endswith(BODY):
                    continue  # It is read with its message.
                archived = name_at(f"queues/q/{name}")
                if archived is None:
                    findings.add_foreign(file, "not the name of a message file")
                else:
                    _inspect_archived(findings, file, archived)


def _inspect_archived(findings: Findings, path: str, name: Name) -> None:
    content = _read(findings, path)
    if content is None:
        return
    findings.report.bytes += len(content)
    left = "a replay passes it over; remove the file, or restore it from a backup"
    try:
        line = decode(name.stem, content, len(content))
        if line.is_external:
            with open_body(findings.disk, f"{path}{BODY}", name.stem.size) as file:
                for piece in body_pieces(file, line):
                    findings.report.bytes += len(piece)
    except OSError as error:
        findings.add_unrepairable(
            path, f"the body of this archived message can't be read: {error}; {left}"
        )
        return
    except Damaged as error:
        findings.add_unrepairable(path, f"this archived file is damaged: {error}; {left}")
        return
    for index in () if line.is_external else indexes(name.members):
        try:
            body(line, content, index)
        except Damaged as error:
            id = name.stem.message_id(index)
            findings.add_unrepairable(path, f"the archived message {id} is damaged: {error}; {left}")
            return


INSPECTIONS: Final = (inspect_owners, inspect_dead_letters, inspect_keys, inspect_archive)


def _files(findings: Findings, folder: str) -> Iterator[tuple[str, str]]:
    """Yield name and path of each file in a folder; note what is none."""
    for found in findings.scan(folder):
        path = f"{folder}/{found.name}"
        if found.kind is FileKind.FILE:
            yield found.name, path
        else:
            findings.add_foreign(path, "it is no file")


def _read(findings: Findings, path: str) -> bytes | None:
    try:
        return findings.disk.read(path)
    except FileNotFoundError:
        return None  # It was renamed, or is over.
    except OSError as error:
        findings.add_unrepairable(path, f"it can't be read: {error.strerror}")
        return None
