"""What is left by processes that have died, while others live on.

A process writes into `new/` under its own name, and nobody touches that as long as it lives. Whether
it does, its lock in `owners/` says; behind the gate nobody can be about to take that lock. Then what it
left in `new/` is delivered or undone, what it did last is made durable, what it had deleted is given
to the reaper, and who has to know of its death is told.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from ..files import layout
from ..files.disk import Found, Kind
from ..files.owners import is_living, owners_of
from ..index.ready import BatchFolder
from ..model.errors import StoreError
from ..model.names import Batch, Filed, NotAName, length_of, parse_filed
from .catalog import Catalog
from .heir import Heir
from .root import Root, is_entry, path_in
from .sender import Sender

log = logging.getLogger(__name__)


class Succession:
    """Not thread-safe."""

    def __init__(self, root: Root, catalog: Catalog, sender: Sender, died: Callable[[], None]) -> None:
        """Whenever somebody is found dead, `died` is called."""
        self._root = root
        self._catalog = catalog
        self._sender = sender
        self._died = died

    def look(self) -> bool:
        """Take over what the dead have left; whether anybody else lives.

        Raises `OSError` as the disk does.
        """
        disk, me = self._root.disk, self._root.owner
        owners = {owner for owner in owners_of(disk) if owner != me}
        living = {owner for owner in owners if is_living(disk, owner)}
        dead = owners - living
        left = self._left_in_new(living | {me})
        if dead or left:
            gate = disk.lock(layout.FORMAT)
            if gate is None:
                return True  # Somebody is starting: the next look will tell.
            try:
                self._take_over(dead, left)
            finally:
                gate.release()
        return bool(living)

    def settle(self) -> None:
        """Take over what the dead have left, and publish it now: for who must find all that was sent.

        Raises `OSError` as the disk does.
        """
        root = self._root
        waiting, root.after_sync = root.after_sync, []
        try:
            self.look()
        except BaseException:
            root.after_sync = [*waiting, *root.after_sync]
            raise
        taken, root.after_sync = root.after_sync, waiting
        if taken:
            root.syncer.begin().sync()
            for act in taken:
                act()

    def _left_in_new(self, living: set[str]) -> dict[str, tuple[Found, Filed]]:
        """What in `new/` belongs to nobody of the living, by path."""
        left = {}
        for found in self._root.folders.scan(layout.NEW):
            try:
                filed = parse_filed(found.name)
            except NotAName:
                continue
            item = filed.item
            if item.owner in living or not (isinstance(item, Batch) or item.is_tagged):
                continue
            if filed.queue in self._catalog.queues:
                left[path_in(layout.NEW, found.name)] = (found, filed)
        return left

    def _take_over(self, dead: set[str], left: dict[str, tuple[Found, Filed]]) -> None:
        root = self._root
        # What they did last may not be durable.
        root.everything_changed()
        heir = Heir(root, self._sender)
        gone = {owner for owner in dead if not is_living(root.disk, owner)}
        for path, (found, filed) in left.items():
            owner = filed.item.owner
            if owner is not None and is_living(root.disk, owner):
                continue  # It was just about to start.
            try:
                item = self._item(path, found, filed)
            except StoreError as error:
                log.warning("%a can't be looked at, and is not delivered for now: %s", path, error)
                continue
            if item is not None:
                heir.take_over(path, filed, item)
        if gone:
            self._died()
            # What they deleted may be unlinked when it is, but not what others delete in the meantime.
            removed = root.folders.scan(layout.REMOVE)
            root.after_sync.append(lambda: self._bury(gone, removed))
        if heir.delivered or heir.undone:
            log.info(
                "taken over from %s: %d sent messages delivered, %d unfinished sends undone",
                ", ".join(sorted(gone)) or "nobody known",
                heir.delivered,
                heir.undone,
            )

    def _item(self, path: str, found: Found, filed: Filed) -> str | BatchFolder | None:
        """What lies there, as far as it is ours."""
        if not isinstance(filed.item, Batch):
            return str(filed.item) if found.kind is Kind.FILE else None
        if found.kind is not Kind.FOLDER:
            return None  # It has a batch's name, and is none: a start without others puts it aside.
        names = []
        for inside in self._root.folders.scan(path):
            if is_entry(inside):
                names.append(inside.name)
            else:
                # Or it would be unlinked with the folder, if this was never sent.
                self._root.folders.quarantine(path_in(path, inside.name), "no message of a batch")
        return BatchFolder(filed.item, names, sum(map(length_of, names)))

    def _bury(self, owners: set[str], removed: list[Found]) -> None:
        for found in removed:
            self._root.folders.was_removed(path_in(layout.REMOVE, found.name))
        for owner in owners:
            try:
                self._root.folders.drop(layout.owner(owner))
            except StoreError as error:
                log.warning("the dead owner %s stays for now: %s", owner, error)
