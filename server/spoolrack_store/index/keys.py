"""The deduplication ids that one queue remembers: which message carried each first. Pure.

An id takes two numbers of 128 bits, an entry in a dict and a place in a row. Those that left the window
go from the oldest end, so that a look costs the same with one id and with a million.
"""

from __future__ import annotations

from collections import deque

from ..model.keys import first_number_of


class Keys:
    """Not thread-safe. Keys and ids are numbers, as `model.keys` makes them."""

    def __init__(self) -> None:
        self._ids: dict[int, int] = {}
        """By key, the id of the message that carried it last."""
        self._order: deque[int] = deque()
        """The keys, the oldest first, as nearly as they came."""

    def __len__(self) -> int:
        return len(self._ids)

    def find(self, key: int, since: int) -> int | None:
        """The id of the message that carried `key`, if it was sent at Unix time `since` or later."""
        id = self._ids.get(key)
        return None if id is None or id < first_number_of(since) else id

    def add(self, key: int, id: int) -> None:
        """The message `id` carries `key`. Of two messages the later one counts."""
        there = self._ids.get(key)
        if there is None:
            self._order.append(key)
            self._ids[key] = id
        elif there < id:
            self._ids[key] = id

    def forget_before(self, since: int) -> None:
        """Forget what was sent before Unix time `since`, from the oldest end."""
        ids, order, first = self._ids, self._order, first_number_of(since)
        while order and ids[order[0]] < first:
            del ids[order.popleft()]

    def sort(self) -> None:
        """Put what was added in any order into that of the ids."""
        self._order = deque(sorted(self._ids, key=self._ids.__getitem__))
