"""Roots made of names: so many messages, of these ages, in these states, and not a byte in any."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Iterator
from pathlib import Path

from spoolrack_store.files import layout
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.ids import first_id_of
from spoolrack_store.model.names import Batch, Entry, make_token
from spoolrack_store.model.stage_names import Chunk


class MadeRoot:
    """A root without a store: what a server that was stopped might have left."""

    def __init__(self, path: Path, *, seed: int = 0) -> None:
        self.path = path
        self._random = random.Random(seed)
        for folder in layout.ALL:
            (path / folder).mkdir(parents=True)
        (path / layout.FORMAT).write_text(layout.FORMAT_CONTENT)

    def entries(self, sent_at: int, count: int, *, receives: int = 0) -> Iterator[Entry]:
        """So many, all sent in that Unix millisecond."""
        stem = first_id_of(Millis(sent_at))[:24]
        for _ in range(count):
            id = f"{stem}{self._random.getrandbits(48):012x}"
            yield Entry(id=id, size=100, crc=self._random.getrandbits(32), receives=receives)

    def put(self, names: Iterable[str]) -> int:
        """Make a file for each path; return how many."""
        count = 0
        for name in names:
            os.close(os.open(self.path / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            count += 1
        return count

    def ready(self, queue: str, sent_at: int, count: int, *, receives: int = 0) -> int:
        (self.path / layout.queue_folder(queue)).mkdir(exist_ok=True)
        entries = self.entries(sent_at, count, receives=receives)
        return self.put(layout.ready(queue, entry) for entry in entries)

    def batch(self, queue: str, sent_at: int, count: int, *, receives: int = 0) -> int:
        """One batch folder with so many entries."""
        (self.path / layout.queue_folder(queue)).mkdir(exist_ok=True)
        entries = [*self.entries(sent_at, count)]
        folder = layout.ready(queue, Batch(id=entries[0].id, count=count, receives=receives))
        (self.path / folder).mkdir()
        return self.put(f"{folder}/{entry}" for entry in entries)

    def staged(self, folder: str, queue: str, sent_at: int, count: int) -> int:
        """One chunk with so many entries, in a folder of `staged/` or `published/`."""
        (self.path / folder).mkdir(exist_ok=True)
        entries = [*self.entries(sent_at, count)]
        chunk = Chunk(number=0, queue=queue, batch=Batch(id=entries[0].id, count=count))
        (self.path / folder / str(chunk)).mkdir()
        return self.put(f"{folder}/{chunk}/{entry}" for entry in entries)

    def hidden(self, queue: str, sent_at: int, count: int, *, due: int, leased: bool) -> int:
        receives = 1 if leased else 0
        token = make_token(self._random) if leased else None
        entries = self.entries(sent_at, count, receives=receives)
        return self.put(layout.hidden(queue, entry, Millis(due), token) for entry in entries)

    def dead(self, queue: str, sent_at: int, count: int) -> int:
        """Dead letters in their queue."""
        (self.path / layout.queue_folder(queue)).mkdir(exist_ok=True)
        entries = [*self.entries(sent_at, count)]
        self.put(layout.history(queue, entry.id) for entry in entries)
        return self.put(layout.ready(queue, entry) for entry in entries)
