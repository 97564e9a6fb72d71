"""Orders of entries: that of the sends, and that of the priorities."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from heapq import heappop, heappush
from typing import Final

from ..model.members import below, lowest
from ..model.message_ids import batch_of, index_of, sent_at
from ..model.names import MAX_PRIORITY
from .entries import Entry
from .sorted_names import SortedNames

Runs = Generator[tuple[Entry, int], None, None]
"""Messages to be leased, as runs of one entry: the entry, and the mask of the run."""


class EntryOrder:
    """Entries in the order of the first message that each of them holds.

    A packed message stands here by its id alone, and has its entry from when it is looked at.

    Two entries may hold one message: a person has copied a file.
    """

    __slots__ = ("_by_first", "_doubles", "_unpack", "names")

    def __init__(self, unpack: Callable[[str], Entry]) -> None:
        """`unpack` makes the entry of a packed message, and calls `show`."""
        self._unpack = unpack
        self._by_first: dict[str, Entry] = {}
        self._doubles: dict[str, list[Entry]] = {}
        """Those whose first message another entry stands for."""
        self.names = SortedNames()

    def __bool__(self) -> bool:
        return len(self.names) > 0

    def __iter__(self) -> Iterator[Entry]:
        """Yield all entries. The order must not change meanwhile."""
        return (entry for _, entry in self.since(""))

    def change(self, entry: Entry, before: int, after: int) -> None:
        """Move an entry from the place of its members `before` to that of `after`."""
        stem = entry.batch.stem
        if stem.count:
            was = stem.message_id(lowest(before)) if before else ""
            first = stem.message_id(lowest(after)) if after else ""
        else:
            was, first = stem.id if before else "", stem.id if after else ""
        if first == was:
            return
        if was:
            self._remove(was, entry)
        if first:
            if self.names.add(first):
                self._by_first[first] = entry
            else:
                self.at(first)
                self._doubles.setdefault(first, []).append(entry)

    def _remove(self, first: str, entry: Entry) -> None:
        doubles = self._doubles.get(first)
        if doubles is None:
            self.names.remove(first)
            del self._by_first[first]
            return
        if self._by_first[first] is entry:
            self._by_first[first] = doubles.pop()
        else:
            doubles.remove(entry)
        if not doubles:
            del self._doubles[first]

    def extend(self, ids: Sequence[str]) -> None:
        """Add packed messages, in order."""
        self.names.extend(ids)

    def hide(self, entry: Entry) -> None:
        """Forget the entry of a message that is packed now."""
        del self._by_first[entry.batch.stem.id]

    def show(self, entry: Entry) -> None:
        """Know the entry of a message that was packed."""
        self._by_first[entry.batch.stem.id] = entry

    def copy(self) -> EntryOrder:
        """Return an order of the same entries."""
        made = EntryOrder(self._unpack)
        made.names, made._by_first = self.names.copy(), self._by_first.copy()
        made._doubles = {first: doubles.copy() for first, doubles in self._doubles.items()}
        return made

    def first(self) -> str | None:
        """Return the id of the first message."""
        return self.names.first()

    def at(self, first: str) -> Entry:
        """Return an entry whose first message is `first`."""
        return self._by_first.get(first) or self._unpack(first)

    def since(self, id: str) -> Iterator[tuple[str, Entry]]:
        """Yield the entries from `id` on, each with the id of its first message. The order must not
        change meanwhile."""
        for first in self.names.since(id):
            entry = self._by_first.get(first)
            yield first, self.at(first) if entry is None else entry
            for double in self._doubles.get(first, ()) if self._doubles else ():
                yield first, double

    def sightings(self, id: str) -> Iterator[tuple[str, Entry | None]]:
        """Yield the same with None in place of each packed message."""
        for first in self.names.since(id):
            yield first, self._by_first.get(first)
            for double in self._doubles.get(first, ()) if self._doubles else ():
                yield first, double

    def runs(self, but: Mapping[Entry, int], members_of: Callable[[Entry], int]) -> Runs:
        """Yield messages in order.

        `but` are messages that are passed over; it may grow while this runs, nothing else may change.
        """
        firsts = self.since("")
        following = next(firsts, None)
        split: list[tuple[str, Entry, int]] = []
        while following is not None or split:
            if split and (following is None or split[0][0] < following[0]):
                _, entry, members = heappop(split)
            else:
                assert following is not None
                _, entry = following
                members = members_of(entry)
                following = next(firsts, None)
            ahead = None if following is None else following[0]
            if split and (ahead is None or split[0][0] < ahead):
                ahead = split[0][0]
            stem = entry.batch.stem
            # Only what has an id between two messages of one file divides it: a part of it that came
            # back.
            if ahead is not None and stem.count and batch_of(ahead) == stem.id:
                run = below(members, index_of(ahead))
                if run != members:
                    rest = members & ~run
                    heappush(split, (stem.message_id(lowest(rest)), entry, rest))
                    members = run
            members &= ~but.get(entry, 0)
            if members:
                yield entry, members


class PriorityOrder:
    """Entries in the order of their priorities, the oldest of one priority first.

    Each priority has an order of its own, and a receive merges them: another `aging` moves nothing.
    With one a message stands where it would without a priority if it had been sent so much earlier for
    each step of its priority: so a lower one is overtaken for a bounded time only. All messages of a
    file have one priority and one time.
    """

    __slots__ = ("_unpack", "levels")

    def __init__(self, plain: EntryOrder, unpack: Callable[[str], Entry]) -> None:
        """`plain` are the entries of priority 0."""
        self.levels = {0: plain}
        self._unpack = unpack

    def change(self, entry: Entry, before: int, after: int) -> None:
        """Move an entry from the place of its members `before` to that of `after`."""
        level = self.levels.get(entry.batch.stem.priority)
        if level is None:
            level = self.levels[entry.batch.stem.priority] = EntryOrder(self._unpack)
        level.change(entry, before, after)

    def first(self) -> str | None:
        """Return the id of the oldest message."""
        return min(filter(None, (level.first() for level in self.levels.values())), default=None)

    def runs(
        self, but: Mapping[Entry, int], members_of: Callable[[Entry], int], aging: int | None
    ) -> Runs:
        """Yield messages in order, as `EntryOrder.runs` does.

        `aging` in milliseconds; 0: a higher priority is always first; None: the oldest message is.
        """
        if len(self.levels) == 1:
            return self.levels[0].runs(but, members_of)
        levels = [level.runs(but, members_of) for level in self.levels.values()]
        return heapq.merge(*levels, key=partial(_place_of, aging))


def _place_of(aging: int | None, run: tuple[Entry, int]) -> tuple[int, str]:
    """Return the place of a run among those of other priorities."""
    entry, members = run
    stem = entry.batch.stem
    id = stem.message_id(lowest(members))
    if aging is None:
        return 0, id
    return sent_at(id) + (MAX_PRIORITY - stem.priority) * (aging or _ALWAYS), id


_ALWAYS: Final = 1 << 48
"""More milliseconds than an id can say."""
