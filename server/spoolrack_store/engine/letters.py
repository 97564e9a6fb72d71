"""Dead letters: a message that came back too often moves to another queue, with its history.

The history is a file of its own beside the message, written and durable before one rename moves the
message to its dead-letter queue, under the same id. A missing target never loses a message: it stays
where it is, is delivered on, and an alarm is raised.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from ..files import layout
from ..index.ready import BatchFolder
from ..model.errors import StoreError
from ..model.ids import sent_at
from ..model.names import forgotten, moved_out, parse_entry
from ..model.transitions import Move, State
from .catalog import Catalog
from .histories import Chapter, DamagedHistory, Histories
from .live import Live
from .root import Root, place_of_ready

log = logging.getLogger(__name__)


class Letters:
    """Not thread-safe."""

    def __init__(self, root: Root, catalog: Catalog, histories: Histories) -> None:
        self._root = root
        self._catalog = catalog
        self._histories = histories
        self._moving: set[str] = set()
        """Ids of messages that are in no queue's index, until the sync of their histories."""
        self._alarmed: set[str] = set()
        """Queues whose dead-letter queue is missing, which is said once."""

    def is_moving(self, id: str) -> bool:
        return id in self._moving

    def bury_ready(self, live: Live, name: str, folder: BatchFolder | None) -> bool:
        """Take the ready entry `name` out of its queue if it came back too often.

        False if it may be delivered: its receives aren't used up, or there is nowhere to bury it.
        """
        entry = parse_entry(name)
        if folder is not None:
            entry = moved_out(entry, folder.batch)
        limit = live.settings.max_receives
        if not limit or entry.receives < limit:
            return False
        target_queue = live.settings.dead_letter_queue
        if target_queue not in self._catalog.queues:
            if live.name not in self._alarmed:
                self._alarmed.add(live.name)
                log.error(
                    "message %s of the queue %s was received %d times, and its dead-letter queue %s "
                    "is missing: create it; until then such messages are delivered on",
                    entry.id,
                    live.name,
                    entry.receives,
                    target_queue,
                )
            return False
        self._alarmed.discard(live.name)
        root = self._root
        # Out of its batch folder first, which may move on before the history is durable.
        source = place_of_ready(live.name, name, folder)
        alone = layout.ready(live.name, entry)
        try:
            if root.is_shared and not root.folders.is_there(source):
                # It isn't there any more: its history may be another's business by now.
                root.was_faster(source)
                root.index.queues[live.name].ready.remove(name, folder)
                return True
            self._write_history(live, target_queue, entry.id, entry.receives, entry.first_receive)
            if source != alone and not root.folders.move(
                Move.BURY, State.READY, source, State.READY, alone
            ):
                log.warning("%s was taken away by somebody else", source)
        except StoreError as error:
            log.error("message %s can't be moved to %s: %s", entry.id, target_queue, error)
            return False
        root.index.queues[live.name].ready.remove(name, folder)
        if folder is not None and not folder.names:
            root.drop_after_sync(layout.ready(live.name, folder.batch))
        self._moving.add(entry.id)
        buried = str(forgotten(entry))
        root.after_sync.append(lambda: self._move(live.name, alone, str(entry), target_queue, buried))
        return True

    def _write_history(
        self, live: Live, target: str, id: str, receives: int, first_receive: int | None
    ) -> None:
        chapter: Chapter = {
            "source_queue": live.name,
            "reason": "max_receives",
            "receives": receives,
            "first_receive_ms": first_receive,
            "sent_at_ms": sent_at(id),
            "buried_at_ms": self._root.clock.wall(),
        }
        there = self._chapters(target, id)
        if there and _is_same(there[-1], chapter):
            # A crash came before the move, or somebody else moves it now, and relies on this file.
            self._histories.rely_on(target, id)
            return
        # What it had here, if it was moved back since its last death, is newer than what is there.
        older = self._chapters(live.name, id) or there
        self._histories.write(target, id, [*older, chapter])

    def _chapters(self, queue: str, id: str) -> list[Chapter]:
        if not self._root.may_have_history(queue, id):
            return []
        try:
            return self._histories.read(queue, id)
        except DamagedHistory as error:
            log.warning("the older history of message %s is lost: %s", id, error)
            return []

    def _move(self, queue: str, source: str, name: str, target: str, buried: str) -> None:
        """The history is durable: move the message."""
        self._moving.discard(parse_entry(name).id)
        index = self._root.index.queues.get(target)
        try:
            moved = index is not None and self._root.folders.move(
                Move.BURY, State.READY, source, State.READY, layout.ready(target, buried)
            )
        except StoreError as error:
            log.error("%s can't be moved to %s, and stays: %s", source, target, error)
            moved, index = False, None
        if moved and index is not None:
            index.ready.add(buried)
            self._root.statistics.count(queue, "bury", 1)
            index.entered += 1
            if queue in self._root.index.queues:
                self._root.index.queues[queue].left += 1
            # A receipt of it must not outlive the move: also a relaxed receive waits for the sync now.
            self._root.commit_soon()
            id = parse_entry(name).id
            if self._root.may_have_history(queue, id):
                # It had been one before, and was moved back.
                older = self._chapters(queue, id)
                self._root.after_sync.append(partial(self._drop_older, queue, id, older))
        elif index is None and queue in self._root.index.queues:
            self._root.index.queues[queue].ready.add(name)

    def _drop_older(self, queue: str, id: str, older: Sequence[Chapter]) -> None:
        """The move is durable. What a redrive has written here since goes with the message."""
        if self._chapters(queue, id) == older:
            self._histories.drop(queue, id)


def _is_same(one: Chapter, other: Chapter) -> bool:
    """Whether both tell of one death."""
    return all(
        one.get(word) == other[word] for word in ("source_queue", "receives", "first_receive_ms")
    )
