"""Which redrives there are: the files in `redrives/`.

A file's content says what is to be done, and never changes; its name says how far that has come. Who is
alone knows all of them; with others there the folder is listed whenever it is needed, and whoever lists
it, or makes, renames or unlinks something in it, holds its lock. What a redrive does to messages is
nothing of its business.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ...files import layout
from ...files.disk import Kind
from ...model.errors import StoreError
from ...model.names import NotAName
from ...model.redrive_names import RedriveName, parse_redrive
from ...model.redrive_order import RedriveOrder, decode, encode
from ...model.sealed import NotWhole
from ..root import Root, path_in

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Kept:
    """A redrive, as its file says it."""

    name: RedriveName
    order: RedriveOrder

    @property
    def path(self) -> str:
        return layout.redrive(self.name)

    @property
    def goes_on(self) -> bool:
        return self.name.ended is None


class Redrives:
    """Not thread-safe."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._known: dict[str, Kept] = {}
        """By id, as they were when the folder was looked at last."""
        self._must_look = True

    def forget(self) -> None:
        """Others may come: what is known may soon be wrong."""
        self._must_look = True

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep others who do the same out. Raises `DiskError` if somebody stays in there."""
        lock = self._root.folders.hold(layout.REDRIVES)
        try:
            yield
        finally:
            if lock is not None:
                lock.release()

    @property
    def listed_last(self) -> list[Kept]:
        """What was there when the folder was looked at last."""
        return list(self._known.values())

    def every(self) -> dict[str, Kept]:
        """All that there are, the oldest first; with others there, only while they are kept out."""
        if self._must_look or self._root.is_shared:
            self._known = self._listed()
            self._must_look = self._root.is_shared  # Others may begin one at any time.
        return self._known

    def _listed(self) -> dict[str, Kept]:
        found: dict[str, Kept] = {}
        for each in sorted(self._root.folders.scan(layout.REDRIVES), key=lambda each: each.name):
            try:
                name = parse_redrive(each.name)
            except NotAName:
                continue  # Nobody's: a start without others puts it aside.
            if each.kind is not Kind.FILE:
                continue
            there = found.get(name.id)
            if there is not None:
                there.name = max(there.name, name, key=_age)
                continue
            # Who drives it goes on with the same.
            kept = self._known.get(name.id)
            if kept is None:
                order = self._read(name)
                if order is None:
                    continue
                kept = Kept(name, order)
            kept.name = name
            found[name.id] = kept
        return found

    def _read(self, name: RedriveName) -> RedriveOrder | None:
        """None if it isn't whole: a start without others puts it aside."""
        try:
            return decode(self._root.disk.read(layout.redrive(name)))
        except (FileNotFoundError, NotWhole) as error:
            log.debug("%s is no redrive: %s", name, error)
            return None
        except OSError as error:
            log.error("the redrive %s can't be read, and doesn't go on: %s", name, error)
            return None

    # What changes.

    def make(self, order: RedriveOrder, owner: str | None) -> Kept:
        """Create one; it counts from the next sync on."""
        kept = Kept(RedriveName(id=self._root.ids.make(), owner=owner), order)
        known = self.every()
        self._root.folders.write(kept.path, [encode(order)], sync=False)
        known[kept.name.id] = kept
        return kept

    def is_there(self, kept: Kept) -> bool:
        """Whether nobody else has given it another name."""
        return self._root.folders.is_there(kept.path)

    def rename(self, kept: Kept, name: RedriveName) -> bool:
        """Say how far it has come; False if somebody else has given it another name."""
        if name != kept.name:
            if not self._root.folders.rename(kept.path, layout.redrive(name)):
                self.forget()
                return False
            kept.name = name
        return True

    def drop(self, kept: Kept) -> None:
        """Forget one that ended long ago."""
        self._root.folders.drop(kept.path)
        self._known.pop(kept.name.id, None)

    # The start without others.

    def recover(self) -> None:
        """Put aside what is damaged or not ours, and leave one name to each."""
        root = self._root
        latest: dict[str, RedriveName] = {}
        for found in root.folders.scan(layout.REDRIVES):
            path = path_in(layout.REDRIVES, found.name)
            try:
                name = parse_redrive(found.name)
                if found.kind is not Kind.FILE:
                    raise NotAName("it is no file")
                decode(root.disk.read(path))
            except (NotAName, NotWhole) as error:
                self._put_aside(path, f"no redrive: {error}")
                continue
            except OSError as error:
                log.error("%a can't be read, and nobody goes on with it: %s", path, error)
                continue
            root.ids.rise_above(name.id)
            other = latest.setdefault(name.id, name)
            if other is not name:
                older, newer = sorted((other, name), key=_age)
                latest[name.id] = newer
                self._drop_double(older)

    def _drop_double(self, name: RedriveName) -> None:
        """The file has got another name, and a crash has kept this one."""
        try:
            self._root.folders.drop(layout.redrive(name))
        except StoreError as error:
            log.warning("the older name %s of a redrive stays for now: %s", name, error)

    def _put_aside(self, path: str, why: str) -> None:
        try:
            self._root.folders.quarantine(path, why)
        except StoreError as error:
            log.error("%a doesn't count (%s), and can't be put aside: %s", path, why, error)


def _age(name: RedriveName) -> tuple[bool, bool, int, int]:
    """Of two names of one redrive the later one has more of this."""
    # What was cancelled is named again when its last moves are durable, without an owner.
    return name.ended is not None, name.owner is None, name.moved, name.failed
