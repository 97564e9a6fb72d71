"""Spare files: a send overwrites a file that was made before, and syncs its data alone.

A new file needs the journal of the file system: its blocks, its length and its name. A spare has all of
that: `new/<owner>-<number>.spare`, its bytes zeros, durable with its name. A send writes its content
over the beginning, and a seal over the last bytes. The seal says the name that the file has from then
on, and binds it to this spare: no other spare ever has that number. `fdatasync` makes both durable. The
rename to the name follows, and when that is durable the rest of the file is cut off. The other order
would lose a sent message: the seal goes with the rest.

A spare is used once. A power cut leaves a spare with its message, which the next start gives its name,
or a name whose file is longer than it says: that means the same.

A thread makes spares when sends have asked for some. One sync of the file system makes them durable,
and the renames of the spares before them.
"""

from __future__ import annotations

import logging
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from threading import Event, Lock, Thread
from typing import Final

from ..model.names import Name, name_at
from ..model.transitions import State
from .disk import Disk, FileKind, OpenFile, unlink_or_leave
from .layout import NEW, spare_owner, spare_path

log = logging.getLogger(__name__)

SEAL_BYTES: Final = 512
"""At the end of a spare."""
MOST_OF_SIZE: Final = {4 * 1024: 64, 16 * 1024: 32, 128 * 1024: 8}
"""The sizes of spares, and how many there are of each at most: less than 2 MiB together."""
FIRST_MADE: Final = 16
"""Of a size that are made at first; each time they don't last, twice as many."""
ASKED: Final = 8
"""Sends that have found no spare before the first ones are made: most processes send few messages."""
MOST_UNCUT: Final = 256
"""Files that wait for their end to be cut off; beyond them sends take no spare."""
LEAST_ROOM: Final = 64 * 1024 * 1024
"""Bytes that the disk must have left for spares to be made."""
LINGER: Final = 1.0
"""Seconds for which such files gather."""


def seal_of(spare: str, path: str) -> bytes:
    """Return the seal that gives the file at `spare` the name `path`, both in `new/`."""
    line = f"{spare.removeprefix(f'{NEW}/')} {path.removeprefix(f'{NEW}/')}\n".encode()
    return (line + b"%08x\n" % zlib.crc32(line)).ljust(SEAL_BYTES, b"\0")


def sealed_name(spare: str, end: bytes) -> Name | None:
    """Return the name in `new/` that the seal at the `end` of a spare says; None if there is none."""
    line, feed, rest = end.partition(b"\n")
    if not feed or rest.rstrip(b"\0") != b"%08x\n" % zlib.crc32(line + feed):
        return None
    own, _, name = line.decode(errors="replace").partition(" ")
    found = name_at(f"{NEW}/{name}") if f"{NEW}/{own}" == spare else None
    return found if found is not None and found.state is State.SENT else None


def read_seal(disk: Disk, spare: str) -> Name | None:
    """Return the name that a spare's seal says, None if it has none; raise `OSError`."""
    with disk.open(spare) as file:
        size = file.seek(0, 2)
        if size <= SEAL_BYTES:
            return None
        file.seek(size - SEAL_BYTES)
        return sealed_name(spare, file.read(SEAL_BYTES))


def messages_in_spares(disk: Disk, spares: Iterable[str]) -> dict[str, bytes]:
    """Return the content of each message that is in a spare still, by the path of its name. The lock is
    held: no process seals one meanwhile. Raise `OSError`."""
    found: dict[str, bytes] = {}
    for path in spares:
        name = read_seal(disk, path)
        if name is not None:
            found[name.path] = disk.read(path, name.stem.length)
    return found


def spares_in_new(disk: Disk) -> Iterator[tuple[str, str]]:
    """Yield the path and the owner of each spare; raise `OSError`."""
    for each in disk.scan(NEW):
        owner = spare_owner(each.name) if each.kind is FileKind.FILE else ""
        if owner:
            yield f"{NEW}/{each.name}", owner


@dataclass(slots=True, eq=False)
class Spare:
    """A file that was made before."""

    path: str
    size: int
    file: OpenFile
    length: int = 0
    """Of its content, once it is used."""
    is_synced: bool = False
    """Whether its content is durable."""

    def fill(self, parts: Sequence[bytes], path: str) -> None:
        """Write the content that is to get the name `path`, and the seal; raise `OSError`."""
        at = 0
        for part in parts:
            self.file.write_at(at, part)
            at += len(part)
        self.length = at
        self.file.write_at(self.size - SEAL_BYTES, seal_of(self.path, path))

    def sync(self, path: str) -> None:
        """Make content and seal durable. `FileNotFoundError` if the file has no name any more."""
        self.file.sync_data()
        if not self.file.is_there():
            raise FileNotFoundError(path)


class Spares:
    """The spare files of a process. Thread-safe."""

    def __init__(self, disk: Disk, owner: str) -> None:
        self._disk = disk
        self._owner = owner
        self._numbers = count(1)
        self._guard = Lock()
        self._making = Lock()
        self._free: dict[int, deque[Spare]] = {size: deque() for size in MOST_OF_SIZE}
        self._wanted = dict.fromkeys(MOST_OF_SIZE, 0)
        """How many there are to be of each size."""
        self._asked = dict.fromkeys(MOST_OF_SIZE, 0)
        """Sends since the last making that found none."""
        self._uncut: list[Spare] = []
        """Files that have their names: what is behind their content goes once that is durable."""
        self.is_on = disk.overwrites
        self.waits = Event()
        """Whether there is anything to be done in a while."""
        self.hurries = Event()
        """Or soon."""

    def take(self, length: int) -> Spare | None:
        """Return a spare for a content of so many bytes; None: there is none."""
        if not self.is_on:
            return None
        size = next((each for each in MOST_OF_SIZE if length + SEAL_BYTES <= each), 0)
        if not size:
            return None
        with self._guard:
            free = self._free[size]
            while free and len(self._uncut) < MOST_UNCUT:
                spare = free.popleft()
                if len(free) < self._wanted[size] // 2:
                    self._hurry()
                if spare.file.is_there():
                    return spare
                spare.file.close()  # It was removed by hand.
            self._asked[size] += 1
            if self._wanted[size] or self._asked[size] >= ASKED:
                self._hurry()
        return None

    def drop(self, spare: Spare) -> None:
        """Remove a spare that could not be filled."""
        spare.file.close()
        unlink_or_leave(self._disk, spare.path)

    def named(self, spare: Spare) -> None:
        """Take back a used spare that has got its name: its end goes later."""
        with self._guard:
            self._uncut.append(spare)
            if not self.waits.is_set():
                self.waits.set()

    def make(self) -> None:
        """Make the spares that are wanted, and cut off the ends of files whose names are durable then.
        In any thread. If the disk refuses it, that is logged, and from then on there are no spares."""
        with self._making:
            uncut, numbers = self._to_be_done()
            made: list[Spare] = []
            try:
                if numbers and self._disk.space().bytes >= LEAST_ROOM:
                    for size, number in numbers:
                        for _ in range(number):
                            path = spare_path(self._owner, next(self._numbers))
                            made.append(Spare(path, size, self._disk.make_open(path, size)))
                if made or uncut:
                    (made or uncut)[-1].file.sync_all()
            except OSError as error:
                log.warning("no spare files are made any more: %s", error)
                self.is_on = False
                for spare in made:
                    self.drop(spare)
                made = []
            else:
                for spare in uncut:
                    with suppress(OSError):  # A longer file means the same.
                        spare.file.truncate(spare.length)
            for spare in uncut:
                spare.file.close()
            with self._guard:
                for spare in made:
                    self._free[spare.size].append(spare)

    def close(self) -> None:
        """Remove all spares, and cut off the ends of the files that were some."""
        self.is_on = False
        with self._guard:
            self._wanted = dict.fromkeys(MOST_OF_SIZE, 0)
            left = [spare for free in self._free.values() for spare in free]
            for free in self._free.values():
                free.clear()
        for spare in left:
            self.drop(spare)
        self.make()

    def _to_be_done(self) -> tuple[list[Spare], list[tuple[int, int]]]:
        """Take the files whose ends may go once a sync has begun; return them, and of each size how
        many spares are to be made."""
        with self._guard:
            self.waits.clear()
            self.hurries.clear()
            uncut = [spare for spare in self._uncut if spare.is_synced]
            self._uncut = [spare for spare in self._uncut if not spare.is_synced]
            if self._uncut:
                self.waits.set()
            numbers: list[tuple[int, int]] = []
            for size, most in MOST_OF_SIZE.items() if self.is_on else ():
                asked, wanted = self._asked[size], self._wanted[size]
                if asked and (wanted or asked >= ASKED):
                    self._wanted[size] = min(most, max(FIRST_MADE, 2 * wanted))
                if self._wanted[size]:
                    self._asked[size] = 0
                missing = self._wanted[size] - len(self._free[size])
                if missing > 0:
                    numbers.append((size, missing))
            return uncut, numbers

    def _hurry(self) -> None:
        self.waits.set()
        self.hurries.set()


class SpareThread:
    """The thread that makes spares."""

    def __init__(self, spares: Spares) -> None:
        self._spares = spares
        self._is_stopping = False
        self._thread = Thread(target=self._run, name="spoolrack-spares", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Return once the thread has ended; the spares are left."""
        self._is_stopping = True
        self._spares.waits.set()
        self._spares.hurries.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_stopping:
            self._spares.waits.wait()
            self._spares.hurries.wait(LINGER)
            if not self._is_stopping:
                try:
                    self._spares.make()
                except Exception:
                    log.exception("no spare files are made any more")
                    self._spares.is_on = False
