"""The store's front, which threads may share.

It opens a root, takes requests, answers questions, and closes. What it promises is in `operations`;
what makes it true is in `committer`, which runs the `engine`, beside the `mover` and the `reaper`.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from random import Random
from typing import Final, TypeVar

from .committer import Committer, Driver
from .drivers import ThreadDriver
from .engine.engine import Engine
from .engine.views import Sight
from .files.disk import Disk, LocalDisk
from .files.mounts import is_written_by_other_hosts, tell_doubt
from .files.opening import Tenancy, make_root, take
from .files.reader import Damaged, Forbidden, Gone, open_message, read_message
from .files.syncer import SyncFailed
from .files.watcher import Watcher
from .listener import Ear, Listener
from .model.chance import PooledRandom
from .model.chores import ALL_CHORES, Chores
from .model.clock import Clock, Millis, SystemClock
from .model.content import Content
from .model.deaths import Death, NotAHistory, deaths_in
from .model.errors import (
    DiskError,
    MessageDamaged,
    MessageNotFound,
    RootInUse,
    StoreError,
    StoreFailed,
)
from .model.operations import Message, OpenMessage, Queue, Request
from .model.redriving import Redrive
from .model.reservations import Reservation
from .model.staging import StageInfo
from .model.transitions import State
from .mover import Mover
from .overview import Overview
from .rereading import Rereading
from .tally import Tally

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")

_ANY_STATE: Final = frozenset({State.READY, State.LEASED, State.DELAYED})
_LOOKS: Final = 5
"""A message that moves while it is looked at is looked for so often."""
_PAGE_BYTES: Final = 4 * 1024 * 1024
_KNOCKS: Final = 1_500
_KNOCKS_EVERY: Final = 0.02
"""Seconds. For half a minute a start waits for another one to get done, which may have millions of
names to read; and for a moment when one who is alone moves nothing."""
_NEVER: Final = threading.Event()


class Store:
    """An open root. Thread-safe. It holds the root's lock until it is closed."""

    @classmethod
    def open(
        cls,
        root: str | os.PathLike[str],
        *,
        clock: Clock | None = None,
        random: Random | None = None,
        disk: Disk | None = None,
        ear: Ear | None = None,
        peers: int = 0,
        chores: Chores = ALL_CHORES,
        group_access: bool = False,
        driver: Driver | None = None,
    ) -> Store:
        """Open the folder `root`, or make it one, and finish what a crash left there.

        Others may have it open, too, and come and go: no message is in two hands for that. A `disk` of
        one's own has no others but for those that `ear` tells of. With so many `peers` a receive takes
        any of the oldest `peers` + 1, so that they lose fewer races, and the order is no longer exact.
        `group_access` makes a new root one that processes of its group may share; who opens it later
        needn't say so. What it leaves of the `chores` to others, nobody waits for: a receive finds all
        that is due. Commits are run by `driver`, which is this store's alone; without one, and where a
        call may wait for another host, by a thread.

        Raises `RootUnusable` or `UnknownFormat`; `RootInUse` if somebody mends it, or doesn't get done
        with starting; `StoreFailed` if what was found can't be made durable; `DiskError` or `DiskFull`
        if the settings of the queues can't be read or mended.
        """
        make_root(root, group_access=group_access)
        if driver is None or is_written_by_other_hosts(root):
            driver = ThreadDriver()
        clock = clock if clock is not None else SystemClock()
        random = random if random is not None else PooledRandom()
        if disk is None:
            disk, ear = LocalDisk(root), Watcher(root)
        tenancy = _enter(disk, os.fspath(root), random)
        tell_doubt(root)
        engine = Engine(
            disk,
            clock=clock,
            random=random,
            owner=tenancy.owner,
            watch=ear,
            choice=peers + 1,
            chores=chores,
        )
        try:
            _begin(engine, tenancy)
        except BaseException as error:
            tenancy.end()
            if ear is not None:
                ear.close()
            if isinstance(error, SyncFailed):
                raise StoreFailed(detail=str(error)) from error
            raise
        return cls(engine, disk, tenancy, clock, ear, chores, driver)

    def __init__(
        self,
        engine: Engine,
        disk: Disk,
        tenancy: Tenancy,
        clock: Clock,
        ear: Ear | None,
        chores: Chores,
        driver: Driver,
    ) -> None:
        """For `open`: `engine` has recovered, or joined others."""
        self._engine = engine
        self._disk = disk
        self._tenancy = tenancy
        self._changing = threading.RLock()
        self._committer = Committer(engine, clock, self._changing, self._tell_due, driver)
        self.tally = Tally(engine, disk, self._changing, self._committer)
        self.overview = Overview(engine, self._changing)
        self._rereading = Rereading(engine.reservations, disk, self._changing, self._committer.submit)
        self._mover = Mover(clock, lambda: self._committer.tick().result()) if chores.ticks else None
        self._listener = None if ear is None else Listener(ear, lambda: self._committer.heed().result())
        self._reaper = engine.reaper if chores.unlinks else None
        self._closing = threading.Lock()
        self._closed = False
        self._committer.start()
        if self._mover is not None:
            self._mover.start()
        if self._reaper is not None:
            self._reaper.start()
        if self._listener is not None:
            self._listener.start()

    def _tell_due(self, moment: Millis) -> None:
        if self._mover is not None:
            self._mover.due_at(moment)

    def submit(self, request: Request[Answer]) -> Future[Answer]:
        """The answer to `request`, or its `StoreError`, once the promise about it is kept.

        A `Receive` can be cancelled as long as it has leased nothing. The future's callbacks run in
        the store's thread: they must return at once.
        """
        return self._committer.submit(request)

    # Questions. They wait for no sync, but may read files.

    def queue(self, name: str) -> Queue:
        """The queue `name`; raises `InvalidQueueName`, `QueueNotFound`."""
        with self._changing:
            return self._engine.views.queue(self._engine.catalog.require(name))

    def queues(self, *, prefix: str = "", after: str = "", limit: int = 100) -> list[Queue]:
        """Up to `limit` queues whose names start with `prefix` and stand above `after`, in order."""
        with self._changing:
            return self._engine.views.queues(prefix, after, limit)

    def stages(self, *, after: str = "", limit: int = 100) -> list[StageInfo]:
        """Up to `limit` stages whose names stand above `after`, in order."""
        with self._changing:
            return self._engine.staging.listed(after, limit)

    def redrive(self, id: str) -> Redrive:
        """The redrive `id`; raises `InvalidRequest`, `RedriveNotFound`, `DiskError`."""
        with self._changing:
            return self._engine.redriving.find(id)

    def redrives(self, *, queue: str = "", after: str = "", limit: int = 100) -> list[Redrive]:
        """Up to `limit` redrives, those of `queue` if it is given, above the id `after`, in order."""
        with self._changing:
            return self._engine.redriving.listed(queue, after, limit)

    def message(self, queue: str, id: str) -> Message:
        """A message, without leasing it; raises `MessageNotFound`, `MessageDamaged`."""
        return self._look_for(queue, id, lambda sight: self._look_at(sight, None))

    def open_message(self, queue: str, id: str) -> OpenMessage:
        """The same with the body in an open file, which has been read and checked once, in pieces."""
        return self._look_for(queue, id, self._open)

    def messages(
        self,
        queue: str,
        *,
        states: frozenset[State] = frozenset(),
        after: str = "",
        limit: int = 100,
        max_body_bytes: int | None = None,
    ) -> list[Message]:
        """Up to `limit` messages above the id `after`, in order, without leasing them.

        Fewer if their bodies get too many bytes; none only if there are no more. Of each body no more
        than `max_body_bytes`; None: all. No `states`: in all.
        """
        found: list[Message] = []
        bytes_left = _PAGE_BYTES
        while not found:
            with self._changing:
                wanted = states or _ANY_STATE
                sights = self._engine.views.messages(queue, wanted, after, limit)
            if not sights:
                break
            for sight in sights:
                after = sight.entry.id
                message = self._if_there(sight, max_body_bytes)
                if message is not None:
                    found.append(message)
                    bytes_left -= len(message.body)
                if bytes_left <= 0:
                    break
        return found

    def reservations(
        self, *, queue: str = "", stream: str = "", after: tuple[str, int] = ("", -1), limit: int = 100
    ) -> list[Reservation]:
        """Up to `limit` reservations above the stream and number `after`, in order, held or lost.

        Only those of `queue` and `stream`, where they are given.
        """
        with self._changing:
            return self._engine.reservations.shown(queue, stream, after, limit)

    def read_reservation(
        self,
        stream: str,
        seq: int,
        *,
        begin: int = 0,
        end: int = 0,
        allowed: Callable[[str], bool] | None = None,
        mark_read: bool = False,
    ) -> Iterator[list[Message]]:
        """The messages of a set from the place `begin` to before `end`, in order, by pages.

        An `end` of 0 is the set's. They carry no receipts, and no receive is counted; `mark_read` marks
        the set. What was deleted is left out; what is damaged is put aside. Raises, between pages, too,
        `ReservationNotFound` (not `allowed`), `ReservationLost`, `ReservationCommitted`, `DiskError`.
        """
        return self._rereading.pages(stream, seq, begin, end, allowed, mark_read=mark_read)

    @property
    def failure(self) -> StoreError | None:
        """Why nothing is promised any more, before a restart; None while all is well."""
        return self._committer.failure

    @property
    def lost_races(self) -> int:
        """Claims of messages that another process was faster with, since the start."""
        return self._engine.lost_races

    @property
    def quarantined(self) -> int:
        """Files and folders put into quarantine since the start."""
        return self._engine.quarantined

    def on_failure(self, callback: Callable[[StoreError], None]) -> None:
        """Call `callback` once, from a thread of the store, if a sync fails."""
        self._committer.on_failure(callback)

    # The end.

    def drain(self) -> None:
        """Lease nothing any more: receives, those that wait too, raise `Draining`. The rest goes on."""
        self._committer.drain()

    def close(self) -> None:
        """Finish what was submitted, and leave the root to others. May be called again."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
            if self._mover is not None:
                self._mover.stop()
            self._committer.stop()
            if self._listener is not None:
                self._listener.stop()
            if self._reaper is not None:
                self._reaper.stop()
            self._engine.close()
            self._tenancy.end()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _if_there(self, sight: Sight, max_body_bytes: int | None) -> Message | None:
        """The message that was seen; None if it is gone or can't be read, which a list passes over."""
        try:
            return self._look_at(sight, max_body_bytes)
        except Gone:
            try:
                return self.message(sight.queue, sight.entry.id)
            except StoreError:
                return None
        except (MessageDamaged, DiskError) as error:
            log.warning("a list passes over message %s: %s", sight.entry.id, error)
            return None

    def _look_for(self, queue: str, id: str, look: Callable[[Sight], Answer]) -> Answer:
        """What `look` finds of a message that may be moving."""
        for _ in range(_LOOKS):
            with self._changing:
                sight = self._engine.views.find(queue, id)
            try:
                return look(sight)
            except Gone:
                continue  # It has moved: look where it is now.
        raise MessageNotFound(queue=queue, id=id)

    def _look_at(self, sight: Sight, max_body_bytes: int | None) -> Message:
        deaths = self._deaths(sight)
        if max_body_bytes == 0 and not sight.entry.trailer:
            return sight.message(Content(b""), deaths)
        with _told(sight):
            content = read_message(self._disk, sight.path, sight.entry)
        if max_body_bytes is not None:
            content = Content(content.body[:max_body_bytes], content.attributes)
        return sight.message(content, deaths)

    def _deaths(self, sight: Sight) -> Sequence[Death]:
        """How the message came to be a dead letter. What can't be read costs nobody the message."""
        if sight.history is None:
            return ()
        try:
            return deaths_in(self._disk.read(sight.history))
        except FileNotFoundError:
            return ()  # Others have the root open, and most messages have no history.
        except (OSError, NotAHistory) as error:
            log.warning("the history of message %s can't be read: %s", sight.entry.id, error)
            return ()

    def _open(self, sight: Sight) -> OpenMessage:
        with _told(sight):
            file, attributes = open_message(self._disk, sight.path, sight.entry)
        message = sight.message(Content(b"", attributes), self._deaths(sight))
        return OpenMessage(message=message, file=file)


@contextmanager
def _told(sight: Sight) -> Iterator[None]:
    """Say which message it is that can't be read."""
    try:
        yield
    except Damaged as error:
        id = sight.entry.id
        raise MessageDamaged(queue=sight.queue, id=id, why=str(error)) from error
    except Forbidden as error:
        raise DiskError(detail=str(error)) from error


def _enter(disk: Disk, root: str, random: Random) -> Tenancy:
    """Become an owner, after whoever is starting just now."""
    for _ in range(_KNOCKS):
        try:
            return take(disk, root, random)
        except RootInUse:
            # In true time: whom this waits for is another process.
            _NEVER.wait(_KNOCKS_EVERY)
    return take(disk, root, random)


def _begin(engine: Engine, tenancy: Tenancy) -> None:
    if tenancy.is_alone:
        recovery = engine.recover()
        if recovery.delivered or recovery.undone:
            log.info(
                "recovered: %d sent messages delivered, %d unfinished sends undone",
                recovery.delivered,
                recovery.undone,
            )
    else:
        engine.join()
    tenancy.admit()
