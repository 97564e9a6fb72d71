"""Moves: one legal rename each, with the folders that it dirties remembered.

Everything that changes the root passes through here, so that nothing is moved that the table of
transitions forbids and nothing changes that the next commit doesn't sync. A file that is no longer
where it was is a result, not an error: somebody else moved it first.
"""

from __future__ import annotations

import errno
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from ..model.errors import DiskError, DiskFull, StoreError
from ..model.ids import IdMaker
from ..model.names import id_of
from ..model.transitions import Move, State, is_legal
from . import layout
from .disk import Disk, Found, Kind, Lock, NotSynced, Space
from .reserve import NO_ROOM, Reserve
from .syncer import Syncer, SyncFailed

log = logging.getLogger(__name__)

_LOST: Final = frozenset({errno.ENOENT, errno.EIO, errno.ESTALE})
"""What looking at a file of every root is refused with when nothing can be kept there any more."""
_NO_LOCKS: Final = frozenset({errno.EISDIR, errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP})
_KNOCKS: Final = 500
_KNOCKS_EVERY: Final = 0.001
"""Seconds. A folder is held for one rename."""
_PATIENT_KNOCKS: Final = 20_000
"""A stage's folder is held while a chunk is written, and `published/` while stages are claimed."""
_NEVER: Final = threading.Event()


class NameTaken(DiskError):
    """The disk refused an operation: {detail}."""


def explained(error: OSError) -> StoreError:
    """The store's error for what the system said.

    Raises `SyncFailed` if the file system has turned read-only: it does so when it has met an error,
    and what it then holds only a restart can tell.
    """
    if error.errno == errno.EROFS:
        raise SyncFailed(str(error)) from error
    detail = str(error)
    if isinstance(error, FileExistsError):
        return NameTaken(detail=detail)
    return DiskFull(detail=detail) if error.errno in NO_ROOM else DiskError(detail=detail)


class Folders:
    """The folders of one root. Not thread-safe."""

    def __init__(self, disk: Disk, syncer: Syncer, ids: IdMaker) -> None:
        self._disk = disk
        self._syncer = syncer
        self._ids = ids
        self._reserve = Reserve(disk)
        self.quarantined = 0
        """Files and folders put into quarantine since the start."""
        self._removed: list[str] = []
        self.is_contended = False
        """Whether others move things in the same folders."""
        self.is_queue: Callable[[str], bool] = lambda queue: True
        """Asked before a queue's folder that is missing is made again: it may be deleted."""

    def move(
        self,
        move: Move,
        source_state: State,
        source: str,
        target_state: State,
        target: str,
        *,
        is_folder: bool = False,
    ) -> bool:
        """Rename `source` to `target`; False if it isn't there any more.

        Raises `DiskFull` or `DiskError`, and then nothing has moved.
        """
        if not is_legal(move, source_state, target_state):
            raise AssertionError(f"{move} from {source_state} to {target_state}")
        if is_folder and target_state is State.REMOVED:
            self.settle(source)
        self._syncer.settle_publication(layout.folder_of(source))
        if not self._take(source, source_state, target, is_folder=is_folder):
            if target_state is not State.READY or not self.is_there(source):
                return False
            # It is the queue's folder that somebody took away, for a purge or with the queue.
            folder = layout.folder_of(target)
            if not self.is_queue(layout.name_of(folder)):
                return False
            # Where it went must be durable before another is in its place, whoever moved it: what is in
            # it is known by that, such as deduplication ids.
            self._syncer.folder_changed(layout.REMOVE)
            self.settle(layout.REMOVE)
            self.make(folder, urgent=True)
            # Durable first: a crash must not keep the move and forget where it went.
            self.settle(layout.QUEUES)
            if not self._take(source, source_state, target, is_folder=is_folder):
                return False
        self._syncer.folder_changed(layout.folder_of(source))
        self._syncer.folder_changed(layout.folder_of(target))
        if self.is_contended and target_state is State.READY and not self._disk.can_sync_all:
            # The queue's folder may be another one's, who has purged the queue and died, unheard.
            self._syncer.folder_changed(layout.QUEUES)
        if is_folder:
            self._syncer.folder_moved(source, target)
            if source_state is State.SENT and target_state is not State.SENT:
                self._syncer.published(target)
        else:
            self._syncer.file_moved(source, target)
        if target_state is State.REMOVED:
            self._removed.append(target)
        return True

    def shift(self, source: str, target: str) -> bool:
        """Rename a stage's folder, or one in it: no message changes its state. False if it is gone."""
        if not self._rename(source, target):
            return False
        for path in (source, target):
            self._syncer.folder_changed(layout.folder_of(path))
        self._syncer.folder_moved(source, target)
        return True

    def extend(self, source: str, target: str, *, is_folder: bool) -> bool:
        """Give what is leased another due; False if it isn't there any more."""
        return self.move(Move.EXTEND, State.LEASED, source, State.LEASED, target, is_folder=is_folder)

    def _take(self, source: str, state: State, target: str, *, is_folder: bool) -> bool:
        """Rename, so that a batch folder and what is in it can't go different ways at once.

        A rename finds the folder first and takes the entry from it then: in between, somebody else may
        lease that folder whole, and read the entry. So with others there, either waits for the other.
        """
        batch = source if is_folder else layout.folder_of(source)
        inside_at = 2 if state is State.READY else 1
        if state is State.SENT or not self.is_contended or batch.count("/") < inside_at:
            return self._rename(source, target)
        try:
            lock = self._hold(batch)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise explained(error) from error
        try:
            return self._rename(source, target)
        finally:
            if lock is not None:
                lock.release()

    @contextmanager
    def held(self, folder: str) -> Iterator[None]:
        """With the lock on `folder`, if others are there and the disk has locks for folders.

        Raises `FileNotFoundError` if it isn't there any more.
        """
        lock = None
        if self.is_contended:
            try:
                lock = self._hold(folder, _PATIENT_KNOCKS)
            except FileNotFoundError:
                raise
            except OSError as error:
                raise explained(error) from error
        try:
            yield
        finally:
            if lock is not None:
                lock.release()

    def _hold(self, folder: str, knocks: int = _KNOCKS) -> Lock | None:
        """The lock on a folder; None where the disk has none for folders."""
        for _ in range(knocks):
            try:
                lock = self._disk.lock(folder)
            except OSError as error:
                if error.errno in _NO_LOCKS:
                    return None
                raise
            if lock is not None:
                return lock
            _NEVER.wait(_KNOCKS_EVERY)
        raise OSError(errno.EBUSY, "somebody else holds on to it", folder)

    def hold(self, folder: str) -> Lock | None:
        """Keep others who do the same out of `folder` until the lock is released.

        None where the disk has no locks for folders. Raises `DiskError` if somebody stays in there.
        """
        try:
            return self._hold(folder)
        except OSError as error:
            raise explained(error) from error

    def rename(self, source: str, target: str) -> bool:
        """Give a file that is no message another name in its folder; False if it isn't there.

        Nothing may lie at `target`. Raises `DiskFull` or `DiskError`.
        """
        if not self._rename(source, target):
            return False
        self._syncer.folder_changed(layout.folder_of(source))
        return True

    def _rename(self, source: str, target: str) -> bool:
        try:
            self._attempt(lambda: self._disk.rename(source, target), urgent=True)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise explained(error) from error
        return True

    def _attempt(self, change: Callable[[], None], *, urgent: bool) -> None:
        """Do `change`; on a full disk, with room from the reserve if it is `urgent`."""
        while True:
            try:
                return change()
            except NotSynced as error:
                raise SyncFailed(str(error)) from error
            except OSError as error:
                if error.errno == errno.EIO:
                    self._syncer.doubt()
                if not urgent or error.errno not in NO_ROOM or not self._reserve.give():
                    raise

    def require_root(self) -> None:
        """Raise `SyncFailed` if the root was removed, or its file system was shut down."""
        try:
            self._disk.facts(layout.FORMAT)
        except OSError as error:
            if error.errno in _LOST:
                raise SyncFailed(f"the root is lost: {error}") from error
            log.warning("the root can't be looked at: %s", error)

    def fill_reserve(self) -> None:
        """Keep back again what was given up to moves on a full disk, if there is room."""
        self._reserve.fill()

    def is_there(self, path: str) -> bool:
        """Whether anything is at `path` now."""
        try:
            self._disk.facts(path)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise explained(error) from error
        return True

    def take_removed(self) -> list[str]:
        """What was moved to `remove/` since the last call: the next sync makes it safe to unlink."""
        removed, self._removed = self._removed, []
        return removed

    def was_removed(self, path: str) -> None:
        """`path` was found in `remove/` at a start."""
        self._removed.append(path)

    def settle(self, folder: str) -> None:
        """Make all moves out of `folder` durable, so that it may be taken away."""
        self._syncer.settle(folder)

    def write(
        self,
        path: str,
        parts: Sequence[bytes],
        *,
        sync: bool,
        urgent: bool = False,
        is_lone: bool = False,
    ) -> None:
        """Create a file; its content waits for the next commit unless `sync` makes it durable now.

        What `is_lone` waits, and the commit syncs it by itself, whatever it is called by then: but only
        where whoever else relies on it before can sync everything. What is `urgent` may use the reserve
        of a full disk. Raises `NameTaken` if there is one, `DiskFull` or `DiskError`.
        """
        is_lone = is_lone and self._disk.can_sync_all
        sync = not is_lone and (sync or not self._disk.can_sync_all)
        try:
            self._attempt(lambda: self._disk.create(path, parts, sync=sync), urgent=urgent)
        except OSError as error:
            raise explained(error) from error
        self._syncer.folder_changed(layout.folder_of(path))
        if is_lone:
            self._syncer.lone_file_written(path)
        elif sync:
            self._syncer.file_synced()
        else:
            self._syncer.file_written()

    def make(self, path: str, *, urgent: bool = False) -> bool:
        """Make a folder; False if it is there. What stands there and is none is put aside.

        What is `urgent` may use the reserve of a full disk.
        """
        try:
            self._attempt(lambda: self._disk.make_folder(path), urgent=urgent)
        except FileExistsError:
            if self.is_folder(path):
                return False
            # A link would lead what is moved there out of the root.
            self.quarantine(path, "it stood where a folder must be")
            return self.make(path, urgent=urgent)
        except OSError as error:
            raise explained(error) from error
        self._syncer.folder_changed(layout.folder_of(path))
        return True

    def is_folder(self, path: str) -> bool:
        """Whether a folder is at `path`, and no link to one. Raises `DiskError`, also if nothing is."""
        try:
            return self._disk.facts(path).kind is Kind.FOLDER
        except OSError as error:
            raise explained(error) from error

    def scan(self, path: str) -> list[Found]:
        """All names in a folder, in no order; none if it isn't there any more."""
        try:
            return self._disk.scan(path)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise explained(error) from error

    def ids_inside(self, folder: str) -> Iterator[str]:
        """The ids of all that lies in a deleted batch, or in a purged queue's folder, batches too."""
        return map(id_of, self.names_inside(folder))

    def names_inside(self, folder: str) -> Iterator[str]:
        """The names of the same."""
        for found in self.scan(folder):
            yield found.name
            if found.kind is Kind.FOLDER:
                yield from self.names_inside(f"{folder}/{found.name}")

    def space(self) -> Space:
        """What room is left."""
        try:
            return self._disk.space()
        except OSError as error:
            raise explained(error) from error

    def drop(self, path: str) -> None:
        """Unlink a file that nobody was promised, or that was superseded; gone already is fine."""
        try:
            self._disk.unlink(path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise explained(error) from error
        self._syncer.folder_changed(layout.folder_of(path))

    def drop_folder(self, path: str) -> None:
        """Remove an empty folder, once every move out of it is durable; gone already is fine."""
        self.settle(path)
        try:
            self._disk.remove_folder(path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise explained(error) from error
        self._syncer.folder_changed(layout.folder_of(path))

    def quarantine(self, path: str, why: str) -> bool:
        """Put aside what is damaged or foreign, as it is, beside a note that says why.

        Each gets a folder of its own in `quarantine/`, so that no name can clash and none can get too
        long. False if it was gone.
        """
        place = f"{layout.QUARANTINE}/{self._ids.make()}"
        name = path.rpartition("/")[2]
        self.make(place)
        try:
            self._disk.rename(path, f"{place}/{name}")
        except FileNotFoundError:
            self.drop_folder(place)
            return False
        except OSError as error:
            self.drop_folder(place)
            raise explained(error) from error
        self._syncer.folder_changed(layout.folder_of(path))
        self._syncer.folder_changed(place)
        self.quarantined += 1
        log.warning("quarantined %r: %s; it is kept in %s", path, why, place)
        try:
            note = f"{path!a}: {why}\n".encode()
            self.write(f"{place}/{name[:200]}.why", [note], sync=True)
        except StoreError as error:
            log.warning("no note beside it: %s", error)
        return True
