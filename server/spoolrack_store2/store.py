"""The store as its callers have it: a root that is open, requests to be submitted, and questions."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from spoolrack_store.files.syncer import SyncFailed
from spoolrack_store.model.chores import ALL_CHORES, Chores
from spoolrack_store.model.clock import Clock, Millis
from spoolrack_store.model.errors import RootInUse, StoreError, StoreFailed
from spoolrack_store.model.operations import Message, OpenMessage
from spoolrack_store.model.transitions import State

from .changes import Poisoned
from .committer import Committer, Driver
from .drivers import ThreadDriver
from .engine import Engine
from .holder import LockHolder, look_at
from .operations import Request
from .questions import Questions

Answer = TypeVar("Answer")

_TRY_EVERY: Final = 20
"""Milliseconds between two tries of a lock that another process holds."""
OPEN_WITHIN: Final = Millis(30_000)
"""For so long an opening waits for another process, which may have millions of names to read."""
CLOSE_WITHIN: Final = Millis(5_000)
"""For so long a closing waits for the lock. Then the others find this process dead."""


class Store:
    """An open root. Thread-safe."""

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        *,
        chores: Chores = ALL_CHORES,
        driver: Driver | None = None,
    ) -> None:
        """Open the root of `engine`, and make durable what is there.

        Raise `RootInUse` if another process holds the lock and goes on holding it, `StoreFailed` if
        what was found can't be made durable, or another process's sync failed.
        """
        self._engine = engine
        self._clock = clock
        self._changing = threading.RLock()
        try:
            if not _try_for(OPEN_WITHIN, clock, engine.open):
                holder = look_at(*engine.sharing.holder)
                raise RootInUse(root="the root", holder=f", {holder}")
        except Poisoned as error:
            detail = "a sync of another process that has the root open failed"
            raise StoreFailed(detail=detail) from error
        except SyncFailed as error:
            engine.sharing.poison()
            raise StoreFailed(detail=str(error)) from error
        self._questions = Questions(engine)
        self._closing = threading.Lock()
        self._closed = False
        self._committer = Committer(
            engine,
            clock,
            self._changing,
            driver if driver is not None else ThreadDriver(),
            ticks=chores.ticks,
        )
        self._committer.start()

    def submit(self, request: Request[Answer]) -> Future[Answer]:
        """Return the answer to `request`, or its `StoreError`, once the promise about it is kept.

        A `Receive` can be cancelled as long as it has leased nothing. The future's callbacks run in
        the store's thread: they must return at once.
        """
        return self._committer.submit(request)

    # Questions. They wait for no sync, but may read files.

    def message(self, queue: str, id: str) -> Message:
        """Return a message, without leasing it; raise `MessageNotFound`, `MessageDamaged`,
        `DiskError`."""
        with self._changing:
            return self._questions.message(queue, id)

    def open_message(self, queue: str, id: str) -> OpenMessage:
        """Return the same with the body as a file, which the caller closes."""
        with self._changing:
            return self._questions.open_message(queue, id)

    def messages(
        self,
        queue: str,
        *,
        states: frozenset[State] = frozenset(),
        after: str = "",
        limit: int = 100,
        max_body_bytes: int | None = None,
    ) -> list[Message]:
        """Return up to `limit` messages above the id `after`, in order, without leasing them.

        Fewer if their bodies get too many bytes; none only if there are no more. Of each body no more
        than `max_body_bytes`; None: all. No `states`: in all.
        """
        with self._changing:
            return self._questions.messages(queue, states, after, limit, max_body_bytes)

    @property
    def waiting(self) -> int:
        """Receives and reserves that wait for a message."""
        return self._committer.waiting

    @property
    def failure(self) -> StoreError | None:
        """Why nothing is promised any more, before a restart; None while all is well."""
        return self._committer.failure

    @property
    def lock_holder(self) -> LockHolder | None:
        """The process that has kept this one from committing for a second or more."""
        return self._committer.lock_holder

    def on_failure(self, callback: Callable[[StoreError], None]) -> None:
        """Call `callback` once, from a thread of the store, if the store fails."""
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
            self._committer.stop()
            if self._committer.failure is None:
                _try_for(CLOSE_WITHIN, self._clock, self._engine.close)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()


def _try_for(span: Millis, clock: Clock, act: Callable[[], bool]) -> bool:
    """Do what needs the lock, once it is free; return False if it isn't within `span`."""
    end, pause = clock.monotonic() + span, threading.Condition()
    while not act():
        now = clock.monotonic()
        if now >= end:
            return False
        with pause:
            clock.wait(pause, Millis(now + _TRY_EVERY))
    return True
