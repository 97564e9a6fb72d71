"""Deduplication ids: which are used, and by which message.

A key is a hash of the sender's id, salted by the queue (`model.keys`). A lone message's key is in its
name, a batch's keys are in its line, so a key is durable with its message. Keys are looked up and taken
under the lock. A keyed file that another process writes into `new/` is told in `CHANGES`. Before the
names of a keyed file are unlinked, its keys are durable in a segment: a sealed file in `keys/`, written
once, which is unlinked when all of its keys are free. Small segments are merged into larger ones, and
unlinked when that one is durable. All of this is done in slices; keyed sends wait until the keys of a
start are read.
"""

from __future__ import annotations

import logging
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from ..files.layout import NEW
from ..model.batch_file import Damaged, Line
from ..model.clock import CommitClock, Millis
from ..model.errors import DiskError, StoreError, TooManyDeduplicationIds
from ..model.keys import MAX_KEYS, first_number_of, id_number, id_text
from ..model.message_ids import FileIds, is_id
from ..model.names import Name, Stem, name_at
from ..model.sealed import Torn, seal, unseal
from ..model.transitions import State
from .catalog import Catalog, QueueRecord
from .effort import BYTES_LIKE_A_FILE
from .entries import BatchFile, Entry
from .moves import Moves
from .part import Part, postponing
from .reader import Reader

log = logging.getLogger(__name__)

FOLDER = "keys"
MERGED: Final = 16
"""So many segments of one size are merged into one."""
LARGE: Final = 1_024
"""A segment with so many keys isn't merged any more."""
MOST_KEYS: Final = 2 * LARGE
"""Keys that a merge writes."""
_KEYS_LIKE_A_FILE: Final = 20
"""To take in so many keys, of segments or names, takes as long as to move a file."""
_DROPS: Final = 20_000
"""Keys that one tick drops."""


@dataclass(frozen=True, slots=True)
class _Segment:
    """A segment in `keys/`."""

    last: int = 0
    """The number of its last message; 0 if it is torn."""
    keys: int = 0

    @property
    def size(self) -> int:
        """Which segments it is merged with: those of about as many keys."""
        return self.keys.bit_length() // 4


class Deduplication(Part):
    """The deduplication ids of all queues. Not thread-safe."""

    folders = (FOLDER, NEW)

    def __init__(
        self, moves: Moves, catalog: Catalog, reader: Reader, ids: FileIds, clock: CommitClock
    ) -> None:
        self._moves = moves
        self._catalog = catalog
        self._reader = reader
        self._ids = ids
        self._clock = clock
        self._taken: dict[str, int] = {}
        """The keys of all queues, and the numbers of the messages that took them. Salts tell queues
        apart."""
        self._orders: dict[str, deque[str]] = {}
        """The same keys by the queue that their messages were sent to, "" if it isn't known, about in
        the order of time."""
        self._of_deleted_queues: deque[str] = deque()
        self._changed_paths: dict[str, None] = {}
        """Paths that a start has found, or other processes have changed, not looked at yet."""
        self._refused: dict[str | BatchFile, StoreError] = {}
        """Paths and batches that the disk refused to show."""
        self._to_be_merged: dict[int, None] = {}
        """Sizes of which there are many segments."""
        self._superseded: dict[str, int] = {}
        """Segments that were merged, and the commits that make the merged ones durable."""
        self.pending = (
            self._changed_paths,
            self._refused,
            moves.index.new_keyed_files,
            self._to_be_merged,
            self._superseded,
        )
        self._segment_commits: dict[BatchFile, int] = {}
        """Files whose keys are in a segment, and the commits that make it durable."""
        self._segments: dict[str, _Segment] = {}
        """By path, but for those that were merged."""
        self._by_size: defaultdict[int, dict[str, None]] = defaultdict(dict)
        """The paths of those that are not large."""

    @property
    def count(self) -> int:
        """How many keys are in memory. In any thread."""
        return len(self._taken)

    @property
    def knows_all(self) -> bool:
        """Whether all keys were read, as far as the disk shows them."""
        return not (self._changed_paths or self._moves.index.new_keyed_files)

    # Sends.

    def find(self, record: QueueRecord, key: str, coming: int) -> str | None:
        """Return the id of the message that used `key` within the queue's window, or None.

        `coming` is how many keys this commit is about to take in the queue. Raise
        `TooManyDeduplicationIds`, or the `StoreError` that keeps other keys from being known.
        """
        if self._refused:
            raise next(iter(self._refused.values()))
        since = self._since(record)
        number = self._taken.get(key, 0)
        if number >= since:
            self._make_durable(number)
            return id_text(number)
        order = self._orders.get(record.name, ())
        if number or len(order) + coming >= MAX_KEYS:
            self._drop_before(record.name, since, _DROPS)
            if len(order) + coming >= MAX_KEYS:
                raise TooManyDeduplicationIds(
                    queue=record.name, held=len(order) + coming, limit=MAX_KEYS
                )
        return None

    def register(self, entry: Entry, keys: Iterable[tuple[int, str]]) -> None:
        """Register the keys of a file that this commit has written; by the messages' indexes."""
        batch = entry.batch
        for index, key in keys:
            self._learn(entry.name.queue, key, id_number(batch.stem.message_id(index)))
        self._moves.index.new_keyed_files.pop(batch, None)

    def _make_durable(self, number: int) -> None:
        """Let this commit's sync cover the first message, if an earlier one's isn't complete. Where it
        has left `new/`, it was durable before."""
        found = self._moves.index.batch(id_text(number))
        if found is None or found[0].changed <= self._moves.synced:
            return
        for entry in found[0].entries:
            if entry.name.state is State.SENT:
                self._moves.syncer.lone_file_written(entry.name.path)
                self._moves.syncer.folder_changed(NEW)

    # Reading the disk.

    def recover(self) -> None:
        for known in (self._segments, self._by_size, self._to_be_merged, self._superseded):
            known.clear()
        for folder in self.folders:
            for each in self._moves.scan(folder):
                if folder == FOLDER or ",k" in each.name:  # There may be many without a key.
                    self._changed_paths[f"{folder}/{each.name}"] = None
        for path in self._changed_paths:
            if path.startswith(f"{FOLDER}/"):
                # The process that wrote it may not have synced it.
                self._moves.syncer.lone_file_written(path)
        self._moves.syncer.folder_changed(FOLDER)

    def path_changed(self, path: str) -> None:
        self._changed_paths[path] = None

    def advance(self) -> None:
        """Take in keys that other processes, or a start, have added, and merge segments, as much as the
        commit may."""
        keyed = self._moves.index.new_keyed_files
        if self.knows_all:
            for refused in self._refused:
                if isinstance(refused, str):
                    self._changed_paths[refused] = None
                else:
                    keyed[refused] = None
            self._refused.clear()
        left = float(self._moves.effort.share())
        while self._changed_paths and left > 0:
            path = next(iter(self._changed_paths))
            del self._changed_paths[path]
            try:
                left -= self._load_path(path)
            except StoreError as error:
                self._refused[path] = error
                left -= 1
        for batch in list(islice(keyed, max(0, int(left * _KEYS_LIKE_A_FILE)))):
            if left <= 0:
                break
            left -= 1 / _KEYS_LIKE_A_FILE if batch.stem.key else 1
            del keyed[batch]
            try:
                self._load_batch(batch)
            except StoreError as error:
                self._refused[batch] = error
            else:
                self._moves.index.may_be_packed(batch)
        self._moves.effort.spend(self._moves.effort.share() - max(0, int(left)))
        if self.knows_all:
            self._unlink_superseded()
            self._merge()
        if self._refused:
            raise next(iter(self._refused.values()))

    def _load_path(self, path: str) -> float:
        """Look at a file that may be there; return how many files that counts for."""
        if path.startswith(f"{FOLDER}/"):
            return 1 + self._load_segment(path) / _KEYS_LIKE_A_FILE
        return self._load_new(path)

    def _load_segment(self, path: str) -> int:
        """Take in a segment that may be there; return how many keys it has."""
        if not is_id(path.removeprefix(f"{FOLDER}/")):
            self._moves.quarantine(path, "it is no segment of deduplication keys")
            return 0
        content = self._moves.read(path)
        if content is None:
            self._leave_segment(path)
            return 0
        try:
            numbers = keys_in(content)
        except Torn:
            log.warning("%s is torn: the names of its messages were not unlinked", path)
            self._add_segment(path, {})
            return 0
        except ValueError as error:
            self._moves.quarantine(path, f"its deduplication keys are lost: {error}")
            return 0
        self._add_segment(path, numbers)
        for key, number in sorted(numbers.items(), key=lambda item: item[1]):
            self._learn("", key, number)
            known = self._moves.index.batch(id_text(number))
            if known is not None:
                self._segment_commits.setdefault(known[0], self._moves.commit)
        return len(numbers)

    def _add_segment(self, path: str, numbers: dict[str, int]) -> None:
        segment = _Segment(max(numbers.values(), default=0), len(numbers))
        self._segments[path] = segment
        if 0 < segment.keys < LARGE:
            same = self._by_size[segment.size]
            same[path] = None
            if len(same) >= MERGED:
                self._to_be_merged[segment.size] = None

    def _leave_segment(self, path: str) -> None:
        """Know no more of a segment that is gone, or merged."""
        segment = self._segments.pop(path, None)
        if segment is not None:
            self._by_size[segment.size].pop(path, None)
        self._superseded.pop(path, None)

    def _load_new(self, path: str) -> float:
        """Take the keys of a file in `new/`, if it is whole: its process may have died. Return how many
        files that counts for."""
        name = name_at(path)
        if name is None:
            return 1 / _KEYS_LIKE_A_FILE
        known = self._moves.index.file(name.stem.text)
        # Of a living process the index knows what was leased as it was sent, and no more.
        if name.stem.key is None or (known is not None and known.was_sent):
            return 1 / _KEYS_LIKE_A_FILE
        line = self._whole(name.stem, path)
        if line is not None:
            self._load(name, line)
        return 1 + name.stem.length / BYTES_LIKE_A_FILE

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
        before = self._taken.get(key)
        if before is None:
            self._orders.setdefault(queue, deque()).append(key)
        if before is None or before < number:
            self._taken[key] = number

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
        with postponing(log, "the unlinking of deleted messages, whose keys can't be written,"):
            self._write_segment(segment)
            self._segment_commits.update(dict.fromkeys(batches, self._moves.commit))

    def _write_segment(self, ids: dict[str, str]) -> None:
        path = f"{FOLDER}/{self._ids.make()}"
        self._moves.create_file(path, seal(ids), urgent=True)
        self._add_segment(path, {key: id_number(id) for key, id in ids.items()})

    def _merge(self) -> None:
        """Write one segment in place of several of about one size: without that, each commit that
        unlinks keyed messages would leave a file until the window is over."""
        if not self._to_be_merged or self._moves.effort.left < MERGED:
            return
        size = next(iter(self._to_be_merged))
        del self._to_be_merged[size]
        with postponing(log, "the merging of segments of deduplication keys"):
            oldest, keys, merged = self._oldest(), 0, dict[str, str]()
            paths = list[str]()
            for path in islice(self._by_size[size], MERGED):
                keys += self._segments[path].keys
                if keys > MOST_KEYS:
                    break
                content = self._moves.read(path)
                numbers = {} if content is None else keys_in(content)
                merged |= {key: id_text(each) for key, each in numbers.items() if each >= oldest}
                paths.append(path)
            self._moves.effort.spend(len(paths) + keys // _KEYS_LIKE_A_FILE)
            if merged:
                self._write_segment(merged)
            for path in paths:
                self._leave_segment(path)
                self._superseded[path] = self._moves.commit
            if len(self._by_size[size]) >= MERGED:
                self._to_be_merged[size] = None

    def _unlink_superseded(self) -> None:
        for path, commit in list(islice(self._superseded.items(), self._moves.effort.share())):
            if commit <= self._moves.synced:
                with postponing(log, "the unlinking of %s", path):
                    self._moves.unlink_file(path)
                    del self._superseded[path]
                self._moves.effort.spend()

    # Time.

    def tick(self) -> None:
        """Drop keys whose window is over, and unlink segments that hold no others, as many as the
        commit may."""
        left = _DROPS
        for queue in list(self._orders):
            record = self._catalog.records.get(queue)
            if queue and record is None:
                self._of_deleted_queues += self._orders.pop(queue)
            elif left > 0:
                since = self._oldest() if record is None else self._since(record)
                left -= self._drop_before(queue, since, left)
        while self._of_deleted_queues and left > 0:
            self._taken.pop(self._of_deleted_queues.popleft(), None)
            left -= 1
        self._segment_commits = {
            batch: commit for batch, commit in self._segment_commits.items() if batch.entries
        }
        oldest = self._oldest()
        over = (path for path, segment in self._segments.items() if segment.last < oldest)
        for path in list(islice(over, self._moves.effort.share())):
            self._moves.effort.spend()
            with postponing(log, "the unlinking of %s", path):
                self._moves.unlink_file(path)
                self._leave_segment(path)

    def _drop_before(self, queue: str, since: int, most: int) -> int:
        """Drop up to `most` keys that were taken before; return how many."""
        order, dropped = self._orders.get(queue, deque[str]()), 0
        while order and dropped < most and self._taken.get(order[0], 0) < since:
            self._taken.pop(order.popleft(), None)
            dropped += 1
        if not order:
            self._orders.pop(queue, None)
        return dropped

    def _since(self, record: QueueRecord) -> int:
        """Return the number of the first id whose key counts."""
        return self._first_within(record.settings.deduplication_window)

    def _first_within(self, window: Millis) -> int:
        return first_number_of(self._clock.proven_wall() - window + 1)

    def _oldest(self) -> int:
        """Return the number of the first id whose key counts in any queue."""
        windows = self._catalog.windows
        return self._first_within(max(windows)) if windows else 1 << 128


def keys_in(content: bytes) -> dict[str, int]:
    """Return the keys of a segment, and the numbers of their messages; raise `NotWhole`, or
    `ValueError`."""
    return {key: id_number(str(id)) for key, id in unseal(content).items()}
