"""Which of a dead-letter queue's messages a redrive moves, and to where: it reads names and histories.

It changes nothing. A message that is leased or delayed is passed over, and so is one that became a dead
letter after the redrive had begun: what fails again at once isn't driven round in circles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import islice
from typing import Final

from ...index.hidden import QueueIndex
from ...model.clock import SECOND, Millis
from ...model.ids import sent_at
from ...model.names import id_of, is_queue_name, length_of
from ...model.redrive_names import Failure, Stays
from ...model.redrive_order import RedriveOrder
from ..catalog import Catalog
from ..histories import Chapter, DamagedHistory, Histories
from ..live import Live
from ..root import Root

Entering = Callable[[str], tuple[int, int]]
"""How many messages, of how many bytes, are on their way to a queue, and not in its index yet."""

RETRY_AFTER: Final = Millis(SECOND)
"""What waits for room, or was refused by the disk, is looked at again after so long."""
MOST_WAITING: Final = 1_000
"""So many messages may wait for room in their queues before those behind them wait, too."""

BY: Final = "redriven_by"


class Passed(Enum):
    """What becomes of a message now that isn't moved, and hasn't failed."""

    OVER = "over"
    """It is none of the selection."""
    LATER = "later"
    """Its queue is full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """A message that is to be moved."""

    id: str
    destination: str
    chapters: Sequence[Chapter]
    """Its history, as it will be there; empty if it has none."""
    came_from: str
    """The queue that it came from; empty if nobody knows."""
    is_damaged: bool = False
    """Whether it has a history that can't be read."""


class Room:
    """What room the queues have, less what is taken of it here."""

    def __init__(self, root: Root, entering: Entering) -> None:
        self._root = root
        self._entering = entering
        self._taken: dict[str, tuple[int, int]] = {}

    def take(self, live: Live, bytes: int) -> bool:
        """Take the room for one message of so many bytes; False if there is none."""
        taken, taken_bytes = self._taken.get(live.name, (0, 0))
        taken, taken_bytes = taken + 1, taken_bytes + bytes
        settings, index = live.settings, self._root.index.queues[live.name]
        if settings.max_messages or settings.max_bytes:
            entering, entering_bytes = self._entering(live.name)
            if settings.max_messages and len(index) + entering + taken > settings.max_messages:
                return False
            if settings.max_bytes and index.bytes + entering_bytes + taken_bytes > settings.max_bytes:
                return False
        self._taken[live.name] = taken, taken_bytes
        return True


Verdict = Pick | Failure | Passed


class Selection:
    """Those of one redrive. Not thread-safe."""

    def __init__(
        self, root: Root, catalog: Catalog, histories: Histories, order: RedriveOrder, redrive: str
    ) -> None:
        self._root = root
        self._catalog = catalog
        self._histories = histories
        self._order = order
        self._redrive = redrive
        self._after = ""
        """All up to this id have been looked at."""
        self._ids = list(reversed(order.ids))
        """Those of them that haven't, the first last."""
        self._is_through = False
        """Whether there are none that it hasn't looked at yet."""
        self._waiting: dict[str, None] = {}
        """Those to be looked at again."""
        self._waits_until = Millis(0)
        """Monotonic: not before this."""
        self._round = 0
        """So many of them are still to be looked at this time."""
        self._taken: list[str] = []
        self._taken_of_waiting = self._are_last = False

    def is_done(self) -> bool:
        """Whether all have been looked at for good."""
        return self._is_through and not self._waiting

    def next_at(self, now: Millis) -> Millis:
        """The monotonic time from which there is one to be looked at."""
        if self._round or not (self._is_through or self._is_crowded):
            return now
        return max(now, self._waits_until)

    def left(self, ready: int) -> int:
        """How many have not been looked at for good, at most, if so many are ready."""
        if self._is_through:
            return min(ready, len(self._waiting))
        return min(ready, len(self._ids) + len(self._waiting)) if self._order.ids else ready

    def take(self, index: QueueIndex, now: Millis, most: int) -> list[str]:
        """The ids of up to `most` messages to look at now; `looked_at` says how many were."""
        if not self._round and self._waiting and now >= self._waits_until:
            self._round = len(self._waiting)
            self._waits_until = Millis(now + RETRY_AFTER)
        self._taken, self._taken_of_waiting, self._are_last = [], bool(self._round), False
        if self._round:
            self._taken = list(islice(self._waiting, min(most, self._round)))
        elif self._order.ids and not self._is_crowded:
            self._taken = self._ids[: -most - 1 : -1]
        elif not (self._is_through or self._is_crowded):
            self._taken = [id_of(name) for name, _ in islice(index.ready.since(self._after), most)]
            self._are_last = len(self._taken) < most
        return self._taken

    def looked_at(self, count: int, again: Sequence[str]) -> None:
        """Only the first `count` of those taken were, and `again` wait from now on."""
        looked = self._taken[:count]
        if self._taken_of_waiting:
            self._round -= count
            for id in looked:
                del self._waiting[id]
        elif self._order.ids:
            del self._ids[len(self._ids) - count :]
            self._is_through = not self._ids
        else:
            self._after = looked[-1] if looked else self._after
            self._is_through |= self._are_last and count == len(self._taken)
        for id in again:
            self._waiting[id] = None

    def put_off(self, ids: Iterable[str], until: Millis) -> None:
        """Look at these again, and none that wait before `until`, monotonic."""
        self._waiting.update(dict.fromkeys(ids))
        self._waits_until = until

    def forget(self) -> None:
        """There is nothing to be looked at any more."""
        self._ids.clear()
        self._waiting.clear()
        self._is_through, self._round = True, 0

    @property
    def _is_crowded(self) -> bool:
        """Whether so many wait that those behind them have to."""
        return len(self._waiting) >= MOST_WAITING

    def judge(self, index: QueueIndex, id: str, room: Room) -> Verdict:
        """What becomes of the message `id`."""
        place = index.ready.find(id)
        if place is None:
            return Passed.OVER
        order = self._order
        chapters: list[Chapter] = []
        is_damaged = False
        try:
            chapters = self._histories.read(order.queue, id)
        except DamagedHistory:
            is_damaged = True
        source, buried_at = _last_of(chapters)
        if any(chapter.get(BY) == self._redrive for chapter in chapters):
            return Passed.OVER
        if order.source_queue and source != order.source_queue:
            return Passed.OVER
        # What is said to be of a later time than now, was written by a clock that was wrong.
        since = sent_at(id) if buried_at is None else buried_at
        if order.started_at < since <= self._root.clock.wall():
            return Passed.OVER
        if not order.destination and not source:
            return Failure(Stays.DAMAGED_HISTORY if is_damaged or chapters else Stays.NO_HISTORY)
        verdict = self._judge_destination(id, place[0], chapters, source, room)
        if is_damaged and isinstance(verdict, Pick):
            return replace(verdict, is_damaged=True)
        return verdict

    def _judge_destination(
        self, id: str, name: str, chapters: Sequence[Chapter], source: str, room: Room
    ) -> Verdict:
        destination = self._order.destination or source
        live = self._catalog.queues.get(destination)
        if live is None or destination == self._order.queue:
            return Failure(Stays.NO_QUEUE, destination)
        if live.settings.retention and sent_at(id) + live.settings.retention <= self._root.clock.wall():
            return Failure(Stays.TOO_OLD, destination)
        index = self._root.index.queues[destination]
        if index.find_hidden(id) is not None or index.ready.find(id) is not None:
            return Failure(Stays.THERE_ALREADY, destination)
        if not room.take(live, length_of(name)):
            return Passed.LATER
        return Pick(id=id, destination=destination, chapters=chapters, came_from=source)


def written_on(
    chapters: Sequence[Chapter], destination: str, redrive: str, now: Millis
) -> Sequence[Chapter]:
    """The history of a message that `redrive` moves to `destination`."""
    if not chapters:
        return chapters
    told = {"redriven_to": destination, BY: redrive, "redriven_at_ms": now}
    return [*chapters[:-1], {**chapters[-1], **told}]


def _last_of(chapters: Sequence[Chapter]) -> tuple[str, int | None]:
    """The queue of the last death, and its Unix time; empty and None where that can't be told."""
    if not chapters:
        return "", None
    source, buried_at = chapters[-1].get("source_queue"), chapters[-1].get("buried_at_ms")
    return (
        source if isinstance(source, str) and is_queue_name(source) else "",
        buried_at if isinstance(buried_at, int) else None,
    )
