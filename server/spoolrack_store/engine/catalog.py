"""The catalogue of queues and their settings: the files `config/<queue>.<version>.json`.

A version is created once and never changed, so that an update is a new file; the highest version that
can be read counts, and older ones are unlinked once it is durable. A tombstone is the version that
deletes a queue. Once it is durable, the queue's messages go to `remove/`, then its folder and its older
settings go, and then the tombstone: each step is durable before the next begins. So nothing is left
that could come back into another queue of that name. Files in `remove/` or in quarantine
don't hold up the tombstone. Each process that has the root open goes on with each tombstone.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from operator import attrgetter
from random import Random
from typing import Any

from ..files.disk import FileKind, explained, explaining
from ..files.layout import CONFIG
from ..model.clock import Millis
from ..model.errors import (
    DamagedSettings,
    InvalidQueueName,
    InvalidSetting,
    QueueBeingDeleted,
    QueueExists,
    QueueFull,
    QueueNotFound,
    StoreError,
    TornSettings,
    VersionMismatch,
)
from ..model.names import is_queue_name, name_at
from ..model.operations import CreateQueue, DeleteQueue, Receive, UpdateQueue
from ..model.receipts import make_token
from ..model.reservation_requests import Reserve
from ..model.schedule import Schedule
from ..model.settings import (
    QueueSettings,
    Record,
    check_labels,
    decode,
    encode,
    parse_settings_path,
    settings_path,
)
from ..model.shards import Shard, shard_of, tag_of
from .entries import Entry
from .moves import Moves
from .part import Part, postponing
from .sorted_names import SortedNames

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class QueueRecord:
    """A queue's record in the catalogue."""

    name: str
    settings: QueueSettings
    created_at: Millis = Millis(0)
    version: int = 1
    salt: str = ""
    """Another queue that is made under this name has another."""
    labels: Mapping[str, str] = field(default_factory=dict)
    schedules: Mapping[str, Schedule] = field(default_factory=dict)

    @property
    def identity(self) -> tuple[Millis, str]:
        """What tells the queue from another one of its name."""
        return self.created_at, self.salt


class QueueRoom:
    """The room of queues, less all that was answered and isn't in its queue yet, and less what the
    requests of the commit bring."""

    def __init__(self, moves: Moves) -> None:
        self._moves = moves
        self.sources: list[Callable[[str], tuple[int, int]]] = []
        """Each returns the messages and bytes that a part of the engine has for a queue."""
        self.coming: dict[str, tuple[int, int]] = {}
        """The messages and bytes that are on their way to each queue, as far as that was asked."""
        self._sent_by_others: Mapping[str, tuple[int, int]] | None = None

    def begin(self) -> None:
        """Begin the requests of a commit."""
        self.coming.clear()
        self._sent_by_others = None

    def held(self, queue: str) -> tuple[int, int]:
        """Return the messages and bytes of a queue, with those that are on their way to it; raise
        `DiskError`."""
        index = self._moves.index.queue(queue)
        messages, size = self._load(queue)
        return index.total + messages, index.bytes + size

    def _load(self, queue: str) -> tuple[int, int]:
        if queue not in self.coming:
            if self._sent_by_others is None:
                self._sent_by_others = self._moves.sent_by_others()
            found = [source(queue) for source in self.sources]
            found.append(self._sent_by_others.get(queue, (0, 0)))
            self.coming[queue] = sum(each[0] for each in found), sum(each[1] for each in found)
        return self.coming[queue]

    def load(self, record: QueueRecord) -> None:
        """Look at what is on its way to a queue with a limit now, before the caller takes of that what
        it brings."""
        if record.settings.max_messages or record.settings.max_bytes:
            with suppress(StoreError):
                self._load(record.name)

    def take(self, record: QueueRecord, count: int, size: int) -> None:
        """Take the room for so many messages and bytes; raise `QueueFull` if there is less, and
        `DiskError` if that can't be told."""
        settings = record.settings
        if not (settings.max_messages or settings.max_bytes):
            return
        messages, bytes = self.held(record.name)
        for limit, there, wanted, unit in (
            (settings.max_messages, messages, count, "messages"),
            (settings.max_bytes, bytes, size, "bytes"),
        ):
            if limit and there + wanted > limit:
                raise QueueFull(queue=record.name, held=there, limit=limit, unit=unit)
        messages, bytes = self._load(record.name)
        self.coming[record.name] = messages + count, bytes + size


@dataclass(slots=True)
class _Tombstone:
    """A deleted queue of which something may be left."""

    version: int
    identity: tuple[Millis, str]
    """The queue's `created_at` and its salt."""
    written: int
    """The commit that makes it durable."""
    oldest: int | None
    """The first version of the settings that may be there; None: `config/` has to be listed."""
    emptied: int | None = None
    """The commit that makes durable that the queue has no message; None: it may have some."""
    cleared: int | None = None
    """The commit that makes durable that its folder and its older settings are gone; None: they may be
    there."""


class Catalog(Part):
    """The catalogue of all queues. Not thread-safe."""

    folders = (CONFIG,)

    def __init__(self, moves: Moves, random: Random, shard: Shard | None = None) -> None:
        self._moves = moves
        self._shard = shard
        self._random = random
        self.records: dict[str, QueueRecord] = {}
        moves.queues = self.records
        self.expiring: dict[str, None] = {}
        """Those of the queues that expire."""
        self.newly_expiring: dict[str, None] = {}
        """Those that were made or changed, or whose settings were read: `expiry` takes them out."""
        self.scheduled = SortedNames()
        """The names of the queues that have schedules, in order."""
        self._revision = 0
        """Of `records`."""
        self._listing: tuple[int, list[QueueRecord]] = 0, []
        """All records in order, and the revision that they are of."""
        self.sources: dict[str, dict[str, None]] = {}
        """By dead-letter queue, whether it exists or not, the queues that name it."""
        self.windows = Counter[Millis]()
        """Deduplication windows, and how many queues have each."""
        self._writers: dict[str, None] = {}
        """Those as which schedules of queues publish."""
        self.reset: set[str] = set()
        """Queues that this process gave the default settings, because theirs were lost."""
        self._tombstones: dict[str, _Tombstone] = {}
        self._old_settings: dict[tuple[str, int], int] = {}
        """Superseded settings by queue and version, and the commit that must be durable before they are
        unlinked."""
        self._ended_writers: dict[str, int] = {}
        """Writers of schedules that are no more, and the commit that makes that durable."""
        self._missing_settings: set[str] = set()
        """Queues whose settings file was not there, or damaged: it is written again."""
        self._damaged_queues: set[str] = set()
        """Queues of which a version of the settings was damaged at the last listing."""
        self._overtaken_queues: set[str] = set()
        """Queues that had a later version, which is unlinked: other processes went on, perhaps to the
        end of the queue."""
        self.pending = (
            self._old_settings,
            self._tombstones,
            self._missing_settings,
            self._overtaken_queues,
        )
        self._looked: tuple[int, bool] = -1, False
        """When `config/` had changed at the last tick, and whether that was so at the one before."""

    # Which queues there are.

    def require(self, name: str) -> QueueRecord:
        """Return the queue's record; raise `InvalidQueueName`, `WrongShard` or `QueueNotFound`. In any
        thread."""
        record = self.records.get(name)
        if record is None:
            self.require_here(name)
            raise QueueNotFound(queue=name)
        return record

    def require_here(self, name: str) -> None:
        """Raise `InvalidQueueName`, or `WrongShard` for the name of a queue that belongs to another
        shard."""
        if not is_queue_name(name):
            raise InvalidQueueName(name=name)
        if self._shard is not None:
            self._shard.require(name)

    def require_named(self, queue: str) -> None:
        """Raise as `require_here` for the queue of a request that need not name one; "": it doesn't."""
        if queue:
            self.require_here(queue)

    def require_same(self, request: Receive | Reserve) -> QueueRecord:
        """Return the record of a request that may have waited; raise `QueueNotFound`, too, if its queue
        was deleted meanwhile, and another one has the name."""
        record = self.require(request.queue)
        made = record.created_at, record.salt
        request.queue_identity = request.queue_identity or made
        if request.queue_identity != made:
            raise QueueNotFound(queue=request.queue)
        return record

    def require_open(self, name: str) -> QueueRecord:
        """Return the record for a send, also of a queue whose creation is in the same commit; raise
        `QueueBeingDeleted`, too."""
        if name in self._tombstones:
            raise QueueBeingDeleted(queue=name)
        return self.require(name)

    def is_being_deleted(self, name: str) -> bool:
        return name in self._tombstones

    @property
    def tombstones(self) -> dict[str, int]:
        """The queues that are being deleted, and the versions of their tombstones."""
        return {name: tombstone.version for name, tombstone in self._tombstones.items()}

    # Requests. The answers hold once the commit is synced.

    def create(self, request: CreateQueue) -> QueueRecord:
        name, settings = request.name, request.settings
        self.require_here(name)
        if name in self._tombstones:
            raise QueueBeingDeleted(queue=name)
        old_record = self.records.get(name)
        if old_record is not None:
            if old_record.settings != settings:
                raise QueueExists(queue=name, differing=old_record.settings.differing(settings))
            for label, value in request.labels.items():
                if old_record.labels.get(label) != value:
                    raise QueueExists(queue=name, differing=f"label {label}")
            return old_record
        check_labels(request.labels)
        self._check_target(name, settings)
        return self._make(name, settings, labels=request.labels)

    def update(self, request: UpdateQueue) -> QueueRecord:
        old_record = self._require_version(request.name, request.if_version)
        settings = old_record.settings.changed(request.changes)
        kept = {} if request.replaces_labels else old_record.labels
        changed: dict[str, str | None] = {**kept, **request.labels}
        labels = {name: value for name, value in changed.items() if value is not None}
        if settings == old_record.settings and labels == old_record.labels:
            return old_record
        check_labels(labels)
        if settings.dead_letter_queue != old_record.settings.dead_letter_queue:
            # Else it may have been deleted since, which must not keep the queue from being changed.
            self._check_target(old_record.name, settings)
        return self._replace(old_record, settings=settings, labels=labels)

    def change_schedules(self, there: QueueRecord, schedules: Mapping[str, Schedule]) -> None:
        """Replace the schedules of a queue."""
        self._replace(there, schedules=schedules)

    def has_writer(self, writer: str) -> bool:
        """Return whether a schedule publishes as this writer, or a power cut may bring one back."""
        if self._ended_writers.get(writer, 0) > self._moves.synced:
            return True
        return writer in self._writers

    def _end_writers(self, before: QueueRecord | None, after: QueueRecord | None = None) -> None:
        """Note the schedules that a queue has no more, until that is durable."""
        writers = {each.writer for each in before.schedules.values()} if before else set()
        if after is not None:
            writers -= {each.writer for each in after.schedules.values()}
        self._ended_writers.update(dict.fromkeys(writers, self._moves.commit))

    def _replace(self, old_record: QueueRecord, **parts: Any) -> QueueRecord:
        """Write the next version of a queue's settings."""
        record = replace(old_record, **parts, version=old_record.version + 1)
        self._write(record, record.settings)
        self._end_writers(old_record, record)
        self._keep(record)
        self._old_settings[old_record.name, old_record.version] = self._moves.commit
        return record

    def delete(self, request: DeleteQueue) -> None:
        old_record = self._require_version(request.name, request.if_version)
        record = replace(old_record, version=old_record.version + 1)
        self._write(record, None)
        self._add_tombstone(old_record.name, record.version, old_record.identity)

    def _require_version(self, name: str, version: int) -> QueueRecord:
        old_record = self.require(name)
        if version and version != old_record.version:
            raise VersionMismatch(queue=name, version=old_record.version, expected=version)
        return old_record

    def _make(
        self,
        name: str,
        settings: QueueSettings,
        version: int = 1,
        labels: Mapping[str, str] | None = None,
    ) -> QueueRecord:
        salt = make_token(self._random)
        record = QueueRecord(
            name, settings, self._moves.clock.wall(), version, salt, dict(labels or {})
        )
        # The folder first: one without settings is nothing.
        self._make_folder(name)
        self._write(record, settings)
        self._keep(record)
        index = self._moves.index.queue(name)
        index.entered = index.left = 0
        self._moves.index.outdated_queues[name] = None
        return record

    def _write(self, record: QueueRecord, settings: QueueSettings | None) -> None:
        content = encode(
            Record(
                settings=settings,
                created_at=record.created_at,
                salt=record.salt,
                labels=record.labels,
                schedules=record.schedules,
            )
        )
        self._moves.create_file(
            settings_path(record.name, record.version), content, urgent=settings is None
        )

    def _make_folder(self, name: str) -> None:
        disk, path = self._moves.disk, f"queues/{name}"
        with explaining():
            try:
                disk.make_folder(path)
            except FileExistsError:
                # A queue that was never made durable, or is there; or a link out of the root.
                if disk.facts(path).kind is not FileKind.FOLDER:
                    self._moves.quarantine(path, "it has the place of a queue's folder")
                    disk.make_folder(path)
        self._moves.syncer.folder_changed("queues")

    def broken_rule(self, name: str, other: str) -> str:
        """Return the rule that a queue `other` breaks by belonging to another shard than the queue
        `name`, as the text of an error; "" if it belongs here."""
        shard = self._shard
        if not other or shard is None or shard.has(other):
            return ""
        tag = tag_of(name)
        such = f"{tag}--dead.fifo" if name.endswith(".fifo") else f"{tag}--dead"
        return (
            f"must lie on shard {shard.number} of {shard.count} with {name}, and belongs to shard "
            f"{shard_of(other, shard.count)}: choose a name with the tag {tag}, such as {such}"
        )

    def _check_target(self, name: str, settings: QueueSettings) -> None:
        """Raise `InvalidSetting` for a dead-letter queue that isn't there, belongs to another shard, or
        leads back to `name`."""
        target = settings.dead_letter_queue
        if rule := self.broken_rule(name, target):
            raise InvalidSetting(name="dead_letter_queue", value=target, rule=rule)
        if target and target != name and target not in self.records:
            raise InvalidSetting(name="dead_letter_queue", value=target, rule="must exist already")
        seen = {name}
        while target:
            if target in seen:
                raise InvalidSetting(
                    name="dead_letter_queue",
                    value=settings.dead_letter_queue,
                    rule="must not lead back to the queue itself",
                )
            seen.add(target)
            record = self.records.get(target)
            target = "" if record is None else record.settings.dead_letter_queue

    # Reading the files.

    def recover(self) -> None:
        """Read `config/`: of each queue the highest version that can be read is valid."""
        self._old_settings.clear()
        known_records = dict(self.records)
        versions_of: dict[str, list[int]] = {}
        for each in self._moves.scan(CONFIG):
            path = f"{CONFIG}/{each.name}"
            parsed = parse_settings_path(path)
            if parsed is None or each.kind is not FileKind.FILE:
                self._moves.foreign_files[path] = "it is not a settings file"
            else:
                versions_of.setdefault(parsed[0], []).append(parsed[1])
        self._moves.syncer.folder_changed(CONFIG)
        for name in (self.records.keys() | self._tombstones.keys()) - versions_of.keys():
            self._drop(name)
        unread: dict[str, int] = {}
        self._damaged_queues.clear()
        queues = sorted((name, sorted(found, reverse=True)) for name, found in versions_of.items())
        newest = [settings_path(name, versions[0]) for name, versions in queues]
        contents = self._moves.disk.read_all(newest)
        for (name, versions), content in zip(queues, contents, strict=True):
            for place, version in enumerate(versions):
                if self._read(name, version, None if place else content):
                    for older in versions[place + 1 :]:
                        self._old_settings[name, older] = self._moves.commit
                    break
            else:
                self._drop(name)
                unread[name] = versions[0]
        with_messages = {name for name, queue in self._moves.index.queues.items() if queue.total}
        for name in sorted(with_messages | self._damaged_queues):
            if name not in self.records and name not in self._tombstones:
                version = unread.get(name, 0) + 1
                if name in known_records:
                    self._write_again(replace(known_records[name], version=version))
                else:
                    self._use_defaults(name, version)
        self.remove_unused_folders()
        self._restore_folders()

    def _restore_folders(self) -> None:
        """Make the folders of queues that lack theirs. A folder is there before the first settings, and
        until the tombstone is durable: a person or the disk has taken it."""
        folders = {each.name for each in self._moves.scan("queues") if each.kind is FileKind.FOLDER}
        for name in sorted(self.records.keys() - folders):
            log.error(
                "the folder queues/%s was missing, and is made anew: messages that were ready in it "
                "are lost, and only a backup has them",
                name,
            )
            with postponing(log, "queues/%s", name):
                self._make_folder(name)

    def remove_unused_folders(self) -> None:
        """Remove the folders of queues that were never made: their processes died, or the disk refused
        the settings."""
        for each in self._moves.scan("queues"):
            if each.name not in self.records and each.name not in self._tombstones:
                with suppress(OSError):  # It has something foreign in it.
                    self._moves.disk.remove_folder(f"queues/{each.name}")

    def path_changed(self, path: str) -> None:
        parsed = parse_settings_path(path)
        if parsed is None:
            return
        name, version = parsed
        if self._read(name, version):
            return
        latest = self._latest(name)
        if latest is None or latest.version < version:
            self._overtaken_queues.add(name)
            if latest is None:
                self._leave(name)  # It came and went since the last commit.
        elif latest.version == version:
            if name in self._tombstones or name in self._overtaken_queues:
                self._drop(name)
            else:
                self._missing_settings.add(name)  # No process unlinks settings that count.

    def _read(self, name: str, version: int, content: bytes | OSError | None = None) -> bool:
        """Take in one version, whose content may be read already; return whether it is there and whole.
        One that isn't whole goes to quarantine: no other process can be writing it."""
        path = settings_path(name, version)
        try:
            if isinstance(content, OSError):
                raise content
            file_record = decode(
                self._moves.disk.read(path, afresh=True) if content is None else content, path
            )
        except FileNotFoundError:
            return False
        except OSError as error:
            raise explained(error) from error
        except DamagedSettings as error:
            self._moves.quarantine(path, str(error))
            if not isinstance(error, TornSettings):
                self._damaged_queues.add(name)
            return False
        # The process that wrote it may have died before its sync.
        self._moves.syncer.lone_file_written(path)
        identity, latest = (file_record.created_at, file_record.salt), self._latest(name)
        if latest is not None and latest.identity == identity and latest.version > version:
            return True  # Superseded settings, which are not unlinked yet.
        if file_record.settings is None:
            self._add_tombstone(name, version, identity)
            return True
        record = QueueRecord(
            name,
            file_record.settings,
            file_record.created_at,
            version,
            file_record.salt,
            file_record.labels,
            file_record.schedules,
        )
        old_record = self.records.get(name)
        if old_record is not None and old_record.identity == identity and old_record.version < version:
            self._old_settings[name, old_record.version] = self._moves.commit
        self._end_writers(old_record, record)
        self._tombstones.pop(name, None)
        self._keep(record)
        return True

    def _keep(self, record: QueueRecord) -> None:
        self._moves.index.changed_queues[record.name] = None
        self._drop_indexes(record.name)
        self.records[record.name] = record
        self._revision += 1
        self.windows[record.settings.deduplication_window] += 1
        self._writers.update(dict.fromkeys(each.writer for each in record.schedules.values()))
        if record.schedules:
            self.scheduled.add(record.name)
        if record.settings.expires:
            self.expiring[record.name] = self.newly_expiring[record.name] = None
        if target := record.settings.dead_letter_queue:
            self.sources.setdefault(target, {})[record.name] = None

    def _forget(self, name: str) -> QueueRecord | None:
        self._moves.index.changed_queues[name] = None
        self._drop_indexes(name)
        record = self.records.pop(name, None)
        self._revision += 1
        return record

    def _drop_indexes(self, name: str) -> None:
        """Take a record out of what is known of all records together."""
        record = self.records.get(name)
        if record is None:
            return
        self.scheduled.remove(name)
        self.expiring.pop(name, None)
        self.windows -= Counter((record.settings.deduplication_window,))
        for each in record.schedules.values():
            self._writers.pop(each.writer, None)
        sources = self.sources.get(record.settings.dead_letter_queue, {})
        sources.pop(name, None)
        if not sources:
            self.sources.pop(record.settings.dead_letter_queue, None)

    def listing(self) -> list[QueueRecord]:
        """Return the records of all queues by name. In any thread."""
        revision, listing = self._listing
        if revision != self._revision:
            revision = self._revision  # First: what changes meanwhile is listed by the next call.
            listing = sorted(self.records.values(), key=attrgetter("name"))
            self._listing = revision, listing
        return listing

    def _latest(self, name: str) -> QueueRecord | _Tombstone | None:
        """Return the latest version of a queue that is known."""
        return self._tombstones.get(name) or self.records.get(name)

    def _drop(self, name: str) -> None:
        self._forget(name)
        self._tombstones.pop(name, None)
        self.reset.discard(name)
        self._leave(name)

    def _leave(self, name: str) -> None:
        """Keep nothing of a queue that is gone."""
        self._moves.index.drop_queue(name)
        self._moves.statistics.messages.pop(name, None)

    def _write_again(self, record: QueueRecord) -> None:
        self._make_folder(record.name)
        self._write(record, record.settings)
        self._keep(record)
        log.error(
            "the settings of the queue %s were lost or damaged, and are written again", record.name
        )

    def _use_defaults(self, name: str, version: int) -> None:
        self._make(name, QueueSettings(), version)
        self.reset.add(name)
        log.error(
            "the settings of the queue %s are lost or damaged: its messages are served with the "
            "default settings, its deduplication ids are forgotten; set it up again with "
            "`spoolrack queues set %s`",
            name,
            name,
        )

    # Deletion of a queue by its tombstone.

    def _add_tombstone(self, name: str, version: int, identity: tuple[Millis, str]) -> None:
        old_record = self._forget(name)
        self._end_writers(old_record)
        self.reset.discard(name)
        tombstone = self._tombstones.get(name)
        if tombstone is None or (tombstone.version, tombstone.identity) != (version, identity):
            oldest = None
            if old_record is not None and old_record.identity == identity:
                oldest = old_record.version  # `_old_settings` has those before.
            self._tombstones[name] = _Tombstone(version, identity, self._moves.commit, oldest)

    def tick(self) -> None:
        """Check for settings files that were removed by hand."""
        paths: set[str] = set()
        with explaining(), suppress(FileNotFoundError):
            changed = self._moves.disk.facts(CONFIG).changed_ns
            # Twice: a change may follow within the same tick of the file system's clock.
            was, is_settled = self._looked
            if changed == was and is_settled:
                return
            self._looked = changed, changed == was
            paths = {f"{CONFIG}/{each.name}" for each in self._moves.scan(CONFIG)}
        for record in self.records.values():
            if settings_path(record.name, record.version) not in paths:
                self._missing_settings.add(record.name)

    def advance(self) -> None:
        synced = self._moves.synced
        for name in sorted(self._missing_settings):
            record = self.records.get(name)
            if record is not None and not self._moves.is_there(settings_path(name, record.version)):
                self._write_again(record)
            self._missing_settings.discard(name)
        self._overtaken_queues.clear()
        for writer, commit in list(self._ended_writers.items()):
            if commit <= synced:
                del self._ended_writers[writer]
        for (name, version), commit in list(self._old_settings.items()):
            path = settings_path(name, version)
            with postponing(log, "the unlinking of %s, which no longer counts,", path):
                if commit <= synced:
                    self._moves.unlink_file(path)
                    del self._old_settings[name, version]
        left = self._moves.effort.share()
        for name, tombstone in list(self._tombstones.items()):
            if left <= 0:
                break
            if tombstone.written <= synced:
                try:
                    files = self._advance_deletion(name, tombstone, left)
                except StoreError as error:
                    log.warning("the deleted queue %s has to wait: %s", name, error)
                    self._tombstones[name] = self._tombstones.pop(name)  # Behind the others.
                    left -= 1
                else:
                    left -= max(1, files)
                    self._moves.effort.spend(files)

    def _advance_deletion(self, name: str, tombstone: _Tombstone, most: int) -> int:
        """Do the next step: up to `most` of its messages, its folder and older settings, the tombstone.
        Return how many files that took."""
        moves = self._moves
        if tombstone.emptied is None:
            left = list(islice(self._entries_of(name), most))
            for entry in left:
                moves.delete(entry, entry.members)
            if len(left) < most:
                tombstone.emptied = moves.commit
            return len(left)
        if tombstone.emptied > moves.synced:
            return 0  # A folder that is gone can't be synced, and what left it could come back.
        if tombstone.cleared is None:
            if not self._clear(name, tombstone):
                return 0
            tombstone.cleared = moves.commit
            return 1
        if tombstone.cleared <= moves.synced:
            moves.unlink_file(settings_path(name, tombstone.version))
            del self._tombstones[name]
            self._leave(name)
            return 1
        return 0

    def _entries_of(self, name: str) -> Iterator[Entry]:
        """Yield what holds messages of the queue, and what any process has in `new/`."""
        index = self._moves.index
        if name in index.queues:
            yield from index.queues[name].entries
        for sent in self._moves.names_sent():
            if sent.queue == name:
                entry = index.entry_at(sent) or index.appear(sent, self._moves.commit)
                if entry.members:
                    yield entry

    def _clear(self, name: str, tombstone: _Tombstone) -> bool:
        """Remove the folder and the older settings; return False if the next commits have to unlink
        some of that."""
        moves, folder = self._moves, f"queues/{name}"
        if any(queue == name for queue, _ in self._old_settings):
            return False
        with explaining(), suppress(FileNotFoundError):  # Another process was faster.
            for each in moves.disk.scan(folder):
                path = f"{folder}/{each.name}"
                message = name_at(path)
                if message is not None and moves.index.entry_at(message) is not None:
                    return False
                self._moves.quarantine(path, "its queue is deleted, and it is no message")
            moves.disk.remove_folder(folder)
        moves.syncer.folder_changed("queues")
        for version in self._older(name, tombstone):
            moves.unlink_file(settings_path(name, version))
        return True

    def _older(self, name: str, tombstone: _Tombstone) -> Iterable[int]:
        """Return the versions of the settings that may be there beside the tombstone."""
        if tombstone.oldest is not None:
            return range(tombstone.oldest, tombstone.version)
        parsed = [parse_settings_path(f"{CONFIG}/{each.name}") for each in self._moves.scan(CONFIG)]
        versions = [each[1] for each in parsed if each and each[0] == name]
        return [version for version in versions if version < tombstone.version]
