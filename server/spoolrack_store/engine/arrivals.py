"""What a commit has written, for receives in the same commit that find nothing else.

A message that somebody waits for already needn't go through its queue. It is leased where it lies, in
`new/`: one rename, before the sync, gives it a name that says so. The sync that makes the message
durable makes the lease durable with it, and the receive is answered as soon as the send is. Whatever a
crash leaves, the name tells of both. After the sync the `publisher` moves it to `delay/`.

First come, first served, and in the order of the sends: what doesn't fit whole into the room of who is
next isn't split, and whoever comes after may not overtake. All that is left goes to the queue as ever.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable
from dataclasses import replace

from ..files import layout
from ..index.hidden import Hidden
from ..index.ready import BatchFolder
from ..model.errors import StoreError
from ..model.names import Batch, leased
from ..model.operations import Message
from ..model.transitions import Move, State
from .delivery import message_of
from .live import Live
from .publisher import Written
from .root import Root, item_of
from .terms import Terms

log = logging.getLogger(__name__)


class Arrivals:
    """Not thread-safe."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._awaited: set[str] = set()
        """The queues from which this commit's receives want something."""
        self._written: dict[str, deque[Written]] = {}
        """By queue, what may be leased, in order."""

    def expect(self, queues: Iterable[str]) -> None:
        """A commit begins that has receives from `queues`."""
        self._awaited.update(queues)

    def is_awaited(self, queue: str) -> bool:
        """Whether what is sent now may be leased by this commit."""
        return queue in self._awaited

    def end(self) -> None:
        """Nothing more is asked of the commit."""
        self._awaited.clear()
        self._written.clear()

    def add(self, written: Written) -> None:
        """This was written, and may be leased until the commit's requests are done."""
        if written.due is None and written.queue in self._awaited:
            self._written.setdefault(written.queue, deque()).append(written)

    def lease(self, live: Live, answer: list[Message], room: int, bytes: int, terms: Terms) -> None:
        """Lease what fits into `room` messages and `bytes`, at least one single one if the `answer` is
        empty; it is added to the answer, and taken out again if the lease can't be made good."""
        queue = live.name
        if queue not in self._written or self._root.index.queues[queue].ready.count:
            return  # What is ready comes first.
        written = self._written[queue]
        while written and room > 0:
            first = written[0]
            fits = first.bytes <= bytes or not (answer or first.is_folder)
            if len(first.names) > room or not fits or not self._lease(first, answer, terms):
                # It goes to the queue, and what stands behind it, too: nothing is overtaken.
                written.clear()
                return
            written.popleft()
            room -= len(first.names)
            bytes -= first.bytes

    def _lease(self, written: Written, answer: list[Message], terms: Terms) -> bool:
        """Lease all of it; False if it has stayed as it was."""
        root, now = self._root, self._root.clock.wall()
        if isinstance(written.item, Batch):
            folder = BatchFolder(leased(written.item, now), written.names, written.bytes)
            lease = terms.lease(folder)
        else:
            lease = terms.lease(str(leased(written.item, now)))
        named = replace(item_of(lease.item), owner=root.owner)
        target = layout.sent(written.queue, named, lease.due, lease.token)
        try:
            if not root.folders.move(
                Move.ASSIGN,
                State.SENT,
                written.path,
                State.SENT,
                target,
                is_folder=written.is_folder,
            ):
                return False
        except StoreError as error:
            log.warning("%s goes to its queue, and isn't leased before: %s", written.path, error)
            return False
        written.path, written.lease, written.answer = target, lease, answer
        if lease.credits is not None:
            lease.credits.charge(len(written.names))
        answer += _messages(written, lease)
        return True


def _messages(written: Written, lease: Hidden) -> Iterable[Message]:
    batch = lease.item.batch if isinstance(lease.item, BatchFolder) else None
    names = [lease.item] if isinstance(lease.item, str) else written.names
    for name, content in zip(names, written.contents, strict=True):
        yield message_of(written.queue, lease, batch, name, content)
