"""The engine: what the store does, one commit at a time, without threads.

A commit changes names and index for all requests at hand (`apply`), makes that durable (`Work.sync`),
and then its answers hold (`finish`). In a commit the order is: each part goes on with what
waited for a sync or a time, and then the requests are done, receives last. The engine is deterministic:
clock, randomness and disk are arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from spoolrack_store.files.syncer import Commit
from spoolrack_store.model.clock import Clock, Millis
from spoolrack_store.model.errors import StoreError
from spoolrack_store.model.operations import CreateQueue, DeleteQueue, UpdateQueue
from spoolrack_store.model.transitions import State

from .batch import Entry
from .catalog import Catalog
from .changes import Changes, Memory
from .disk import Disk
from .ids import FileIds
from .leaser import Leaser
from .letters import Letters
from .moves import Moves, tidy
from .operations import (
    ChangeVisibility,
    Delete,
    Delivery,
    GiveBack,
    Outcome,
    Purge,
    Receive,
    Request,
    Send,
)
from .part import Part, Turn, run_in
from .reader import CACHE_BYTES, Reader
from .remover import Remover
from .sender import Sender
from .sharing import Sharing
from .views import Views


@dataclass(slots=True)
class Work:
    """One commit, between its moves and its answers."""

    outcomes: list[Outcome]
    number: int
    commit: Commit | None
    """What to sync; None: no answer waits for a sync."""
    assigned: list[Entry]
    """What was leased as it was sent."""


class Engine:
    """Not thread-safe, but for `Work.commit.sync`, during which the next commit may begin."""

    def __init__(
        self,
        disk: Disk,
        memory: Memory,
        *,
        clock: Clock,
        random: Random,
        owner: str,
        pid: int = 0,
        is_living: Callable[[str], bool],
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        """`memory` is `CHANGES`; `pid` is told to processes that wait for the lock; `is_living` tells
        whether the process of an owner is alive."""
        self.moves = Moves(disk, clock, owner)
        self.index = self.moves.index
        self.catalog = Catalog(self.moves, random)
        self.views = Views(self.moves, self.catalog)
        self._ids = FileIds(clock, random)
        self.reader = Reader(disk, self.index, cache_bytes)
        self._sender = Sender(self.moves, self.catalog, self.reader, self._ids)
        self._letters = Letters(self.moves, self.catalog, self.reader, clock)
        self._leaser = Leaser(self.moves, self.catalog, self.reader, self._letters, clock, random)
        self._remover = Remover(self.moves, self.catalog, self._leaser)
        self._parts: tuple[Part, ...] = (self.catalog, self._sender, self._letters, self._leaser)
        """In the order in which they go on at the beginning of a commit."""
        self._turns = (
            Turn(CreateQueue, lambda asked: self.views.queue(self.catalog.create(asked))),
            Turn(UpdateQueue, lambda asked: self.views.queue(self.catalog.update(asked))),
            Turn(DeleteQueue, self.catalog.delete),
            Turn(Send, self._sender.send, together=True),
            Turn(Delete, self._remover.delete, together=True),
            Turn(ChangeVisibility, self._leaser.change, together=True),
            Turn(GiveBack, self._leaser.give_back),
            Turn(Purge, self._remover.purge),
            Turn(Receive, self._receive, together=True),
        )
        changes = Changes(memory, owner, pid)
        self.sharing = Sharing(self.moves, changes, self.catalog, self._ids, is_living, self._parts)

    def open(self) -> bool:
        """Take in the folders, and make durable what was found; False if another process holds the
        lock.

        Raise `SyncFailed`.
        """
        if not self.sharing.open():
            return False
        self._sync_now()
        return True

    def apply(self, requests: Sequence[Request[Any]], *, tick: bool = False) -> Work | None:
        """Do what `requests` ask, as far as it can be done before the sync; None if another process
        holds the lock.

        With `tick` it also looks which processes have died.
        """
        if not self.sharing.enter():
            return None
        try:
            return self._apply(requests, tick)
        finally:
            self.sharing.leave()

    def _apply(self, requests: Sequence[Request[Any]], tick: bool) -> Work:
        if tick:
            self.sharing.look_for_dead()
            for part in self._parts:
                part.tick()
        self.sharing.finish_orphans()
        for part in self._parts:
            if part.has_work:
                part.go_on()
        self._tidy()
        outcomes = run_in(self._turns, requests)
        assigned, self._leaser.assigned = self._leaser.assigned, []
        if not self._needs_sync(requests, outcomes):
            return Work(outcomes, 0, None, assigned)
        number, commit = self.moves.begin_sync()
        self.sharing.rests_on_others = False
        return Work(outcomes, number, commit, assigned)

    def _needs_sync(self, requests: Sequence[Request[Any]], outcomes: Sequence[Outcome]) -> bool:
        """Return whether an answer promises what isn't durable yet, or the engine's own work waits for
        a sync."""
        if self.moves.syncer.is_in_doubt:
            return True
        if not requests:
            return self.wants_commit and self.moves.syncer.is_dirty
        for request, outcome in zip(requests, outcomes, strict=True):
            if isinstance(outcome, StoreError) or (isinstance(request, Receive) and not outcome):
                continue
            if not isinstance(request, Receive | ChangeVisibility | GiveBack):
                return True
            record = self.catalog.records.get(request.queue)
            if record is None or not record.settings.relaxed_leases or self.sharing.rests_on_others:
                return True
        return False

    def finish(self, work: Work) -> list[Outcome] | None:
        """The commit is synced: return the answers; None if another process holds the lock.

        What was leased as it was sent must be where other processes look for it before the consumer
        hears of it.
        """
        if work.commit is not None:
            self.moves.end_sync(work.number)
        if work.assigned:
            if not self.sharing.enter():
                return None
            try:
                self._leaser.hand_out(work.assigned)
            finally:
                self.sharing.leave()
        return work.outcomes

    def _receive(self, requests: Sequence[Receive]) -> Sequence[list[Delivery] | StoreError]:
        return self._leaser.receive(requests, self._sender.just_written())

    @property
    def wants_commit(self) -> bool:
        """Whether work waits for a commit that no request asks for."""
        return (
            bool(self.index.loose)
            or self.sharing.has_orphans
            or any(part.has_work for part in self._parts)
        )

    def ready(self, queue: str) -> int | None:
        """Return how many messages a receive could take; None if there is no such queue."""
        if queue not in self.catalog.records:
            return None
        return self.index.queue(queue).counts[State.READY]

    def close(self) -> bool:
        """Leave the root to the others; False if another process holds the lock."""
        if not self.sharing.enter():
            return False
        try:
            self.sharing.close()
        finally:
            self.sharing.leave()
        return True

    def next_due(self) -> Millis | None:
        """Return the monotonic time at which something has to be done that no request asks for."""
        times = [self.index.next_due(), *(part.next_due() for part in self._parts)]
        return min((time for time in times if time is not None), default=None)

    def _tidy(self) -> None:
        """Unlink what may go since the last sync."""
        loose = list(self.index.loose)
        for entry in tidy(self.moves, loose):
            self.moves.unlink(entry)
        for batch in loose:
            if not batch.entries:
                self.reader.forget(batch)
            elif not batch.is_loose:
                self.index.loose.pop(batch, None)  # A name that held nothing went as another came.

    def _sync_now(self) -> None:
        number, commit = self.moves.begin_sync()
        commit.sync()
        self.moves.end_sync(number)
