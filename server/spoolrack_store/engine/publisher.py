"""Moves what is durable in `new/` to where it belongs: its queue, or `delay/`.

What a receive has leased there already, in the commit that sent it (see `arrivals`), goes to `delay/`
under that lease. The receive is answered after this, so a lease that can't be made good is taken out of
its answer: nobody has a receipt that leads nowhere. What can't be moved, on a full disk for instance,
is tried again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..files import layout
from ..files.disk import Kind
from ..index.hidden import Hidden
from ..index.ready import BatchFolder
from ..model.clock import Millis
from ..model.content import Content
from ..model.errors import StoreError
from ..model.names import Batch, Entry, id_of, unsent
from ..model.operations import Message
from ..model.transitions import Move, State
from .catalog import Catalog
from .root import Root, path_in

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Written:
    """A file or a batch folder in `new/`."""

    queue: str
    item: Entry | Batch
    """Without the lease that it may be under."""
    names: list[str]
    bytes: int
    path: str
    due: Millis | None
    """Of a delay."""
    due_monotonic: Millis
    contents: Sequence[Content] = ()
    """Of `names`, in their order, if they are in memory."""
    lease: Hidden | None = None
    """The lease that its name in `new/` tells of."""
    answer: list[Message] | None = None
    """What the receive that has leased it is told; None if that was a former process's."""

    @property
    def is_folder(self) -> bool:
        return isinstance(self.item, Batch)

    def give_up_lease(self) -> None:
        """The lease can't be made good, and nobody is told of it: what it is about will be ready.

        Of a former process's somebody may have been told: it stays.
        """
        lease, answer = self.lease, self.answer
        if lease is None or answer is None:
            return
        ids = set(map(id_of, self.names))
        answer[:] = [message for message in answer if message.id not in ids]
        if lease.credits is not None:
            lease.credits.give_back(len(ids))
        self.lease = self.answer = None


class Publisher:
    """Not thread-safe."""

    def __init__(self, root: Root, catalog: Catalog) -> None:
        self._root = root
        self._catalog = catalog
        self._unpublished: list[Written] = []
        """Durable, but the move into the queue failed: tried again by every `retry`."""

    def publish(self, written: Written) -> None:
        """Move what is durable to where consumers find it, or where their leases are."""
        if not self._publish(written):
            written.give_up_lease()

    def retry(self) -> None:
        """Publish what is durable in `new/` and could not be moved before."""
        waiting, self._unpublished = self._unpublished, []
        for written in waiting:
            self.publish(written)

    def is_arriving(self, queue: str, id: str) -> bool:
        """Whether a message is sent, by whomever, and not in its queue yet; lists `new/`."""
        if any(written.queue == queue and _holds(written.names, id) for written in self._unpublished):
            return True
        if not self._root.is_shared:
            return False
        for found in self._root.folders.scan(layout.NEW):
            path, prefix = path_in(layout.NEW, found.name), f"{queue}:"
            if found.kind is Kind.FOLDER and found.name.startswith(prefix):
                if id in self._root.folders.ids_inside(path):
                    return True
            elif found.name.startswith(prefix + id):
                return True
        return False

    def remove(self, written: Written) -> None:
        """Delete what never gets into its queue. Raises `DiskFull` or `DiskError`."""
        self._root.folders.move(
            Move.DELETE,
            State.SENT,
            written.path,
            State.REMOVED,
            layout.removed(written.queue, unsent(written.item)),
            is_folder=written.is_folder,
        )

    def _withdraw(self, written: Written) -> None:
        """The queue was deleted meanwhile, with all that was on its way to it.

        Whoever deletes it waits for this, if it was another process.
        """
        try:
            self.remove(written)
        except StoreError as error:
            log.warning("%s is deleted with its queue, and stays for now: %s", written.path, error)
            self._unpublished.append(written)

    def _publish(self, written: Written) -> bool:
        """Whether it is where it belongs."""
        root, queue = self._root, written.queue
        index = root.index.queues.get(queue)
        if index is None or queue in self._catalog.doomed:
            self._withdraw(written)
            return False
        move, state, target = _way_of(written)
        try:
            moved = root.folders.move(
                move, State.SENT, written.path, state, target, is_folder=written.is_folder
            )
        except StoreError as error:
            log.warning("%s is stored, and not yet in its queue: %s", written.path, error)
            self._unpublished.append(written)
            return False
        if not moved and queue not in self._catalog.queues:
            self._withdraw(written)
            return False
        if not moved:
            log.warning("%s was taken away by somebody else", written.path)
            return False
        index.entered += len(written.names)
        if written.lease is not None:
            self._hide(queue, written.lease)
            return True
        for name, found in zip(written.names, written.contents, strict=False):
            root.recent.keep(id_of(name), found)
        item = (
            BatchFolder(written.item, written.names, written.bytes)
            if isinstance(written.item, Batch)
            else written.names[0]
        )
        if written.due is not None:
            hidden = Hidden(item, due=written.due, due_monotonic=written.due_monotonic, token=None)
            root.index.hide(queue, hidden)
        elif isinstance(item, str):
            index.ready.add(item)
        else:
            index.ready.add_folder(item)
        return True

    def _hide(self, queue: str, lease: Hidden) -> None:
        # It was charged when it was made, so that nobody has spent the same credit since.
        lease.credits, credits = None, lease.credits
        self._root.index.hide(queue, lease)
        lease.credits = credits


def _way_of(written: Written) -> tuple[Move, State, str]:
    """How it moves, and where it then is."""
    queue, item, lease = written.queue, written.item, written.lease
    if lease is not None:
        leased = lease.item if isinstance(lease.item, str) else lease.item.batch
        return Move.DELIVER, State.LEASED, layout.hidden(queue, leased, lease.due, lease.token)
    if written.due is not None:
        return Move.HIDE, State.DELAYED, layout.hidden(queue, item, written.due, None)
    return Move.PUBLISH, State.READY, layout.ready(queue, item)


def _holds(names: Iterable[str], id: str) -> bool:
    return any(id_of(name) == id for name in names)
