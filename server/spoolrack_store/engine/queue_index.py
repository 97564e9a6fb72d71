"""The waiting messages of one queue, in the order in which they are leased, and their counts.

Without groups it is the order of the sends, with groups that of `GroupOrder`. Once a queue had a
message with a priority, its ready messages are leased in the order of `PriorityOrder`; so are those of
each group, but for the groups of a strict queue. It begins with a copy of the order of the sends, whose
references take a millisecond for each half a million.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Final

from ..model.message_ids import sent_at
from ..model.settings import QueueSettings
from ..model.transitions import COUNTED, State
from .entries import Entry
from .entry_orders import EntryOrder, PriorityOrder, Runs
from .group_order import GroupOrder
from .lease_limits import QueueLimits

_FIRST_OF: Final = itemgetter(0)
_MEMBERS: Final[Callable[[Entry], int]] = attrgetter("members")
_MOMENT_OF: Final = itemgetter(slice(13))
"""The part of an id that is its time: many ids share one."""


class CountsByAge:
    """Counts of messages by the time at which they were sent, to an eighth of a second.

    A message costs two additions. A question costs one look for every two minutes in which messages
    were sent, and a thousand more, whatever the number of messages.
    """

    __slots__ = ("coarse", "fine")

    def __init__(self) -> None:
        self.fine: dict[int, int] = {}
        """By spans of 2 ** 7 ms."""
        self.coarse: dict[int, int] = {}
        """By spans of 2 ** 17 ms."""

    def add(self, sent: int, count: int) -> None:
        for counts, span in ((self.fine, sent >> 7), (self.coarse, sent >> 17)):
            left = counts.get(span, 0) + count
            if left:
                counts[span] = left
            else:
                counts.pop(span, None)

    def add_all(self, ids: Iterable[str]) -> None:
        """Add messages by their ids."""
        for moment, count in Counter(map(_MOMENT_OF, ids)).items():
            self.add(sent_at(moment), count)

    def before(self, moment: int) -> int:
        """Return the number of messages that were sent before a Unix time."""
        fine, coarse = moment >> 7, moment >> 17
        found = sum(count for span, count in self.coarse.items() if span < coarse)
        return found + sum(self.fine.get(span, 0) for span in range(coarse << 10, fine))


class QueueIndex:
    """The messages of one queue."""

    __slots__ = (
        *("_unpack", "bytes", "counts", "entered", "groups", "left", "orders", "plain", "priorities"),
        *("ready", "ready_by_age"),
    )

    def __init__(self, unpack: Callable[[str], Entry]) -> None:
        self._unpack = unpack
        self.ready = EntryOrder(unpack)
        self.plain: EntryOrder | None = None
        """The ready messages without a group and a priority, once the queue had others."""
        self.priorities: PriorityOrder | None = None
        """The ready messages in the order of their priorities, once the queue had a message with one,
        and none with a group."""
        self.groups: GroupOrder | None = None
        """Whose turn it is, once the queue had a message with a group."""
        self.counts = dict.fromkeys(COUNTED, 0)
        self.bytes = 0
        """Of all messages that are counted."""
        self.entered = 0
        """Messages that this process has brought into the queue."""
        self.left = 0
        """Messages that it has deleted, let expire or moved away."""
        self.ready_by_age = CountsByAge()
        self.orders = {
            State.READY: self.ready,
            State.LEASED: EntryOrder(unpack),
            State.DELAYED: EntryOrder(unpack),
        }

    @property
    def files_ready(self) -> int:
        """How many files have messages that are ready."""
        return len(self.orders[State.READY].names)

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def entries(self) -> Iterator[Entry]:
        """All that hold a message here, in the three states."""
        return chain(*self.orders.values())

    def order_by_priority(self) -> None:
        """Order the ready messages by their priorities from now on; none has one so far."""
        self.plain = self.ready.copy()
        self.priorities = PriorityOrder(self.plain, self._unpack)

    def order_by_group(self) -> None:
        """Let groups take turns from now on; no message has one so far."""
        if self.priorities is None:
            self.order_by_priority()
        assert self.priorities is not None
        count = self.counts[State.READY]
        self.groups, self.priorities = GroupOrder(self.priorities, count, self._unpack), None

    def orders_of(self, entry: Entry) -> Iterator[EntryOrder]:
        """Yield the orders in which a lone message stands."""
        name, groups = entry.name, entry.batch.groups
        yield self.orders[name.state]
        if self.groups is not None:
            group = "" if groups is None else groups.of(0)
            if group or name.state is State.READY:
                yield self.groups.order_of(group, entry)
        elif self.priorities is not None and name.state is State.READY:
            yield self.priorities.levels[entry.batch.stem.priority]

    def extend(self, state: State, ids: Sequence[str], size: int) -> None:
        """Add packed messages without a group and a priority, in order, of so many bytes."""
        self.counts[state] += len(ids)
        self.bytes += size
        self.orders[state].extend(ids)
        if state is State.READY:
            self.ready_by_age.add_all(ids)
            if self.plain is not None:
                self.plain.extend(ids)
            if self.groups is not None:
                self.groups.add_packed(len(ids))

    def sightings(self, id: str, states: Collection[State]) -> Iterator[tuple[str, Entry | None]]:
        """Yield the entries in `states` whose first message isn't below `id`, in order, each with the
        id of its first message; None in place of a packed one. The index must not change meanwhile."""
        return heapq.merge(*(self.orders[state].sightings(id) for state in states), key=_FIRST_OF)

    def available(self, settings: QueueSettings, limits: QueueLimits | None) -> int:
        """Return the number of messages that a receive could lease, within the limits of groups."""
        if self.groups is None:
            return self.counts[State.READY]
        self.groups.be_set(settings, limits)
        return self.groups.available

    def runs(
        self,
        room: int,
        but: Mapping[Entry, int],
        settings: QueueSettings,
        limits: QueueLimits | None,
        commit: int,
    ) -> Runs:
        """Yield the messages that a receive of up to `room` leases.

        `but` are messages that are passed over: it grows by what is taken, and nothing else changes
        meanwhile.
        """
        if self.groups is not None:
            self.groups.be_set(settings, limits)
            return self.groups.runs(room, but, commit)
        if self.priorities is not None:
            return self.priorities.runs(but, _MEMBERS, settings.priority_aging)
        return self.ready.runs(but, _MEMBERS)
