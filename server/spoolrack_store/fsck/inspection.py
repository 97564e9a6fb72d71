"""Inspects a root: each name, size and checksum. Reads only, and may run beside a server.

`message_files` inspects the folders of messages, `listing` the settings, `other_folders` all others.
"""

from __future__ import annotations

from typing import Final

from ..files.changes import LOCK
from ..files.changes import PATH as CHANGES
from ..files.disk import Disk, FileKind
from ..files.layout import (
    BODIES,
    DEAD_LETTERS,
    FOLDERS,
    FORMAT,
    IDENTITY,
    OWNERS,
    QUEUES,
    RESERVE,
    SHARD,
)
from ..files.root import read_identity, read_shard
from ..model.clock import Clock
from ..model.sealed import NotWhole, Torn
from ..model.settings import settings_path
from ..model.shards import shard_of
from .findings import Findings, MessageCounts, Problem, Progress, Remedy, Report
from .listing import Registry
from .message_files import MessageInspector
from .other_folders import INSPECTIONS
from .quarantined_files import list_quarantined

KNOWN: Final = FOLDERS
"""Folders that a root may have."""
_MADE_BY_A_START: Final = {
    IDENTITY: "the next start gives the root another identity",
    LOCK: "the next start makes it",
    CHANGES: "the next start makes it",
    RESERVE: "no room is kept back for deletes on a full disk: the next start does that",
}
_ALSO_ALLOWED: Final = frozenset({FORMAT, SHARD, *_MADE_BY_A_START, "lost+found"})


def inspect(disk: Disk, clock: Clock, *, deep: bool = True, progress: Progress | None = None) -> Report:
    """Inspect everything, with `deep` each byte; raise `OSError` if the root can't be listed."""
    findings = Findings(disk, deep=deep)
    _inspect_root(findings)
    registry = Registry(findings)
    owners = frozenset(found.name for found in findings.scan(OWNERS))
    bodies = [found.name for found in findings.scan(BODIES)]
    dead_letter_files = [found.name for found in findings.scan(DEAD_LETTERS)]
    messages = MessageInspector(findings, clock, owners, progress)
    messages.run()
    messages.note_side_files(bodies, dead_letter_files)
    # After the messages: sets that are made meanwhile are found, and with a set that goes its leases
    # are gone, too.
    for inspect_folder in INSPECTIONS.values():
        inspect_folder(findings)
    messages.note_leases_without_set()
    _note_queues(findings, registry, messages)
    findings.report.quarantined += list_quarantined(findings)
    return findings.finish()


def _inspect_root(findings: Findings) -> None:
    kinds = {found.name: found.kind for found in findings.disk.scan(".")}
    for folder in KNOWN:
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
    for name in sorted(kinds.keys() - set(KNOWN) - _ALSO_ALLOWED):
        findings.add_leftover(name, "not ours; the store neither uses nor touches it")


def _note_queues(findings: Findings, registry: Registry, messages: MessageInspector) -> None:
    """Note queues of which only a part is there; a queue may just have been made or deleted."""
    report = findings.report
    if (shard := report.shard) is not None:
        for queue in sorted(each for each in registry.names if not shard.has(each)):
            home = shard_of(queue, shard.count)
            why = (
                f"the queue {queue} belongs to shard {home}, and this root is shard {shard}: no client "
                "that routes finds it; export it, delete it, and import it there"
            )
            findings.add_unrepairable(settings_path(queue, registry.versions[queue]), why)
    if (messages.queues.keys() | messages.folders) - registry.names:
        registry = Registry(findings)
    for queue in sorted((messages.queues.keys() | messages.folders) - registry.names):
        folder = f"{QUEUES}/{queue}"
        if queue in messages.queues:
            count = report.queues.pop(queue, MessageCounts()).messages
            why = f"there are no settings of the queue {queue}, and {count} messages of it"
            findings.add(Problem(path=folder, why=why, remedy=Remedy.SETTINGS, queue=queue))
        else:
            findings.add_leftover(folder, "a queue without settings and messages: it was never created")
    living = registry.names - registry.being_deleted
    without = {queue for queue in living if not findings.exists(f"{QUEUES}/{queue}")}
    if without and findings.exists(QUEUES):
        # The folder of a queue goes after its tombstone is there: it may just have been deleted.
        registry = Registry(findings)
        for queue in sorted(without & registry.names - registry.being_deleted):
            why = (
                f"the folder of the queue {queue} is missing: messages that were ready in it are lost, "
                "and only a backup has them"
            )
            findings.add(Problem(path=f"{QUEUES}/{queue}", why=why, remedy=Remedy.FOLDER))
    for queue in registry.names:
        report.queues.setdefault(queue, MessageCounts()).is_being_deleted = (
            queue in registry.being_deleted
        )
