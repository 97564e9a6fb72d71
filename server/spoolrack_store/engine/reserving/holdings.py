"""The sets that are reserved, and how far each stream is committed: the files in `reserved/`.

It reads, writes, renames and unlinks them, and keeps a picture of them in memory. What a set's
messages go through is `reservations`' matter; nothing here knows a message. With others there the
folders are the truth: whoever wants to rely on the picture holds the folder's lock and looks first.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace

from ...files import layout
from ...files.disk import Found, Kind
from ...files.folders import NameTaken, explained
from ...files.syncer import SyncFailed
from ...model.clock import Millis
from ...model.errors import StoreError
from ...model.holds import HoldName, Manifest, Marker, parse_hold
from ...model.names import NotAName
from ...model.reservations import Reservation
from ...model.sealed import NotWhole
from ...model.settings import MAX_VISIBILITY
from ..beliefs import MARGIN
from ..root import Root, path_in

log = logging.getLogger(__name__)

Key = tuple[str, int]
"""A stream and a number in it."""


@dataclass(slots=True, kw_only=True, eq=False)
class HeldSet:
    """A set that was reserved, held or lost."""

    name: HoldName
    manifest: Manifest
    ends: Millis
    """When the hold is over, on the monotonic clock."""
    reads: int = 0
    is_told: bool = False
    """Whether somebody was told of it who hasn't made it."""

    @property
    def key(self) -> Key:
        return self.name.stream, self.name.seq

    @property
    def due(self) -> Millis:
        assert self.name.due is not None
        return self.name.due

    def is_over(self, now: Millis) -> bool:
        """Whether the hold is over at the monotonic time `now`, noted or not."""
        return self.name.is_lost or self.ends <= now

    def shown(self, now: Millis, *, is_new: bool = False) -> Reservation:
        manifest = self.manifest
        return Reservation(
            queue=manifest.queue,
            stream=self.name.stream,
            seq=self.name.seq,
            messages=len(manifest.ids),
            bytes=manifest.size,
            expires_at=self.due,
            is_lost=self.is_over(now),
            reads=self.reads,
            is_new=is_new,
        )


@dataclass(slots=True)
class Seen:
    """What a look at the folder has found beside what is whole."""

    torn: list[str] = field(default_factory=list)
    """The paths of files that were not written to their end."""
    foreign: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    """Second manifests of a set, of which the other one promises less."""
    unread: dict[str, str] = field(default_factory=dict)
    """By stream, why a file of it can't be read."""


class Holdings:
    """Not thread-safe."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self.sets: dict[Key, HeldSet] = {}
        self.markers: dict[str, dict[int, Marker]] = {}
        """By stream and number; the greatest is what counts."""
        self.unread: dict[str, str] = {}
        """Streams of which not all is known, and why."""
        self._next_end: Millis | None = None
        self._is_next_known = False

    def committed(self, stream: str) -> int:
        """Up to where the stream is committed; -1 if nothing is."""
        return max(self.markers.get(stream, ()), default=-1)

    def is_doomed(self, held: HeldSet) -> bool:
        """Whether its messages are deleted by a commit, or are to be."""
        stream, seq = held.key
        newest = self.committed(stream)
        return seq <= newest and seq in self.markers[stream][newest].sets

    def next_end(self) -> Millis | None:
        """When the next hold is over that isn't known to be, monotonic."""
        if not self._is_next_known:
            ends = (held.ends for held in self.sets.values() if not held.name.is_lost)
            self._next_end, self._is_next_known = min(ends, default=None), True
        return self._next_end

    # What is found.

    def look(self) -> Seen:
        """Take in what the folder shows. Raises `StoreError` if it can't be read."""
        seen = Seen()
        self._is_next_known = False
        found = {each.name: each for each in self._root.folders.scan(layout.RESERVED)}
        known = {str(held.name): held for held in self.sets.values()}
        for name, held in known.items():
            if name not in found:
                self.sets.pop(held.key, None)
        for stream, markers in list(self.markers.items()):
            for seq in [seq for seq in markers if f"{stream}.{seq}" not in found]:
                self._forget_marker(stream, seq)
        # In the order of their names: of two manifests of a set the one that ends first is kept.
        for name in sorted(found):
            if name not in known:
                self._read(found[name], seen)
        self.unread = seen.unread
        return seen

    def _read(self, found: Found, seen: Seen) -> None:
        path = path_in(layout.RESERVED, found.name)
        try:
            name = parse_hold(found.name)
        except NotAName:
            seen.foreign.append(path)
            return
        if found.kind is not Kind.FILE:
            seen.foreign.append(path)
            return
        try:
            if name.due is None:
                markers = self.markers.setdefault(name.stream, {})
                if name.seq not in markers:
                    markers[name.seq] = Marker.decode(self._content(path))
                return
            manifest = Manifest.decode(self._content(path))
        except FileNotFoundError:
            return  # Somebody has just renamed or unlinked it.
        except NotWhole as error:
            log.info("%s was never written whole: %s", path, error)
            seen.torn.append(path)
            return
        except StoreError as error:
            log.error("%s can't be read, so its stream has to wait: %s", path, error)
            seen.unread[name.stream] = str(error)
            return
        finally:
            if not self.markers.get(name.stream, True):
                del self.markers[name.stream]
        there = self.sets.get((name.stream, name.seq))
        if there is not None:
            seen.doubled.append(path if not name.is_lost else layout.reserved(there.name))
            if not name.is_lost:
                return
        self._put(HeldSet(name=name, manifest=manifest, ends=self._end_of(name)), there)

    def _content(self, path: str) -> bytes:
        """What the file says, whose writer may have died before he synced it."""
        disk = self._root.disk
        try:
            content = disk.read(path)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise explained(error) from error
        if not disk.can_sync_all:
            # Else the next sync, which covers the whole file system, does it.
            try:
                disk.sync_file(path)
            except FileNotFoundError:
                raise
            except OSError as error:
                raise SyncFailed(str(error)) from error
        return content

    def _end_of(self, name: HoldName) -> Millis:
        """When the hold of a name that was found is over: later than its maker says, if he lives."""
        clock = self._root.clock
        assert name.due is not None
        margin = MARGIN if self._root.folders.is_contended else 0
        return Millis(clock.monotonic() + min(name.due - clock.wall(), MAX_VISIBILITY) + margin)

    def _put(self, held: HeldSet, before: HeldSet | None) -> None:
        if before is not None and before.manifest == held.manifest:
            held.reads, held.is_told = before.reads, before.is_told
        self.sets[held.key] = held
        self._is_next_known = False

    # What is changed. A `StoreError` means that nothing has.

    def add(self, name: HoldName, manifest: Manifest, ends: Millis) -> HeldSet:
        """Write the manifest of a new set."""
        self._write(layout.reserved(name), manifest.encode(), urgent=False)
        held = HeldSet(name=name, manifest=manifest, ends=ends)
        self._put(held, None)
        return held

    def mark(self, stream: str, seq: int, marker: Marker) -> None:
        """Write how far the stream is committed, and with which sets."""
        path = layout.reserved(HoldName(stream=stream, seq=seq))
        # It makes room.
        self._write(path, marker.encode(), urgent=True)
        self.markers.setdefault(stream, {})[seq] = marker

    def _write(self, path: str, content: bytes, *, urgent: bool) -> None:
        folders = self._root.folders
        try:
            folders.write(path, [content], sync=False, urgent=urgent)
        except NameTaken:
            # A part of it that somebody has left: had it been whole, it would be known.
            folders.drop(path)
            folders.write(path, [content], sync=False, urgent=urgent)

    def end_at(self, held: HeldSet, due: Millis, ends: Millis) -> bool:
        """Let the hold end at another time; False if the manifest isn't there any more."""
        return self._rename(held, replace(held.name, due=due, is_lost=False), ends)

    def mark_read(self, held: HeldSet) -> bool:
        """Note that the set was read; False if the manifest isn't there any more."""
        return self._rename(held, replace(held.name, is_read=True), held.ends)

    def lose(self, held: HeldSet) -> bool:
        """Note that the hold is over; False if the manifest isn't there any more."""
        clock = self._root.clock
        stream, seq = held.key
        # By the clock of whoever has noted it, but never later than was promised.
        name = HoldName(stream=stream, seq=seq, due=min(held.due, clock.wall()), is_lost=True)
        return self._rename(held, name, clock.monotonic())

    def _rename(self, held: HeldSet, name: HoldName, ends: Millis) -> bool:
        self._is_next_known = False
        if name != held.name and not self._root.folders.rename(
            layout.reserved(held.name), layout.reserved(name)
        ):
            self.sets.pop(held.key, None)
            return False
        held.name, held.ends = name, ends
        return True

    def drop(self, held: HeldSet) -> None:
        """Unlink the manifest."""
        self._root.folders.drop(layout.reserved(held.name))
        self._is_next_known = False
        if self.sets.get(held.key) is held:
            del self.sets[held.key]

    def drop_marker(self, stream: str, seq: int) -> None:
        self._root.folders.drop(layout.reserved(HoldName(stream=stream, seq=seq)))
        self._forget_marker(stream, seq)

    def _forget_marker(self, stream: str, seq: int) -> None:
        markers = self.markers.get(stream, {})
        markers.pop(seq, None)
        if not markers:
            self.markers.pop(stream, None)

    def drop_paths(self, paths: list[str]) -> None:
        """Unlink what doesn't count."""
        for path in paths:
            try:
                self._root.folders.drop(path)
            except StoreError as error:
                log.warning("%s, which doesn't count, stays for now: %s", path, error)
