"""A sorted list of names, in chunks.

A name starts with its message's id, so the order of names is the order of messages, and a message is
found by its id with two binary searches and no further table: a waiting message costs its name and one
reference. A chunk that nothing has changed lately is a tuple, of which the collector of garbage reads
nothing: lists of a million names would stop it for 0.3 s. Pure.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import itemgetter
from typing import Final

_CHUNK: Final = 128
_OPEN: Final = 8
"""Chunks of one list that are lists: those that were changed last."""


class SortedNames:
    """A set of distinct names in order. Adding and removing cost the same at both ends and inside."""

    __slots__ = ("_chunks", "_count", "_opened")

    def __init__(self) -> None:
        self._chunks: list[tuple[str, ...] | list[str]] = []
        self._opened: tuple[list[str], ...] = ()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[str]:
        for chunk in self._chunks:
            yield from chunk

    def copy(self) -> SortedNames:
        """Return a list of the same names."""
        made = SortedNames()
        made._chunks, made._count = [tuple(chunk) for chunk in self._chunks], self._count
        return made

    def add(self, name: str) -> bool:
        """Add `name`; return False if it is there already."""
        at = len(self._chunks) - 1
        if at < 0:
            self._chunks.append((name,))
            self._count = 1
            return True
        if name < self._chunks[at][0]:
            at = max(0, self._chunk_of(name))
        chunk = self._chunks[at]
        place = bisect_left(chunk, name)
        if place < len(chunk) and chunk[place] == name:
            return False
        self._count += 1
        if isinstance(chunk, tuple):
            chunk = self._open(at, chunk)
        chunk.insert(place, name)
        if len(chunk) > 2 * _CHUNK:
            # An append at the very end is the usual case: a full chunk is left as it is.
            keep = 2 * _CHUNK if chunk[-1] == name else _CHUNK
            self._chunks[at : at + 1] = [tuple(chunk[:keep]), tuple(chunk[keep:])]
        return True

    def _open(self, at: int, chunk: tuple[str, ...]) -> list[str]:
        """Make a chunk a list, and the one that was opened before the others a tuple."""
        opened = self._chunks[at] = list(chunk)
        if len(self._opened) == _OPEN:
            oldest = self._opened[0]
            there = self._chunk_of(oldest[0])
            if self._chunks[there] is oldest:
                self._chunks[there] = tuple(oldest)
        self._opened = (*self._opened[1 - _OPEN :], opened)
        return opened

    def extend(self, ordered: Sequence[str]) -> None:
        """Add names that are in order, and not there yet."""
        if self._chunks and ordered and ordered[0] < self._chunks[-1][-1]:
            ordered = sorted((*self, *ordered))
            self._chunks.clear()
            self._count = 0
        self._chunks += (tuple(ordered[at : at + _CHUNK]) for at in range(0, len(ordered), _CHUNK))
        self._count += len(ordered)

    def remove(self, name: str) -> bool:
        """Remove `name`; return whether it was there."""
        at = self._chunk_of(name)
        if at < 0:
            return False
        chunk = self._chunks[at]
        place = bisect_left(chunk, name)
        if place == len(chunk) or chunk[place] != name:
            return False
        if len(chunk) == 1:
            del self._chunks[at]
        elif isinstance(chunk, tuple):
            del self._open(at, chunk)[place]
        else:
            del chunk[place]
        self._count -= 1
        return True

    def first(self) -> str | None:
        return self._chunks[0][0] if self._chunks else None

    def last(self) -> str | None:
        return self._chunks[-1][-1] if self._chunks else None

    def since(self, start: str) -> Iterator[str]:
        """Yield all names from `start` on. Nothing may be added or removed meanwhile."""
        at = max(0, self._chunk_of(start))
        if at >= len(self._chunks):
            return
        chunk = self._chunks[at]
        yield from islice(chunk, bisect_left(chunk, start), None)
        for chunk in islice(self._chunks, at + 1, None):
            yield from chunk

    def _chunk_of(self, name: str) -> int:
        """Return the chunk in which `name` stands or belongs; -1 before the first."""
        return bisect_right(self._chunks, name, key=_FIRST_OF) - 1


_FIRST_OF: Final = itemgetter(0)
