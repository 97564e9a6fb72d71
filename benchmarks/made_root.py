"""Roots made of names: so many messages, of these ages, in these states, and not a byte in any."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from spoolrack_store.files import layout
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.message_ids import batch_of, first_id_of
from spoolrack_store.model.names import Death, Name, Stem
from spoolrack_store.model.receipts import make_token
from spoolrack_store.model.transitions import State

SIZE = 100
"""Bytes of each body, as the names say."""


class MadeRoot:
    """A root without a store, as a stopped server might have left it. Files that are there stay."""

    def __init__(self, path: Path, *, seed: int = 0) -> None:
        self.path = path
        self._random = random.Random(seed)
        for folder in layout.FOLDERS:
            (path / folder).mkdir(parents=True, exist_ok=True)
        (path / layout.FORMAT).write_bytes(layout.FORMAT_CONTENT)

    def stem(self, sent_at: int, count: int = 0) -> Stem:
        """Return a file that was sent in that Unix millisecond."""
        id = f"{first_id_of(Millis(sent_at))[:24]}{self._random.getrandbits(48):012x}"
        return Stem(
            id=batch_of(id) if count else id,
            count=count,
            size=SIZE * (count or 1),
            crc=self._random.getrandbits(32),
            line=100 if count else 0,
        )

    def put(self, names: Iterable[str]) -> int:
        """Make a file for each path; return how many."""
        count = 0
        for name in names:
            os.close(os.open(self.path / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            count += 1
        return count

    def ready(self, queue: str, sent_at: int, count: int, *, receives: int = 0) -> int:
        return self._put(self._names(queue, sent_at, count, receives=receives), queue)

    def batch(self, queue: str, sent_at: int, count: int, *, receives: int = 0) -> int:
        """Write one file with so many messages; return how many."""
        stem = self.stem(sent_at, count)
        self._put([_ready(queue, stem, receives)], queue)
        return count

    def staged(self, life: str, number: int, queue: str, sent_at: int, count: int) -> None:
        """Put one chunk of a stage, with `count` messages."""
        stem = self.stem(sent_at, count)
        self.put([f"{layout.STAGED}/{life}:{number}:{queue}:{stem.text}"])

    def hidden(self, queue: str, sent_at: int, count: int, *, due: int, leased: bool) -> int:
        state = State.LEASED if leased else State.DELAYED
        token = make_token(self._random) if leased else ""
        names = self._names(queue, sent_at, count, receives=1 if leased else 0)
        return self.put(replace(name, state=state, due=Millis(due), token=token).path for name in names)

    def dead(self, queue: str, sent_at: int, count: int) -> int:
        """Dead letters in their queue."""
        death = Death(at=Millis(sent_at), receives=1, source="jobs")
        names = self._names(queue, sent_at, count, receives=0)
        return self._put((replace(name, death=death) for name in names), queue)

    def _names(self, queue: str, sent_at: int, count: int, *, receives: int) -> Iterator[Name]:
        for _ in range(count):
            yield _ready(queue, self.stem(sent_at), receives)

    def _put(self, names: Iterable[Name], queue: str) -> int:
        (self.path / layout.QUEUES / queue).mkdir(exist_ok=True)
        return self.put(name.path for name in names)


def _ready(queue: str, stem: Stem, receives: int) -> Name:
    return Name(
        stem=stem, state=State.READY, queue=queue, version=2, members=stem.full, receives=receives
    )
