"""The ready messages of one queue, singles and batch folders merged in the order of their ids.

Pure: it holds names, rebuilt at each start from the folders, and knows nothing of files. What is next
costs the same with one message waiting and with a million.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush, merge
from itertools import islice

from ..model.ids import is_id
from ..model.names import ID_LENGTH, Batch, length_of
from .order import SortedNames


class BatchFolder:
    """A batch and what is left in it."""

    __slots__ = ("batch", "bytes", "names")

    def __init__(self, batch: Batch, names: Iterable[str], bytes: int) -> None:
        self.batch = batch
        self.names = sorted(names)
        self.bytes = bytes

    def __len__(self) -> int:
        return len(self.names)

    @property
    def first(self) -> str:
        return self.names[0]

    @property
    def last(self) -> str:
        return self.names[-1]

    def find(self, id: str) -> str | None:
        at = bisect_left(self.names, id)
        if at < len(self.names) and self.names[at].startswith(id):
            return self.names[at]
        return None

    def remove(self, name: str) -> None:
        at = bisect_left(self.names, name)
        if self.names[at : at + 1] != [name]:
            raise KeyError(name)
        del self.names[at]
        self.bytes -= length_of(name)


Place = tuple[str, BatchFolder | None]
"""An entry's name, and the batch folder that it lies in, if it does."""


class Ready:
    """Not thread-safe. No name or folder may be added twice, and no folder be empty.

    `bytes`, and whatever finds or lists messages, know nothing of what is `unlisted`; `count` does.
    """

    def __init__(self) -> None:
        self._singles = SortedNames()
        self._firsts = SortedNames()
        """The first name in each batch folder."""
        self._folders: dict[str, BatchFolder] = {}
        """By that first name."""
        self._by_id: dict[str, BatchFolder] = {}
        """By the batch's id."""
        self._unlisted: dict[str, Batch] = {}
        """By id, the batches of which no more than the folder's name is known. Their messages are
        counted as the name says, and found only once somebody has looked into them."""
        self._order_unlisted = SortedNames()
        """Their ids."""
        self._widest = 0
        """The longest time, in the units of `_time_in`, from a batch folder's first id to its last.

        The ranges of two folders overlap where several processes write, and with delays; an entry is
        in one of those folders that begin no longer than this before it."""
        self.count = 0
        self.bytes = 0

    def add(self, name: str) -> None:
        self._singles.add(name)
        self.count += 1
        self.bytes += length_of(name)

    def add_many(self, names: list[str], bytes: int) -> None:
        """Add singles to an empty index."""
        self._singles = SortedNames(names)
        self.count += len(names)
        self.bytes += bytes

    def add_folder(self, folder: BatchFolder) -> None:
        self.forget_unlisted(folder.batch.id)
        self._widest = max(self._widest, _time_in(folder.last) - _time_in(folder.first))
        self._place(folder)
        self.count += len(folder)
        self.bytes += folder.bytes

    def remove(self, name: str, folder: BatchFolder | None) -> None:
        """The entry `name` has left, alone; an emptied folder is forgotten."""
        if folder is None:
            self._singles.remove(name)
            self.bytes -= length_of(name)
        else:
            was_first = folder.first == name
            if was_first:
                self._unplace(folder)
            self.bytes -= folder.bytes
            folder.remove(name)
            self.bytes += folder.bytes
            if was_first and folder.names:
                self._place(folder)
        self.count -= 1

    def remove_folder(self, folder: BatchFolder) -> None:
        """The folder has left with all that is in it."""
        self._unplace(folder)
        self.count -= len(folder)
        self.bytes -= folder.bytes

    def doubt(self, folder: BatchFolder) -> None:
        """It isn't known any more what is in the folder, or whether it is there: it is looked into."""
        if self._by_id.get(folder.batch.id) is folder:
            self.remove_folder(folder)
            self.add_unlisted(folder.batch)

    def add_unlisted(self, batch: Batch) -> None:
        """There is a folder in which nobody has looked yet."""
        self._unlisted[batch.id] = batch
        self._order_unlisted.add(batch.id)
        self.count += batch.count

    def forget_unlisted(self, id: str) -> None:
        """The batch `id` has left, or has been looked into."""
        batch = self._unlisted.pop(id, None)
        if batch is not None:
            self._order_unlisted.remove(id)
            self.count -= batch.count

    def find_unlisted(self, id: str) -> Batch | None:
        return self._unlisted.get(id)

    def unlisted(self) -> list[Batch]:
        """Where to look to know all messages, in order."""
        return [self._unlisted[id] for id in self._order_unlisted] if self._unlisted else []

    def unlisted_among(self, count: int) -> Batch | None:
        """Where to look next to know the `heads`. A batch's id is older than what is in it."""
        id = self._order_unlisted.first()
        if id is None:
            return None
        known = self.heads(count)
        return self._unlisted[id] if len(known) < count or id < known[-1][0] else None

    def head(self) -> Place | None:
        """What is next."""
        single, first = self._singles.first(), self._firsts.first()
        if first is not None and (single is None or first < single):
            return first, self._folders[first]
        return None if single is None else (single, None)

    def oldest_id(self) -> str | None:
        """The id of what is next; where nobody has looked into its batch yet, the batch's."""
        head, unlisted = self.head(), self._order_unlisted.first()
        if head is None:
            return unlisted
        id = head[0][:ID_LENGTH]
        return id if unlisted is None else min(id, unlisted)

    def heads(self, count: int) -> list[Place]:
        """The oldest `count` singles and batch folders, each folder by its first entry."""
        singles = [(name, None) for name in islice(self._singles, count)]
        folders = [(name, self._folders[name]) for name in islice(self._firsts, count)]
        every: list[Place] = [*singles, *folders]
        return sorted(every, key=_name_of)[:count]

    def is_apart(self, folder: BatchFolder, room: int, bytes: int) -> bool:
        """Whether `folder`, standing first, can be taken whole without overtaking.

        It can if whatever lies between its messages fits beside it into `room` messages and `bytes`.
        """
        others = [name for name in islice(self._firsts, 2) if name != folder.first]
        if others and others[0] < folder.last:
            return False
        between = 0
        for name in islice(self._singles, room + 1):
            if name > folder.last:
                break
            between += 1
            bytes -= length_of(name)
        return between + len(folder) <= room and folder.bytes <= bytes

    def find(self, id: str) -> Place | None:
        single = self._singles.find(id)
        if single is not None:
            return single, None
        for folder in self._candidates(id):
            name = folder.find(id)
            if name is not None:
                return name, folder
        return None

    def folder(self, batch_id: str) -> BatchFolder | None:
        """The batch folder with this id."""
        return self._by_id.get(batch_id)

    def singles(self) -> Iterator[str]:
        """The names of all entries that lie in no batch folder, in order."""
        return iter(self._singles)

    def since(self, id: str) -> Iterator[Place]:
        """All entries above `id`, in order. Nothing may change meanwhile."""
        start = id + _ABOVE_ID if is_id(id) else id
        singles: Iterator[Place] = ((name, None) for name in self._singles.since(start))
        return merge(singles, self._in_folders(start), key=_name_of)

    # For whoever counts: the names in order, and how many messages a folder among them has.

    @property
    def singles_in_order(self) -> SortedNames:
        return self._singles

    @property
    def firsts_in_order(self) -> SortedNames:
        """The first name in each batch folder that was looked into."""
        return self._firsts

    @property
    def unlisted_in_order(self) -> SortedNames:
        """The ids of those that were not."""
        return self._order_unlisted

    def size_of_folder(self, first: str) -> int:
        return len(self._folders[first])

    def size_of_unlisted(self, id: str) -> int:
        return self._unlisted[id].count

    def folders(self) -> Iterator[BatchFolder]:
        return iter(self._folders.values())

    def _in_folders(self, start: str) -> Iterator[Place]:
        begin = start
        if is_id(start[:ID_LENGTH]):
            begin = min((folder.first for folder in self._candidates(start)), default=start)
        open_folders: list[tuple[str, int, BatchFolder]] = []
        for first in self._firsts.since(begin):
            yield from _up_to(first, open_folders)
            folder = self._folders[first]
            at = bisect_left(folder.names, start)
            if at < len(folder):
                heappush(open_folders, (folder.names[at], at, folder))
        yield from _up_to(None, open_folders)

    def _candidates(self, id: str) -> Iterator[BatchFolder]:
        """The folders that `id` may be in, or that reach beyond it, the latest first."""
        earliest = _time_in(id) - self._widest
        for first in self._firsts.down_from(id + _ABOVE_ID):
            if _time_in(first) < earliest:
                return
            yield self._folders[first]

    def _place(self, folder: BatchFolder) -> None:
        self._firsts.add(folder.first)
        self._folders[folder.first] = folder
        self._by_id[folder.batch.id] = folder

    def _unplace(self, folder: BatchFolder) -> None:
        self._firsts.remove(folder.first)
        del self._folders[folder.first]
        del self._by_id[folder.batch.id]


_ABOVE_ID = "~"
"""Stands above every name that begins with the id before it, and below the next id."""


def _up_to(end: str | None, open_folders: list[tuple[str, int, BatchFolder]]) -> Iterator[Place]:
    """The next entries of these folders, in order, as far as they stand below `end`."""
    while open_folders and (end is None or open_folders[0][0] < end):
        name, at, folder = heappop(open_folders)
        yield name, folder
        if at + 1 < len(folder):
            heappush(open_folders, (folder.names[at + 1], at + 1, folder))


def _time_in(id: str) -> int:
    """The first 48 bits of an id, which order it: of ours they are milliseconds."""
    return int(id[:8] + id[9:13], 16)


def _name_of(place: Place) -> str:
    return place[0]
