"""The deduplication keys that are known, by queue, and for how long each is asked for.

A dead letter keeps its key, which is of the queue that it came from; so what is found in a dead-letter
queue is known for all queues that lead there. Keys are salted: in the wrong queue one means nothing.
"""

from __future__ import annotations

from ...index.keys import Keys
from ...model.clock import Millis
from ...model.keys import first_number_of, id_number, key_in
from ...model.settings import MAX_WINDOW
from ..beliefs import MARGIN
from ..catalog import Catalog
from ..live import Live
from ..root import Root


class KnownKeys:
    """Not thread-safe, but for `is_over`, `asked_since` and `window_of`."""

    def __init__(self, root: Root, catalog: Catalog) -> None:
        self._root = root
        self._catalog = catalog
        self._keys: dict[str, Keys] = {}
        self._sources: dict[str, list[tuple[Keys, int]]] = {}
        """By queue, while names are learned: the keys of those whose messages may be found in it, and
        the first id that counts."""

    def __len__(self) -> int:
        return sum(map(len, self._keys.values()))

    def of(self, queue: str) -> Keys:
        keys = self._keys.get(queue)
        if keys is None:
            keys = self._keys[queue] = Keys()
        return keys

    def since(self, live: Live) -> int:
        """The Unix time of the oldest message whose key counts."""
        return self._root.clock.wall() - live.settings.deduplication_window + 1

    # What is found on disk.

    def begin(self) -> None:
        """Names are learned now, in any order."""
        self._sources = {}
        for name, live in self._catalog.queues.items():
            source = self.of(name), first_number_of(self.since(live))
            for target in self._way_of(name):
                self._sources.setdefault(target, []).append(source)

    def learn_name(self, queue: str, name: str) -> None:
        """An entry was found in the queue, in whatever state."""
        key = key_in(name)
        if key is not None:
            # In folders that all queues share, the queue stands before it.
            self.learn(queue, key, id_number(name.rpartition(":")[2]))

    def learn(self, queue: str, key: int, id: int) -> None:
        for keys, first in self._sources.get(queue, ()):
            if id >= first:
                keys.add(key, id)

    def end(self) -> None:
        """All of them are."""
        for keys in self._keys.values():
            keys.sort()

    # Time.

    def forget_over(self) -> None:
        """Forget what left its window, and the keys of queues that are gone."""
        for name, keys in list(self._keys.items()):
            live = self._catalog.queues.get(name)
            if live is not None:
                keys.forget_before(self.since(live))
            elif not self._root.is_shared:
                del self._keys[name]

    def is_over(self, queue: str, moment: int) -> bool:
        """Whether nobody asks any more for the key of a message that was sent at this time, and is
        found in this queue. In any thread."""
        return moment < self.asked_since(queue)

    def asked_since(self, queue: str) -> int:
        """The Unix time of the oldest message in this queue whose key is asked for. In any thread."""
        # By anybody's clock: what is kept here others may look for.
        return self._root.clock.wall() - self.window_of(queue) - MARGIN + 1

    def window_of(self, queue: str) -> Millis:
        """How long the key of a message is asked for that is found in this queue. In any thread."""
        windows = [
            live.settings.deduplication_window
            for live in list(self._catalog.queues.values())
            if live.name == queue or queue in self._way_of(live.name)
        ]
        # Of a queue that others have just made nothing may be known yet.
        return max(windows, default=MAX_WINDOW if self._root.is_shared else Millis(0))

    def _way_of(self, queue: str) -> list[str]:
        """The queue, and those that its dead letters come to, one after the other."""
        way: list[str] = []
        while queue and queue not in way:
            way.append(queue)
            live = self._catalog.queues.get(queue)
            queue = live.settings.dead_letter_queue if live is not None else ""
        return way
