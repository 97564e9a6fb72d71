"""Repairs problems that an inspection found, and restores files from quarantine, with no other process
on the root.

Nothing is destroyed: damaged, foreign and superseded files go to quarantine. Messages move as the store
moves them: see `moves`. All of it is durable at return.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random

from ..engine.entries import BatchFile, Entry
from ..engine.moves import Moves
from ..engine.recovery import appear
from ..files.body_file import body_pieces, open_body
from ..files.disk import Disk, FileKind, explained
from ..files.layout import FOLDERS, PUBLISHED, QUARANTINE, QUEUES
from ..files.syncer import Syncer
from ..model.batch_file import Damaged, body, decode
from ..model.clock import Clock, CommitClock
from ..model.errors import NotRestorable, StoreError
from ..model.members import indexes
from ..model.message_ids import FileIds, batch_of, is_id
from ..model.names import Name, NotAName, body_path, is_queue_name, name_at, parse
from ..model.receipts import make_token
from ..model.settings import QueueSettings, Record, encode, settings_path
from ..model.stage_names import Manifest, parse_published
from ..model.transitions import Move, State
from .findings import Findings, Mended, Problem, QuarantinedFile, Remedy
from .message_files import entry_in_queue
from .quarantined_files import list_quarantined, own_id, remove_quarantine_folder
from .trial_start import TrialStart


def _is_manifest(path: str) -> bool:
    folder, _, name = path.partition("/")
    try:
        return folder == PUBLISHED and bool(parse_published(name))
    except NotAName:
        return False


class Mender:
    """The repairs of one root. The caller keeps other processes out."""

    def __init__(self, disk: Disk, clock: Clock, random: Random) -> None:
        self._disk = disk
        self._clock = clock
        self._random = random
        self._findings = Findings(disk)
        self._moves = Moves(disk, CommitClock(clock), "", FileIds(clock, random))
        self._syncer: Syncer = self._moves.syncer
        self._start = TrialStart(disk, clock)
        for paths in self._start.paths.values():
            for path in paths:
                appear(self._moves, parse(path))
        self._batches: dict[str, list[BatchFile]] = {}
        """By the ids of their files."""
        for batch in self._moves.index.batches.values():
            self._batches.setdefault(batch.stem.id, []).append(batch)
        # Changes that a dead process has not synced must be durable before others are made.
        names = {found.name for found in disk.scan(".")}
        found = self._findings.scan(QUEUES)
        queues = [f"{QUEUES}/{each.name}" for each in found if each.kind is FileKind.FOLDER]
        for folder in (*sorted(names & set(FOLDERS)), *queues, "."):
            self._syncer.folder_changed(folder)
        self._sync()

    def mend(self, problems: Sequence[Problem]) -> tuple[list[Mended], list[Problem]]:
        """Repair `problems`; return those that were repaired, and those that are left to an
        operator."""
        mended: list[Mended] = []
        unsolved: list[Problem] = []
        # Folders and settings first: messages may be moved there, or wait for them.
        early = (Remedy.FOLDER, Remedy.SETTINGS)
        for problem in sorted(problems, key=lambda problem: problem.remedy not in early):
            try:
                how = self._mend(problem)
            except StoreError as error:
                unsolved.append(replace(problem, why=f"{problem.why}; not mended: {error}"))
                continue
            if how:
                mended.append(Mended(problem=problem, how=how))
            else:
                unsolved.append(problem)
        self._sync()
        return mended, unsolved

    def _mend(self, problem: Problem) -> str:
        match problem.remedy:
            case Remedy.HAND:
                return ""
            case Remedy.FOLDER:
                self._make_folder(problem.path)
                return "made anew"
            case Remedy.SETTINGS:
                self._use_defaults(problem.queue)
                return f"the queue {problem.queue} has the default settings now"
            case Remedy.QUARANTINE if not problem.members:
                is_there = self._moves.quarantine(problem.path, problem.why)
                if is_there and _is_manifest(problem.path):
                    manifest = Manifest.in_place_of_damaged(self._clock.wall())
                    self._moves.create_file(problem.path, manifest.encode())
                    return "put into quarantine; its epoch stays published"
                return "put into quarantine" if is_there else "gone by now"
        entry = self._moves.index.entry_at(parse(problem.path))
        assert entry is not None, "the root is locked"
        # Of two problems of one message the first has moved it.
        members = problem.members & (entry.members | entry.batch.unlisted)
        move = Move.REQUEUE if problem.remedy is Remedy.READY else Move.QUARANTINE
        if members:
            self._moves.move(entry, members, move)
        return "ready" if move is Move.REQUEUE else "put into quarantine"

    def _use_defaults(self, queue: str) -> None:
        record = Record(
            settings=QueueSettings(), created_at=self._clock.wall(), salt=make_token(self._random)
        )
        path = settings_path(queue, self._start.records[queue].version)
        self._moves.create_file(path, encode(record))
        self._make_folder(f"{QUEUES}/{queue}")

    def _make_folder(self, path: str) -> None:
        try:
            self._disk.make_folder(path)
        except FileExistsError:
            return
        except OSError as error:
            raise explained(error) from error
        self._syncer.folder_changed(path.rpartition("/")[0] or ".")

    def _sync(self) -> None:
        number, commit = self._moves.begin_sync()
        commit.sync()
        self._moves.end_sync(number)

    # Back from quarantine.

    def restore(self, id: str, queue: str | None) -> str:
        """Make the messages under `id` ready; return their path. Raise `NotRestorable`, `DiskError`."""
        messages = self._messages(id)
        foreign = [
            file
            for file in list_quarantined(self._findings)
            if file.name and id in (file.id, own_id(file))
        ]
        if messages:
            path = self._restore_messages(messages, queue)
        elif foreign:
            path = self._restore_file(foreign[0], queue)
        else:
            raise NotRestorable(f"There is nothing with the id {id} in quarantine.")
        self._sync()
        return path

    def _messages(self, id: str) -> list[tuple[Entry, int]]:
        """Return what quarantine holds of the message or batch `id`."""
        messages = []
        for batch in self._batches_with(id):
            members = batch.stem.full if batch.stem.id == id else batch.stem.mask_of(id)
            for entry in batch.entries:
                if entry.name.state is State.QUARANTINED and entry.members & members:
                    messages.append((entry, entry.members & members))
        return messages

    def _batches_with(self, id: str) -> Iterator[BatchFile]:
        """Yield the files that may have the message `id`."""
        for key in dict.fromkeys((id, batch_of(id))) if is_id(id) else ():
            yield from self._batches.get(key, ())

    def _restore_messages(self, messages: Sequence[tuple[Entry, int]], queue: str | None) -> str:
        for entry, members in messages:
            self._require_queue(queue or entry.name.queue)
            self._require_whole(entry.name.path, entry.batch, members)
            self._require_nowhere(entry.batch, members)
        restored = []
        for entry, members in messages:
            target = queue or entry.name.queue
            self._make_folder(f"{QUEUES}/{target}")
            restored += self._moves.move(entry, members, Move.RESTORE, queue=target)
        return restored[0].name.path

    def _restore_file(self, file: QuarantinedFile, queue: str | None) -> str:
        """Bring back a message's file that lay where it doesn't belong."""
        name = self._name_of(file, queue)
        if self._disk.facts(file.path).kind is not FileKind.FILE:
            raise NotRestorable(f"{file.path} is not a message's file, and stays in quarantine.")
        batch = self._moves.index.batches.get(name.stem.text) or BatchFile(name.stem)
        self._require_queue(name.queue)
        self._require_whole(file.path, batch, name.members)
        self._require_nowhere(batch, name.members)
        if any(batch.holder(index) for index in indexes(name.members)):
            raise NotRestorable(f"A message of {file.path} is there already.")
        self._make_folder(f"{QUEUES}/{name.queue}")
        ready = replace(name, version=batch.top + 1)
        self._moves.adopt(file.path, ready, 0)
        self._sync()
        remove_quarantine_folder(self._disk, file)
        self._syncer.folder_changed(QUARANTINE)
        return ready.path

    def _name_of(self, file: QuarantinedFile, queue: str | None) -> Name:
        """Return the name that a file would have as ready messages."""
        folder, _, rest = file.source.partition("/")
        home = queue or (rest.partition("/")[0] if folder == QUEUES else "")
        for path in (f"{QUEUES}/{home}/{file.name}", *(f"{f}/{file.name}" for f in FOLDERS)):
            if (name := name_at(path)) is not None:
                target = queue or name.queue
                return replace(name, state=State.READY, queue=target, owner="", due=None, token="")
        raise NotRestorable(
            f"{file.name!a} is not the name of a message, or doesn't say from which queue it came: "
            f"look at {file.path}, and name the queue, or send it anew."
        )

    def _require_queue(self, queue: str) -> None:
        if not is_queue_name(queue):
            raise NotRestorable(f"{queue!a} can't be a queue's name.")
        if queue not in self._start.records.keys() - self._start.lost_settings:
            raise NotRestorable(f"There is no queue {queue}: create it, or name another one.")

    def _require_whole(self, path: str, batch: BatchFile, members: int) -> None:
        try:
            content = self._disk.read(path, batch.stem.length)
            line = decode(batch.stem, content, len(content))
            if line.is_external:
                with open_body(self._disk, body_path(batch.stem.id), batch.stem.size) as file:
                    for _ in body_pieces(file, line):
                        pass
                return
            for index in indexes(members):
                body(line, content, index)
        except OSError as error:
            raise NotRestorable(f"{path} can't be read: {error.strerror}.") from error
        except Damaged as error:
            raise NotRestorable(f"{path} is not whole, and stays in quarantine: {error}.") from error

    def _require_nowhere(self, batch: BatchFile, members: int) -> None:
        """Raise `NotRestorable` if another file has a message with one of these ids in a queue."""
        for index in indexes(members):
            id = batch.stem.message_id(index)
            for other in self._batches_with(id):
                entry = entry_in_queue(other, id)
                if other is not batch and entry is not None:
                    raise NotRestorable(f"The message is in a queue already: {entry.name.path}.")
