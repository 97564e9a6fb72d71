"""Inspects a root: each name, size and checksum. Reads only, and may run beside a server.

`trial_start` tells what a start would do, `message_files` inspects the contents of message files, and
`other_folders` what no start reads.
"""

from __future__ import annotations

from typing import Final

from ..files.changes import LOCK
from ..files.changes import PATH as CHANGES
from ..files.disk import Disk, FileKind
from ..files.layout import (
    FOLDERS,
    FORMAT,
    IDENTITY,
    OWNERS,
    PUBLISHED,
    RESERVE,
    RESERVED,
    SHARD,
    STAGED,
)
from ..files.root import read_identity, read_shard
from ..model.clock import Clock
from ..model.reservation_names import parse_reservation_name
from ..model.sealed import NotWhole, Torn
from ..model.settings import settings_path
from ..model.shards import shard_of
from ..model.stage_names import DROPPED, parse_chunk
from .findings import Findings, MessageCounts, Problem, Progress, Remedy, Report
from .message_files import MessageInspector
from .other_folders import INSPECTIONS
from .quarantined_files import list_quarantined
from .trial_start import TrialStart

_MADE_BY_A_START: Final = {
    IDENTITY: "the next start gives the root another identity",
    LOCK: "the next start makes it",
    CHANGES: "the next start makes it",
    RESERVE: "no room is kept back for deletes on a full disk: the next start does that",
}
_ALSO_ALLOWED: Final = frozenset({FORMAT, SHARD, *_MADE_BY_A_START, "lost+found"})


def inspect(disk: Disk, clock: Clock, *, progress: Progress | None = None) -> Report:
    """Inspect everything, each byte; raise `OSError` if the root can't be listed."""
    findings = Findings(disk)
    report = findings.report
    _inspect_root(findings)
    for inspect_folder in INSPECTIONS:
        inspect_folder(findings)
    owners = frozenset(found.name for found in findings.scan(OWNERS))
    start = MessageInspector(findings, clock, owners, progress).run()
    chunks = [parse_chunk(name) for name in start.names(STAGED) if not name.endswith(DROPPED)]
    report.staged = len({chunk.life for chunk in chunks})
    report.bytes += sum(chunk.stem.length for chunk in chunks)
    report.published = len(start.names(PUBLISHED))
    sets = map(parse_reservation_name, start.names(RESERVED))
    report.reserved = sum(name.due is not None and not name.is_lost for name in sets)
    _note_queues(findings, start)
    report.quarantined += list_quarantined(findings)
    return findings.finish()


def _inspect_root(findings: Findings) -> None:
    kinds = {found.name: found.kind for found in findings.disk.scan(".")}
    for folder in FOLDERS:
        if folder not in kinds:
            why = "this folder of every root is missing"
            findings.add(Problem(path=folder, why=why, remedy=Remedy.FOLDER))
        elif kinds[folder] is not FileKind.FOLDER:
            findings.add_unrepairable(folder, "this is a folder in every root, and it is none")
    for name, why in _MADE_BY_A_START.items():
        if name not in kinds:
            findings.add_leftover(FORMAT, f"{name} is missing: {why}")
        elif kinds[name] is not FileKind.FILE:
            findings.add_unrepairable(name, "this is a file in every root, and it is none")
    if kinds.get(IDENTITY) is FileKind.FILE:
        try:
            findings.report.identity = read_identity(findings.disk)
        except Torn as error:
            findings.add_leftover(IDENTITY, f"{error}: the next start draws another identity")
        except NotWhole as error:
            findings.add_foreign(
                IDENTITY,
                f"{error}: no start opens the root until the file is restored from a backup, or is in "
                "quarantine: then the next start draws another identity",
            )
    try:
        findings.report.shard = read_shard(findings.disk)
    except (OSError, NotWhole) as error:
        findings.add_unrepairable(
            SHARD, f"{error}; start the server with --shard, which writes it anew"
        )
    for name in sorted(kinds.keys() - set(FOLDERS) - _ALSO_ALLOWED):
        findings.add_leftover(name, "not ours; the store neither uses nor touches it")


def _note_queues(findings: Findings, start: TrialStart) -> None:
    """Note all queues, and those that belong to another shard."""
    report = findings.report
    versions = {name: record.version for name, record in start.records.items()}
    versions |= start.tombstones
    if (shard := report.shard) is not None:
        for queue in sorted(each for each in versions if not shard.has(each)):
            home = shard_of(queue, shard.count)
            why = (
                f"the queue {queue} belongs to shard {home}, and this root is shard {shard}: no client "
                "that routes finds it; export it, delete it, and import it there"
            )
            findings.add_unrepairable(settings_path(queue, versions[queue]), why)
    for queue in versions:
        tally = report.queues.setdefault(queue, MessageCounts())
        tally.is_being_deleted = queue in start.tombstones
