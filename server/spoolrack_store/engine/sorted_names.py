"""Names in order, however many: a sorted list in chunks.

A name starts with its message's id, so the order of names is the order of messages, and a message is
found by its id with two binary searches and no further table: a waiting message costs its name and
one reference. Pure.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

_CHUNK: Final = 512


class SortedNames:
    """A set of distinct names in order. Adding and removing cost the same at both ends and inside."""

    __slots__ = ("_chunks", "_count")

    def __init__(self, names: Iterable[str] = ()) -> None:
        ordered = sorted(names)
        self._chunks = [ordered[at : at + _CHUNK] for at in range(0, len(ordered), _CHUNK)]
        self._count = len(ordered)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[str]:
        for chunk in self._chunks:
            yield from chunk

    def add(self, name: str) -> None:
        self._count += 1
        at = self._chunk_of(name)
        if at < 0:
            if not self._chunks:
                self._chunks.append([name])
                return
            at = 0
        chunk = self._chunks[at]
        insort(chunk, name)
        if len(chunk) > 2 * _CHUNK:
            # An append at the very end is the usual case: a full chunk is left as it is.
            keep = 2 * _CHUNK if chunk[-1] == name else _CHUNK
            self._chunks[at : at + 1] = [chunk[:keep], chunk[keep:]]

    def remove(self, name: str) -> bool:
        """Whether `name` was there."""
        at = self._chunk_of(name)
        if at < 0:
            return False
        chunk = self._chunks[at]
        place = bisect_left(chunk, name)
        if place == len(chunk) or chunk[place] != name:
            return False
        del chunk[place]
        if not chunk:
            del self._chunks[at]
        self._count -= 1
        return True

    def first(self) -> str | None:
        return self._chunks[0][0] if self._chunks else None

    def find(self, id: str) -> str | None:
        """The name of the message `id`."""
        found = next(self.since(id), None)
        return found if found is not None and found.startswith(id) else None

    def since(self, start: str) -> Iterator[str]:
        """All names from `start` on. Nothing may be added or removed meanwhile."""
        at = max(0, self._chunk_of(start))
        if at >= len(self._chunks):
            return
        chunk = self._chunks[at]
        yield from islice(chunk, bisect_left(chunk, start), None)
        for chunk in islice(self._chunks, at + 1, None):
            yield from chunk

    def before(self, end: str) -> str | None:
        """The last name that isn't above `end`."""
        at = self._chunk_of(end)
        if at < 0:
            return None
        chunk = self._chunks[at]
        return chunk[bisect_right(chunk, end) - 1]

    def counts_below(self, bounds: Iterable[str]) -> list[int]:
        """How many names stand below each of `bounds`, which ascend.

        It looks at each chunk's length, and into one chunk for each bound: at no name besides.
        """
        counts: list[int] = []
        passed = at = 0
        for bound in bounds:
            end = max(0, self._chunk_of(bound))
            passed += sum(map(len, self._chunks[at:end]))
            at = end
            inside = bisect_left(self._chunks[at], bound) if at < len(self._chunks) else 0
            counts.append(passed + inside)
        return counts

    def sample(self, first: int, end: int, most: int) -> list[str]:
        """Up to `most` of the names at the places from `first` to before `end`, evenly spread."""
        count = max(0, min(end, self._count) - first)
        most = min(most, count)
        places = (first + (2 * n + 1) * count // (2 * most) for n in range(most))
        found: list[str] = []
        passed = 0
        chunks = iter(self._chunks)
        chunk: list[str] = []
        for place in places:
            while place >= passed + len(chunk):
                passed += len(chunk)
                chunk = next(chunks)
            found.append(chunk[place - passed])
        return found

    def _chunk_of(self, name: str) -> int:
        """The chunk in which `name` stands or belongs; -1 before the first."""
        return bisect_right(self._chunks, [name, _ABOVE_ALL]) - 1


_ABOVE_ALL: Final = "\U0010ffff"
"""Makes `[name, _ABOVE_ALL]` stand after every chunk that begins with `name`."""
