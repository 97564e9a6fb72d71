"""What becomes of the messages of a reserved set: its leases are found, moved, given back, deleted.

They share one token, by which they are known wherever they lie. Others may delete messages of a set at
any time; who else takes one has had to wait until the hold was over. Nothing here knows `reserved/`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import Final

from ...index.hidden import Hidden, Unlisted
from ...model.clock import Millis
from ...model.errors import DiskError, StoreError
from ...model.holds import Manifest
from ...model.names import id_of, is_set_token
from ..catalog import Catalog
from ..leaser import Leaser
from ..live import Live
from ..peers import Peers
from ..remover import Remover
from ..requeuer import RETRY_AFTER, Requeuer
from ..root import Root
from ..views import Sight, Views

log = logging.getLogger(__name__)

_LOOKS: Final = 3
"""A lease that others move while it is changed is looked for so often."""


class SetLeases:
    """Not thread-safe."""

    def __init__(
        self,
        root: Root,
        catalog: Catalog,
        leaser: Leaser,
        remover: Remover,
        requeuer: Requeuer,
        peers: Peers,
        views: Views,
    ) -> None:
        self._root = root
        self._catalog = catalog
        self._leaser = leaser
        self._remover = remover
        self._requeuer = requeuer
        self._peers = peers
        self._views = views

    def of(self, manifest: Manifest) -> list[Hidden]:
        """What is left of the set's leases."""
        index = self._root.index.queues.get(manifest.queue)
        if index is None:
            return []
        # A folder's entries share one.
        found = {index.find_hidden(id): None for id in manifest.ids}
        return [hidden for hidden in found if hidden and hidden.token == manifest.token]

    def _unlisted(self, manifest: Manifest) -> list[Unlisted]:
        """What of them can't be looked into for now."""
        index = self._root.index.queues.get(manifest.queue)
        unlisted = [] if index is None else index.unlisted()
        return [lease for lease in unlisted if lease.token == manifest.token]

    def have_left(self, manifest: Manifest) -> bool:
        """Whether none of them is there any more."""
        return not self.of(manifest) and not self._unlisted(manifest)

    def sights(self, manifest: Manifest, ids: Sequence[str]) -> list[Sight]:
        """Where these of its messages are; without those deleted."""
        found = (self.sight(manifest, id) for id in ids)
        return [sight for sight in found if sight is not None]

    def sight(self, manifest: Manifest, id: str) -> Sight | None:
        """Where a message of the set is; None if it isn't under its lease."""
        index = self._root.index.queues.get(manifest.queue)
        hidden = None if index is None else index.find_hidden(id)
        if hidden is None or hidden.token != manifest.token:
            return None
        return self._views.hidden(manifest.queue, hidden, hidden.name_of(id))

    def _require_known(self, manifest: Manifest, ids: Sequence[str]) -> None:
        """Make sure that what of these is nowhere was deleted; else a `StoreError` is raised."""
        index = self._root.index.queues.get(manifest.queue)
        if index is None:
            return
        if any(not index.find_hidden(id) and not index.ready.find(id) for id in ids):
            self._peers.require_leases(manifest.queue, manifest.token)

    def have_slipped(self, manifest: Manifest, ids: Sequence[str] | None = None) -> bool:
        """Whether a message of the set, or of these `ids`, is not deleted, and not under its lease.

        Raises `StoreError` if that can't be told.
        """
        ids = manifest.ids if ids is None else ids
        self._require_known(manifest, ids)
        for id in ids:
            if self._is_elsewhere(manifest, id):
                if not self._root.is_shared:
                    return True
                self._peers.seek(manifest.queue, id)
                if self._is_elsewhere(manifest, id):
                    return True
        return False

    def _is_elsewhere(self, manifest: Manifest, id: str) -> bool:
        index = self._root.index.queues.get(manifest.queue)
        if index is None:
            return False
        hidden = index.find_hidden(id)
        return index.ready.find(id) is not None if hidden is None else hidden.token != manifest.token

    def end_at(self, manifest: Manifest, due: Millis, due_monotonic: Millis) -> None:
        """Let all of them end at another time; raises `StoreError` if some may not."""
        for _ in range(_LOOKS):
            missed = False
            for hidden in self.of(manifest):
                ids = list(map(id_of, hidden.names))
                if hidden.due == due:
                    continue
                if not self._leaser.move_end(manifest.queue, hidden, due, due_monotonic):
                    missed = True
                    self._look_for(manifest.queue, hidden, ids)
            if not missed:
                return
        raise DiskError(detail=f"not all leases of a set of {manifest.queue} can be found")

    def _is_known(self, queue: str, hidden: Hidden) -> bool:
        """Whether it still is: who looks for one lease may hear that others are gone."""
        index, names = self._root.index.queues.get(queue), list(hidden.names)
        return bool(names) and index is not None and index.find_hidden(id_of(names[0])) is hidden

    def _look_for(self, queue: str, hidden: Hidden, ids: Sequence[str]) -> None:
        """A lease isn't where it was believed to be: somebody has moved it, or deleted it."""
        self._root.was_faster(self._root.path_of(queue, hidden))
        if not self._root.is_shared:
            for name in list(hidden.names):
                self._requeuer.forget(queue, hidden, name)
        for id in ids:
            self._peers.seek(queue, id)

    def give_back(self, manifest: Manifest, *, undo: bool) -> None:
        """Make its messages ready again; with `undo` as if they had never been leased.

        What can't be moved comes back when it is due.
        """
        live = self._catalog.queues.get(manifest.queue)
        if live is not None:
            self._give_back(live, self.of(manifest), undo=undo)

    def undo_all_but(self, tokens: Collection[str]) -> bool:
        """Undo the leases of sets that have none of these `tokens`; False if some stay hidden."""
        is_done = True

        def is_unnamed(lease: Hidden | Unlisted) -> bool:
            token = lease.token
            return token is not None and is_set_token(token) and token not in tokens

        for live in list(self._catalog.queues.values()):
            index = self._root.index.queues[live.name]
            leases = list(filter(is_unnamed, index.hidden()))
            is_done &= not any(map(is_unnamed, index.unlisted()))
            if leases:
                count = sum(len(hidden.names) for hidden in leases)
                log.info("%d messages of %s: leased for a set that was never made", count, live.name)
                is_done &= self._give_back(live, leases, undo=True)
        return is_done

    def look_for_leases(self) -> None:
        """Know all leases that are there at this moment, where nobody tells of them."""
        for queue in list(self._root.index.queues):
            self._peers.look_through(queue)

    def _give_back(self, live: Live, leases: Sequence[Hidden], *, undo: bool) -> bool:
        is_done = True
        for hidden in leases:
            try:
                self._requeuer.requeue(live, hidden, hidden.names, undo=undo)
            except StoreError as error:
                path = self._root.path_of(live.name, hidden)
                log.error("%s stays hidden until it is due: %s", path, error)
                is_done = False
        return is_done

    def count(self, manifest: Manifest) -> int:
        """How many of its messages are under its leases, as far as it is known without looking."""
        return sum(len(hidden.names) for hidden in self.of(manifest))

    def delete(self, manifest: Manifest) -> int:
        """Delete its messages; how many. Raises `StoreError` if some are, or may be, still there."""
        self._require_known(manifest, manifest.ids)
        queue, count = manifest.queue, 0
        for _ in range(_LOOKS):
            leases = self.of(manifest)
            for hidden in leases:
                if not self._is_known(queue, hidden):
                    continue
                ids = list(map(id_of, hidden.names))
                removed = self._remover.remove_lease(queue, hidden)
                count += removed
                if removed < len(ids):
                    for id in ids:
                        self._peers.seek(queue, id)
            if not leases or not self._root.is_shared:
                break
        return count

    def keep_hidden(self, manifest: Manifest) -> None:
        """Its messages must not be delivered again, though they can't be deleted yet."""
        root = self._root
        _, later = root.due_after(RETRY_AFTER)
        leases: list[Hidden | Unlisted] = [*self.of(manifest), *self._unlisted(manifest)]
        for hidden in leases:
            if hidden.due_monotonic < later:
                hidden.due_monotonic = later
                root.index.reschedule(manifest.queue, hidden)

    def put_aside(self, manifest: Manifest, id: str, why: str) -> None:
        """Quarantine a message of the set, if it is still one."""
        index = self._root.index.queues.get(manifest.queue)
        hidden = None if index is None else index.find_hidden(id)
        if hidden is None or hidden.token != manifest.token:
            return
        name = hidden.name_of(id)
        self._root.folders.quarantine(self._views.hidden(manifest.queue, hidden, name).path, why)
        self._requeuer.forget(manifest.queue, hidden, name)
