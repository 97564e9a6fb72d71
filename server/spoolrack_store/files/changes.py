"""`LOCK` and `CHANGES`: how processes change one root, one at a time.

A process that commits holds `LOCK` (flock(2)), has replayed what others appended to `CHANGES` since its
last look, and so knows exactly what is there. It appends a record before each move, so that a process
that dies in between leaves one record in doubt at most: the next holder looks whether that one move
took place. `CHANGES` is memory of the living: a ring of bytes that is never synced, and begun anew by a
process that finds no other alive. A process that is alone appends nothing.

    header = magic[8] head[8] done[8] poison[8] pid[8] since[8] listening[8] *( owner LF ) NUL
    record = length[4] kind[1] due[8] source LF target        ; at `head` modulo the size of the ring

Numbers are little-endian. `pid` is the process that took `LOCK` last, and `since` the Unix time at
which it did, in milliseconds: for processes that wait for it. `head` is where the next record begins,
counted from the first ever; up to `done` all moves took place. Until `listening`, in milliseconds since
boot, a process waits for changes: a process that makes some touches the files of the other owners,
which watch them. The owners are the processes that have the root open: each adds itself under `LOCK`,
and lists the root then, without it. So a process that finds no other name in the header needn't append.
`due` is the end of a lease or a delay in milliseconds since boot; on a root of several hosts in Unix
time, and there `pid`, `since` and `listening` stay 0.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Protocol

from ..model.clock import Clock
from ..model.errors import RootUnusable
from .disk import SyncFailed

PATH: Final = "CHANGES"
LOCK: Final = "LOCK"
RING: Final = 1 << 20
_HEADER: Final = struct.Struct("<8sQQQ")
_HOLDER: Final = struct.Struct("<QQ")
_LISTENING: Final = struct.Struct("<Q")
_LISTENING_AT: Final = _HEADER.size + _HOLDER.size
_OWNERS: Final = _LISTENING_AT + _LISTENING.size
"""Where the owners begin."""
_MAGIC: Final = b"changes2"
_START: Final = 4096
"""Where the ring begins."""
SIZE: Final = _START + RING
_RECORD: Final = struct.Struct("<IBQ")
_LARGEST: Final = 1024
"""Bytes of a record at most: two paths of up to 350 bytes, and what is before them."""


class ChangeKind(IntEnum):
    LINK = 1
    RENAME = 2
    UNLINK = 3
    FILE = 4
    """A file that holds no messages was made, renamed or unlinked: settings, a set's record."""


@dataclass(frozen=True, slots=True)
class Change:
    """A record of `CHANGES`: one move of a file."""

    kind: ChangeKind
    source: str
    target: str
    due: int = 0
    """Milliseconds since boot."""


class Memory(Protocol):
    """Memory that all processes of the host share."""

    def read(self, offset: int, length: int) -> bytes:
        """Return bytes; raise `SyncFailed` where that may fail."""

    def write(self, offset: int, content: bytes, *, may_block: bool = False) -> None:
        """Write bytes; raise the system's `OSError` on a disk that is dead or read-only.

        Other threads go on during a write that `may_block`, as the first one to a frozen file system
        does.
        """

    def close(self) -> None:
        """Unmap the memory."""


class Overtaken(Exception):
    """Other processes appended more than the ring holds since the last read: list the root."""


class Poisoned(SyncFailed):
    """A sync of another process failed: only a restart can tell which changes are durable."""

    def __init__(self) -> None:
        super().__init__(
            "a sync of another process that has the root open failed, or that process broke"
        )


class Changes:
    """The log, as one process sees it. Each call needs `LOCK`.

    A failed write raises `SyncFailed`: other processes then don't know the changes of this one.
    """

    def __init__(self, memory: Memory, owner: str, pid: int = 0, clock: Clock | None = None) -> None:
        """`clock`: times are told in Unix time, since processes of several hosts have the root open."""
        self._clock = clock
        self._memory = memory
        self._owner = owner
        self._pid = pid
        self._position = 0
        """Up to where this process has replayed."""
        self._head = 0
        self._done = 0
        self.has_told = False
        """Whether something was appended since this was last set to False."""
        self._owners_text = b""
        """`owners`, as the header has them."""
        self.owners: tuple[str, ...] = ()
        """The owners of all processes that have the root open, as far as they are known to live."""

    @property
    def is_shared(self) -> bool:
        """Whether other processes have the root open, so that moves must be logged."""
        return len(self.owners) > 1

    def read_owners(self) -> tuple[str, ...]:
        """Return the owners in the header, of which some may be dead."""
        return _owners_in(self._memory.read(_OWNERS, _START - _OWNERS).partition(b"\0")[0])

    @property
    def is_foreign(self) -> bool:
        """Whether a program that writes another form of log has written here last."""
        return self._memory.read(0, len(_MAGIC)) not in (_MAGIC, bytes(len(_MAGIC)))

    def begin_anew(self) -> None:
        """Empty the log: no other owner is alive."""
        self._head = self._done = self._position = 0
        self._write(0, _HEADER.pack(_MAGIC, 0, 0, 0))
        self._write(_LISTENING_AT, _LISTENING.pack(0))
        self.set_owners((self._owner,))

    def join(self) -> None:
        """Become an owner; the caller has checked the others, and lists the root then: records of
        others from now on are news."""
        self.set_owners((*self.owners, self._owner))
        self._position = self._done

    def set_owners(self, owners: tuple[str, ...]) -> None:
        text = "".join(f"{owner}\n" for owner in owners).encode()
        if len(text) >= _START - _OWNERS:
            why = f"{len(owners) - 1} processes have it open, as many as can: end one of them"
            raise RootUnusable(root="the root", why=why)
        self.owners, self._owners_text = owners, text
        self._write(_OWNERS, text + b"\0")

    def hold(self, since: int) -> None:
        """Record the holder of `LOCK`, unless it would take a write to the servers of several hosts."""
        if self._clock is None:
            # The first write of a commit: in a frozen file system it is this one that waits.
            self._write(_HEADER.size, _HOLDER.pack(self._pid, since), may_block=True)

    def holder(self) -> tuple[int, int]:
        """Return the process that took `LOCK` last, and when, in Unix time; zeros on a root of several
        hosts. Needs no lock."""
        pid, since = _HOLDER.unpack(self._memory.read(_HEADER.size, _HOLDER.size))
        return pid, since

    def listen(self, until: int) -> None:
        """Request a wake-up until this time since boot when another process changes something. Needs no
        lock."""
        if until > self.listening:
            self._write(_LISTENING_AT, _LISTENING.pack(until))

    @property
    def listening(self) -> int:
        """The time since boot until which a process requests wake-ups; 0 on a root of several hosts."""
        if self._clock is not None:
            return 0
        (until,) = _LISTENING.unpack(self._memory.read(_LISTENING_AT, _LISTENING.size))
        return int(until)

    @property
    def unread(self) -> int:
        """Bytes that other processes have appended since the last read. Needs no lock."""
        _, head, _, _ = _HEADER.unpack(self._memory.read(0, _HEADER.size))
        return int(head) - self._position

    @property
    def has_news(self) -> bool:
        """Whether other processes have appended since the last read, joined, or failed. Needs no
        lock."""
        if not self.is_shared and self.read_owners() != self.owners:
            return True
        _, head, _, poison = _HEADER.unpack(self._memory.read(0, _HEADER.size))
        return bool(head != self._position or poison)

    def read_header(self) -> bool:
        """Read the header; return whether there are moves that this process hasn't replayed. Raise
        `Poisoned`."""
        header = self._memory.read(0, _START)
        _, self._head, self._done, poison = _HEADER.unpack_from(header)
        if poison:
            raise Poisoned
        owners = header[_OWNERS:].partition(b"\0")[0]
        if owners != self._owners_text:
            self._owners_text = owners
            self.owners = _owners_in(owners)
        return not self._head == self._done == self._position

    def in_doubt(self) -> Change | None:
        """Return the move that a dead process began and did not mark as done."""
        if self._done == self._head:
            return None
        return self._record(self._done)[0]

    def decide(self, took_place: bool) -> None:
        """Mark the move in doubt as done, or take it back."""
        if took_place:
            self._done = self._head
        else:
            self._head = self._done
        self._write_header()

    def news(self) -> Iterator[Change]:
        """Yield the moves of other processes since the last read. Raise `Overtaken`; then `skip` once
        the root is listed."""
        # A record that was taken back may have overwritten the oldest ones, too.
        if self._done - self._position > RING - _LARGEST:
            raise Overtaken
        while self._position < self._done:
            change, self._position = self._record(self._position)
            yield change

    def skip(self) -> None:
        self._position = self._done

    def intend(self, change: Change) -> None:
        """Append a move before it is made; the one before was made."""
        if not self.is_shared:
            return
        paths = f"{change.source}\n{change.target}".encode()
        due = change.due
        if due and self._clock is not None:
            due += self._clock.wall() - self._clock.monotonic()
        record = _RECORD.pack(_RECORD.size + len(paths), change.kind, due) + paths
        self._done = self._position = self._head
        self.has_told = True
        self._put(self._head, record)
        self._head += len(record)
        self._write_header()

    def give_up(self) -> None:
        """Take back the last move: the disk refused it."""
        if self.is_shared:
            self._head = self._done
            self._write_header()

    def finish(self) -> None:
        """Mark all moves of the commit as made."""
        if self._done != self._head:
            self._done = self._position = self._head
            self._write_header()

    def poison(self) -> None:
        """Stop all other processes at their next read: a sync failed. Needs no lock."""
        self._write(_HEADER.size - 8, (1).to_bytes(8, "little"))

    def _write(self, offset: int, content: bytes, *, may_block: bool = False) -> None:
        try:
            self._memory.write(offset, content, may_block=may_block)
        except OSError as error:
            raise SyncFailed(str(error)) from error

    def _write_header(self) -> None:
        # All but the poison, which is written without the lock.
        self._write(0, _HEADER.pack(_MAGIC, self._head, self._done, 0)[:-8])

    def _record(self, at: int) -> tuple[Change, int]:
        """Return the record at `at`, and where the next one begins."""
        length, kind, due = _RECORD.unpack(self._get(at, _RECORD.size))
        source, _, target = self._get(at + _RECORD.size, length - _RECORD.size).decode().partition("\n")
        if due and self._clock is not None:
            due += self._clock.monotonic() - self._clock.wall()
        return Change(ChangeKind(kind), source, target, due), at + length

    def _get(self, at: int, length: int) -> bytes:
        start = at % RING
        first = min(length, RING - start)
        content = self._memory.read(_START + start, first)
        return content if first == length else content + self._memory.read(_START, length - first)

    def _put(self, at: int, content: bytes) -> None:
        start = at % RING
        first = min(len(content), RING - start)
        self._write(_START + start, content[:first])
        if first < len(content):
            self._write(_START, content[first:])


def _owners_in(text: bytes) -> tuple[str, ...]:
    return tuple(text.decode("ascii", errors="replace").split())
