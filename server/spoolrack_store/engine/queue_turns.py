"""The requests about queues themselves: they are made, changed, emptied and deleted."""

from __future__ import annotations

from collections.abc import Callable

from ..files.folders import explained
from ..model.operations import CreateQueue, DeleteQueue, Purge, UpdateQueue
from .catalog import Catalog
from .clearance import Clearance
from .order import Outcome, Turn
from .peers import Peers
from .root import Root
from .views import Views


class QueueTurns:
    """Not thread-safe."""

    def __init__(
        self,
        root: Root,
        catalog: Catalog,
        clearance: Clearance,
        views: Views,
        peers: Peers,
        take_over: Callable[[], None],
    ) -> None:
        """`take_over` publishes what processes that have died had sent."""
        self._root = root
        self._catalog = catalog
        self._clearance = clearance
        self._views = views
        self._peers = peers
        self._take_over = take_over
        self.turns = (
            Turn(CreateQueue, self._create),
            Turn(UpdateQueue, self._update),
            Turn(DeleteQueue, self._delete),
            Turn(Purge, self._purge),
        )

    def _create(self, request: CreateQueue) -> Outcome:
        return self._views.queue(self._catalog.create(request.name, request.settings))

    def _update(self, request: UpdateQueue) -> Outcome:
        return self._views.queue(self._catalog.update(request.name, request.changes))

    def _delete(self, request: DeleteQueue) -> None:
        self._catalog.doom(request.name)
        # The tombstone must be durable first: it is what makes the removal of the messages right.
        self._root.after_sync.append(lambda: self.empty(request.name))

    def empty(self, name: str) -> None:
        """Empty a deleted queue, unless somebody has done so, and it was made again meanwhile."""
        if self._catalog.is_still_doomed(name):
            self._clearance.empty(name)

    def _purge(self, request: Purge) -> int:
        queue = request.queue
        self._catalog.require(queue)
        if self._root.is_shared:
            try:
                self._take_over()
            except OSError as error:
                raise explained(error) from error
        self._peers.look_through(queue)
        has_unread = queue in self._root.unread or self._peers.contents.has_unread(queue)
        return self._clearance.purge(queue, knows_all=not has_unread)
