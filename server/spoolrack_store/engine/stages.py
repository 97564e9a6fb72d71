"""Stages: chunks of messages that are stored and not seen, and the record by which a stage ends.

    staged/    stage "@" due ":" chunk ["+" delay] ":" queue ":" stem     a chunk: one message file
               stage "@" due "~dropped"                                   the stage is dropped
    published/ writer "." epoch                                           stages are published

A chunk is written once, where its stage is. `stage@due` names one life of a stage: no two have the same
while a record names one of them. A stage ends by one record, which is created once: a manifest
publishes all stages that it lists, an empty `~dropped` drops one. From then on its stages can't be
staged to, published, or dropped. Once the record is durable, each chunk is renamed to a
message's name, or unlinked. A record goes when it is durable that its chunks are gone; a manifest is
also the memory of its writer's epoch, and stays until a later one is durable, or its memory is over.

Each step is decided by what is there, so any process, or the next start, goes on with it. A file that a
death or a power cut has torn is told by its size, or by zeros in the place of its end: a torn chunk was
never stored, a torn manifest has published nothing. Any other that isn't as it was written is damaged,
and goes to quarantine.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import islice
from operator import attrgetter
from typing import Final

from ..files.disk import FileKind, explained
from ..files.disk_room import DiskRoom
from ..files.layout import PUBLISHED
from ..model.batch_file import Damaged, decode_whole, encode, is_torn, line_of, stem_of
from ..model.clock import SECOND, Millis
from ..model.errors import (
    ChunkDiffers,
    EpochDiffers,
    EpochPassed,
    InvalidMessage,
    InvalidRequest,
    NameTaken,
    SendingPaused,
    StageIncomplete,
    StageNotFound,
    StoreError,
    TooManyWriters,
)
from ..model.field_checks import check_number, check_span, check_word
from ..model.members import MOST
from ..model.message_content import check_content, check_delay, check_group, check_priority
from ..model.message_ids import FileIds
from ..model.names import MAX_BYTES, Name, NotAName
from ..model.operations import Allowed
from ..model.schedule import is_schedule_writer
from ..model.stage_names import (
    DROPPED,
    STAGED,
    Chunk,
    Manifest,
    Publication,
    StageLife,
    parse_chunk,
    parse_published,
    parse_stage_life,
)
from ..model.stage_requests import (
    MAX_CHUNK,
    MAX_EPOCH,
    MAX_EPOCH_RETENTION,
    MAX_STAGE_NAME,
    MAX_STAGES,
    MAX_TIME_TO_LIVE,
    MAX_WRITER_NAME,
    MAX_WRITERS,
    MIN_EPOCH_RETENTION,
    MIN_TIME_TO_LIVE,
    Abort,
    Publish,
    Published,
    Stage,
    Staged,
    StageInfo,
)
from ..model.transitions import State
from .catalog import Catalog, QueueRecord, QueueRoom
from .deadlines import Deadlines
from .moves import FileVanished, Moves
from .part import DUE_NOW, RETRY, Part, postponing
from .sorted_names import SortedNames

log = logging.getLogger(__name__)

_NONE: Final[Mapping[str, str]] = {}


@dataclass(slots=True, eq=False)
class _OpenStage:
    """A stage that has chunks."""

    life: StageLife
    changed: int = 0
    """The commit that makes its last chunk durable."""
    chunks: dict[int, Chunk] = field(default_factory=dict)
    queues: set[str] = field(default_factory=set)
    """Of its chunks: each call under its name asks for them."""

    @property
    def messages(self) -> int:
        return sum(chunk.messages for chunk in self.chunks.values())

    @property
    def first(self) -> str:
        """The lowest id in it."""
        return min(chunk.stem.id for chunk in self.chunks.values())

    def is_within(self, allowed: Allowed) -> bool:
        return allowed is None or all(map(allowed, self.queues))


class EndState(Enum):
    """The state of a record by which stages end. Each is durable before the next begins."""

    WRITTEN = "written"
    """The record is there: its chunks become messages, or are unlinked."""
    EMPTIED = "emptied"
    """All its chunks have left `staged/`: it is unlinked once it isn't its writer's memory any more."""
    UNLINKED = "unlinked"
    """The record is gone: its lives may begin again."""


@dataclass(slots=True, eq=False)
class _End:
    """A record by which stages end."""

    path: str
    lives: Sequence[str]
    since: int
    """The commit that makes its state durable."""
    manifest: Manifest | None = None
    """None: the stage is dropped."""
    writer: str = ""
    epoch: int = 0
    state: EndState = EndState.WRITTEN

    def change(self, state: EndState, commit: int) -> None:
        self.state, self.since = state, commit

    def is_durable(self, synced: int) -> bool:
        """Return whether the record, which is there, survives a power cut."""
        return self.state is not EndState.WRITTEN or self.since <= synced


class Stages(Part):
    """Not thread-safe."""

    folders = (STAGED, PUBLISHED)

    def __init__(self, moves: Moves, catalog: Catalog, ids: FileIds, queue_room: QueueRoom) -> None:
        self._moves = moves
        self._catalog = catalog
        self._ids = ids
        self._clock = moves.clock
        self._room = DiskRoom(moves.disk, moves.watermark)
        self._queue_room = queue_room
        queue_room.sources.append(self.held)
        self._held: dict[str, tuple[int, int]] = {}
        """By queue the messages and bytes of all chunks."""
        self._stages: dict[str, _OpenStage] = {}
        """By life, those that have ended, too."""
        self._open_stages: dict[str, _OpenStage] = {}
        """By name, those that have not ended."""
        self._names = SortedNames()
        """Of those, in order."""
        self._deadlines = Deadlines[str]()
        """When each of them is dropped, by name. Monotonic: a step of the clock must not drop it."""
        self._ends_by_path: dict[str, _End] = {}
        """All records that are there, by path."""
        self._ends_by_life: dict[str, _End] = {}
        """By life: as long as a power cut may bring the record back, no stage begins this life."""
        self._writers: dict[str, list[_End]] = {}
        """The manifests of each writer, the latest epoch last."""
        self._manifests_of: Counter[str] = Counter()
        """How many manifests there are by whom they count for, which bounds the writers."""
        self.unfinished_ends: dict[_End, None] = {}
        """The records with which something is to be done."""
        self._last_queues: Mapping[str, tuple[Millis, int]] = {}
        """Of the manifest that came last."""
        self._memories = Deadlines[str]()
        """When the memory of each manifest is over, in Unix time, by its path."""
        self.pending = (self.unfinished_ends, self._open_stages)
        self._is_cut = False
        """Whether a commit has left chunks of a publication to the next one."""

    # Requests.

    def stage(self, request: Stage) -> Staged:
        """Store a chunk, or find it there; the answer holds once the commit is synced."""
        _check_chunk(request)
        self._moves.require_read(self.folders)
        stage = self._find(request.stage, request.allowed, is_tick=request.is_tick)
        chunk = None if stage is None else stage.chunks.get(request.chunk_number)
        if chunk is not None and self._is_lost(chunk):
            stage, chunk = self._open_stages.get(request.stage), None
        is_repeated = chunk is not None
        if stage is None or chunk is None:
            life = self._new_life(request) if stage is None else stage.life
            stage, chunk = self._write(life, request)
        elif not self._holds(chunk, request):
            raise ChunkDiffers(stage=request.stage, chunk=request.chunk_number)
        return Staged(message_count=chunk.messages, duplicate=is_repeated, expires_at=stage.life.due)

    def publish(self, request: Publish) -> Published:
        """Make all of the stages appear, or none; the answer holds once the commit is synced."""
        _check_publication(request)
        self._catalog.require_named(request.queue)
        self._moves.require_read(self.folders)
        if not request.is_tick:
            self._refuse_scheduled("writer", request.writer, request.writer)
        last = self._last_of(request.writer)
        last_manifest = None if last is None else last.manifest
        if last is not None and last_manifest is not None:
            if not _owns(request, last_manifest, last.epoch):
                raise NameTaken(kind="writer", name=request.writer)
            if request.epoch <= last.epoch:
                digest = last_manifest.digest
                if request.epoch == last.epoch and digest and request.digest not in ("", digest):
                    raise EpochDiffers(writer=request.writer, epoch=request.epoch)
                if request.epoch < last.epoch and request.digest:
                    raise EpochPassed(writer=request.writer, epoch=request.epoch, last_epoch=last.epoch)
                if self._has_newer_queue(request, last_manifest):
                    raise EpochDiffers(writer=request.writer, epoch=request.epoch)
                return Published(message_count=0, duplicate=True, last_epoch=last.epoch)
        stages: list[_OpenStage] = []
        for name in dict.fromkeys(request.stages):
            stage = self._find(name, request.allowed, is_tick=request.is_tick)
            if stage is None:
                raise StageNotFound(stage=name)
            if not request.is_tick:  # Else it was made a moment ago.
                self._leave_lost(stage)
            stages.append(stage)
        chunks = [chunk for stage in stages for chunk in stage.chunks.values()]
        messages = sum(chunk.messages for chunk in chunks)
        if request.message_count and request.message_count != messages:
            raise StageIncomplete(held=messages, expected=request.message_count)
        records = {chunk.queue: self._catalog.require(chunk.queue) for chunk in chunks}
        for record in records.values():
            if record.settings.sending == "paused":
                raise SendingPaused(queue=record.name)
        before = {} if last_manifest is None else last_manifest.queues
        queues = {name: (record.created_at, 0) for name, record in records.items()} or before
        if not request.is_tick:  # A queue has few schedules.
            self._require_room(_payers(queues, request.owner), last_manifest)
        self._sync(stages)
        manifest = Manifest(
            stages={str(stage.life): stage.first for stage in stages},
            queues=queues,
            messages=messages,
            digest=request.digest,
            published_at=self._clock.wall(),
            epoch_retention=request.epoch_retention,
            owner=request.owner,
        )
        by = Publication(writer=request.writer, epoch=request.epoch)
        self._moves.create_file(f"{PUBLISHED}/{by}", manifest.encode())
        self._add_manifest(by, manifest)
        return Published(message_count=manifest.messages, duplicate=False, last_epoch=request.epoch)

    def _require_room(self, payers: Collection[str], last: Manifest | None) -> None:
        """Raise `TooManyWriters` if one of `payers` has no room for a manifest that doesn't take the
        place of its writer's last one."""
        known = () if last is None else _payers(last.queues, last.owner)
        for payer in payers:
            if payer not in known and (held := self._manifests_of[payer]) >= MAX_WRITERS:
                raise TooManyWriters(what=_payer_text(payer), held=held, limit=MAX_WRITERS)

    def _has_newer_queue(self, request: Publish, before: Manifest) -> bool:
        """Return whether a stage of the request is for a queue that was deleted and created again since
        the writer's publication: that has appeared in the former queue alone."""
        stages = filter(None, map(self._open_stages.get, request.stages))
        queues = {
            queue for stage in stages if stage.is_within(request.allowed) for queue in stage.queues
        }
        return any(
            record.created_at != before.queues[queue][0]
            for queue in queues & before.queues.keys()
            if (record := self._catalog.records.get(queue)) is not None
        )

    def abort(self, request: Abort) -> int:
        """Drop a stage; return how many messages it had."""
        check_word("stage", request.stage, MAX_STAGE_NAME)
        self._catalog.require_named(request.queue)
        self._moves.require_read(self.folders)
        stage = self._find(request.stage, request.allowed)
        if stage is None:
            raise StageNotFound(stage=request.stage)
        messages = stage.messages
        self._drop(stage)
        return messages

    def listed(self, after: str, limit: int, queue: str = "") -> list[StageInfo]:
        """Return up to `limit` stages whose names stand above `after`, in order; those with messages
        for `queue`, if it is given."""
        self._catalog.require_named(queue)
        above = (name for name in self._names.since(after) if name != after)
        if queue:
            above = (name for name in above if queue in self._open_stages[name].queues)
        return [self.shown(name) for name in islice(above, limit)]

    def shown(self, name: str, queue: str = "") -> StageInfo:
        """Return an open stage; raise `StageNotFound`, or `WrongShard` for a `queue` elsewhere."""
        self._catalog.require_named(queue)
        stage = self._open_stages.get(name)
        if stage is None:
            raise StageNotFound(stage=name)
        messages: dict[str, int] = {}
        for _, chunk in sorted(stage.chunks.items()):
            messages[chunk.queue] = messages.get(chunk.queue, 0) + chunk.messages
        return StageInfo(
            name=name, chunk_count=len(stage.chunks), message_counts=messages, expires_at=stage.life.due
        )

    def last_epoch(self, writer: str) -> int | None:
        """Return the highest epoch that a writer has published, as far as that is remembered."""
        last = self._last_of(writer)
        return None if last is None else last.epoch

    @property
    def count(self) -> int:
        """How many stages there are. In any thread."""
        return len(self._open_stages)

    # Requests.

    def _find(self, name: str, allowed: Allowed, *, is_tick: bool = False) -> _OpenStage | None:
        """Return the open stage of this name; raise `NameTaken` if it is another caller's."""
        if not is_tick:
            self._refuse_scheduled("stage", name, name.rpartition("-")[0])
        stage = self._open_stages.get(name)
        if stage is not None and not stage.is_within(allowed):
            raise NameTaken(kind="stage", name=name)
        return stage

    def _leave_lost(self, stage: _OpenStage) -> None:
        """Drop the chunks whose files were removed by hand; raise `StageNotFound` if none is left."""
        for chunk in list(stage.chunks.values()):
            self._is_lost(chunk)
        if not stage.chunks:
            raise StageNotFound(stage=stage.life.stage)

    def _is_lost(self, chunk: Chunk) -> bool:
        """Return whether the file of a chunk was removed by hand, and drop the chunk then."""
        if not self._moves.has_vanished(chunk.path):
            return False
        _log_lost(chunk)
        self._leave_chunk(chunk)
        return True

    def _refuse_scheduled(self, kind: str, name: str, writer: str) -> None:
        if is_schedule_writer(writer) and self._catalog.has_writer(writer):
            raise NameTaken(kind=kind, name=name)

    def _holds(self, chunk: Chunk, request: Stage) -> bool:
        """Return whether a chunk is the one that is staged again: for the same queue, with the same
        messages."""
        is_placed_alike = (chunk.queue, chunk.delay) == (request.queue, request.delay)
        if not is_placed_alike or chunk.stem.priority != request.priority:
            return False
        try:
            content = self._moves.disk.read(chunk.path)
            line = decode_whole(chunk.stem, content)
        except OSError as error:
            raise explained(error) from error
        except Damaged:
            return False
        again = line_of(request.bodies, request.attributes, {}, request.groups)
        named = {index: each for index, each in again.attributes.items() if each}
        return (
            (list(line.sizes), line.attributes, line.groups) == (again.sizes, named, again.groups)
        ) and content[: line.starts[-1]] == b"".join(request.bodies)

    def _new_life(self, request: Stage) -> StageLife:
        due = self._clock.wall() + request.time_to_live
        while True:
            life = StageLife(stage=request.stage, due=Millis(due))
            if str(life) not in self._stages and str(life) not in self._ends_by_life:
                return life
            due += 1

    def _write(self, life: StageLife, request: Stage) -> tuple[_OpenStage, Chunk]:
        record = self._catalog.require(request.queue)
        _check_messages(record, request)
        line = line_of(request.bodies, request.attributes, {}, request.groups)
        encoded = encode(line)
        stem = stem_of(self._ids.make(), line, encoded, priority=request.priority)
        chunk = Chunk(
            life=life,
            number=request.chunk_number,
            queue=request.queue,
            delay=request.delay,
            stem=stem,
        )
        if len(chunk.path) - len(f"{STAGED}/") > MAX_BYTES:
            rule = (
                "must be shorter: a file is named by it, the queue, the delay and the size of the chunk"
            )
            raise InvalidRequest(what="stage", value=request.stage, rule=rule)
        content = b"".join([*request.bodies, encoded])
        self._room.refresh()
        self._room.claim(len(content))
        self._queue_room.take(record, chunk.messages, stem.counted)
        self._moves.create_file(chunk.path, content)
        return self._add_chunk(chunk), chunk

    def held(self, queue: str) -> tuple[int, int]:
        """Return the messages and bytes that are staged for a queue, or published and not there yet. In
        any thread."""
        return self._held.get(queue, (0, 0))

    def _hold(self, chunk: Chunk, sign: int) -> None:
        messages, size = self.held(chunk.queue)
        messages, size = messages + sign * chunk.messages, size + sign * chunk.stem.counted
        self._held[chunk.queue] = messages, size
        if not messages:
            del self._held[chunk.queue]

    def make_durable(self, names: Sequence[str]) -> None:
        """Sync stages that are to be published in this commit, all at once."""
        self._sync([self._open_stages[name] for name in names])

    def _sync(self, stages: Sequence[_OpenStage]) -> None:
        """Sync chunks that may not be durable: a power cut must not keep a manifest without them."""
        fresh = [stage for stage in stages if stage.changed > self._moves.synced]
        if fresh:
            chunks = [chunk.path for stage in fresh for chunk in stage.chunks.values()]
            self._moves.sync_now(chunks, (STAGED,))
        for stage in fresh:
            stage.changed = 0

    def _drop(self, stage: _OpenStage) -> None:
        path = f"{STAGED}/{replace(stage.life, is_dropped=True)}"
        self._moves.create_file(path, b"", urgent=True)
        self._add_end(_End(path, [str(stage.life)], self._moves.commit))

    # The index of stages.

    def _add_chunk(self, chunk: Chunk) -> _OpenStage:
        life = str(chunk.life)
        stage = self._stages.get(life)
        if stage is None:
            stage = self._stages[life] = _OpenStage(chunk.life)
        stage.chunks[chunk.number] = chunk
        self._hold(chunk, 1)
        stage.queues.add(chunk.queue)
        stage.changed = self._moves.commit
        if life not in self._ends_by_life:
            # In place of a former life, of which another process may have unlinked the end already.
            self._reopen(stage)
        self._ids.rise_above(chunk.stem.message_id(chunk.messages - 1))
        return stage

    def _leave_chunk(self, chunk: Chunk) -> None:
        """Drop a chunk that is not in `staged/` any more."""
        life = str(chunk.life)
        stage = self._stages.get(life)
        if stage is None or stage.chunks.get(chunk.number) != chunk:
            return
        del stage.chunks[chunk.number]
        self._hold(chunk, -1)
        if not stage.chunks:
            del self._stages[life]
            self._close(stage)

    def _reopen(self, stage: _OpenStage) -> None:
        """Let a stage be the open one of its name."""
        name, due = stage.life.stage, stage.life.due
        if self._open_stages.get(name) is stage:
            return
        if name not in self._open_stages:
            self._names.add(name)
        self._open_stages[name] = stage
        left = max(0, min(due - self._clock.proven_wall(), MAX_TIME_TO_LIVE))
        self._deadlines.set(name, Millis(self._clock.monotonic() + left))

    def _close(self, stage: _OpenStage) -> None:
        """Let a stage be open no more."""
        name = stage.life.stage
        if self._open_stages.get(name) is stage:
            del self._open_stages[name]
            self._names.remove(name)
            self._deadlines.discard(name)

    def _add_manifest(self, by: Publication, manifest: Manifest) -> None:
        lives, commit = tuple(manifest.stages), self._moves.commit
        if manifest.queues != self._last_queues:
            self._last_queues = manifest.queues
        # Each batch may have one, for an hour: what `lives` says, and others have, isn't kept twice.
        manifest = replace(manifest, stages=_NONE, queues=self._last_queues)
        end = _End(f"{PUBLISHED}/{by}", lives, commit, manifest, by.writer, by.epoch)
        self._add_end(end)
        ends = self._writers.setdefault(by.writer, [])
        ends.append(end)
        ends.sort(key=attrgetter("epoch"))
        self.unfinished_ends.update(dict.fromkeys(ends))
        self._memories.set(end.path, manifest.expires_at)
        self._manifests_of.update(_payers(manifest.queues, manifest.owner))

    def _add_end(self, end: _End) -> None:
        self._ends_by_path[end.path] = end
        self.unfinished_ends[end] = None
        for life in end.lives:
            self._ends_by_life[life] = end
            stage = self._stages.get(life)
            if stage is not None:
                self._close(stage)

    def _leave_end(self, end: _End) -> None:
        """Drop a record that is there no more; no stage begins its lives before that is durable."""
        del self._ends_by_path[end.path]
        end.change(EndState.UNLINKED, self._moves.commit)
        self.unfinished_ends[end] = None
        if end.manifest is not None:
            self._memories.discard(end.path)
            for payer in _payers(end.manifest.queues, end.manifest.owner):
                self._manifests_of[payer] -= 1
                if not self._manifests_of[payer]:
                    del self._manifests_of[payer]
            self._writers[end.writer].remove(end)
            if not self._writers[end.writer]:
                del self._writers[end.writer]

    def _last_of(self, writer: str) -> _End | None:
        ends = self._writers.get(writer)
        return ends[-1] if ends else None

    def _chunks_of(self, end: _End) -> list[Chunk]:
        return [
            chunk
            for life in end.lives
            if life in self._stages
            for chunk in self._stages[life].chunks.values()
        ]

    def recover(self) -> None:
        found = {
            f"{folder}/{each.name}": each.kind
            for folder in self.folders
            for each in self._moves.scan(folder)
        }
        paths = {path for path, kind in found.items() if kind is FileKind.FILE}
        self._moves.foreign_files.update((path, "it is no file") for path in found if path not in paths)
        for path in self._ends_by_path.keys() - paths:
            self._leave_end(self._ends_by_path[path])
        for stage in list(self._stages.values()):
            for chunk in list(stage.chunks.values()):
                if chunk.path not in paths:
                    self._leave_chunk(chunk)
        # The end of a stage must be known before its chunks.
        for path in sorted(paths, key=lambda path: (_is_chunk(path), path)):
            self._load(path, is_start=True)
        self._drop_doubles()
        for end in self._ends_by_path.values():
            for chunk in self._chunks_of(end):
                if end.manifest is not None and self._moves.index.file(chunk.stem.text) is not None:
                    # Some of it was moved on, and a power cut has undone only its rename.
                    self._finish_chunk(chunk, end.manifest)
        for folder in self.folders:
            self._moves.syncer.folder_changed(folder)

    def path_changed(self, path: str) -> None:
        self._load(path, is_start=False)

    def _load(self, path: str, *, is_start: bool) -> None:
        """Take in a file that may be there."""
        folder, _, text = path.partition("/")
        try:
            if path in self._ends_by_path:
                if not self._moves.is_there(path):
                    self._leave_end(self._ends_by_path[path])
            elif folder == PUBLISHED:
                by = parse_published(text)
                manifest = self._moves.read_record(
                    path, Manifest.decode, "manifest", self._in_place_of_damaged
                )
                if manifest is not None:
                    self._add_manifest(by, manifest)
            elif _is_chunk(path):
                self._load_chunk(parse_chunk(text), is_start=is_start)
            else:
                life = replace(parse_stage_life(text), is_dropped=False)
                if self._moves.is_there(path):
                    self._add_end(_End(path, [str(life)], self._moves.commit))
        except NotAName:
            self._moves.foreign_files[path] = "its name is none of ours"

    def _in_place_of_damaged(self) -> bytes:
        return Manifest.in_place_of_damaged(self._clock.wall()).encode()

    def _load_chunk(self, chunk: Chunk, *, is_start: bool) -> None:
        size = self._moves.size_of(chunk.path)
        if size is None:
            self._leave_chunk(chunk)
            return
        life = str(chunk.life)
        other = self._stages[life].chunks.get(chunk.number) if life in self._stages else None
        if other == chunk:
            return
        if life in self._ends_by_life and self._ends_by_life[life].state is EndState.UNLINKED:
            # Another process has begun this life anew: for that one the end of the former is durable.
            del self._ends_by_life[life]
        is_ended = life in self._ends_by_life
        # A torn one of the same number may be back, whose unlinking wasn't durable.
        if other is not None or (not is_ended and _is_short(chunk, size)):
            log.info("%s was never written whole", chunk.path)
            self._moves.unlink_file(chunk.path)
            return
        if not is_ended and is_start and not self._is_whole(chunk):
            return
        if not is_ended:
            self._moves.syncer.lone_file_written(chunk.path)
        self._add_chunk(chunk)

    def _is_whole(self, chunk: Chunk) -> bool:
        """Read a chunk that has its size. One that a power cut has torn is unlinked, any other that is
        not whole is put aside."""
        content = self._moves.read(chunk.path) or b""
        try:
            decode_whole(chunk.stem, content)
        except Damaged as why:
            if is_torn(content):
                log.info("%s was never written whole", chunk.path)
                self._moves.unlink_file(chunk.path)
            else:
                self._moves.quarantine(chunk.path, f"this chunk of a stage is damaged: {why}")
            return False
        return True

    def _drop_doubles(self) -> None:
        """Of two stages of one name keep the older: a power cut has undone its end, and so nothing of
        the younger was acknowledged."""
        open = [stage for life, stage in self._stages.items() if life not in self._ends_by_life]
        for stage in sorted(open, key=lambda stage: stage.first, reverse=True):
            self._reopen(stage)
        for stage in open:
            if self._open_stages[stage.life.stage] is not stage:
                for chunk in list(stage.chunks.values()):
                    self._moves.unlink_file(chunk.path)
                    self._leave_chunk(chunk)

    # Work that waits for a sync, or for a time.

    @property
    def has_durable(self) -> bool:
        return any(
            end.manifest and end.state is EndState.WRITTEN and end.since <= self._moves.synced
            for end in self.unfinished_ends
        )

    def advance(self) -> None:
        self._drop_expired()
        left, self._is_cut = self._moves.effort.share(), False
        for end in list(islice(self.unfinished_ends, left)):
            with postponing(log, "the order in %s", end.path):
                if end.since <= self._moves.synced:
                    left -= self._finish(end, left)
            if self._is_cut:
                return
            if end in self.unfinished_ends:
                self.unfinished_ends[end] = self.unfinished_ends.pop(end)  # Behind the others.

    @property
    def is_in_slices(self) -> bool:
        """Whether the next commit moves more chunks of a publication."""
        return self._is_cut and self.has_durable

    def _finish(self, end: _End, most: int) -> int:
        """Do what a durable record says, as far as it isn't done, with up to `most` chunks; return how
        many."""
        if end.state is EndState.UNLINKED:
            del self.unfinished_ends[end]
            # Another record may end the same life, or the life may have begun anew.
            for life in [life for life in end.lives if self._ends_by_life.get(life) is end]:
                del self._ends_by_life[life]
            return 0
        chunks = self._chunks_of(end)
        for chunk in chunks[:most]:
            with postponing(log, "the order in %s for %s", end.path, chunk.path):
                self._finish_chunk(chunk, end.manifest)
            self._moves.effort.spend()
        if len(chunks) > most:
            self._is_cut = True
            return most
        if self._chunks_of(end):
            return len(chunks)  # The disk has refused some.
        if end.state is EndState.WRITTEN:
            end.change(EndState.EMPTIED, self._moves.commit)
            return len(chunks)
        last, is_old = self._last_of(end.writer), self._is_to_be_forgotten(end)
        if last is end and not is_old:
            del self.unfinished_ends[end]
        elif last is None or is_old or last.is_durable(self._moves.synced):
            self._moves.unlink_file(end.path)
            self._leave_end(end)
        return len(chunks)

    def _finish_chunk(self, chunk: Chunk, manifest: Manifest | None) -> None:
        try:
            if manifest is None or not self._deliver(chunk, manifest):
                self._moves.unlink_file(chunk.path)
        except FileVanished:
            _log_lost(chunk)
        self._leave_chunk(chunk)

    def _deliver(self, chunk: Chunk, manifest: Manifest) -> bool:
        """Move a chunk to its queue; False if that isn't the one any more to which it was published."""
        record = self._catalog.records.get(chunk.queue)
        made_at, _ = manifest.queues.get(chunk.queue, (None, 0))
        if record is None or record.created_at != made_at:
            log.info("%s is deleted: its queue has been", chunk.path)
            return False
        delay = record.settings.delivery_delay if chunk.delay is None else chunk.delay
        due = Millis(manifest.published_at + delay)
        left = max(0, min(due - self._clock.wall(), delay))
        name = Name(
            stem=chunk.stem,
            state=State.DELAYED if delay else State.READY,
            queue=chunk.queue,
            members=chunk.stem.full,
            due=due if delay else None,
        )
        self._moves.adopt(chunk.path, name, self._clock.monotonic() + left if delay else 0)
        self._moves.statistics.count(chunk.queue, "publish", chunk.messages)
        return True

    def _is_to_be_forgotten(self, end: _End) -> bool:
        """Return whether the time of a manifest is over. A schedule's manifest has none: it stays as
        long as the schedule is there, or until a later one is durable."""
        if end.manifest is None or end.manifest.expires_at > self._clock.proven_wall():
            return False
        return not self._catalog.has_writer(end.writer)

    def tick(self) -> None:
        """Forget old epochs, as many as the commit may."""
        wall = self._clock.proven_wall()
        for _ in range(self._moves.effort.share()):
            path = self._memories.pop(wall)
            if path is None:
                return
            end = self._ends_by_path[path]
            if self._is_to_be_forgotten(end):
                self.unfinished_ends[end] = None
            self._memories.set(path, Millis(wall + SECOND))

    def _drop_expired(self) -> None:
        """Drop the stages that were not published in time, as many as the commit may beside those that
        are being dropped."""
        now = self._clock.monotonic()
        for _ in range(self._moves.effort.share() - len(self.unfinished_ends)):
            name = self._deadlines.pop(now)
            if name is None:
                return
            self._moves.effort.spend()
            log.info("the stage %s has expired", name)
            try:
                self._drop(self._open_stages[name])
            except StoreError as error:
                log.warning("the stage %s stays for now: %s", name, error)
                self._deadlines.set(name, Millis(now + RETRY))

    def next_due(self) -> Millis | None:
        return DUE_NOW if self.unfinished_ends else self._deadlines.next()


def _owns(request: Publish, last: Manifest, last_epoch: int) -> bool:
    """Return whether a writer's name is the caller's, whose last publication this is.

    Another identity that may send to all its queues goes on with it. To that one a repetition is a
    success only by its digest: else another's messages would pass for those of the caller.
    """
    if request.owner in ("", last.owner):
        return True
    if request.allowed is not None and not all(map(request.allowed, last.queues)):
        return False
    if request.epoch > last_epoch:
        return bool(last.queues) or not last.owner
    is_same = request.epoch == last_epoch and request.digest != "" and request.digest == last.digest
    return bool(last.queues) and (is_same or not last.owner)


def _payers(queues: Collection[str], owner: str) -> Collection[str]:
    """Return what a manifest counts for: its queues, or without any its caller, as "@", with which no
    queue's name begins, and its identity."""
    return tuple(queues) or (f"@{owner}",)


def _payer_text(payer: str) -> str:
    if not payer.startswith("@"):
        return f"the queue {payer}"
    return f"{payer[1:] or 'callers without an identity'}, without messages"


def _is_short(chunk: Chunk, size: int) -> bool:
    """Return whether some of its end was never written, as after a death."""
    return size != chunk.stem.length


def _log_lost(chunk: Chunk) -> None:
    log.error(
        "%s held %d messages of the stage %s for the queue %s, which are lost",
        *(chunk.path, chunk.messages, chunk.life.stage, chunk.queue),
    )


def _is_chunk(path: str) -> bool:
    return path.startswith(f"{STAGED}/") and not path.endswith(DROPPED)


def _check_chunk(request: Stage) -> None:
    check_word("stage", request.stage, MAX_STAGE_NAME)
    check_number("chunk_number", request.chunk_number, 0, MAX_CHUNK)
    check_span("time_to_live", request.time_to_live, MIN_TIME_TO_LIVE, MAX_TIME_TO_LIVE)
    check_number("the number of messages", len(request.bodies), 1, MOST)


def _check_messages(record: QueueRecord, request: Stage) -> None:
    if request.delay is not None:
        check_delay(request.delay)
    check_priority(request.priority)
    for at, sent in enumerate(request.bodies):
        try:
            attributes = request.attributes.get(at, {})
            check_content(record.name, len(sent), attributes, record.settings.max_message_size)
            if at in request.groups:
                check_group(request.groups[at])
        except StoreError as error:
            why = str(error) if len(request.bodies) == 1 else f"number {at}: {error}"
            raise InvalidMessage(why=why) from error


def _check_publication(request: Publish) -> None:
    check_word("writer", request.writer, MAX_WRITER_NAME)
    check_number("epoch", request.epoch, 0, MAX_EPOCH)
    check_span("epoch_retention", request.epoch_retention, MIN_EPOCH_RETENTION, MAX_EPOCH_RETENTION)
    if request.digest:
        check_word("digest", request.digest, MAX_STAGE_NAME)
    check_number("message_count", request.message_count, 0)
    check_number("the number of stages", len(request.stages), 0, MAX_STAGES)
    for stage in request.stages:
        check_word("stage", stage, MAX_STAGE_NAME)
