"""What the store knows of its queues without looking: rebuilt from names at each start.

Pure. The folders are the truth; this is a picture of them that makes "what is next", "what is due" and
"where is this id" cheap. Ready messages live in `ready`; what is hidden, because it is leased or
delayed, lives here, with the heap of what is due next over all queues.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, count

from ..model.clock import Millis
from ..model.credits import Credits
from ..model.ids import sent_at
from ..model.names import Batch, id_of, length_of
from ..model.transitions import State
from .ready import BatchFolder, Ready


class Hidden:
    """A message, or a batch folder, that is leased or delayed."""

    __slots__ = ("credits", "due", "due_monotonic", "item", "token")

    def __init__(
        self,
        item: str | BatchFolder,
        *,
        due: Millis,
        due_monotonic: Millis,
        token: str | None,
        credits: Credits | None = None,
    ) -> None:
        self.item = item
        """An entry's name, or a folder."""
        self.due = due
        """Unix time, as in the name on disk."""
        self.due_monotonic = due_monotonic
        self.token = token
        """None: delayed, not leased."""
        self.credits = credits

    @property
    def names(self) -> list[str]:
        return [self.item] if isinstance(self.item, str) else self.item.names

    def name_of(self, id: str) -> str:
        """The name of the entry `id`, which this must hold."""
        name = self.item if isinstance(self.item, str) else self.item.find(id)
        assert name is not None
        return name

    @property
    def is_folder(self) -> bool:
        return not isinstance(self.item, str)

    @property
    def state(self) -> State:
        return State.DELAYED if self.token is None else State.LEASED


@dataclass(slots=True, eq=False)
class Unlisted:
    """A batch folder that somebody else has leased or delayed, and that nobody here has looked into."""

    item: Batch
    due: Millis
    due_monotonic: Millis
    token: str | None
    """None: delayed, not leased."""

    @property
    def state(self) -> State:
        return State.DELAYED if self.token is None else State.LEASED


class QueueIndex:
    """One queue's messages.

    What finds or lists leases, and `bytes`, know nothing of what is `unlisted`; `leased`, `delayed` and
    the length do.
    """

    def __init__(self) -> None:
        self.ready = Ready()
        self._leased: dict[str, Hidden] = {}
        """By message id; the entries of a folder share one."""
        self._delayed: dict[str, Hidden] = {}
        """The same of what has a delay: apart, as there may be a million of these, and who asks for the
        oldest of the others mustn't look at them."""
        self._batches: dict[str, Hidden] = {}
        """The folders, by the batch's id."""
        self._unlisted: dict[str, Unlisted] = {}
        """By the batch's id. Their messages are counted as its name says."""
        self._unlisted_counts = {State.LEASED: 0, State.DELAYED: 0}
        self.entered = 0
        """Messages that this process has brought into the queue since it began."""
        self.left = 0
        """Messages that it has deleted, buried or let expire. What others do is in neither."""
        self._hidden_bytes = 0

    def __len__(self) -> int:
        return self.ready.count + self.leased + self.delayed

    @property
    def leased(self) -> int:
        return len(self._leased) + self._unlisted_counts[State.LEASED]

    @property
    def delayed(self) -> int:
        return len(self._delayed) + self._unlisted_counts[State.DELAYED]

    @property
    def bytes(self) -> int:
        return self.ready.bytes + self._hidden_bytes

    def hide(self, hidden: Hidden) -> None:
        names = hidden.names
        hides = self._like(hidden)
        for name in names:
            hides[id_of(name)] = hidden
        if not isinstance(hidden.item, str):
            self._batches[hidden.item.batch.id] = hidden
        self._hidden_bytes += sum(map(length_of, names))
        if hidden.credits is not None:
            hidden.credits.charge(len(names))

    def unhide(self, hidden: Hidden, names: Iterable[str] | None = None) -> None:
        """Forget the lease or delay of `names`, or of all that `hidden` holds; credits come back.

        The names leave a folder that they lay in, but for the whole folder's.
        """
        leaving = hidden.names if names is None else list(names)
        hides = self._like(hidden)
        for name in leaving:
            del hides[id_of(name)]
        self._hidden_bytes -= sum(map(length_of, leaving))
        if not isinstance(hidden.item, str) and len(leaving) == len(hidden.item):
            self._batches.pop(hidden.item.batch.id, None)
        if names is not None and not isinstance(hidden.item, str):
            for name in leaving:
                hidden.item.remove(name)
        if hidden.credits is not None and leaving:
            hidden.credits.give_back(len(leaving))

    def split(self, hidden: Hidden, name: str, alone: Hidden) -> None:
        """The lease of the entry `name` leaves its batch folder and goes on as `alone`.

        The credit that it holds goes with it: nobody is told of a return.
        """
        assert isinstance(hidden.item, BatchFolder)
        hidden.item.remove(name)
        if not hidden.item.names:
            self._batches.pop(hidden.item.batch.id, None)
        del self._like(hidden)[id_of(name)]
        self._like(alone)[id_of(name)] = alone

    def add_unlisted(self, lease: Unlisted) -> None:
        self._unlisted[lease.item.id] = lease
        self._unlisted_counts[lease.state] += lease.item.count

    def forget_unlisted(self, id: str) -> Unlisted | None:
        """The batch `id` has left, or has been looked into; what was known of it."""
        lease = self._unlisted.pop(id, None)
        if lease is not None:
            self._unlisted_counts[lease.state] -= lease.item.count
        return lease

    def find_unlisted(self, id: str) -> Unlisted | None:
        return self._unlisted.get(id)

    def unlisted(self) -> list[Unlisted]:
        """Where to look to know all leases."""
        return list(self._unlisted.values())

    def find_hidden(self, id: str) -> Hidden | None:
        return self._leased.get(id) or self._delayed.get(id)

    def forget_all(self) -> None:
        """The queue is gone with all that was in it; credits come back."""
        for hidden in list(self.hidden()):
            self.unhide(hidden)
        for lease in self.unlisted():
            self.forget_unlisted(lease.item.id)

    def find_hidden_batch(self, id: str) -> Hidden | None:
        """The lease or delay of the whole batch folder `id`."""
        return self._batches.get(id)

    def knows_batch(self, id: str) -> bool:
        """Whether the batch folder `id` is believed to be anywhere."""
        ready = self.ready
        if ready.folder(id) or ready.find_unlisted(id):
            return True
        return id in self._batches or id in self._unlisted

    def hidden(self) -> Iterator[Hidden]:
        """Each lease and delay once."""
        seen: set[int] = set()
        for hidden in chain(self._leased.values(), self._delayed.values()):
            if id(hidden) not in seen:
                seen.add(id(hidden))
                yield hidden

    def hidden_ids(self) -> Iterable[str]:
        return chain(self._leased, self._delayed)

    def oldest(self) -> str | None:
        """The smallest id that is ready or leased."""
        head = self.ready.head()
        leased = min(self._leased, default=None)
        if head is None:
            return leased
        ready = id_of(head[0])
        return ready if leased is None else min(ready, leased)

    def oldest_sent_at(self) -> Millis | None:
        oldest = self.oldest()
        return None if oldest is None else sent_at(oldest)

    def _like(self, hidden: Hidden) -> dict[str, Hidden]:
        return self._delayed if hidden.token is None else self._leased


class Index:
    """All queues' messages, and what is due when."""

    def __init__(self) -> None:
        self.queues: dict[str, QueueIndex] = {}
        self._heap: list[tuple[Millis, int, str, Hidden | Unlisted]] = []
        self._ticket = count()

    def hide(self, queue: str, hidden: Hidden) -> None:
        self.queues[queue].hide(hidden)
        self.reschedule(queue, hidden)

    def add_unlisted(self, queue: str, lease: Unlisted) -> None:
        self.queues[queue].add_unlisted(lease)
        self.reschedule(queue, lease)

    def reschedule(self, queue: str, hidden: Hidden | Unlisted) -> None:
        """`hidden` is due at another time than before."""
        heapq.heappush(self._heap, (hidden.due_monotonic, next(self._ticket), queue, hidden))

    def next_due(self) -> Millis | None:
        """The monotonic time at which something is due, if anything ever is."""
        self._skip_stale()
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: Millis) -> tuple[str, Hidden | Unlisted] | None:
        """Something that is due at the monotonic time `now`, once."""
        self._skip_stale()
        if not self._heap or self._heap[0][0] > now:
            return None
        _, _, queue, hidden = heapq.heappop(self._heap)
        return queue, hidden

    def _skip_stale(self) -> None:
        while self._heap:
            due, _, queue, hidden = self._heap[0]
            index = self.queues.get(queue)
            if index is not None and due == hidden.due_monotonic and _is_in(index, hidden):
                return
            heapq.heappop(self._heap)


def _is_in(index: QueueIndex, hidden: Hidden | Unlisted) -> bool:
    if isinstance(hidden, Unlisted):
        return index.find_unlisted(hidden.item.id) is hidden
    names = hidden.names
    return bool(names) and index.find_hidden(id_of(names[0])) is hidden
