"""Inspects the folders that hold no messages of queues, such as those of reservations and the archive.

One function for each folder; `INSPECTIONS` lists them. A server may be at work: a file that is gone
when it is to be read has moved on, and one that isn't whole is being written, or was never answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeVar

from ..files.body_file import body_pieces, open_body
from ..files.disk import FileKind
from ..files.layout import (
    ARCHIVE,
    BODY,
    DEAD_LETTERS,
    KEYS,
    OWNERS,
    PUBLISHED,
    REDRIVES,
    RESERVED,
    STAGED,
)
from ..model.batch_file import Damaged, body, decode, decode_whole, is_torn
from ..model.clock import end_of_day
from ..model.dead_letter_records import NotAHistory, decode_records
from ..model.keys import id_number
from ..model.members import indexes
from ..model.message_ids import is_id
from ..model.names import Name, NotAName, Stem, is_dead_letter_path, is_owner, is_queue_name, name_at
from ..model.redrive_names import RedriveOrder, parse_redrive
from ..model.reservation_names import parse_reservation_name
from ..model.sealed import NotWhole, Torn, unseal
from ..model.stage_names import DROPPED, Manifest, parse_chunk, parse_published, parse_stage_life
from .findings import Findings

_Name = TypeVar("_Name")
_Values = TypeVar("_Values")


def inspect_owners(findings: Findings) -> None:
    """Note the processes that have the root open by their files; they may be dead."""
    for name, path in _files(findings, OWNERS):
        if not is_owner(name):
            findings.add_foreign(path, "not an owner's file")
            continue
        content = _read(findings, path)
        if content is not None:
            findings.report.owners.append(content[:200].decode(errors="replace").strip())


def inspect_staged(findings: Findings) -> None:
    """Note chunks that are not whole, and count the stages."""
    lives: set[str] = set()
    for name, path in _files(findings, STAGED):
        try:
            if name.endswith(DROPPED):
                parse_stage_life(name)
                findings.add_leftover(path, "a stage that is dropped: its chunks are being unlinked")
                continue
            chunk = parse_chunk(name)
        except NotAName:
            findings.add_foreign(path)
            continue
        lives.add(str(chunk.life))
        _inspect_chunk(findings, path, chunk.stem)
    findings.report.staged = len(lives)


def inspect_reserved(findings: Findings) -> None:
    """Note sets whose records are damaged, and count those that are held."""
    damaged = "this reservation's file is damaged"
    for name, _, values in _records(findings, RESERVED, parse_reservation_name, unseal, damaged):
        if name.due is not None:
            findings.set_tokens.add(str(values.get("token")))
            findings.report.reserved += not name.is_lost


def inspect_published(findings: Findings) -> None:
    """Note manifests that are damaged, and count the publications that are remembered."""
    found = _records(findings, PUBLISHED, parse_published, Manifest.decode, "no manifest")
    findings.report.published += sum(1 for _ in found)


def inspect_redrives(findings: Findings) -> None:
    """Note redrives whose records are damaged, and running ones."""
    found = _records(findings, REDRIVES, parse_redrive, RedriveOrder.decode, "no redrive")
    for name, path, order in found:
        if name.ended is None:
            why = f"a redrive of {order.queue}: any process that has the root open goes on with it"
            findings.add_leftover(path, why)


def inspect_dead_letters(findings: Findings) -> None:
    """Note dead-letter files that can't be read."""
    for _, path in _files(findings, DEAD_LETTERS):
        if not is_dead_letter_path(path):
            findings.add_foreign(path, "not a dead-letter file")
            continue
        content = _read(findings, path)
        if content is None:
            continue
        try:
            decode_records(content)
        except NotAHistory as error:
            findings.add_foreign(path, f"this dead-letter file is damaged: {error}")


def inspect_keys(findings: Findings) -> None:
    """Note segments of deduplication keys that are damaged."""
    for _ in _records(findings, KEYS, _segment_id, _keys, "these deduplication keys are damaged"):
        pass


def _segment_id(name: str) -> str:
    if not is_id(name):
        raise NotAName(name)
    return name


def _keys(content: bytes) -> dict[str, int]:
    """Return the keys of a segment, and the messages that took them; raise `NotWhole`."""
    try:
        return {key: id_number(str(id)) for key, id in unseal(content).items()}
    except NotWhole:
        raise
    except ValueError as error:
        raise NotWhole(str(error)) from error


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
                elif findings.deep:
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


INSPECTIONS: Final[Mapping[str, Callable[[Findings], None]]] = {
    OWNERS: inspect_owners,
    RESERVED: inspect_reserved,
    STAGED: inspect_staged,
    PUBLISHED: inspect_published,
    REDRIVES: inspect_redrives,
    DEAD_LETTERS: inspect_dead_letters,
    KEYS: inspect_keys,
    ARCHIVE: inspect_archive,
}
"""By folder."""


def _files(findings: Findings, folder: str) -> Iterator[tuple[str, str]]:
    """Yield name and path of each file in a folder; note what is none."""
    for found in findings.scan(folder):
        path = f"{folder}/{found.name}"
        if found.kind is FileKind.FILE:
            yield found.name, path
        else:
            findings.add_foreign(path, "it is no file")


def _records(
    findings: Findings,
    folder: str,
    parsed: Callable[[str], _Name],
    decoded: Callable[[bytes], _Values],
    damaged: str,
) -> Iterator[tuple[_Name, str, _Values]]:
    """Yield name, path and values of each sealed record in a folder; note all others."""
    for name, path in _files(findings, folder):
        try:
            parts = parsed(name)
        except NotAName:
            findings.add_foreign(path)
            continue
        content = _read(findings, path)
        if content is None:
            continue
        try:
            yield parts, path, decoded(content)
        except Torn:  # It was never answered.
            why = "it is being written, or was never written whole: the next start unlinks it"
            findings.add_leftover(path, why)
        except NotWhole as error:
            findings.add_foreign(path, f"{damaged}: {error}")


def _read(findings: Findings, path: str) -> bytes | None:
    try:
        return findings.disk.read(path)
    except FileNotFoundError:
        return None  # It was renamed, or is over.
    except OSError as error:
        findings.add_unrepairable(path, f"it can't be read: {error.strerror}")
        return None


def _inspect_chunk(findings: Findings, path: str, stem: Stem) -> None:
    """Note what is wrong with a chunk's file, if it isn't gone."""
    torn = "it was never staged, and the next start unlinks it"
    try:
        size = findings.disk.facts(path).size
    except FileNotFoundError:
        return
    except OSError as error:
        findings.add_unrepairable(path, f"it can't be read: {error.strerror}")
        return
    if size != stem.length:
        findings.add_leftover(path, f"it has {size} bytes instead of {stem.length}: {torn}")
        return
    content = _read(findings, path) if findings.deep else None
    if content is None:
        return
    findings.report.bytes += len(content)
    try:
        decode_whole(stem, content)
    except Damaged as error:
        if is_torn(content):
            findings.add_leftover(path, f"{error}: {torn}")
        else:
            findings.add_foreign(path, f"this chunk of a stage is damaged: {error}")
