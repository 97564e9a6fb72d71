"""What keeps reservations true: who may look into `reserved/`, holds that end, commits to be finished.

A set is noted as lost before a message of it is brought back, so that a message which others may have
is never shown as held. A commit that was begun is finished by whoever finds it. A start finishes or
undoes what a crash left; of a process that died while others lived they do. Leases of a set that no
manifest names were never answered for, because the manifest comes last: they are undone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

from ...files import layout
from ...model.clock import MINUTE, Millis
from ...model.errors import DiskError, StoreError
from ...model.reservations import MEMORY
from ...model.settings import MAX_VISIBILITY
from ..peers import Peers
from ..requeuer import RETRY_AFTER
from ..root import Root
from .holdings import HeldSet, Holdings, Key
from .set_leases import SetLeases

log = logging.getLogger(__name__)

_SELDOM: Final = MINUTE
"""So often is looked for what nobody waits for."""


class Upkeep:
    """Not thread-safe."""

    def __init__(self, root: Root, holdings: Holdings, leases: SetLeases, peers: Peers) -> None:
        self._root = root
        self._holdings = holdings
        self._leases = leases
        self._peers = peers
        self._knows_all = False
        """Whether the picture of `reserved/` is true: nobody else was there since it was looked at."""
        self._unfinished: set[Key] = set()
        """Sets that are committed, and whose messages could not be deleted yet."""
        self._leaving: set[Key] = set()
        """Committed sets whose manifests go after the next sync."""
        self._next_forget = Millis(0)
        self._next_undo: Millis | None = None
        """When to look for leases that no manifest names; None: nobody can have left any."""

    # Who may look.

    @contextmanager
    def inside(self, stream: str = "", *, relies: bool = True) -> Iterator[bool]:
        """Know what is in `reserved/`, and keep others out of it, as far as the disk has locks.

        Yields whether they are out. Whoever `relies` on what is found, or tells it, has it made durable
        by his commit. Raises `StoreError` if it can't be known, or not all that is of the `stream`.
        """
        root, holdings = self._root, self._holdings
        is_contended = root.folders.is_contended
        lock = root.folders.hold(layout.RESERVED) if is_contended else None
        are_out = lock is not None or not is_contended
        try:
            if self._must_look(stream):
                doesnt_count = self._take_in()
                if are_out:
                    # Whoever was writing these is dead, or was refused.
                    holdings.drop_paths(doesnt_count)
                if relies and (holdings.sets or holdings.markers):
                    root.everything_changed()
                self._finish_found()
            self._require_known(stream)
            yield are_out
        finally:
            if lock is not None:
                lock.release()

    def forget(self) -> None:
        """Somebody has come, and may have gone again: what is known may not be all."""
        self._knows_all = False

    def look(self, stream: str = "") -> None:
        """Know what is in `reserved/` at this moment, and change nothing."""
        lock = self._root.folders.hold(layout.RESERVED) if self._root.folders.is_contended else None
        try:
            if self._must_look(stream):
                self._take_in()
                self._knows_all = False
        finally:
            if lock is not None:
                lock.release()
        self._require_known(stream)

    def _must_look(self, stream: str) -> bool:
        known = self._knows_all and stream not in self._holdings.unread
        return self._root.folders.is_contended or not known

    def _take_in(self) -> list[str]:
        """Learn what others have done; the paths of what doesn't count."""
        self._peers.listen()
        seen = self._holdings.look()
        for queue in {held.manifest.queue for held in self._holdings.sets.values()}:
            if queue in self._root.index.queues:
                self._peers.look_through(queue)
        self._knows_all = not self._root.folders.is_contended
        return [*seen.torn, *seen.doubled]

    def _require_known(self, stream: str) -> None:
        if stream in self._holdings.unread:
            raise DiskError(detail=self._holdings.unread[stream])

    # Holds that end.

    def end_holds(self) -> None:
        """Note which holds are over, before what they held is brought back."""
        if self._unfinished:
            self._finish_commits()
        if self._next_undo is not None and self._next_undo <= self._root.clock.monotonic():
            self._undo_unnamed()
        next_end = self._holdings.next_end()
        if next_end is None or next_end > self._root.clock.monotonic():
            return
        try:
            with self.inside(relies=False):
                self._end_holds()
        except StoreError as error:
            log.warning("which reservations are over can't be noted for now: %s", error)

    def _end_holds(self) -> None:
        now = self._root.clock.monotonic()
        for held in list(self._holdings.sets.values()):
            if not held.name.is_lost and held.ends <= now and not self._holdings.is_doomed(held):
                self._holdings.lose(held)
        self._settle()

    def _settle(self) -> None:
        """Make durable which sets are lost.

        The clock may be set back before a start, or be another's: a due alone could not tell then that
        a message which is ready was once held, and the set would be taken for one never answered.
        """
        self._root.folders.settle(layout.RESERVED)

    def release(self, held: HeldSet) -> None:
        """End the hold now; the messages come back once that is durable."""
        if not held.name.is_lost:
            self._holdings.lose(held)
        # A crash must not show a message as held that others may have.
        self._root.after_sync.append(partial(self._leases.give_back, held.manifest, undo=False))

    # Commits.

    def finish_after_sync(self, sets: Sequence[HeldSet]) -> None:
        """These are marked as committed: once that is durable, their messages will be deleted, whatever
        goes wrong.

        A power cut before must not have taken a part of a set that is not committed: who is told then
        that it was lost counts on all of it.
        """

        def finish() -> None:
            self._unfinished.update(held.key for held in sets)
            self._finish_commits()

        if sets:
            self._root.after_sync.append(finish)

    def _finish_found(self) -> None:
        """Finish what a marker that was read tells of. Whoever wrote it may not have synced it."""
        holdings = self._holdings
        doomed = {key for key, held in holdings.sets.items() if holdings.is_doomed(held)}
        found = doomed - self._leaving - self._unfinished
        if found:
            self._root.everything_changed()
            self._root.syncer.folder_changed(layout.RESERVED)
            self._root.folders.settle(layout.RESERVED)
            self._unfinished |= found
        self._finish_commits()

    def _finish_commit(self, held: HeldSet) -> None:
        """Delete the messages of a committed set, and its manifest after the next sync.

        Raises `StoreError`; then it is tried again.
        """
        count = self._leases.delete(held.manifest)
        self._root.statistics.count(held.manifest.queue, "commit", count)
        self._unfinished.discard(held.key)
        if held.key not in self._leaving:
            self._leaving.add(held.key)
            self._root.after_sync.append(partial(self._bury, held))

    def _bury(self, held: HeldSet) -> None:
        self._leaving.discard(held.key)
        try:
            self._holdings.drop(held)
        except StoreError as error:
            log.warning("the committed %s stays for now: %s", held.name, error)
            self._unfinished.add(held.key)

    def forget_after_sync(self, stream: str, markers: Sequence[int], lost: Sequence[HeldSet]) -> None:
        """Once a newer marker is durable, unlink what it stands for."""

        def forget() -> None:
            try:
                for seq in markers:
                    self._holdings.drop_marker(stream, seq)
                self._forget_lost(lost)
            except StoreError as error:
                log.warning("what is older than the commit of %s stays for now: %s", stream, error)

        self._root.after_sync.append(forget)

    def _forget_lost(self, lost: Sequence[HeldSet]) -> None:
        """Unlink the manifests of those that have no leases any more: without, these would be undone,
        and must be counted."""
        over = [held for held in lost if self._leases.have_left(held.manifest)]
        if over:
            self._root.folders.settle(layout.DELAY)
        for held in over:
            self._holdings.drop(held)

    def _finish_commits(self) -> None:
        """Delete what committed sets have left."""
        for key in list(self._unfinished):
            held = self._holdings.sets.get(key)
            if held is None or not self._holdings.is_doomed(held):
                self._unfinished.discard(key)
                continue
            try:
                self._finish_commit(held)
            except StoreError as error:
                log.error("the committed %s can't be deleted yet: %s", held.name, error)
                self._leases.keep_hidden(held.manifest)

    # Time.

    def tick(self) -> None:
        """Finish what the dead have begun, and forget what is long over."""
        root, now = self._root, self._root.clock.monotonic()
        try:
            if self._must_look(""):
                with self.inside(relies=False):
                    pass
            if now >= self._next_forget:
                self._next_forget = Millis(now + _SELDOM)
                self._forget_old(Millis(root.clock.wall() - MEMORY))
        except StoreError as error:
            log.warning("reservations have to wait: %s", error)

    def _forget_old(self, before: Millis) -> None:
        holdings = self._holdings
        sets = holdings.sets.values()
        self._forget_lost([held for held in sets if held.name.is_lost and held.due < before])
        for stream, markers in list(holdings.markers.items()):
            if any(key[0] == stream for key in holdings.sets):
                continue
            for seq, marker in list(markers.items()):
                if marker.made_at < before:
                    holdings.drop_marker(stream, seq)

    # The dead.

    def somebody_died(self) -> None:
        """Another process may have left leases, and not come to write the manifest that names them."""
        self._knows_all = False
        self._next_undo = Millis(0)

    def _undo_unnamed(self) -> None:
        """Undo what a process that died has leased for a set, if no manifest names it."""
        self._next_undo = Millis(self._root.clock.monotonic() + RETRY_AFTER)
        try:
            # Before others are kept out, because it may take long: what the dead have leased is there.
            self._leases.look_for_leases()
            with self.inside(relies=False) as are_out:
                if are_out:
                    self._undo_all_unnamed()
                else:
                    # Somebody may be about to write the manifest: mostly until nobody else is there.
                    self._next_undo = Millis(self._root.clock.monotonic() + _SELDOM)
        except StoreError as error:
            log.warning("what was leased for no reservation stays so for now: %s", error)

    def _undo_all_unnamed(self) -> None:
        holdings = self._holdings
        if holdings.unread:
            return  # What can't be read may name them.
        tokens = {held.manifest.token for held in holdings.sets.values()}
        if self._leases.undo_all_but(tokens):
            self._next_undo = None
        self._root.commit_soon()

    # A start.

    def recover(self) -> None:
        """Finish commits that a crash has left, and undo sets that it left without their manifests;
        nothing was brought back yet. `mend` follows."""
        holdings = self._holdings
        self._next_undo = Millis(self._root.clock.monotonic() + RETRY_AFTER)
        try:
            seen = holdings.look()
            for path in seen.foreign:
                self._root.folders.quarantine(path, "it is no reservation's")
        except StoreError as error:
            log.error("what is reserved can't be told for now: %s", error)
            return
        holdings.drop_paths([*seen.torn, *seen.doubled])
        for stream, markers in holdings.markers.items():
            older = sorted(markers)[:-1]
            if older:
                self.forget_after_sync(stream, older, ())
        self._finish_found()
        self._undo_all_unnamed()
        self._knows_all = True

    def mend(self) -> None:
        """Undo what a crash left half done. All that was sent is in its queue, so that what of a set is
        nowhere was deleted."""
        for held in list(self._holdings.sets.values()):
            try:
                self._mend(held)
            except StoreError as error:
                log.error("%s can't be mended for now: %s", held.name, error)
        self._settle()

    def _mend(self, held: HeldSet) -> None:
        holdings, leases, wall = self._holdings, self._leases, self._root.clock.wall()
        if holdings.is_doomed(held):
            return
        if held.name.is_lost:
            # It may have been released, and its messages not be given back yet.
            self.release(held)
        elif held.key[1] <= holdings.committed(held.key[0]):
            holdings.lose(held)  # It was lost before that commit.
        elif leases.have_slipped(held.manifest):
            if held.due > wall:
                # Not all of its leases were durable: nobody was told of it.
                self.undo(held)
            else:
                holdings.lose(held)
        else:
            # Half of a confirmation may be there: what was promised before it holds.
            dues = [hidden.due for hidden in leases.of(held.manifest)]
            due = min(held.due, *dues) if dues else held.due
            if due <= wall:
                holdings.lose(held)
                return
            ends = Millis(self._root.clock.monotonic() + min(due - wall, MAX_VISIBILITY))
            leases.end_at(held.manifest, due, ends)
            holdings.end_at(held, due, ends)

    def undo(self, held: HeldSet) -> None:
        """Nobody was told of the set: its messages are ready again, not counted."""
        self._leases.give_back(held.manifest, undo=True)
        self._holdings.drop(held)
