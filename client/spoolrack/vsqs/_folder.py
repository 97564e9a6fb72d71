"""The operations on one folder as vsqs documents them, for any number of threads and processes, also
vsqs's own.

Every change of state is one rename within the folder, so a process that is killed between two steps
leaves a message in the state before or in the state after. `sync` makes durable what creates and
deletes a message: call it before the answer. Raises `OSError` as the system does.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from . import _file_names as names
from ._file_names import SECOND, FileName
from ._folder_index import Content
from ._watched_folder import Watched

LONGEST_WAIT: Final = 10.0
"""Seconds after which a waiting thread looks at the clock again, which may have been set."""
_MODE: Final = 0o666
_RIVALS: Final = 1_000
"""So often may others move a message while it is being deleted."""


class Full(Exception):
    """The folder has as many messages as its capacity."""

    def __init__(self, size: int) -> None:
        super().__init__(f"there are {size} messages")
        self.size = size


@dataclass(frozen=True, slots=True, kw_only=True)
class Leased:
    """A leased message, and the name of its lease."""

    name: FileName
    body: bytes


class MessageFolder:
    """The messages of a folder. Thread-safe. Without the folder everything but `make` and `close`
    raises `FileNotFoundError`."""

    def __init__(self, path: str | os.PathLike[str], clock: Callable[[], int]) -> None:
        """`clock` returns the Unix time in microseconds."""
        self.path = os.fspath(path)
        self._clock = clock
        self._watched = Watched(self.path)
        self._content = self._watched.content
        self._last = -1
        self._arriving = 0
        """Messages of ours that have a place, and no name yet that others count."""

    def exists(self) -> bool:
        return os.path.isdir(self.path)

    def make(self) -> None:
        """Create the folder durably, unless it exists."""
        if self.exists():
            return
        os.makedirs(self.path, exist_ok=True)
        _sync(os.path.dirname(os.path.abspath(self.path)))

    # New.

    def publish(self, body: bytes, *, capacity: int | None = None, timeout: float | None = None) -> int:
        """Store a message; returns its number. It is durable after `sync`.

        While there are `capacity` messages, waits for one to be deleted, up to `timeout` seconds; then
        raises `Full`. Publishers of several processes that find the last place at one moment may all
        take it, as in vsqs.
        """
        number, file = self._claim_number(capacity, timeout)
        source = os.path.join(self.path, names.new(number))
        try:
            try:
                left = memoryview(body)
                while left:
                    left = left[os.write(file, left) :]
                os.fsync(file)
            finally:
                os.close(file)
            with self._watched.lock:
                os.rename(source, os.path.join(self.path, names.ready(number)))
                self._content.add(names.ready(number))
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(source)
            raise
        finally:
            with self._watched.lock:
                self._arriving -= 1
                self._watched.announce()
        return number

    def _claim_number(self, capacity: int | None, timeout: float | None) -> tuple[int, int]:
        """Create the file of a new message under a number that no other one has."""
        deadline = _deadline(timeout)
        with self._watched.lock:
            while True:
                if capacity is not None:
                    self._wait_for_room(capacity, deadline)
                # Later than our last one also when the clock was set back, so that ours stay in order.
                number = self._last = max(self._clock(), self._last + 1)
                path = os.path.join(self.path, names.new(number))
                try:
                    file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, _MODE)
                except FileExistsError:
                    continue
                try:
                    # No other process can take the number from here on: one that has it, had it before.
                    self._watched.refresh()
                    if not self._content.named(number) and self._has_room(capacity):
                        self._arriving += 1
                        return number, file
                except BaseException:
                    os.close(file)
                    os.unlink(path)
                    raise
                os.close(file)
                os.unlink(path)

    def _has_room(self, capacity: int | None) -> bool:
        return capacity is None or len(self._content) + self._arriving < capacity

    def _wait_for_room(self, capacity: int, deadline: float | None) -> None:
        while True:
            self._watched.refresh()
            if self._has_room(capacity):
                return
            left = _left(deadline)
            if self._watched.closed or (left is not None and left <= 0):
                raise Full(len(self._content))
            self._watched.wait(left)

    # Ready, leased, and back.

    def lease(
        self,
        visibility: float,
        *,
        limit: Callable[[Content], int] = lambda content: 1,
        timeout: float | None = 0.0,
        stopped: Callable[[], bool] = lambda: False,
    ) -> list[Leased]:
        """Lease the oldest messages for `visibility` seconds, up to `limit`, which is called
        repeatedly; wait for the first up to `timeout` seconds, or until `stopped` is true or the folder
        is closed.

        First puts back all whose lease is over. Not durable: after a power loss they may be ready.
        """
        deadline = _deadline(timeout)
        while True:
            with self._watched.lock:
                found = self._claim(visibility, limit, deadline, stopped)
            if not found:
                return []
            # Outside the lock: a large body holds up no other call.
            messages = [message for name in found if (message := self._read_leased(name)) is not None]
            if messages:
                return messages

    def _claim(
        self,
        visibility: float,
        limit: Callable[[Content], int],
        deadline: float | None,
        stopped: Callable[[], bool],
    ) -> list[FileName]:
        claimed: list[FileName] = []
        while True:
            self._watched.refresh()
            if self._requeue_expired():
                continue  # there may be more by now, and older ones
            wanted = limit(self._content)
            while len(claimed) < wanted and (name := self._content.oldest()) is not None:
                text = names.leased(name.number, self._clock() + round(visibility * SECOND))
                if self._is_message(name) and self._move(name.text, text):
                    lease = names.parse(text)
                    assert lease is not None
                    claimed.append(lease)
            left = _left(deadline)
            if claimed or stopped() or self._watched.closed or (left is not None and left <= 0):
                return claimed
            expiration = self._content.next_expiration()
            until_then = (
                LONGEST_WAIT
                if expiration is None
                else max(0.001, (expiration - self._clock()) / SECOND)
            )
            self._watched.wait(min(until_then, LONGEST_WAIT if left is None else left))

    def _requeue_expired(self) -> bool:
        """Put back all whose lease is over; answers whether there were any."""
        now = self._clock()
        requeued = False
        for name in self._content.expired(now):
            if len(self._content.named(name.number)) > 1:
                # A twin, by a mistake: the rename might replace it. It comes back later.
                self._content.postpone(name, now + SECOND)
                continue
            try:
                self._move(name.text, names.ready(name.number))
            except OSError:
                self._content.postpone(name, now + SECOND)
                raise
            requeued = True
        return requeued

    def _move(self, source: str, target: str) -> bool:
        """Rename; return False if another process was faster."""
        try:
            os.rename(os.path.join(self.path, source), os.path.join(self.path, target))
        except FileNotFoundError:
            self._content.remove(source)
            return False
        self._content.remove(source)
        self._content.add(target)
        return True

    def _is_message(self, name: FileName) -> bool:
        try:
            facts = os.stat(os.path.join(self.path, name.text), follow_symlinks=False)
        except FileNotFoundError:
            self._content.remove(name.text)
            return False
        if not stat.S_ISREG(facts.st_mode):
            self._content.exclude(name.text)
            return False
        return True

    def _read_leased(self, name: FileName) -> Leased | None:
        try:
            return Leased(name=name, body=self.read(name.text))
        except FileNotFoundError:
            return None  # deleted by its id, or its short lease was over

    def release(self, lease: str) -> bool:
        """Requeue a leased message; False if the lease is gone."""
        return self._change_lease(lease, None)

    def extend(self, lease: str, expiration: int) -> str | None:
        """Change the end of a lease; return its new name, or None if it is gone."""
        name = names.parse(lease)
        assert name is not None
        text = names.leased(name.number, expiration)
        return text if self._change_lease(lease, text) else None

    def _change_lease(self, lease: str, target: str | None) -> bool:
        name = names.parse(lease)
        assert name is not None
        with self._watched.lock:
            self._watched.refresh()
            if target is None and len(self._content.named(name.number)) > 1:
                raise OSError(errno.EEXIST, os.strerror(errno.EEXIST), names.ready(name.number))
            moved = self._move(lease, target or names.ready(name.number))
            self._watched.announce()
            return moved

    # Deleted.

    def delete(self, number: int) -> bool:
        """Delete a message in any state, leased or not; return False if there is none."""
        deleted = False
        looks = 0
        with self._watched.lock:
            for _ in range(_RIVALS):
                self._watched.refresh()
                found = self._content.named(number)
                looks = 0 if found else looks + 1
                # A listing may miss a file that is renamed in that moment, so it is asked twice.
                if looks > (0 if self._watched.reports_all else 1):
                    break
                for name in found:
                    deleted |= self._unlink(name.text)
            self._watched.announce()
        return deleted

    def drop(self, lease: str) -> bool:
        """Delete a message by the name of its lease; False if the lease is gone."""
        with self._watched.lock:
            dropped = self._unlink(lease)
            self._watched.announce()
            return dropped

    def _unlink(self, text: str) -> bool:
        try:
            os.unlink(os.path.join(self.path, text))
        except FileNotFoundError:
            self._content.remove(text)
            return False  # another process has deleted or moved it: the next look tells
        self._content.remove(text)
        return True

    def sync(self) -> None:
        """Return once all published and deleted messages survive a power cut."""
        _sync(self.path)

    # Looking.

    def messages(self) -> list[FileName]:
        """Return all messages in order."""
        with self._watched.lock:
            self._watched.refresh()
            return list(self._content)

    def named(self, number: int) -> list[FileName]:
        """Return all names of one message: none if it is gone."""
        with self._watched.lock:
            self._watched.refresh()
            return self._content.named(number)

    def size(self) -> int:
        """Return the number of messages, leased ones included."""
        with self._watched.lock:
            self._watched.refresh()
            return len(self._content)

    def read(self, text: str, limit: int | None = None) -> bytes:
        """Return the content of a message, or its beginning."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(os.path.join(self.path, text), flags), "rb", buffering=0) as file:
            return file.read() if limit is None else file.read(limit)

    def facts(self, text: str) -> os.stat_result:
        return os.stat(os.path.join(self.path, text), follow_symlinks=False)

    def wake(self) -> None:
        """Wake all waiters, which check whether they are stopped."""
        self._watched.wake()

    def close(self) -> None:
        """End all waits. Other operations continue to work, more slowly."""
        self._watched.close()


def _deadline(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + timeout


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else deadline - time.monotonic()


def _sync(path: str) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
