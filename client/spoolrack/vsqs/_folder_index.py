"""The index of a folder: the next message, leases that are over, the names of a message.

The caller keeps it up to date, name by name or by a listing. No I/O and no clock; every question costs
the same with one message waiting and with a million. Not thread-safe.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from typing import Final

from ._file_names import FileName, FileState, parse

_SLACK: Final = 64


class Content:
    def __init__(self) -> None:
        self._names: dict[str, FileName] = {}
        self._numbers: dict[int, set[str]] = {}
        self._foreign: set[str] = set()
        # Both heaps hold names that are gone as well: a name that is not in `_names` is skipped.
        self._ready: list[tuple[int, str]] = []
        self._leased: list[tuple[int, str]] = []

    def __len__(self) -> int:
        """Return the number of messages, ready and leased."""
        return len(self._names)

    def __contains__(self, text: str) -> bool:
        return text in self._names

    def __iter__(self) -> Iterator[FileName]:
        """Iterate over all messages in order."""
        return iter(sorted(self._names.values(), key=lambda name: (name.number, name.text)))

    def named(self, number: int) -> list[FileName]:
        """Return all names of a message: more than one only after a fault."""
        return [self._names[text] for text in self._numbers.get(number, ())]

    def replace(self, texts: Iterable[str]) -> bool:
        """Replace the names by those of a listing; return whether they differ."""
        there = {text for text in texts if text not in self._foreign}
        gone = [text for text in self._names if text not in there]
        for text in gone:
            self.remove(text)
        came = [text for text in there if self.add(text)]
        return bool(gone or came)

    def add(self, text: str) -> bool:
        """Add a name; return whether it is that of a message that was not known."""
        if text in self._names or text in self._foreign:
            return False
        name = parse(text)
        if name is None or name.state is FileState.NEW:
            return False
        self._names[text] = name
        self._numbers.setdefault(name.number, set()).add(text)
        self._push(name)
        return True

    def remove(self, text: str) -> None:
        """Remove a name."""
        self._foreign.discard(text)
        name = self._names.pop(text, None)
        if name is None:
            return
        twins = self._numbers[name.number]
        twins.discard(text)
        if not twins:
            del self._numbers[name.number]
        if len(self._ready) + len(self._leased) > 2 * len(self._names) + _SLACK:
            self._ready.clear()
            self._leased.clear()
            for name in self._names.values():
                self._push(name)

    def exclude(self, text: str) -> None:
        """Exclude a name that looks like a message's, but is a folder or a link."""
        self.remove(text)
        self._foreign.add(text)

    def oldest(self) -> FileName | None:
        """Return the oldest ready message."""
        while self._ready:
            name = self._names.get(self._ready[0][1])
            if name is not None:
                return name
            heapq.heappop(self._ready)
        return None

    def expired(self, now: int) -> list[FileName]:
        """Return the leased messages whose leases have expired, each once: see `postpone`."""
        taken = {}
        while self._leased and self._leased[0][0] <= now:
            text = heapq.heappop(self._leased)[1]
            if text in self._names:
                taken[text] = self._names[text]
        return list(taken.values())

    def postpone(self, name: FileName, until: int) -> None:
        """Return an expired message again, not before `until`."""
        heapq.heappush(self._leased, (until, name.text))

    def next_expiration(self) -> int | None:
        """Return the time of the next result of `expired`."""
        while self._leased and self._leased[0][1] not in self._names:
            heapq.heappop(self._leased)
        return self._leased[0][0] if self._leased else None

    def _push(self, name: FileName) -> None:
        if name.expiration is None:
            heapq.heappush(self._ready, (name.number, name.text))
        else:
            heapq.heappush(self._leased, (name.expiration, name.text))
