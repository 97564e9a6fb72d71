"""A second process on a root, written from docs/format.md alone with the standard library alone.

`make_root` lays out a root. `Process` joins the processes that have a root open, or begins alone; it
sends, leases, extends, releases and deletes, and replays what others changed. The rest is left to them:
dead letters, redrives, messages that are due, orphans of dead processes, and all unlinking.
"""

from __future__ import annotations

import base64
import ctypes
import errno
import fcntl
import json
import os
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from time import CLOCK_MONOTONIC, clock_gettime_ns, time_ns
from typing import Final
from zlib import crc32

from tests.proof.format.second_reader import (
    DIGITS,
    FOLDERS,
    FORMAT,
    Batch,
    Message,
    Name,
    Root,
    batches_of,
    contents_at,
    key_of,
    members_text,
    message_of,
    parse,
    sent_at,
)

LINK, RENAME, UNLINK, FILE = 1, 2, 3, 4
START: Final = 4096
RING: Final = 1 << 20
_HEADER: Final = struct.Struct("<8sQQQQQQ")
_RECORD: Final = struct.Struct("<IBQ")
_FRACTION: Final = 74
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


class Poisoned(Exception):
    """A sync of some process has failed: only a restart can tell what is durable."""


@dataclass(frozen=True, slots=True)
class Change:
    """A record of `CHANGES`."""

    kind: int
    source: str
    target: str
    due: int


def make_root(root: Path, queues: Mapping[str, Mapping[str, int | str]], now: int) -> None:
    """Lay out a root with these queues, each with the settings that aren't defaults."""
    root.mkdir(mode=0o700)
    for folder in FOLDERS:
        (root / folder).mkdir(mode=0o700)
    _write(root / "LOCK", b"")
    for queue, settings in queues.items():
        (root / "queues" / queue).mkdir(mode=0o700)
        said = {"created_at": now, "salt": f"salt{len(queue)}", **settings}
        _write(root / f"config/{queue}.1.json", json.dumps(said).encode())
    _sync_all(root)
    _write(root / "FORMAT", FORMAT)
    _sync_all(root)


def _write(path: Path, content: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(file, content)
        os.fsync(file)
    finally:
        os.close(file)


def _sync_all(root: Path) -> None:
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if _LIBC.syncfs(folder):
            raise OSError(ctypes.get_errno(), "syncfs")
    finally:
        os.close(folder)


def _rename_new(source: Path, target: Path) -> None:
    at_here, no_replace = -100, 1
    if _LIBC.renameat2(at_here, os.fsencode(source), at_here, os.fsencode(target), no_replace):
        raise OSError(ctypes.get_errno(), f"{source} to {target}")


class Log:
    """`CHANGES`. All but `poison` and `listen` needs `LOCK`."""

    def __init__(self, root: Path) -> None:
        self._file = os.open(root / "CHANGES", os.O_RDWR | os.O_CREAT, 0o600)
        os.posix_fallocate(self._file, 0, START + RING)
        self.head = self.done = 0
        self.members: tuple[str, ...] = ()
        self.listening = 0
        self.is_poisoned = False

    def read(self) -> None:
        """Take in the header."""
        _, self.head, self.done, poison, _, _, self.listening = _HEADER.unpack(
            os.pread(self._file, _HEADER.size, 0)
        )
        self.is_poisoned = poison != 0
        names = os.pread(self._file, START - _HEADER.size, _HEADER.size).partition(b"\0")[0]
        self.members = tuple(names.decode().split("\n")[:-1])

    def begin_anew(self) -> None:
        self.head = self.done = 0
        os.pwrite(self._file, struct.pack("<8sQQQ", b"changes2", 0, 0, 0), 0)
        os.pwrite(self._file, bytes(8), 48)

    def write_members(self, members: Sequence[str]) -> None:
        self.members = tuple(members)
        os.pwrite(self._file, b"".join(b"%s\n" % each.encode() for each in members) + b"\0", 56)

    def write_holder(self, now: int) -> None:
        os.pwrite(self._file, struct.pack("<QQ", os.getpid(), now), 32)

    def write(self) -> None:
        """Write `head` and `done`, and not `poison`."""
        os.pwrite(self._file, struct.pack("<QQ", self.head, self.done), 8)

    def poison(self) -> None:
        os.pwrite(self._file, struct.pack("<Q", 1), 24)

    def listen(self, until: int) -> None:
        os.pwrite(self._file, struct.pack("<Q", until), 48)

    def append(self, change: Change) -> None:
        """Write the record of a move that is to be made, and then the header."""
        paths = f"{change.source}\n{change.target}".encode()
        record = _RECORD.pack(_RECORD.size + len(paths), change.kind, change.due) + paths
        self.done = self.head
        first = min(len(record), RING - self.head % RING)
        os.pwrite(self._file, record[:first], START + self.head % RING)
        os.pwrite(self._file, record[first:], START)
        self.head += len(record)
        self.write()

    def record(self, at: int) -> tuple[Change, int]:
        """Return the record at a count, and the count of the next one."""
        length, kind, due = _RECORD.unpack(self._bytes(at, _RECORD.size))
        source, target = self._bytes(at + _RECORD.size, length - _RECORD.size).decode().split("\n")
        return Change(kind, source, target, due), at + length

    def _bytes(self, at: int, length: int) -> bytes:
        first = min(length, RING - at % RING)
        found = os.pread(self._file, first, START + at % RING)
        return found + os.pread(self._file, length - first, START)

    def close(self) -> None:
        os.close(self._file)


class Process:
    """A process that has a root open. Not thread-safe."""

    def __init__(
        self,
        root: Path,
        random: Random,
        *,
        wall: Callable[[], int] = lambda: time_ns() // 1_000_000,
        monotonic: Callable[[], int] = lambda: clock_gettime_ns(CLOCK_MONOTONIC) // 1_000_000,
    ) -> None:
        """Join. The clocks are the Unix time and the host's monotonic clock, in milliseconds."""
        self.root = root
        self.random = random
        self.wall = wall
        self.monotonic = monotonic
        self.owner = "".join(random.choice(DIGITS) for _ in range(12))
        self._lock = os.open(root / "LOCK", os.O_RDWR)
        self.heard: list[Change] = []
        """Changes of others, in order."""
        self._seen = 0
        self._last_id = ""
        self._unpublished: dict[str, bool] = {}
        """Names in `new/` of this process, and whether they are durable."""
        self.paths: dict[str, Name] = {}
        """All names but those that living processes have in `new/`."""
        with self._held():
            self._join()
        self.sync()

    def _join(self) -> None:
        path = self.root / "owners" / self.owner
        _write(path, b"")
        self._own = os.open(path, os.O_RDWR)
        fcntl.flock(self._own, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.log = Log(self.root)
        self.log.read()
        if any(map(self._is_living, self.log.members)):
            if self.log.is_poisoned:
                raise Poisoned
            self._decide()
            self.log.write_members([*self.log.members, self.owner])
        else:
            self.log.begin_anew()
            self.log.write_members([self.owner])
        self._list()

    def _is_living(self, owner: str) -> bool:
        try:
            file = os.open(self.root / "owners" / owner, os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(file)
        return False

    def _list(self) -> None:
        self.paths.clear()
        for batch in Root(self.root).batches.values():
            for name in batch.names:
                if name.owner in (None, self.owner):
                    self._appear(name)
        self._seen = self.log.done

    def _appear(self, name: Name) -> None:
        self.paths[name.path] = name
        if sent_at(name.id) <= self.wall() + 86_400_000:
            self._last_id = max(self._last_id, name.id[:-3] + "fff")

    # Commits.

    @contextmanager
    def _held(self) -> Iterator[None]:
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    @contextmanager
    def commit(self) -> Iterator[None]:
        """Hold the lock, with all that others did replayed, and publish what is durable."""
        with self._held():
            self.log.write_holder(self.wall())
            self.log.read()
            if self.log.is_poisoned:
                raise Poisoned
            self._decide()
            self._replay()
            before = self.log.head
            for path, is_durable in list(self._unpublished.items()):
                if is_durable:
                    self._publish(self.paths[path])
                    del self._unpublished[path]
            yield
            if self.log.done != self.log.head:
                self.log.done = self._seen = self.log.head
                self.log.write()
        if self.log.head != before and self.log.listening > self.monotonic():
            for owner in self.log.members:
                if owner != self.owner:
                    with suppress(FileNotFoundError):
                        os.utime(self.root / "owners" / owner)

    def _decide(self) -> None:
        """Find out whether the last move of a process that died took place."""
        if self.log.done == self.log.head:
            return
        change, _ = self.log.record(self.log.done)
        took_place = (
            change.kind == FILE
            or (change.kind == UNLINK and not (self.root / change.source).exists())
            or (change.kind != UNLINK and (self.root / change.target).exists())
        )
        if took_place:
            self.log.done = self.log.head
        else:
            self.log.head = self.log.done
        self.log.write()

    def _replay(self) -> None:
        if self.log.done - self._seen > RING - 1024:
            self._list()
            return
        while self._seen < self.log.done:
            change, self._seen = self.log.record(self._seen)
            self.heard.append(change)
            if change.kind in (LINK, RENAME):
                name = parse(change.target)
                assert name is not None, change
                self._appear(name)
            if change.kind in (RENAME, UNLINK):
                self.paths.pop(change.source, None)

    def sync(self) -> None:
        """Make all durable that was changed, here and by others: answers hold from then on."""
        written = list(self._unpublished)
        try:
            _sync_all(self.root)
        except OSError:
            self.log.poison()
            raise
        self._unpublished.update(dict.fromkeys(written, True))

    def leave(self) -> None:
        """Publish what was sent, and leave the root to others."""
        self.sync()
        with self.commit():
            self.log.write_members([each for each in self.log.members if each != self.owner])
        os.unlink(self.root / "owners" / self.owner)
        self.die()

    def die(self) -> None:
        """Do what the system does with a process that is killed."""
        for file in (self._own, self._lock):
            os.close(file)
        self.log.close()

    def _change(self, kind: int, source: str, target: str, due: int = 0) -> None:
        """Make a move, and tell it before."""
        is_shared = len(self.log.members) > 1
        if is_shared:
            self.log.append(Change(kind, source, target, due))
        try:
            self.make_move(kind, source, target)
        except OSError:
            if is_shared:
                self.log.head = self.log.done
                self.log.write()
            raise
        if kind == RENAME:
            del self.paths[source]
        name = parse(target)
        assert name is not None, target
        self._appear(name)

    def make_move(self, kind: int, source: str, target: str) -> None:
        if kind == RENAME:
            _rename_new(self.root / source, self.root / target)
        else:
            os.link(self.root / source, self.root / target)

    # Messages.

    def send(
        self,
        queue: str,
        bodies: Sequence[bytes],
        *,
        attributes: Mapping[int, Mapping[str, str | bytes]] | None = None,
        groups: Mapping[int, str] | None = None,
        deduplication_ids: Mapping[int, str] | None = None,
        priority: int = 0,
        delay: int = 0,
    ) -> list[str]:
        """Write messages as one file; return their ids. They are sent once that is synced."""
        with self.commit():
            salt = Root(self.root).queues[queue].salt
            keys = {i: key_of(id, salt) for i, id in (deduplication_ids or {}).items()}
            parts = _line(bodies, attributes or {}, groups or {}, keys)
            content = b"".join([*bodies, parts])
            stem = [self._make_id()]
            if len(bodies) > 1:
                stem.append(f"n{len(bodies)}")
            stem.append(f"s{sum(map(len, bodies))}")
            if size := sum(map(_size_of, (attributes or {}).values())):
                stem.append(f"a{size}")
            stem.append(f"c{crc32(parts or content):08x}")
            if parts:
                stem.append(f"m{len(parts)}")
            if keys:
                stem.append("k" + (keys[0] if len(bodies) == 1 else ""))
            if groups:
                stem.append("g")
            if priority:
                stem.append(f"p{priority}")
            due = f"@{self.wall() + delay}" if delay else ""
            path = f"new/{queue}:{','.join(stem)},o{self.owner}{due}"
            if keys and len(self.log.members) > 1:
                self.log.append(Change(FILE, "", path, 0))
            file = os.open(self.root / path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                os.write(file, content)
            finally:
                os.close(file)
            name = parse(path)
            assert name is not None, path
            self._appear(name)
            self._unpublished[path] = False
        return [name.message_id(index) for index in range(len(bodies))]

    def _make_id(self) -> str:
        """Return an id above all that are known."""
        millis, fraction = self.wall(), self.random.getrandbits(_FRACTION - 1)
        id = _id_text(millis, fraction)
        if id <= self._last_id:
            last = int(self._last_id.replace("-", ""), 16)
            fraction = (last >> 64 & 0xFFF) << 62 | last & ((1 << 62) - 1)
            fraction += 4096 + self.random.getrandbits(32)
            carry, fraction = divmod(fraction, 1 << _FRACTION)
            id = _id_text(sent_at(self._last_id) + carry, fraction)
        return id

    def _publish(self, name: Name) -> None:
        if name.due is None:
            self._move(name, name.members, f"queues/{name.queue}/", owner=None)
        else:
            self._move(name, name.members, f"delay/{name.queue}:", owner=None, due=name.due)

    def _move(
        self,
        name: Name,
        members: frozenset[int],
        place: str,
        *,
        receives: int | None = None,
        first: int | None = None,
        owner: str | None = None,
        due: int | None = None,
        token: str | None = None,
    ) -> str:
        """Give messages that a name holds a new name; return its path."""
        batch = self.batch(name)
        receives = name.receives if receives is None else receives
        first = name.first if first is None else first
        text = f"{name.stem},v{max(each.version for each in batch.names) + 1}"
        if members != name.everything:
            text += "," + members_text(members)
        text += f",r{receives}" if receives else ""
        text += f",f{first}" if receives and first is not None else ""
        if name.death is not None:
            death = name.death
            first = "" if death.get("first") is None else death["first"]
            why = "r" if death.get("reason") == "rejected" else "m"
            text += (
                f",h{death['file']}"
                if "file" in death
                else f",d{death['at']:013d}.{why}{death['receives']}.{first}.{death['source']}"
            )
            text += f",t{death['redriven']:013d}" if death["redriven"] is not None else ""
        end = 0
        if due is not None:
            text += f"@{due}~{token}" if token else f"@{due}"
            end = self.monotonic() + max(0, due - self.wall())
        # Of a name that lists no more than moves nothing was taken, by no process.
        kind = RENAME if members == name.members else LINK
        self._change(kind, name.path, place + text, end)
        return place + text

    def batch(self, name: Name) -> Batch:
        return batches_of([each for each in self.paths.values() if each.stem == name.stem])[name.stem]

    def holder(self, id: str) -> tuple[Name, int] | None:
        """Return the name that holds a message, and the message's index in it."""
        for batch in batches_of(list(self.paths.values())).values():
            for index, name in batch.holders().items():
                if name.message_id(index) == id:
                    return name, index
        return None

    def lease(self, queue: str, most: int, visibility: int) -> list[Message]:
        """Lease the first ready messages of a queue without groups and dead letters."""
        with self.commit():
            wanted = self._ready(queue)[:most]
            together: dict[str, set[int]] = {}
            for _, path, index in wanted:
                together.setdefault(path, set()).add(index)
            for path, members in together.items():
                name = self.paths[path]
                self._move(
                    name,
                    frozenset(members),
                    f"delay/{queue}:",
                    receives=name.receives + 1,
                    first=self.wall() if name.first is None else name.first,
                    due=self.wall() + visibility,
                    token=self._token(),
                )
            leased = [self._message(id) for (_, id), _, _ in wanted]
        self.sync()
        return leased

    def _ready(self, queue: str) -> list[tuple[tuple[int, str], str, int]]:
        """Return the ready messages in the order of receives: place, path and index of each."""
        return sorted(
            ((-name.priority, name.message_id(index)), name.path, index)
            for batch in batches_of(list(self.paths.values())).values()
            for index, name in batch.holders().items()
            if name.state == "ready" and name.queue == queue
        )

    def _message(self, id: str) -> Message:
        found = self.holder(id)
        assert found is not None, id
        return message_of(self.root, *found, contents_at(self.root, found[0]))

    def _token(self) -> str:
        bits = self.random.getrandbits(64)
        return "".join(DIGITS[bits >> shift & 31] for shift in range(60, -1, -5))

    def extend(self, id: str, visibility: int) -> None:
        """Let the lease of a message end so long after now."""
        with self.commit():
            name, index = self._leased(id)
            due = self.wall() + visibility
            place = f"delay/{name.queue}:"
            self._move(name, frozenset({index}), place, due=due, token=name.token)
        self.sync()

    def release(self, id: str) -> None:
        """Make a leased message ready."""
        with self.commit():
            name, index = self._leased(id)
            self._move(name, frozenset({index}), f"queues/{name.queue}/")
        self.sync()

    def _leased(self, id: str) -> tuple[Name, int]:
        found = self.holder(id)
        if found is None or found[0].state != "leased":
            raise OSError(errno.ESTALE, f"{id} is not leased")
        return found

    def delete(self, id: str) -> None:
        """Delete a message in whatever state."""
        with self.commit():
            found = self.holder(id)
            if found is not None and found[0].state not in ("removed", "quarantined"):
                name, index = found
                self._move(name, frozenset({index}), f"remove/{name.queue}:")
        self.sync()


def _id_text(millis: int, fraction: int) -> str:
    """Return a UUID of version 7 with these 74 bits, of which the low 12 become 0."""
    high, low = divmod(fraction, 1 << 62)
    text = f"{millis:012x}7{high:03x}{0b10 << 62 | low:016x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:29]}000"


def _size_of(attributes: Mapping[str, str | bytes]) -> int:
    return sum(
        len(name.encode()) + len(value.encode() if isinstance(value, str) else value)
        for name, value in attributes.items()
    )


def _line(
    bodies: Sequence[bytes],
    attributes: Mapping[int, Mapping[str, str | bytes]],
    groups: Mapping[int, str],
    keys: Mapping[int, str],
) -> bytes:
    if len(bodies) == 1 and not attributes and not groups:
        return b""
    line: dict[str, object] = {
        "sizes": [len(body) for body in bodies],
        "crcs": [crc32(body) for body in bodies],
    }
    texts = {
        str(index): {n: v for n, v in each.items() if isinstance(v, str)}
        for index, each in attributes.items()
    }
    binaries = {
        str(index): {n: base64.b64encode(v).decode() for n, v in each.items() if isinstance(v, bytes)}
        for index, each in attributes.items()
    }
    if any(texts.values()):
        line["attributes"] = texts
    if any(binaries.values()):
        line["binary_attributes"] = binaries
    if keys and len(bodies) > 1:
        line["keys"] = keys
    if groups:
        members: dict[str, set[int]] = {}
        for index, group in groups.items():
            members.setdefault(group, set()).add(index)
        line["groups"] = {group: members_text(each) for group, each in members.items()}
    return b"\n" + json.dumps(line).encode() + b"\n"
