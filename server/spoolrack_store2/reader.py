"""Reads message files, and keeps in memory what was read or written last.

A file is read once for all its messages: its length and its line are checked then, each body when it is
asked for.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from spoolrack_store.files.folders import explained
from spoolrack_store.model.content import Attributes

from .batch import Batch, Entry
from .content import Damaged, Line, body, decode
from .disk import Disk
from .index import Index

CACHE_BYTES: Final = 16 * 1024 * 1024


class Reader:
    """Not thread-safe."""

    def __init__(self, disk: Disk, index: Index, cache_bytes: int = CACHE_BYTES) -> None:
        self._disk = disk
        self._index = index
        self._cache: OrderedDict[Batch, bytes] = OrderedDict()
        """The content of files, bodies first, the longest unused one first."""
        self._cached = 0
        self._cache_bytes = cache_bytes

    def keep(self, batch: Batch, line: Line, content: bytes) -> None:
        """Remember a file that was just written or read; `content` may end with the bodies."""
        batch.line = line
        if len(content) <= self._cache_bytes and batch not in self._cache:
            self._cache[batch] = content
            self._cached += len(content)
            while self._cached > self._cache_bytes:
                _, dropped = self._cache.popitem(last=False)
                self._cached -= len(dropped)

    def forget(self, batch: Batch) -> None:
        """Drop a file's content: all its messages are gone."""
        content = self._cache.pop(batch, None)
        if content is not None:
            self._cached -= len(content)

    def line(self, entry: Entry) -> Line:
        """Return what the entry's file says of its messages; raise `Damaged`, or `DiskError`."""
        batch = entry.batch
        if batch.line is None:
            self._read(entry)
        assert batch.line is not None
        return batch.line

    def message(self, entry: Entry, index: int) -> tuple[bytes, Attributes]:
        """Return a message's body and attributes; raise `Damaged`, or `DiskError`."""
        line = self.line(entry)
        content = self._cache.get(entry.batch)
        if content is None:
            content = self._read(entry)
        return body(line, content, index), line.attributes.get(index, {})

    def _read(self, entry: Entry) -> bytes:
        stem = entry.batch.stem
        try:
            content = self._disk.read(entry.name.path)
        except FileNotFoundError as error:
            raise Damaged("it is not there any more") from error
        except OSError as error:
            raise explained(error) from error
        line = decode(stem, content, len(content))
        self._index.learn(entry.batch, line)
        self.keep(entry.batch, line, content)
        return content
