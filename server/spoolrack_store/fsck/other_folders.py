"""Inspects the folders that hold no messages of queues: owners, reservations, stages, redrives.

One function for each folder; `INSPECTIONS` lists them. A server may be at work: a file that is gone
when it is to be read has moved on, and one that isn't whole is being written, or was never answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeVar

from ..files.disk import FileKind
from ..files.layout import DEAD_LETTERS, OWNERS, PUBLISHED, REDRIVES, RESERVED, STAGED
from ..model.batch_file import Damaged, decode_whole, is_torn
from ..model.dead_letter_records import NotAHistory, decode_records
from ..model.names import NotAName, Stem, is_dead_letter_path, is_owner
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


INSPECTIONS: Final[Mapping[str, Callable[[Findings], None]]] = {
    OWNERS: inspect_owners,
    RESERVED: inspect_reserved,
    STAGED: inspect_staged,
    PUBLISHED: inspect_published,
    REDRIVES: inspect_redrives,
    DEAD_LETTERS: inspect_dead_letters,
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
