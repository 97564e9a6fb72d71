"""Reads message files through a cache of recently read and written ones.

A file is read once for all its messages: its length and its line are checked then, each body when it is
asked for.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final
from zlib import crc32

from ..files.body_file import body_pieces, open_body
from ..files.disk import NOT_A_FILE, OUT_OF_HANDLES, Disk, explained
from ..model.batch_file import Damaged, Line, body, decode, joined_bodies, lone_line
from ..model.clock import Clock, Millis
from ..model.dead_letter_records import DeadLetterRecord, NotAHistory, records_of
from ..model.errors import DiskError
from ..model.members import indexes
from ..model.message_content import Attributes
from ..model.names import Name, Stem, body_path, dead_letter_path
from ..model.operations import MAX_BODY_IN_MEMORY
from .entries import BatchFile, Entry
from .index import Index
from .part import RETRY

log = logging.getLogger(__name__)

CACHE_BYTES: Final = 16 * 1024 * 1024
CACHE_ENTRY: Final = 256
"""Bytes that a file in the cache takes beside its content."""


def read_records(disk: Disk, name: Name) -> Sequence[DeadLetterRecord]:
    """Return how the messages of a name became dead letters each time, the oldest first. Raise
    `NotAHistory` if that can't be told, or `DiskError`."""
    content = None
    if name.death is not None and name.death.file:
        path = dead_letter_path(name.stem.id, name.death.file)
        try:
            content = disk.read(path)
        except FileNotFoundError as error:
            raise NotAHistory(f"{path} is not there") from error
        except OSError as error:
            raise explained(error) from error
    return records_of(name, content)


def told_records(disk: Disk, name: Name) -> Sequence[DeadLetterRecord]:
    """Return how messages became dead letters; nothing if that can't be told, which is logged. In any
    thread."""
    try:
        return read_records(disk, name)
    except (NotAHistory, DiskError) as why:
        log.warning("the history of the messages of %s can't be told: %s", name.path, why)
        return ()


class Reader:
    """The message files of a root, and the body cache. Not thread-safe."""

    def __init__(self, disk: Disk, index: Index, clock: Clock, cache_bytes: int = CACHE_BYTES) -> None:
        self._disk = disk
        self._index = index
        self._clock = clock
        self.refused_files: dict[BatchFile, Millis] = {}
        """Files that the disk refused to read, and the monotonic time at which they are tried again."""
        self._last: tuple[BatchFile, bytes] | None = None
        """A file too large for the cache that was read for the next `message`."""
        self._cache: OrderedDict[str, bytes] = OrderedDict()
        """The content of files, bodies first, by the texts of their stems, the oldest first."""
        self._cached = 0
        self._cache_bytes = cache_bytes

    def keep(self, batch: BatchFile, line: Line, content: bytes) -> None:
        """Cache a file that was just written or read; `content` may end with the bodies."""
        if batch.stem.line:
            self._index.learn(batch, line)
        if len(content) <= self._cache_bytes and batch.stem.text not in self._cache:
            self._cache[batch.stem.text] = content
            self._cached += len(content) + CACHE_ENTRY
            while self._cached > self._cache_bytes:
                text, dropped = self._cache.popitem(last=False)
                self._cached -= len(dropped) + CACHE_ENTRY
                oldest = self._index.batches.get(text)
                if oldest is not None and oldest.line is not None:
                    # A million waiting messages would have a hundred megabytes of lines.
                    self._index.learn(oldest, None)

    def kept(self, batch: BatchFile) -> bytes | None:
        """Return the cached content of a file: its bodies first."""
        return self._cache.get(batch.stem.text)

    def evict(self, batch: BatchFile) -> None:
        """Drop a file's content: all its messages are gone."""
        self.refused_files.pop(batch, None)
        content = self._cache.pop(batch.stem.text, None)
        if content is not None:
            self._cached -= len(content) + CACHE_ENTRY

    def try_again(self, now: Millis) -> None:
        """Allow reads of files whose retry time has come."""
        for batch in [batch for batch, due in self.refused_files.items() if due <= now]:
            del self.refused_files[batch]

    def is_readable(self, entry: Entry) -> bool:
        """Return whether an entry's file can be read, so that its messages can be delivered; raise
        `DiskError` if no file can be opened now.

        A file that the disk refuses is tried again after a while. A damaged one counts as readable.
        """
        batch = entry.batch
        if batch.stem.text in self._cache:
            return True
        now = self._clock.monotonic()
        if self.refused_files.get(batch, now) > now:
            return False
        try:
            self._last = batch, self._read(entry)
        except Damaged:
            pass
        except DiskError as error:
            cause = error.__cause__
            if isinstance(cause, OSError) and cause.errno in OUT_OF_HANDLES:
                raise
            log.error("%s can't be read, its messages have to wait: %s", entry.name.path, error)
            self.refused_files[batch] = Millis(now + RETRY)
            return False
        self.refused_files.pop(batch, None)
        return True

    def line(self, entry: Entry) -> Line:
        """Return the line about the messages of the entry's file; raise `Damaged`, or `DiskError`."""
        batch = entry.batch
        if batch.line is None:
            if _is_lone(batch.stem):
                return lone_line(batch.stem)
            self._read(entry)
        assert batch.line is not None
        return batch.line

    def message(self, entry: Entry, index: int) -> tuple[bytes, Attributes]:
        """Return a message's body and attributes; raise `Damaged`, or `DiskError`.

        A body of more than `MAX_BODY_IN_MEMORY`, which is in a file of its own, is left out.
        """
        ((_, found),) = self.bodies(entry, 1 << index)
        if isinstance(found, Damaged):
            raise found
        return found, self.line(entry).attributes.get(index, {})

    def joined_bodies(self, entry: Entry, first: int, last: int) -> bytes:
        """Return the bodies from one index to another, joined; raise `Damaged`, or `DiskError`."""
        if entry.batch.stem.is_external:
            return self.message(entry, 0)[0]
        return joined_bodies(self.line(entry), self._content(entry), first, last)

    def _content(self, entry: Entry) -> bytes:
        content = self._cache.get(entry.batch.stem.text)
        if content is None:
            if self._last is None or self._last[0] is not entry.batch:
                self._last = entry.batch, self._read(entry)
            content = self._last[1]
        return content

    def bodies(
        self, entry: Entry, members: int, *, is_left_out: bool = False
    ) -> list[tuple[int, bytes | Damaged]]:
        """Return the index and the body of each of `members`, or the fault of that body; raise
        `Damaged`, or `DiskError`, if the file can't be read.

        `is_left_out`: the only body of the file is checked, and empty in the answer.
        """
        batch = entry.batch
        if _is_lone(batch.stem):
            content = self._content(entry)
            is_whole = crc32(content) == batch.stem.crc
            shown = b"" if is_left_out else content
            return [(0, shown if is_whole else Damaged("its checksum differs"))]
        line = self.line(entry)
        if line.is_external:
            if batch.stem.size > MAX_BODY_IN_MEMORY:
                return [(0, b"")]
            if is_left_out:
                self._check_body(batch.stem, line)
                return [(0, b"")]
            content = self._read_file(body_path(batch.stem.id))
        else:
            content = self._content(entry)
        found: list[tuple[int, bytes | Damaged]] = []
        for index in indexes(members):
            try:
                whole = body(line, content, index)
                found.append((index, b"" if is_left_out else whole))
            except Damaged as why:
                found.append((index, why))
        return found

    def _read(self, entry: Entry) -> bytes:
        stem = entry.batch.stem
        content = self._content_of_spare(entry)
        if content is None:
            content = self._read_file(entry.name.path, stem.length)
        line = decode(stem, content, len(content))
        self.keep(entry.batch, line, content)
        return content

    def _content_of_spare(self, entry: Entry) -> bytes | None:
        """Return the content of a file that has a spare's name still, None of any other; raise
        `DiskError`."""
        spare = self._index.in_spares.get(entry.name.path) if self._index.in_spares else None
        if spare is None:
            return None
        with _judging(), suppress(FileNotFoundError):  # A process that joined gave it its name.
            return self._disk.read(spare.path, entry.batch.stem.length)
        return None

    def _read_file(self, path: str, length: int | None = None) -> bytes:
        with _judging():
            return self._disk.read(path, length)

    def _check_body(self, stem: Stem, line: Line) -> None:
        """Read a body in a file of its own in pieces; raise `Damaged`, or `DiskError`."""
        with _judging(), open_body(self._disk, body_path(stem.id), stem.size) as file:
            for _ in body_pieces(file, line):
                pass


@contextmanager
def _judging() -> Iterator[None]:
    """Raise `Damaged` for a file that isn't there or is none, and `DiskError` for any other error."""
    try:
        yield
    except FileNotFoundError as error:
        raise Damaged("it is not there any more") from error
    except OSError as error:
        if error.errno in NOT_A_FILE:
            raise Damaged("it is no file") from error
        raise explained(error) from error


def _is_lone(stem: Stem) -> bool:
    """Return whether the file is a lone message's body, and nothing else."""
    return not (stem.line or stem.count)
