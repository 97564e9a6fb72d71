"""One redrive under way: it moves a few messages with each commit, until it has looked at all of them.

With one commit the histories become durable that the messages will have in their next queues, and all
that others have done to these messages; after it, one rename moves each message. So whatever a crash
leaves, the message is in one queue at least, with its history; where it is in two, a start with this
redrive's name before it knows which one is true. Only what is durable is counted in the name.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from ...files import layout
from ...files.segments import Segments
from ...index.hidden import QueueIndex
from ...index.ready import BatchFolder
from ...model.clock import SECOND, Millis
from ...model.errors import StoreError
from ...model.keys import Line, id_number, key_in
from ...model.names import forgotten, length_of, moved_out, parse_entry
from ...model.redrive_names import Failure, RedriveName, Stays
from ...model.transitions import Move, State
from ..catalog import Catalog
from ..histories import Histories
from ..peers import Peers
from ..root import Root, place_of_ready
from .pace import Pace
from .redrives import Kept, Redrives
from .selection import RETRY_AFTER, Entering, Passed, Pick, Room, Selection, written_on

log = logging.getLogger(__name__)

TOLD_EVERY: Final = Millis(SECOND)
"""The name says how far it has come no more often than this."""


class Drive:
    """Not thread-safe."""

    def __init__(
        self,
        root: Root,
        catalog: Catalog,
        peers: Peers,
        histories: Histories,
        segments: Segments,
        redrives: Redrives,
        entering: Entering,
        kept: Kept,
    ) -> None:
        self._root = root
        self._catalog = catalog
        self._peers = peers
        self._histories = histories
        self._segments = segments
        self._redrives = redrives
        self._entering = entering
        self.kept = kept
        order = kept.order
        self._selection = Selection(root, catalog, histories, order, kept.name.id)
        now = root.clock.monotonic()
        self._pace = Pace(order.rate, now)
        self.due = self._pace.next(now)
        """Monotonic: when it goes on."""
        self._told_at = now
        self._under_way = 0
        """How many commits must come before all that it has done is durable."""
        self.moved = kept.name.moved
        self._durably_moved = kept.name.moved
        # Those that failed before a restart are found again.
        self.failed = 0
        self.failure: Failure | None = None
        self.is_over = False
        """Whether it has ended, or belongs to somebody else now."""

    @property
    def remaining(self) -> int:
        """How many messages it hasn't looked at for good, at most."""
        index = self._root.index.queues.get(self.kept.order.queue)
        ready = 0 if index is None else max(0, index.ready.count - self.failed)
        return self._selection.left(ready)

    @property
    def progress(self) -> RedriveName:
        """Its name, as far as it has durably come."""
        return replace(
            self.kept.name, moved=self._durably_moved, failed=self.failed, failure=self.failure
        )

    def cancelled(self, name: RedriveName) -> RedriveName:
        """The name of the cancelled redrive, with all that was moved before."""
        return replace(name, moved=self.moved, failed=self.failed, failure=self.failure)

    # Before the sync.

    def prepare(self, now: Millis, most: int) -> int:
        """Look at up to `most` messages, and write the histories of those that may be moved.

        They are moved after the next sync. Answers how many it has looked at.
        """
        root, order, index = self._root, self.kept.order, self._index()
        if index is None:
            self._selection.forget()  # What was in the queue was deleted with it.
        if self._selection.is_done() or index is None:
            self._end(now)
            return 0
        allowed = self._pace.allowed(now, most)
        self._peers.contents.look_into(order.queue)
        looked, picks = self._pick(index, self._selection.take(index, now, most), allowed)
        if picks:
            self._write(picks)
        self._pace.moved(len(picks))
        if picks:
            if root.is_shared:
                # Also how they became dead letters, whoever has moved them.
                root.everything_changed()
            self._under_way += 1
            root.after_sync.append(partial(self._move, picks))
        if self._selection.is_done():
            self.due = now
        else:
            self.due = max(self._pace.next(now), self._selection.next_at(now))
        return looked

    def _index(self) -> QueueIndex | None:
        """That of the dead-letter queue; None if it was deleted, also if there is another one now."""
        order = self.kept.order
        live = self._catalog.queues.get(order.queue)
        is_there = live is not None and live.created_at == order.queue_created_at
        return self._root.index.queues.get(order.queue) if is_there else None

    def _end(self, now: Millis) -> None:
        """Say that it is done, once all that it has moved is durable."""
        if self._under_way:
            return
        name = replace(self.progress, owner=None, ended=self._root.clock.wall())
        try:
            with self._redrives.held():
                self.is_over = self._redrives.rename(self.kept, name)
                if self.is_over:
                    self._root.commit_soon()
        except StoreError as error:
            log.warning("the redrive %s is done, and can't say so yet: %s", name.id, error)
        # Otherwise somebody has cancelled it, which the next look will show.
        self.due = Millis(now + RETRY_AFTER)

    def _pick(self, index: QueueIndex, ids: Sequence[str], allowed: int) -> tuple[int, list[Pick]]:
        """How many of `ids` were looked at, and the up to `allowed` of them that may be moved."""
        room = Room(self._root, self._entering)
        picks: list[Pick] = []
        again: list[str] = []
        looked = 0
        for id in ids:
            verdict = self._selection.judge(index, id, room)
            if isinstance(verdict, Pick):
                if len(picks) == allowed:
                    break
                picks.append(verdict)
            elif isinstance(verdict, Failure):
                self._fail(verdict)
            elif verdict is Passed.LATER:
                again.append(id)
            looked += 1
        self._selection.looked_at(looked, again)
        return looked, picks

    def _fail(self, failure: Failure) -> None:
        self.failed += 1
        self.failure = failure

    def _write(self, picks: list[Pick]) -> None:
        """Write what must be durable before the messages move. Those that can't be written wait."""
        try:
            self._keep_keys(picks)
        except OSError as error:
            self._put_off(picks, error)
            picks.clear()
        now, by = self._root.clock.wall(), self.kept.name.id
        for at, pick in enumerate(picks):
            if not pick.chapters:
                continue
            chapters = written_on(pick.chapters, pick.destination, by, now)
            try:
                self._histories.write(pick.destination, pick.id, chapters)
            except StoreError as error:
                self._put_off(picks[at:], error)
                del picks[at:]
                return

    def _keep_keys(self, picks: Sequence[Pick]) -> None:
        """A deduplication id is known by the queue that its message is in, which led here until now."""
        queue = self.kept.order.queue
        ready = self._root.index.queues[queue].ready
        lines = []
        for pick in picks:
            place = ready.find(pick.id)
            key = None if place is None else key_in(place[0])
            if key is not None and pick.destination != pick.came_from:
                lines.append(Line(queue, id_number(pick.id), key, is_news=False))
        if lines:
            self._segments.write(lines, sync=True)

    def _put_off(self, picks: Sequence[Pick], error: Exception) -> None:
        log.warning("the redrive %s has to wait: %s", self.kept.name.id, error)
        self._wait(picks)

    def _wait(self, picks: Sequence[Pick]) -> None:
        until = Millis(self._root.clock.monotonic() + RETRY_AFTER)
        self._selection.put_off((pick.id for pick in picks), until)

    # After the sync.

    def _move(self, picks: list[Pick]) -> None:
        """The histories are durable: move the messages, unless somebody has cancelled this."""
        moved = 0
        try:
            with self._redrives.held():
                if self.is_over or not self._redrives.is_there(self.kept):
                    # The next look shows who has named it otherwise.
                    self._redrives.forget()
                    self.due = Millis(self._root.clock.monotonic() + RETRY_AFTER)
                    for pick in picks:
                        self._leave(pick)
                else:
                    self._look_for_queues(picks)
                    moved = self._move_all(picks)
                    self._tell()
        except StoreError as error:
            self._put_off(picks, error)
        self._pace.moved(moved - len(picks))
        self.moved += moved
        # All of it is durable with the next sync, whatever is asked of it.
        self._root.after_sync.append(partial(self._settled, moved))

    def _look_for_queues(self, picks: Sequence[Pick]) -> None:
        """Others may have deleted one of them, and not come to empty it yet."""
        if not self._root.is_shared:
            return
        for name in {self.kept.order.queue, *(pick.destination for pick in picks)}:
            live = self._catalog.queues.get(name)
            if live is not None and not self._catalog.is_current(live):
                self._catalog.refresh()
                return

    def _settled(self, moved: int) -> None:
        self._under_way -= 1
        self._durably_moved += moved

    def _tell(self) -> None:
        now = self._root.clock.monotonic()
        if now - self._told_at < TOLD_EVERY:
            return
        self._told_at = now
        try:
            self._redrives.rename(self.kept, self.progress)
        except StoreError as error:
            log.warning("how far the redrive %s is can't be told: %s", self.kept.name.id, error)

    def _move_all(self, picks: Sequence[Pick]) -> int:
        moved = 0
        for at, pick in enumerate(picks):
            try:
                moved += self._move_one(pick)
            except StoreError as error:
                self._put_off(picks[at:], error)
                break
        return moved

    def _move_one(self, pick: Pick) -> bool:
        root, queue = self._root, self.kept.order.queue
        index, live = self._index(), self._catalog.queues.get(pick.destination)
        place = None if index is None else index.ready.find(pick.id)
        if index is None or place is None:
            self._leave(pick)  # It was received or deleted meanwhile, by itself or with its queue.
            return False
        if live is None:
            self._leave(pick)
            self._fail(Failure(Stays.NO_QUEUE, pick.destination))
            return False
        name, folder = place
        # Others have come and gone since it was found to have room.
        if not Room(root, self._entering).take(live, length_of(name)):
            self._leave(pick)
            self._wait([pick])
            return False
        entry = parse_entry(name)
        if folder is not None:
            entry = moved_out(entry, folder.batch)
        source = place_of_ready(queue, name, folder)
        arrived = str(forgotten(entry))
        target = layout.ready(pick.destination, arrived)
        if not root.folders.move(Move.REDRIVE, State.READY, source, State.READY, target):
            self._leave(pick)
            if root.folders.is_there(source):
                self._fail(Failure(Stays.NO_QUEUE, pick.destination))
                return False
            root.was_faster(source)
            self._left(index, name, folder)
            return False
        self._left(index, name, folder)
        index.left += 1
        root.index.queues[pick.destination].ready.add(arrived)
        root.statistics.count(pick.destination, "redrive", 1)
        root.index.queues[pick.destination].entered += 1
        if pick.chapters:
            # Not before the move is durable: a crash may put the message back.
            root.after_sync.append(partial(self._histories.drop, queue, pick.id, pick.chapters))
        elif pick.is_damaged:
            root.after_sync.append(partial(self._histories.carry, queue, pick.destination, pick.id))
        return True

    def _left(self, index: QueueIndex, name: str, folder: BatchFolder | None) -> None:
        """The entry isn't in the dead-letter queue any more."""
        index.ready.remove(name, folder)
        if folder is not None and not folder.names:
            self._root.drop_after_sync(layout.ready(self.kept.order.queue, folder.batch))

    def _leave(self, pick: Pick) -> None:
        """The message isn't moved, and needs no history where it doesn't come."""
        if pick.chapters:
            self._histories.drop(pick.destination, pick.id)
