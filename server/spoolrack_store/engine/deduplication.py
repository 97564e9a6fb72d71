"""Deduplication ids: which are used, and by which message.

A key is a hash of the sender's id, salted by the queue (`model.keys`). A lone message's key is in its
name, a batch's keys are in its line, so a key is durable with its message. Keys are looked up and taken
under the lock. A keyed file that another process writes into `new/` is told in `CHANGES`. Before the
names of a keyed file are unlinked, its keys are durable in a segment: a sealed file in `keys/`, written
once, which is unlinked when all of its keys are free.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from ..model.batch_file import Damaged, Line
from ..model.clock import Clock, Millis
from ..model.errors import DiskError, StoreError, TooManyDeduplicationIds
from ..model.keys import MAX_KEYS, first_number_of, id_number, id_text
from ..model.message_ids import FileIds, is_id
from ..model.names import Name, Stem, name_at
from ..model.sealed import Torn, seal, unseal
from ..model.transitions import State
from .catalog import Catalog, QueueRecord
from .entries import BatchFile, Entry
from .moves import Moves
from .part import Part, postponing
from .reader import Reader

log = logging.getLogger(__name__)

FOLDER = "keys"
Taken = dict[str, int]
"""Keys, and the numbers of the messages that took them, about in the order of time."""


class Deduplication(Part):
    """The deduplication ids of all queues. Not thread-safe."""

    folders = (FOLDER, "new")

    def __init__(
        self, moves: Moves, catalog: Catalog, reader: Reader, ids: FileIds, clock: Clock
    ) -> None:
        self._moves = moves
        self._catalog = catalog
        self._reader = reader
        self._ids = ids
        self._clock = clock
        self._queues: dict[str, Taken] = {}
        """Keys by the queue that their messages were sent to."""
        self._other_keys: Taken = {}
        """Keys of which the queue isn't known. Salts tell queues apart."""
        self._unsynced_keys: dict[str, tuple[int, BatchFile]] = {}
        """Keys that this process took, and the commits that make their messages durable."""
        self._changed_paths: dict[str, None] = {}
        """Paths that other processes have changed, not looked at yet."""
        self.pending = (self._changed_paths, moves.index.new_keyed_files)
        self._segment_commits: dict[BatchFile, int] = {}
        """Files whose keys are in a segment, and the commits that make it durable."""
        self._segments: dict[str, int] = {}
        """The number of the last message in each segment; 0 of one that is torn."""
        self._trouble: StoreError | None = None

    @property
    def count(self) -> int:
        """How many keys are in memory. In any thread."""
        return len(self._other_keys) + sum(map(len, list(self._queues.values())))

    # Sends.

    def find(self, record: QueueRecord, key: str, coming: int) -> str | None:
        """Return the id of the message that used `key` within the queue's window, or None.

        `coming` is how many keys this commit is about to take in the queue. Raise
        `TooManyDeduplicationIds`, or the `StoreError` that keeps other keys from being known.
        """
        if self._trouble is not None:
            raise self._trouble
        since = self._since(record)
        taken = self._queues.get(record.name, {})
        number = max(taken.get(key, 0), self._other_keys.get(key, 0))
        if number >= since:
            self._make_durable(key)
            return id_text(number)
        if len(taken) + coming >= MAX_KEYS:
            _drop_before(taken, since)
            if len(taken) + coming >= MAX_KEYS:
                raise TooManyDeduplicationIds(
                    queue=record.name, held=len(taken) + coming, limit=MAX_KEYS
                )
        return None

    def register(self, entry: Entry, keys: Iterable[tuple[int, str]]) -> None:
        """Register the keys of a file that this commit has written; by the messages' indexes."""
        batch = entry.batch
        for index, key in keys:
            self._learn(entry.name.queue, key, id_number(batch.stem.message_id(index)))
            self._unsynced_keys[key] = self._moves.commit, batch
        self._moves.index.new_keyed_files.pop(batch, None)

    def _make_durable(self, key: str) -> None:
        """Let this commit's sync cover the first message, if an earlier one's isn't complete."""
        commit, batch = self._unsynced_keys.get(key, (0, None))
        if batch is None or commit <= self._moves.synced:
            return
        for entry in batch.entries:
            folder = entry.name.path.rpartition("/")[0]
            self._moves.syncer.lone_file_written(entry.name.path)
            self._moves.syncer.folder_changed(folder)

    # Reading the disk.

    def recover(self) -> None:
        self._segments.clear()
        for folder in self.folders:
            found = self._moves.scan(folder)
            self._changed_paths.update((f"{folder}/{each.name}", None) for each in found)
        for path in self._changed_paths:
            if path.startswith(f"{FOLDER}/"):
                # The process that wrote it may not have synced it.
                self._moves.syncer.lone_file_written(path)
        self._moves.syncer.folder_changed(FOLDER)

    def path_changed(self, path: str) -> None:
        self._changed_paths[path] = None

    def advance(self) -> None:
        """Register the keys of files that other processes, or a start, have added."""
        self._trouble = None
        changed = list(self._changed_paths)
        self._changed_paths.clear()
        for path in changed:
            try:
                if path.startswith(f"{FOLDER}/"):
                    self._load_segment(path)
                else:
                    self._load_new(path)
            except StoreError as error:
                self._trouble = error
                self._changed_paths[path] = None
        keyed = self._moves.index.new_keyed_files
        for batch in list(keyed):
            try:
                self._load_batch(batch)
            except StoreError as error:
                self._trouble = error
            else:
                del keyed[batch]
                self._moves.index.may_be_packed(batch)

    def _load_segment(self, path: str) -> None:
        if not is_id(path.removeprefix(f"{FOLDER}/")):
            self._moves.quarantine(path, "it is no segment of deduplication keys")
            return
        content = self._moves.read(path)
        if content is None:
            self._segments.pop(path, None)
            return
        try:
            keys = unseal(content)
            numbers = {key: id_number(str(id)) for key, id in keys.items()}
        except Torn:
            log.warning("%s is torn: the names of its messages were not unlinked", path)
            self._segments[path] = 0
            return
        except ValueError as error:
            self._moves.quarantine(path, f"its deduplication keys are lost: {error}")
            return
        self._segments[path] = max(numbers.values(), default=0)
        for key, number in sorted(numbers.items(), key=lambda item: item[1]):
            if number > max((taken.get(key, 0) for taken in self._queues.values()), default=0):
                self._learn("", key, number)
            known = self._moves.index.batch(id_text(number))
            if known is not None:
                self._segment_commits.setdefault(known[0], self._moves.commit)

    def _load_new(self, path: str) -> None:
        """Take the keys of a file in `new/`, if it is whole: its process may have died."""
        name = name_at(path)
        if name is None:
            return
        known = self._moves.index.file(name.stem.text)
        # Of a living process the index knows what was leased as it was sent, and no more.
        if name.stem.key is None or (known is not None and known.was_sent):
            return
        line = self._whole(name.stem, path)
        if line is not None:
            self._load(name, line)

    def _load_batch(self, batch: BatchFile) -> None:
        entries = batch.entries
        if not entries:
            return
        name = entries[0].name
        if all(entry.name.state is State.SENT for entry in entries):
            line = self._whole(batch.stem, name.path) if batch.was_sent else None
        else:
            line = self._line(entries[0])
        if line is not None:
            self._load(name, line)

    def _load(self, name: Name, line: Line) -> None:
        # The first two versions are in the queue that the message was sent to.
        queue = name.queue if name.version <= 2 else ""
        for index, key in line.keys.items():
            self._learn(queue, key, id_number(name.stem.message_id(index)))

    def _learn(self, queue: str, key: str, number: int) -> None:
        taken = self._queues.setdefault(queue, {}) if queue else self._other_keys
        if taken.get(key, 0) < number:
            taken.pop(key, None)
            taken[key] = number

    def _line(self, entry: Entry) -> Line | None:
        """Return what the file says of its messages; of a lone one its name says the key."""
        stem = entry.batch.stem
        if stem.key:
            return Line([stem.size], [stem.crc], keys={0: stem.key})
        try:
            return self._reader.line(entry)
        except Damaged as error:
            # What another process has unlinked, it has kept the keys of.
            if not self._moves.may_be_unlinked_by_others(entry.name):
                log.error("the deduplication keys of %s are lost: %s", entry.name.path, error)
            return None

    def _whole(self, stem: Stem, path: str) -> Line | None:
        content = self._moves.read(path)
        return None if content is None else self._moves.line_of_whole(stem, content)

    # Segments.

    def may_unlink(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        """Yield those of the reapable `entries` whose keys are free, or durable in a segment; write
        the segment of the others."""
        segment: dict[str, str] = {}
        batches: dict[BatchFile, None] = {}
        since: int | None = None
        for entry in entries:
            batch = entry.batch
            if batch.stem.key is None:
                yield entry
                continue
            if batch in batches:
                continue
            commit = self._segment_commits.get(batch)
            if commit is not None:
                if commit <= self._moves.synced:
                    yield entry
                continue
            since = self._oldest() if since is None else since
            try:
                keys = self._taken_by(entry, since)
            except DiskError as error:
                log.warning("%s stays for now: %s", entry.name.path, error)
                continue
            if keys:
                segment |= keys
                batches[batch] = None
            else:
                yield entry
        if segment:
            self._keep(segment, batches)

    def _taken_by(self, entry: Entry, since: int) -> dict[str, str]:
        line, stem = self._line(entry), entry.batch.stem
        ids = {key: stem.message_id(index) for index, key in line.keys.items()} if line else {}
        return {key: id for key, id in ids.items() if id_number(id) >= since}

    def _keep(self, segment: dict[str, str], batches: Iterable[BatchFile]) -> None:
        path = f"{FOLDER}/{self._ids.make()}"
        with postponing(log, "the unlinking of deleted messages, whose keys can't be written,"):
            self._moves.create_file(path, seal(segment), urgent=True)
            self._segments[path] = max(map(id_number, segment.values()))
            self._segment_commits.update(dict.fromkeys(batches, self._moves.commit))

    # Time.

    def tick(self) -> None:
        """Drop keys whose window is over, and unlink segments that hold no others."""
        for queue, taken in list(self._queues.items()):
            record = self._catalog.records.get(queue)
            if record is None:
                del self._queues[queue]
            else:
                _drop_before(taken, self._since(record))
        oldest = self._oldest()
        _drop_before(self._other_keys, oldest)
        synced = self._moves.synced
        self._unsynced_keys = {
            key: each for key, each in self._unsynced_keys.items() if each[0] > synced
        }
        self._segment_commits = {
            batch: commit for batch, commit in self._segment_commits.items() if batch.entries
        }
        for path, last in list(self._segments.items()):
            if last < oldest:
                with postponing(log, "the unlinking of %s", path):
                    self._moves.unlink_file(path)
                    del self._segments[path]

    def _since(self, record: QueueRecord) -> int:
        """Return the number of the first id whose key counts."""
        return self._first_within(record.settings.deduplication_window)

    def _first_within(self, window: Millis) -> int:
        return first_number_of(self._clock.wall() - window + 1)

    def _oldest(self) -> int:
        """Return the number of the first id whose key counts in any queue."""
        windows = self._catalog.windows
        return self._first_within(max(windows)) if windows else 1 << 128


def _drop_before(taken: Taken, since: int) -> None:
    while taken:
        key = next(iter(taken))
        if taken[key] >= since:
            return
        del taken[key]
