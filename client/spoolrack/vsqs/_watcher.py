"""Watcher: changes of folders by other processes, from inotify(7) where it reports them, else by
listing.

Owns the watches and nothing else: the caller knows the meaning of names. A watch only makes it sooner
and cheaper to see a change. What can fail are the kernel's limits; then `changes` says every so often
"look again", which a caller must be able to do anyway, because the kernel drops events that aren't
fetched in time. On a file system that other hosts write to, both are done.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import logging
import os
import posixpath
import select
import struct
import termios
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from spoolrack_store.files.mounts import is_written_by_other_hosts, kind_of
from spoolrack_store.model.clock import DAY, SECOND, Clock, Millis, SystemClock

log = logging.getLogger(__name__)

NO_TIME: Final = Millis(0)
LOOK_AGAIN: Final = SECOND
"""How long a change may stay unseen where no event reports it."""


class FolderChange(NamedTuple):
    """A name has appeared in a folder, or has left it."""

    folder: str
    name: str
    appeared: bool


class Watcher:
    """A watch of folders under one root. `wait` and `wake` are thread-safe; the rest is for one thread
    at a time, which may be another one than that in `wait`."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        look_again: Millis = LOOK_AGAIN,
        clock: Clock | None = None,
        kernel: Callable[[], Inotify] | None = None,
    ) -> None:
        """`look_again`: the interval at which `changes` says so, if events are incomplete."""
        self._root = os.fspath(root)
        self._look_again = look_again
        self._clock = SystemClock() if clock is None else clock
        self._next_look = Millis(0)
        self._kernel: Inotify | None = None
        self._watches: dict[str, int] = {}
        self._folders: dict[int, str] = {}
        self._unwatched: set[str] = set()
        self._shared = is_written_by_other_hosts(kind_of(root))
        self._sleeping, self._waking = os.pipe()
        self._lock = threading.Lock()
        self._close_pipe = weakref.finalize(self, _close_all, self._sleeping, self._waking)
        self._close_pipe.atexit = False  # a waiting thread may end later: the system closes it then
        for end in (self._sleeping, self._waking):
            os.set_blocking(end, False)
        try:
            self._kernel = (kernel or Inotify)()
        except OSError as error:
            _explain(self._root, error)
        if not self.reports_all:
            self._next_look = Millis(self._clock.monotonic() + look_again)

    @property
    def reports_all(self) -> bool:
        """Whether every change in the watched folders, by any process, is reported.

        If so, what was done before a call of `changes` began is in its answer, or in an earlier one.
        """
        return self._kernel is not None and not self._unwatched and not self._shared

    def watch(self, folder: str) -> None:
        """Report changes of `folder`, a path from the root, from now on; a second call changes nothing.

        A folder that doesn't exist is not watched: a watch on its parent reports its creation.
        """
        if folder not in self._watches:
            reported_all = self.reports_all
            self._add(folder)
            if reported_all and not self.reports_all:
                self._next_look = Millis(self._clock.monotonic() + self._look_again)

    def is_watched(self, folder: str) -> bool:
        """Return whether `folder` existed at the last check, and is watched or listed."""
        return folder in self._watches or folder in self._unwatched

    def changes(self, timeout: Millis | None = NO_TIME) -> list[FolderChange] | None:
        """Return all changes since the last call, in order; None if some were lost: list again.

        Waits for a change as long as `timeout` says, None for ever. Empty: none in time, or `wake` was
        called. Changes of this process are reported, too.
        """
        if timeout is None or timeout > 0:
            self.wait(timeout)
        found: list[FolderChange] = []
        lost = False
        for event in self._kernel.events() if self._kernel is not None else ():
            if event.mask & IN_Q_OVERFLOW:
                lost = True
                continue
            folder = self._folders.get(event.watch)
            if folder is None:
                continue  # it is no longer watched
            if event.mask & IN_IGNORED:
                self._unwatch(folder, event.watch)
                lost |= self._watch_again(folder)
            elif event.mask & IN_MOVE_SELF:
                lost |= self._follow(folder, event.watch)
            elif event.name:
                found.append(FolderChange(folder, event.name, bool(event.mask & _APPEARED)))
        if not self.reports_all and self._clock.monotonic() >= self._next_look:
            self._next_look = Millis(self._clock.monotonic() + self._look_again)
            for folder in sorted(self._unwatched):
                self._add(folder)  # others may have given watches back since
            lost = True
        return None if lost else found

    def wait(self, timeout: Millis | None = None) -> None:
        """Return once `changes` may return something, `wake` was called, or `timeout` is over."""
        if not self.reports_all:
            left = Millis(max(0, self._next_look - self._clock.monotonic()))
            timeout = left if timeout is None else min(timeout, left)
        waiting = select.poll()
        waiting.register(self._sleeping, select.POLLIN)
        if self._kernel is not None:
            waiting.register(self._kernel.descriptor, select.POLLIN)
        waiting.poll(None if timeout is None else min(timeout, DAY))
        with contextlib.suppress(BlockingIOError):
            os.read(self._sleeping, _WAKE_UPS)

    def wake(self) -> None:
        """End the present `wait`, or else the next one."""
        with self._lock, contextlib.suppress(BlockingIOError):  # full: it wakes up anyway
            if self._close_pipe.alive:
                os.write(self._waking, b"\0")

    def close(self) -> None:
        """Close the watches. No thread may be in another call but `wake`."""
        if self._kernel is not None:
            self._kernel.close()
        with self._lock:
            self._close_pipe()

    def _add(self, folder: str) -> int | None:
        """Ask the kernel to report changes at a path; answers the watch."""
        self._unwatched.discard(folder)
        if self._kernel is None:
            self._unwatched.add(folder)
            return None
        try:
            watch = self._kernel.add(posixpath.join(self._root, folder))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            self._unwatched.add(folder)
            _explain(folder, error)
            return None
        # A folder that was renamed, and is watched again before we know, keeps its watch.
        former = self._folders.get(watch, folder)
        if former != folder:
            self._watches.pop(former, None)
        self._watches[folder] = watch
        self._folders[watch] = folder
        return watch

    def _unwatch(self, folder: str, watch: int) -> None:
        self._folders.pop(watch, None)
        if self._watches.get(folder) == watch:
            del self._watches[folder]

    def _follow(self, folder: str, watch: int) -> bool:
        """Stop listening to what was renamed, and listen to what may be at its old path by now."""
        assert self._kernel is not None
        self._unwatch(folder, watch)
        lost = self._watch_again(folder)
        if watch not in self._folders:
            self._kernel.remove(watch)
        return lost

    def _watch_again(self, folder: str) -> bool:
        """Watch what has taken a lost folder's place; answers whether changes may have been hidden."""
        if self._add(folder) is not None or folder in self._unwatched:
            return True
        # The folder is gone, and if the one above it is watched, its change has been told.
        return posixpath.dirname(folder) not in self._watches or folder in ("", ".")


def _explain(what: str, error: OSError) -> None:
    match error.errno:
        case errno.ENOSPC:
            advice = "raise fs.inotify.max_user_watches"
        case errno.EMFILE:
            advice = "raise fs.inotify.max_user_instances, or the limit of open files"
        case _:
            advice = "changes are found by listing"
    log.warning(
        "%a can't be watched (%s): it is listed every so often; %s", what, error.strerror, advice
    )


def _close_all(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


_WAKE_UPS: Final = 4_096

IN_MOVED_FROM: Final = 0x40
IN_MOVED_TO: Final = 0x80
IN_CREATE: Final = 0x100
IN_DELETE: Final = 0x200
IN_DELETE_SELF: Final = 0x400
IN_MOVE_SELF: Final = 0x800
IN_Q_OVERFLOW: Final = 0x4000
IN_IGNORED: Final = 0x8000
_IN_ONLYDIR: Final = 0x0100_0000
_IN_DONT_FOLLOW: Final = 0x0200_0000
_APPEARED: Final = IN_CREATE | IN_MOVED_TO
_WATCHED: Final = (
    (_APPEARED | IN_MOVED_FROM | IN_DELETE)  # names
    | (IN_DELETE_SELF | IN_MOVE_SELF)  # the folder itself
    | (_IN_ONLYDIR | _IN_DONT_FOLLOW)
)
_HEADER: Final = struct.Struct("iIII")


class Event(NamedTuple):
    """An event as the kernel reports it."""

    watch: int
    mask: int
    name: str


class Inotify:
    """One inotify instance of the kernel. Raises `OSError` as the system does: ENOSYS where there is
    none, EMFILE if the user has too many, ENOSPC from `add` if there are too many watches."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        if not hasattr(self._libc, "inotify_init1"):
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), "inotify")
        self.descriptor: int = self._checked(
            self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC), "inotify"
        )
        self.close = weakref.finalize(self, os.close, self.descriptor)
        self.close.atexit = False  # as above

    def add(self, path: str) -> int:
        """Watch the names in a folder; the same folder has the same watch, by whatever path."""
        return self._checked(
            self._libc.inotify_add_watch(self.descriptor, os.fsencode(path), _WATCHED), path
        )

    def remove(self, watch: int) -> None:
        """Stop a watch, which may have stopped by itself."""
        self._libc.inotify_rm_watch(self.descriptor, watch)

    def events(self) -> Iterator[Event]:
        """Return all events that were waiting when the call began, in order."""
        # No more than that, or a busy neighbour could keep us here for ever.
        pending = struct.unpack("i", fcntl.ioctl(self.descriptor, termios.FIONREAD, bytes(4)))[0]
        if not pending:
            return
        content = os.read(self.descriptor, pending)
        at = 0
        while at < len(content):
            watch, mask, _, length = _HEADER.unpack_from(content, at)
            at += _HEADER.size
            yield Event(watch, mask, os.fsdecode(content[at : at + length].rstrip(b"\0")))
            at += length

    @staticmethod
    def _checked(answer: int, what: str) -> int:
        if answer < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), what)
        return answer
