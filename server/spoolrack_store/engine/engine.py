"""The engine: what the store does, one commit at a time, without threads.

A commit changes the folders and the index for all requests at hand (`apply`), makes everything that
was dirtied durable (`sync`), then does what had to wait for that, such as publishing what was sent,
and hands out the answers (`finish`). It is deterministic: clock, randomness and disk are arguments, so
that a seeded test can run it on a disk that crashes.

Within one commit the order is: what is due comes back, queues are created and deleted, messages are
written, deleted, extended and released, and last received. None of these was answered before
another came in, so nobody was promised any other order; and this one fills the receives best.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Any

from ..files import layout
from ..files.disk import Disk, Lock
from ..files.folders import Folders
from ..files.segments import Segments
from ..files.syncer import Syncer
from ..index.hidden import Index
from ..model.chores import ALL_CHORES, Chores
from ..model.clock import Clock, Millis
from ..model.errors import StoreError
from ..model.ids import IdMaker
from ..model.operations import (
    ByReceipt,
    ChangeVisibility,
    Delete,
    GiveBack,
    Purge,
    Receive,
    Request,
    Send,
)
from ..model.reservations import Reserve
from .adoption import Adoption
from .arrivals import Arrivals
from .catalog import Catalog
from .clearance import Clearance
from .deduplicating.deduplication import Deduplication
from .histories import Histories
from .leaser import Leaser
from .letters import Letters
from .order import Outcome, Turn, Work, run_in
from .peers import Peers, Watch
from .promised import is_promised
from .publisher import Publisher
from .queue_turns import QueueTurns
from .reaper import Reaper
from .recent import RECENT_BYTES, Recent
from .recovery import Recovery
from .redriving.redriving import Redriving
from .remover import Remover
from .requeuer import Requeuer
from .reserving.reservations import Reservations
from .root import Root
from .sender import Sender
from .staging.staging import Staging
from .succession import Succession
from .sweep import Sweep
from .views import Views

log = logging.getLogger(__name__)

PASSED_OVER_PER_TICK = 1_000


class Engine:
    """Not thread-safe, but for `sync`, during which reads may go on."""

    def __init__(
        self,
        disk: Disk,
        *,
        clock: Clock,
        random: Random,
        owner: str,
        watch: Watch | None = None,
        choice: int = 1,
        chores: Chores = ALL_CHORES,
        recent_bytes: int = RECENT_BYTES,
    ) -> None:
        """`watch` tells what others do who have the root open, too; without it, there are none. Of
        what is sent, `recent_bytes` are kept in memory, so that they needn't be read back."""
        syncer = Syncer(disk)
        ids = IdMaker(clock, random)
        self._root = root = Root(
            disk=disk,
            syncer=syncer,
            folders=Folders(disk, syncer, ids),
            index=Index(),
            clock=clock,
            random=random,
            ids=ids,
            owner=owner,
            choice=choice,
            chores=chores,
            recent=Recent(recent_bytes),
        )
        self.statistics = syncer.statistics
        self.catalog = Catalog(root)
        self._histories = Histories(root)
        self._letters = Letters(root, self.catalog, self._histories)
        self.peers = Peers(root, self.catalog, watch)
        self._contents = contents = self.peers.contents
        self._segments = Segments(disk, owner)
        self.deduplication = Deduplication(root, self.catalog, self._segments)
        self._publisher = Publisher(root, self.catalog)
        self._arrivals = arrivals = Arrivals(root)
        self._sender = Sender(root, self.catalog, self.deduplication, self._publisher, arrivals)
        self.redriving = Redriving(
            root, self.catalog, self.peers, self._histories, self._segments, self._sender.entering
        )
        self._remover = Remover(
            root,
            self.catalog,
            self._letters,
            self.peers.seek,
            self._publisher.is_arriving,
            self.redriving.led_to,
        )
        self._clearance = Clearance(root, self.catalog)
        self._requeuer = Requeuer(root, self.catalog, self._letters, contents.look_into_lease)
        self._may_be_shared = watch is not None
        self._leaser = Leaser(
            root, self.catalog, self._letters, self._remover, self._requeuer, self.peers, arrivals
        )
        self._adoption = Adoption(root, self.catalog, self._publisher)
        self.staging = Staging(root, self.catalog, contents.look_into)
        self.views = Views(root, self.catalog, contents.look_into)
        self.reservations = Reservations(
            root, self.catalog, self._leaser, self._remover, self._requeuer, self.peers, self.views
        )
        died = self.reservations.upkeep.somebody_died
        self._succession = Succession(root, self.catalog, self._sender, died)
        self._queue_turns = QueueTurns(
            root, self.catalog, self._clearance, self.views, self.peers, self._succession.settle
        )
        self.reaper = Reaper(disk, root.histories, self._segments, self.deduplication.known.asked_since)
        self._sweep = Sweep(root, self.reaper)
        root.folders.is_queue = self._is_queue
        self._is_recovering = False
        self._turns = (
            *self._queue_turns.turns,
            Turn(Send, self._send, together=True),
            *self.staging.turns,
            *self.redriving.turns,
            Turn(Delete, self._delete, together=True),
            Turn(ChangeVisibility, self._leaser.change),
            Turn(GiveBack, self._leaser.give_back),
            *self.reservations.turns,
            Turn(Receive, self._leaser.receive),
            Turn(Reserve, self.reservations.reserve),
        )

    def recover(self) -> Recovery:
        """Read the folders, and finish or undo what a crash left; durable at return."""
        recovery = Recovery(self._root, self.catalog, self._sender)
        recovery.run()
        # Before anything that was found is deleted: its ids are taken all the same.
        self.deduplication.load(recovery.removed_keys)
        self.reservations.upkeep.recover()
        self.staging.recover(recovery.left_of)
        self.redriving.recover()
        # What a former process did, and was just read, may never have been synced.
        self._root.everything_changed()
        for name in list(self.catalog.doomed):
            # Only once the tombstone that was read is durable.
            self._root.after_sync.append(partial(self._clearance.empty, name))
        # What was found whole in `new/` is published after the first sync, and the tombstone of an
        # emptied queue goes after the second.
        self._is_recovering = True
        self._commit_all()
        self.reservations.upkeep.mend()
        self._commit_all()
        self._is_recovering = False
        self._root.folders.fill_reserve()
        return recovery

    def _commit_all(self) -> None:
        while self._root.syncer.is_dirty or self.wants_commit:
            work = self.apply([])
            self.sync(work)
            self.finish(work)

    def close(self) -> None:
        """Nothing is asked any more, and the reaper has stopped."""
        self._segments.close()

    def join(self) -> None:
        """Begin beside others, who have read the folders and mended what there was to mend."""
        self._attach()

    def heed(self) -> None:
        """Take in what others have done, and who has come or gone."""
        self.peers.listen()
        if self.peers.has_news:
            self._meet()

    def _meet(self) -> None:
        """Find out who else is there, and take over what the dead have left."""
        was_told, self.peers.has_news = self.peers.has_news, False
        if not self._may_be_shared:
            return
        try:
            others = self._succession.look()
            if others and not self._root.is_shared:
                self._attach()
            elif not others:
                if was_told and not self._root.is_shared:
                    self._attach()  # Somebody has come, and gone before that was heard.
                self.peers.detach()
        except (OSError, StoreError) as error:
            log.warning("who else has the root open, or what they do, can't be told for now: %s", error)
            self.peers.look_later()

    def _attach(self) -> None:
        """Work beside others from now on."""
        self.reaper.knows_histories = self._root.knows_histories = False
        self.staging.forget()
        self.redriving.forget()
        self.reservations.upkeep.forget()
        self.deduplication.others_came()
        self.peers.attach()

    # One commit.

    def apply(self, requests: Sequence[Request[Any]]) -> Work:
        """Do what `requests` ask, as far as it can be done before the sync."""
        gate = self._begin()
        try:
            return self._apply(requests)
        finally:
            if gate is not None:
                gate.release()

    def _begin(self) -> Lock | None:
        """Take in what others have done, and shut the gate if there are none.

        What is moved without regard to others, because there are none, must have moved before the next
        one looks. Who finds somebody else in the gate works as if he were in already.
        """
        root = self._root
        # Also of somebody who has just come: what he does must not be taken for anything else.
        self.heed()
        if not self._may_be_shared or root.is_shared or self._is_recovering:
            return None
        try:
            gate = root.disk.lock(layout.FORMAT)
        except OSError as error:
            log.debug("the gate can't be shut: %s", error)
            return None
        self.peers.listen()
        if self.peers.has_news:
            if gate is not None:
                gate.release()
                gate = None
            self._meet()
        root.folders.is_contended = root.is_shared or gate is None
        return gate

    def _apply(self, requests: Sequence[Request[Any]]) -> Work:
        self._requeue_due()
        if not self._root.chores.ticks:
            self._finish_own()
        elif any(isinstance(request, Delete | Purge) for request in requests):
            # What is deleted, or purged, must not be on its way to its queue.
            self._publisher.retry()
            self.staging.retry()
        self.redriving.go_on()
        self._arrivals.expect(each.queue for each in requests if isinstance(each, Receive))
        outcomes = run_in(self._turns, requests)
        self._arrivals.end()
        root = self._root
        removed = root.folders.take_removed()
        after_sync, root.after_sync = root.after_sync, []
        in_need = removed or after_sync or self._is_recovering or root.syncer.is_in_doubt
        durable = bool(in_need) or any(
            is_promised(request, outcome, self.catalog)
            for request, outcome in zip(requests, outcomes, strict=True)
        )
        commit = root.syncer.begin() if durable else None
        return Work(outcomes, commit, after_sync, removed)

    def sync(self, work: Work) -> None:
        """Return once the work is on stable media; raises `SyncFailed`."""
        if work.commit is not None:
            work.commit.sync()

    def finish(self, work: Work) -> list[Outcome]:
        """Do what had to wait for the sync. Now the outcomes may be told."""
        for act in work.after_sync:
            act()
        if self._root.chores.unlinks:
            self.reaper.give(work.removed)
        return work.outcomes

    @property
    def wants_commit(self) -> bool:
        """Whether work waits for a commit that no request asks for."""
        return bool(self._root.after_sync) or self.redriving.is_due

    # What is to be done without being asked.

    def tick(self) -> None:
        """Do what time has brought about; `apply` follows. Raises `SyncFailed` if the root is gone."""
        folders = self._root.folders
        folders.require_root()
        folders.fill_reserve()
        self._contents.retry()
        self.peers.listen()
        self._meet()
        self._requeue_due()
        self._finish_own()
        self.staging.tend()
        self.redriving.look()
        self.deduplication.tick()
        self.reaper.retry()
        try:
            if self._root.chores.adopts:
                self._adoption.look()
            if self._root.chores.unlinks:
                self._sweep.look()
        except StoreError as error:
            log.error("what others put into new/ or remove/ has to wait: %s", error)
        self.reservations.upkeep.tick()
        for live in self.catalog.queues.values():
            if live.settings.retention:
                self._contents.look_ahead(live.name)
                self._remover.expire_head(live, PASSED_OVER_PER_TICK)

    def _requeue_due(self) -> None:
        self.reservations.upkeep.end_holds()
        if self._root.chores.brings_back:
            self._requeuer.requeue_due()

    def _finish_own(self) -> None:
        """Go on with what was begun and couldn't be done at once."""
        self._publisher.retry()
        self.staging.retry()
        # Only once the tombstone is durable, whoever wrote it.
        for name in [name for name in self.catalog.doomed if name not in self.catalog.doubtful]:
            self._queue_turns.empty(name)
        self.catalog.put_aside_unread()

    def next_due(self) -> Millis | None:
        """The monotonic time at which there is something to do here that nobody asks for, if known."""
        redrive = self.redriving.next_due()
        hidden = self._root.index.next_due() if self._root.chores.brings_back else None
        if hidden is None or redrive is None:
            return redrive if hidden is None else hidden
        return min(hidden, redrive)

    def ready(self, queue: str) -> int | None:
        """How many messages of `queue` are ready; None if there is no such queue."""
        if queue not in self.catalog.queues:
            return None
        return self._root.index.queues[queue].ready.count

    @property
    def lost_races(self) -> int:
        """Claims of messages that somebody else was faster with, since the start."""
        return self._root.lost_races

    @property
    def quarantined(self) -> int:
        """Files and folders put into quarantine since the start."""
        return self._root.folders.quarantined

    # The requests.

    def _send(self, requests: Sequence[Send]) -> Sequence[Outcome]:
        # How full a queue is, only all its messages' names say.
        for queue in {request.queue for request in requests}:
            live = self.catalog.queues.get(queue)
            if live is not None and (live.settings.max_messages or live.settings.max_bytes):
                self._contents.look_into(queue)
        return self._sender.send(requests)

    def _delete(self, requests: Sequence[Delete]) -> Sequence[Outcome]:
        if not self._root.is_shared:
            # What was published, nobody may have looked into yet; with others, that is looked for.
            for request in requests:
                if request.queue in self._root.index.queues and not all(
                    isinstance(target, ByReceipt) for target in request.targets
                ):
                    self._contents.look_into(request.queue)
        return self._remover.delete(requests)

    def _is_queue(self, name: str) -> bool:
        """Whether there is such a queue now, whoever made or deleted it."""
        if self._root.is_shared:
            self.catalog.refresh()
        return name in self.catalog.queues
