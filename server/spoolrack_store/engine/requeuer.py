"""Brings hidden messages back to their old place: what is due, and what is released.

A lease that ends with all its receives used up makes a dead letter, if the queue wants that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from ..files import layout
from ..index.hidden import Hidden, Unlisted
from ..index.ready import BatchFolder
from ..model.clock import SECOND
from ..model.errors import StoreError
from ..model.names import moved_out, parse_entry, unleased
from ..model.transitions import Move, State
from .catalog import Catalog
from .letters import Letters
from .live import Live
from .root import Root, path_in

log = logging.getLogger(__name__)

RETRY_AFTER: Final = SECOND
"""What can't be brought back, on a full disk for instance, stays hidden for so long."""


class Requeuer:
    """Not thread-safe."""

    def __init__(
        self,
        root: Root,
        catalog: Catalog,
        letters: Letters,
        look_into: Callable[[str, Unlisted], None],
    ) -> None:
        """`look_into` lets what others have leased be known by name."""
        self._root = root
        self._catalog = catalog
        self._letters = letters
        self._look_into = look_into

    def requeue_due(self) -> None:
        """Bring back everything whose lease or delay has ended."""
        root = self._root
        now = root.clock.monotonic()
        while (found := root.index.pop_due(now)) is not None:
            queue, hidden = found
            live = self._catalog.queues.get(queue)
            if live is None:
                continue  # A doomed queue: what is in it goes to `remove/`.
            if isinstance(hidden, Unlisted):
                self._look_into(queue, hidden)  # It is due still.
                continue
            names = hidden.names
            try:
                self.requeue(live, hidden, names, undo=False)
                if hidden.token is not None:
                    root.statistics.count(queue, "requeue", len(names))
            except StoreError as error:
                log.error("%s stays hidden for now: %s", root.path_of(queue, hidden), error)
                _, hidden.due_monotonic = root.due_after(RETRY_AFTER)
                root.index.reschedule(queue, hidden)

    def requeue(self, live: Live, hidden: Hidden, names: Sequence[str], *, undo: bool) -> bool:
        """Make `names` of `hidden` ready again; with `undo` as if that lease had never been.

        False if somebody else was faster with any of them; then they are forgotten.
        """
        if hidden.is_folder and len(names) == len(hidden.names):
            return self._folder(live, hidden, undo=undo)
        moved = [self._single(live, hidden, name, undo=undo) for name in list(names)]
        return all(moved)

    def release(self, live: Live, hidden: Hidden, names: Sequence[str]) -> set[str]:
        """Make `names` of `hidden` ready again; those of them that are released now.

        Others may have taken something out of a batch folder, unheard: beside them each message moves
        by itself, so that nobody is told of one that wasn't there.
        """
        if not self._root.is_shared:
            self.requeue(live, hidden, names, undo=False)
            return set(names)
        return {name for name in list(names) if self._single(live, hidden, name, undo=False)}

    def forget(self, queue: str, hidden: Hidden, name: str) -> None:
        """The entry `name` has left `hidden`; a batch folder that is empty now is removed."""
        index = self._root.index.queues[queue]
        if not hidden.is_folder:
            index.unhide(hidden)
            return
        folder = self._root.path_of(queue, hidden)
        index.unhide(hidden, [name])
        if not hidden.names:
            self._root.drop_after_sync(folder)

    def _single(self, live: Live, hidden: Hidden, name: str, *, undo: bool) -> bool:
        root, queue = self._root, live.name
        entry = parse_entry(name)
        source = root.path_of(queue, hidden)
        if isinstance(hidden.item, BatchFolder):
            entry = moved_out(entry, hidden.item.batch)
            source = path_in(source, name)
        if undo:
            entry = unleased(entry)
        moved = root.folders.move(
            _move(hidden), hidden.state, source, State.READY, layout.ready(queue, entry)
        )
        self.forget(queue, hidden, name)
        if not moved:
            root.was_faster(source)
            return False
        root.index.queues[queue].ready.add(str(entry))
        self._letters.bury_ready(live, str(entry), None)
        return True

    def _folder(self, live: Live, hidden: Hidden, *, undo: bool) -> bool:
        root, queue, folder = self._root, live.name, hidden.item
        assert isinstance(folder, BatchFolder)
        index = root.index.queues[queue]
        batch = unleased(folder.batch) if undo else folder.batch
        source = root.path_of(queue, hidden)
        moved = root.folders.move(
            _move(hidden),
            hidden.state,
            source,
            State.READY,
            layout.ready(queue, batch),
            is_folder=True,
        )
        index.unhide(hidden)
        if not moved:
            root.was_faster(source)
            return False
        folder.batch = batch
        index.ready.add_folder(folder)
        for name in list(folder.names):
            if not self._letters.bury_ready(live, name, folder):
                break  # They share one count: what holds for one holds for all.
        return True


def _move(hidden: Hidden) -> Move:
    return Move.DUE if hidden.state is State.DELAYED else Move.REQUEUE
