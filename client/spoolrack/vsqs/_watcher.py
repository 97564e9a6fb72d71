"""Watcher: changes of a folder by other processes, from inotify(7) where it reports them, else by
listing.

A watch only makes it sooner and cheaper to see a change. What can fail are the kernel's limits; then
`changes` says "list again", which a caller must be able to do anyway, because the kernel drops events
that aren't fetched in time. On a file system that other hosts write to, both are done.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import logging
import os
import select
import struct
import termios
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from spoolrack_store.files.mounts import is_written_by_other_hosts, kind_of

log = logging.getLogger(__name__)

LIST_EVERY: Final = 1.0
"""Seconds that a change may stay unseen where no event reports it."""
DAY: Final = 86_400.0
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


class FolderChange(NamedTuple):
    """A name has appeared in the folder, or has left it."""

    name: str
    appeared: bool


class Watcher:
    """A watch of one folder. `wait` and `wake` are thread-safe; the rest is for one thread at a time,
    which may be another one than that in `wait`."""

    def __init__(
        self, path: str, *, list_every: float = LIST_EVERY, kernel: Callable[[], Inotify] | None = None
    ) -> None:
        """`list_every`: seconds after which `wait` returns, if events are incomplete."""
        self._path = path
        self._list_every = list_every
        self._kernel: Inotify | None = None
        self._watch: int | None = None
        self._is_shared = is_written_by_other_hosts(kind_of(path))
        self._is_explained = False
        self._sleeping, self._waking = os.pipe()
        self._lock = threading.Lock()
        self._close_pipe = weakref.finalize(self, _close_all, self._sleeping, self._waking)
        self._close_pipe.atexit = False  # a waiting thread may end later: the system closes it then
        for end in (self._sleeping, self._waking):
            os.set_blocking(end, False)
        try:
            self._kernel = (kernel or Inotify)()
        except OSError as error:
            self._explain(error)

    @property
    def reports_all(self) -> bool:
        """Whether every change in the folder, by any process, is reported.

        If so, what was done before a call of `changes` began is in its answer, or in an earlier one.
        """
        return self._watch is not None and not self._is_shared

    def watch(self) -> None:
        """Report changes from now on, if the folder exists; a second call changes nothing."""
        if self._kernel is None or self._watch is not None:
            return
        try:
            self._watch = self._kernel.add(self._path)
        except (FileNotFoundError, NotADirectoryError):
            return  # The listing says so, too.
        except OSError as error:
            self._explain(error)

    def changes(self) -> list[FolderChange] | None:
        """Return all changes since the last call, in order; None if some were lost: list again. Changes
        of this process are reported, too."""
        changes: list[FolderChange] = []
        is_lost = not self.reports_all
        for event in self._kernel.events() if self._kernel is not None else ():
            if event.mask & IN_Q_OVERFLOW:
                is_lost = True
            elif event.watch != self._watch:
                continue  # Of a folder that had this path before.
            elif event.mask & (IN_IGNORED | IN_MOVE_SELF):
                # Another folder may have its path by now, which the next `watch` finds.
                assert self._kernel is not None
                self._kernel.remove(event.watch)
                self._watch, is_lost = None, True
            elif event.name:
                changes.append(FolderChange(event.name, bool(event.mask & _APPEARED)))
        return None if is_lost else changes

    def wait(self, seconds: float | None = None) -> None:
        """Return once `changes` may return something, `wake` was called, or the time is over."""
        if not self.reports_all:
            seconds = self._list_every if seconds is None else min(seconds, self._list_every)
        waiting = select.poll()
        waiting.register(self._sleeping, select.POLLIN)
        if self._kernel is not None:
            waiting.register(self._kernel.descriptor, select.POLLIN)
        waiting.poll(None if seconds is None else min(seconds, DAY) * 1_000)
        with contextlib.suppress(BlockingIOError):
            os.read(self._sleeping, _WAKE_UPS)

    def wake(self) -> None:
        """End the present `wait`, or else the next one."""
        with self._lock, contextlib.suppress(BlockingIOError):  # full: it wakes up anyway
            if self._close_pipe.alive:
                os.write(self._waking, b"\0")

    def close(self) -> None:
        """Close the watch. No thread may be in another call but `wake`."""
        if self._kernel is not None:
            self._kernel.close()
        with self._lock:
            self._close_pipe()

    def _explain(self, error: OSError) -> None:
        if self._is_explained:
            return
        self._is_explained = True
        match error.errno:
            case errno.ENOSPC:
                advice = "raise fs.inotify.max_user_watches"
            case errno.EMFILE:
                advice = "raise fs.inotify.max_user_instances, or the limit of open files"
            case _:
                advice = "changes are found by listing"
        log.warning(
            "%a can't be watched (%s): it is listed every so often; %s",
            *(self._path, error.strerror, advice),
        )


def _close_all(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


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
