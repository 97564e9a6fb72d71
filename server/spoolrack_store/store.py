"""The surface of the store: an open root, requests, and queries."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from itertools import count
from random import Random
from typing import Any, Final, TypeVar

from .committer import Committer, Driver
from .engine.engine import Engine
from .files.body_file import BodyFile as BodyFile
from .files.body_file import link_body
from .files.changes import Poisoned
from .files.disk import SyncFailed, unlink_or_leave
from .files.hosts_disk import disk_of, require_fencing
from .files.layout import new_body_path
from .files.layout import owner as owner_file
from .files.local_disk import this_process
from .files.lock_wait import describe_holder, try_for
from .files.mounts import is_written_by_other_hosts, kind_of, log_doubt
from .files.removed import ReaperThread
from .files.root import Root, RootDisk, make_root, open_root
from .files.spares import SpareThread
from .listener import Listener
from .model.background_work import ALL_WORK, BackgroundWork
from .model.clock import Clock, SystemClock
from .model.disk_watermark import DiskWatermark
from .model.errors import RootInUse, RootUnusable, StoreError, StoreFailed
from .model.message_ids import PooledRandom
from .model.operations import (
    Message,
    MessageFilter,
    MessagePage,
    OpenMessage,
    Queue,
    Request,
    WrittenBody,
)
from .model.redrive_requests import Redrive
from .model.reservation_requests import MarkRead, Page, Reservation
from .model.schedule_requests import QueuedSchedule
from .model.settings import QueueSettings
from .model.shards import Shard
from .model.stage_requests import StageInfo
from .questions import Questions
from .store_metrics import StoreMetrics
from .thread_driver import ThreadDriver

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")

OPEN_TRIES: Final = 1_500
"""For half a minute an opening waits for another process, which may have millions of names to read."""
CLOSE_TRIES: Final = 250
"""For five seconds a closing waits for the lock. Then the others find this process dead."""


class Store:
    """An open root. Thread-safe."""

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        clock: Clock | None = None,
        random: Random | None = None,
        disk: RootDisk | None = None,
        background: BackgroundWork = ALL_WORK,
        group_access: bool = False,
        hosts: str | None = None,
        driver: Driver | None = None,
        watermark: DiskWatermark | None = None,
        shard: Shard | None = None,
    ) -> Store:
        """Open the folder `path`, or make it a root, and finish what a crash left there.

        Other processes of the host may have it open, too, and of other hosts if the root was made with
        `hosts` "several". `group_access` makes a new root one that
        processes of its group may share. Commits are run by `driver`, which is this store's alone;
        without one, and where a call may wait for another host, by a thread. Work that is not in
        `background` is left to other processes. Nothing is stored while the disk has less free room
        than `watermark`, or 4 MiB and 256 files. With a `shard` the root is that one, or becomes it:
        names of queues that belong to other shards are refused, as of each root that is a shard.

        Raise `RootUnusable` or `UnknownFormat`; `RootInUse` if another process holds the lock and goes
        on holding it; `StoreFailed` if what was found can't be made durable; `DiskError` or `DiskFull`.
        """
        make_root(path, group_access=group_access)
        if driver is None or is_written_by_other_hosts(kind_of(path)):
            driver = ThreadDriver()
        clock = clock if clock is not None else SystemClock()
        random = random if random is not None else PooledRandom()
        disk = disk if disk is not None else _disk_of(path, hosts)
        root = _enter(disk, os.fspath(path), random, shard)
        doubt = log_doubt(path)
        engine = Engine(
            disk,
            root.memory,
            clock=clock,
            random=random,
            owner=root.owner,
            pid=this_process().pid,
            is_living=root.is_living,
            background=background,
            watermark=watermark,
            shard=root.shard,
        )
        try:
            return cls(engine, disk, clock, root, background=background, driver=driver, doubt=doubt)
        except BaseException:
            root.close()
            raise

    def __init__(
        self,
        engine: Engine,
        disk: RootDisk,
        clock: Clock,
        root: Root,
        *,
        background: BackgroundWork,
        driver: Driver,
        doubt: str | None,
    ) -> None:
        """For `open`: make durable what is in `root`."""
        self.doubt = doubt
        """What the root's file system is, and which promise it may not keep; None: nothing is known
        against it."""
        self._root = root
        self._body_numbers = count()
        self._engine = engine
        self._changing = threading.RLock()
        """Held while the engine or its index is read or changed: see `committer`. What is read without
        it says so in its docstring: "In any thread"."""
        try:
            if not try_for(OPEN_TRIES, engine.open):
                holder = describe_holder(*engine.sharing.holder)
                raise RootInUse(root="the root", holder=f", {holder}, which holds the lock")
        except SyncFailed as error:
            if not isinstance(error, Poisoned):
                engine.sharing.poison()
            raise StoreFailed(detail=str(error)) from error
        self._reaper = ReaperThread(engine.moves.removed_files)
        spares = engine.moves.spares
        self._spare_thread = SpareThread(spares) if spares.is_on else None
        self._closing = threading.Lock()
        self._closed = False
        watch = root.disk.watch(owner_file(root.owner))
        self._listener = None if watch is None else Listener(watch, engine.sharing, clock)
        self._committer = Committer(
            engine,
            clock,
            self._changing,
            driver,
            ticks=background.ticks,
            listener=self._listener,
        )
        self._questions = Questions(engine, disk, self._changing)
        self.metrics = StoreMetrics(engine, disk, self._questions, self._committer, root.id, root.shard)
        self._committer.start()

    def submit(self, request: Request[Answer]) -> Future[Answer]:
        """Return the answer to `request`, or its `StoreError`, once it is durable.

        A `Receive` can be cancelled as long as it has leased nothing. The future's callbacks run in
        the store's thread: they must return at once.
        """
        return self._committer.submit(request)

    def try_now(self, request: Request[Answer], within: float) -> Answer | None:
        """Do a plain request in the calling thread, if nothing else is at work; return the answer,
        which is durable. None, and nothing was done: submit it.

        `within`: seconds that the disk may have taken of late for a lone message, since that is how
        long this waits. Not for a thread in which a signal's handler may raise. Raise `OutcomeUnknown`.
        """
        return self._committer.try_now(request, within)

    def retry_receives(self) -> None:
        """Try the waiting receives again: a report has freed a consumer's credits."""
        self._committer.wake()

    def begin_body(self, *, expected: int | None = None) -> BodyFile:
        """Return a new file for a body that is sent in pieces; raise `DiskFull` or `DiskError`.

        The caller writes it, finishes it, submits a `Send` with what `finish` returned, and discards
        the file when that is answered.

        With the `expected` size a disk that hasn't the room refuses it at once.
        """
        return BodyFile(self._root.disk, self._new_body(), self._engine.moves.watermark, expected)

    def link_body(self, path: str | os.PathLike[str]) -> WrittenBody:
        """Link the file at `path`, on the root's file system, as a body.

        It is synced and never read, so it has no checksum; a later write into it changes the
        message. The caller submits a `Send` with it, and calls `discard_body` when that is answered.
        Raise `InvalidRequest` if it is no file, or on another file system; `DiskError`.
        """
        return link_body(self._root.disk, os.fspath(path), self._new_body())

    def discard_body(self, body: WrittenBody) -> None:
        """Unlink a body, unless it has become a message's."""
        unlink_or_leave(self._root.disk, body.path)

    def _new_body(self) -> str:
        return new_body_path(self._root.owner, next(self._body_numbers))

    # Questions. They wait for no sync, but may read files.

    def summary(self, name: str) -> Queue:
        """Return the queue `name` without its obstacles and oldest leases, as of the last commit;
        raise `InvalidQueueName`, `QueueNotFound`."""
        self._questions.refresh()
        return self._engine.views.queue(self._engine.catalog.require(name))

    def queue(self, name: str) -> Queue:
        """Return the queue `name` with its obstacles and oldest leases; raise `InvalidQueueName`,
        `QueueNotFound`, `DiskError`.

        If it has leases, strict groups or limits, it waits while a commit changes the index.
        """
        engine, space = self._engine, self.metrics.space()
        is_disk_full = space is not None and self.metrics.refuses_sends(space)
        found = self.summary(name)
        if (
            found.counts.leased_count
            or found.settings.group_order == "strict"
            or found.settings.limits_leases
            or name in engine.reservations.index.of_queue
        ):
            queue = self._questions.up_to_date(engine.described, name, is_disk_full=is_disk_full)
        else:
            # Not `described`: by now there may be leases, which the lock's holder alone may look at.
            staged = engine.stages.held(name)
            queue = engine.views.with_obstacles(found, staged, is_disk_full=is_disk_full)
        if all(each.consumer or each.stream for each in queue.oldest_leases):
            return queue
        unknown = self.metrics.unknown_consumer()
        return replace(
            queue,
            oldest_leases=[
                each if each.consumer or each.stream else replace(each, consumer=unknown)
                for each in queue.oldest_leases
            ],
        )

    def settings(self, queue: str) -> QueueSettings:
        """Return the settings of a queue as the last commit knew them, without waiting for one; raise
        `InvalidQueueName`, `QueueNotFound`."""
        return self._engine.catalog.require(queue).settings

    def queues(self, *, prefix: str = "", after: str = "", limit: int = 100) -> list[Queue]:
        """Return up to `limit` queues above the name `after` whose names begin with `prefix`, in
        order."""
        self._questions.refresh()
        return self._engine.views.queues(prefix, after, limit)

    # A `queue` that a question names beside an id is of this shard, or the answer is `WrongShard`.

    def stages(self, *, queue: str = "", after: str = "", limit: int = 100) -> list[StageInfo]:
        """Return up to `limit` stages above the name `after`, in order, those with messages for `queue`
        if it is given."""
        return self._questions.up_to_date(self._engine.stages.listed, after, limit, queue)

    def stage(self, name: str, queue: str = "") -> StageInfo:
        """Return a stage that isn't published; raise `StageNotFound`."""
        return self._questions.up_to_date(self._engine.stages.shown, name, queue)

    def schedules(
        self, *, queue: str = "", after: tuple[str, str] = ("", ""), limit: int = 100
    ) -> list[QueuedSchedule]:
        """Return up to `limit` schedules, those of `queue` if it is given, above the queue and name
        `after`, in order; raise `QueueNotFound`."""
        return self._questions.up_to_date(self._engine.schedules.listed, queue, after, limit)

    def redrive(self, id: str, queue: str = "") -> Redrive:
        """Return the redrive `id`, of `queue` if it is given; raise `InvalidRequest`,
        `RedriveNotFound`."""
        return self._questions.up_to_date(self._engine.redrives.find, id, queue)

    def redrives(self, *, queue: str = "", after: str = "", limit: int = 100) -> list[Redrive]:
        """Return up to `limit` redrives, those of `queue` if it is given, above the id `after`, in
        order."""
        return self._questions.up_to_date(self._engine.redrives.listed, queue, after, limit)

    def reservation(self, stream: str, sequence_number: int, queue: str = "") -> Reservation:
        """Return a reservation, of `queue` if it is given, held or lost, that isn't committed; raise
        `ReservationNotFound`."""
        return self._questions.up_to_date(
            self._engine.reservations.find, stream, sequence_number, queue
        )

    def reservations(
        self, *, queue: str = "", stream: str = "", after: tuple[str, int] = ("", -1), limit: int = 100
    ) -> list[Reservation]:
        """Return up to `limit` reservations above the stream and number `after`, in order, held or
        lost; those of `queue` and `stream`, if they are given."""
        return self._questions.up_to_date(self._engine.reservations.shown, queue, stream, after, limit)

    def read_reservation(
        self,
        stream: str,
        sequence_number: int,
        *,
        begin: int = 0,
        end: int = 0,
        queue: str = "",
        allowed: Callable[[str], bool] | None = None,
        mark_read: bool = False,
    ) -> Iterator[Page]:
        """Return the messages of a set from the index `begin` to before `end`, in order, by pages.

        An `end` of 0 is the set's. They carry no receipts, and no receive is counted; `mark_read` marks
        the set. Deleted messages are left out, damaged ones put aside. Each page is read while no
        other process changes anything; the hold may end, be extended or be committed between two.
        Raise, between pages, too, `ReservationNotFound` (not `allowed`), `ReservationLost`,
        `ReservationCommitted`, `DiskError`; `RootInUse` if another process holds the lock and goes on
        holding it; `StoreFailed`.
        """
        begin_reading = self._engine.reservations.begin_reading
        last = self._questions.exact(begin_reading, stream, sequence_number, begin, end, allowed, queue)
        if mark_read:
            # Before the first message is seen: a set that was read must never look unread.
            self.submit(
                MarkRead(stream=stream, sequence_number=sequence_number, allowed=allowed)
            ).result()
        return self._pages(stream, sequence_number, begin, last)

    def _pages(self, stream: str, sequence_number: int, begin: int, last: int) -> Iterator[Page]:
        while begin < last:
            read = self._engine.reservations.page
            page = self._questions.exact(read, stream, sequence_number, begin, last)
            # First: a later commit of the set deletes what is still in it.
            for damaged in page.damaged:
                self.submit(damaged).result()
            if page.runs:
                yield page
            begin = page.next_index

    def message(self, queue: str, id: str) -> Message:
        """Return a message, without leasing it; raise `MessageNotFound`, `MessageDamaged`,
        `DiskError`."""
        return self._questions.message(queue, id)

    def open_message(self, queue: str, id: str) -> OpenMessage:
        """Return a message with its body as a part of a file, which the caller closes. It was read and
        checked once, in pieces."""
        return self._questions.open_message(queue, id)

    def page(
        self,
        queue: str,
        wanted: MessageFilter,
        *,
        after: str = "",
        skip: int = 0,
        limit: int = 100,
        max_body_bytes: int | None = None,
    ) -> MessagePage:
        """Return up to `limit` matching messages above the id `after`, in order, without leasing them.

        It looks at 10,000 messages at most, and reads what 1,000 files say of theirs: a page of few
        messages, or none, isn't the last one if it has a `last`. Of each body no more than
        `max_body_bytes`; None: all. The first `skip` messages of the states and the time are passed
        over.
        """
        return self._questions.page(queue, wanted, after, skip, limit, max_body_bytes)

    @property
    def root_id(self) -> str:
        """The root's identity: a UUID that a copy of the root has, too."""
        return self._root.id

    @property
    def shard(self) -> Shard | None:
        """Which shard the root is; None: it is none."""
        return self._root.shard

    @property
    def failure(self) -> StoreError | None:
        """Why the store has failed, until a restart; None if it hasn't."""
        return self._committer.failure

    def on_failure(self, callback: Callable[[StoreError], None]) -> None:
        """Call `callback` once, from a thread of the store, if the store fails."""
        self._committer.on_failure(callback)

    # The end.

    def drain(self) -> None:
        """Lease nothing more: receives, those that wait too, raise `Draining`. Other requests
        continue."""
        self._committer.drain()

    def close(self) -> None:
        """Finish the submitted requests, and leave the root. May be repeated.

        Questions are answered from what was known then; an exact one raises `StoreFailed`.
        """
        with self._closing:
            if self._closed:
                return
            self._closed = True
            self._committer.stop()
            if self._listener is not None:
                self._listener.stop()
            self._reaper.stop()
            if self._spare_thread is not None:
                self._spare_thread.stop()
            if self._committer.failure is None:
                try:
                    try_for(CLOSE_TRIES, self._leave)
                    self._engine.moves.spares.close()
                except (SyncFailed, StoreError) as error:
                    # The next process that opens the root finds this one dead.
                    log.warning("the root is left as by a process that dies: %s", error)
            with self._changing:
                self._engine.sharing.is_over = True
                self._root.close()

    def _leave(self) -> bool:
        """Leave the root, beside no exact question: the engine holds the lock for one at a time."""
        with self._changing:
            return self._engine.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()


def _disk_of(path: str | os.PathLike[str], hosts: str | None) -> RootDisk:
    try:
        disk = disk_of(path, hosts)
        if disk.several_hosts:
            require_fencing(path)
        return disk
    except OSError as error:
        raise RootUnusable(root=os.fspath(path), why=error.strerror or str(error)) from error


def _enter(disk: RootDisk, path: str, random: Random, shard: Shard | None) -> Root:
    """Become an owner, once no other process holds the lock."""
    entered: list[Root] = []

    def is_in() -> bool:
        try:
            entered.append(open_root(disk, path, random, this_process(), shard))
        except RootInUse:
            return False
        return True

    if not try_for(OPEN_TRIES, is_in):
        return open_root(disk, path, random, this_process(), shard)
    return entered[0]
