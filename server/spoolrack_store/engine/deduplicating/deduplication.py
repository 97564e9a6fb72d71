"""Idempotent sends: which deduplication ids are taken, and by which message.

A message carries its key in its name, so key and message are durable together, and a key is taken as
soon as its message is written. Who is alone has all keys in memory. Where others have the root open,
too, one at a time decides, behind a lock: it first learns what the others have written, and tells them
what it writes before it gives up the lock. What it has learned that way may not be durable, so its
commit makes all of that durable before it answers "duplicate".
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from ...files import layout
from ...files.disk import Kind, Lock
from ...files.folders import NameTaken, explained
from ...files.owners import is_living
from ...files.reader import Damaged, Forbidden, Gone, read_message
from ...files.segments import Segments
from ...model.clock import SECOND, Millis
from ...model.errors import DiskError, QueueNotFound, TooManyDeduplicationIds
from ...model.keys import MAX_KEYS, Line, first_number_of, id_number, id_text, key_in
from ...model.names import Batch, Entry, Filed, NotAName, id_of, parse_entry, parse_filed
from ..catalog import Catalog
from ..live import Live
from ..root import Root, path_in
from .census import learn_at_start, learn_beside_others
from .known_keys import KnownKeys

log = logging.getLogger(__name__)

LOOK_EVERY: Final = Millis(60 * SECOND)
"""So often segments are looked for of which nothing is asked for any more."""
_KNOCKS: Final = 500
_KNOCKS_EVERY: Final = 0.01
"""Seconds. Another one holds the lock for as long as it takes to write its messages."""
_NEVER: Final = threading.Event()


@dataclass(frozen=True, slots=True)
class _Arriving:
    """A message in `new/` that another process has written, or was writing when it died."""

    path: str
    filed: Filed
    name: str
    """The entry's, in a batch folder too."""


class Deduplication:
    """Not thread-safe."""

    def __init__(self, root: Root, catalog: Catalog, segments: Segments) -> None:
        self.known = KnownKeys(root, catalog)
        self._root = root
        self._catalog = catalog
        self._segments = segments
        self._is_complete = False
        """Whether all keys are known that were taken before others told of theirs."""
        self._has_company = False
        """Whether others may have taken keys since this one last looked."""
        self._read_up_to: dict[str, int] = {}
        """By segment of others, how far their news were read."""
        self._is_open = False
        """Whether this commit has learned what the others have written."""
        self._lock: Lock | None = None
        self._arriving: dict[tuple[str, int], _Arriving] = {}
        self._are_whole: dict[str, bool] = {}
        """Of those, what was found when they were read, by path."""
        self._coming: dict[str, int] = {}
        """How many new keys this commit may take, by queue."""
        self._next_look = Millis(root.clock.monotonic() + LOOK_EVERY)

    # One commit.

    def find(self, live: Live, key: int) -> str | None:
        """The message that carried the key within the queue's window; None if none did.

        From now on until `close` nobody else takes a key. Raises `TooManyDeduplicationIds`, or
        another `StoreError` if it can't be told.
        """
        self._open()
        since, keys = self.known.since(live), self.known.of(live.name)
        first = keys.find(key, since)
        if first is None:
            first = self._find_arriving(live, key, since)
        elif self._is_torn(live, key, first):
            first = None
        if first is not None:
            if self._has_company:
                self._require_same(live)
                # What was learned of others may not be durable yet.
                self._root.everything_changed()
            return id_text(first)
        keys.forget_before(since)
        coming = self._coming.get(live.name, 0)
        if len(keys) + coming >= MAX_KEYS:
            raise TooManyDeduplicationIds(queue=live.name, held=len(keys) + coming, limit=MAX_KEYS)
        self._coming[live.name] = coming + 1
        return None

    def take(self, queue: str, taken: Iterable[tuple[int, str]]) -> None:
        """The messages with these keys and ids are written. Raises `StoreError` if the others can't be
        told, and then none is taken."""
        numbers = [(key, id_number(id)) for key, id in taken]
        if self._has_company:
            self._tell(Line(queue, id, key, is_news=True) for key, id in numbers)
        keys = self.known.of(queue)
        for key, id in numbers:
            keys.add(key, id)

    def close(self) -> None:
        """The commit takes no more keys, and others may decide."""
        if self._is_open:
            self._is_open = False
            self._arriving.clear()
            self._are_whole.clear()
            self._coming.clear()
            self._unlock()

    def _open(self) -> None:
        if self._is_open:
            return
        is_contended = self._root.is_shared or self._root.folders.is_contended
        if is_contended or self._has_company or not self._is_complete:
            self._has_company = True
            try:
                self._lock = self._knock()
                self._catch_up()
            except OSError as error:
                self._unlock()
                raise explained(error) from error
            except BaseException:
                self._unlock()
                raise
            # Once nobody else is there, this was the last look that is needed.
            self._has_company = is_contended
        self._is_open = True

    def _unlock(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()

    def _knock(self) -> Lock:
        for _ in range(_KNOCKS):
            try:
                lock = self._root.disk.lock(layout.KEYS_LOCK)
            except FileNotFoundError:
                self._make_lock()
                continue
            if lock is not None:
                return lock
            _NEVER.wait(_KNOCKS_EVERY)
        raise DiskError(detail=f"somebody else holds on to {layout.KEYS_LOCK}")

    def _make_lock(self) -> None:
        try:
            self._root.folders.write(layout.KEYS_LOCK, [b""], sync=False)
        except NameTaken:
            log.debug("somebody else was faster to make %s", layout.KEYS_LOCK)

    def _require_same(self, live: Live) -> None:
        """Others may have deleted the queue, and made it again: then no id of it is taken."""
        if not self._catalog.is_current(live):
            self._catalog.refresh()
            now = self._catalog.require_open(live.name)
            if now != live and not live.goes_on_as(now.version, now.created_at):
                raise QueueNotFound(queue=live.name)

    # What others do.

    def others_came(self) -> None:
        """Others have the root open, or had it for a moment."""
        self._has_company = True

    def take_over(self, queue: str, names: Iterable[str]) -> None:
        """Entries with these names, which a dead process has written, are about to be published.

        Raises `StoreError` if the others can't be told: then they may not be.
        """
        keyed = [(key, name) for name in names if (key := key_in(name)) is not None]
        if keyed and self._root.is_shared:
            self._tell(Line(queue, id_number(name), key, is_news=True) for key, name in keyed)
        for key, name in keyed:
            self.known.of(queue).add(key, id_number(name))

    def _tell(self, lines: Iterable[Line]) -> None:
        try:
            self._segments.write(lines, sync=False)
        except OSError as error:
            raise explained(error) from error

    def _catch_up(self) -> None:
        """Learn of every key that was taken before the lock was. Raises `OSError` and `StoreError`."""
        # First: what leaves `new/` was told of in the news before.
        self._arriving = {(each.filed.queue, key): each for key, each in self._look_at_new()}
        if not self._is_complete:
            # A listing may miss what is just leased there, by a rename, and no other rename follows.
            again = {(each.filed.queue, key): each for key, each in self._look_at_new()}
            self._arriving |= again
        if not self._is_complete:
            for path in self._segments.paths():
                # The news so far are of messages that will be found; or were, before a power cut.
                self._read_up_to[path] = self._segments.read(path)[1]
            learn_beside_others(self.known, self._root, self._segments, self._coming_to_stay())
            self._is_complete = True
        self._read_news()

    def _coming_to_stay(self) -> list[tuple[str, str]]:
        """The queues and names of what is whole in `new/`: of it others may have been told before."""
        stays: dict[str, bool] = {}
        for each in self._arriving.values():
            if each.path not in stays:
                owner = each.filed.item.owner or ""
                # Who lives has written it whole; what the dead have left so, an heir publishes.
                stays[each.path] = is_living(self._root.disk, owner) or self._is_whole(each)
        return [(each.filed.queue, each.name) for each in self._arriving.values() if stays[each.path]]

    def _look_at_new(self) -> Iterator[tuple[int, _Arriving]]:
        """Those who live have told of what is there; whoever died may not have come to it."""
        folders = self._root.folders
        for found in folders.scan(layout.NEW):
            try:
                filed = parse_filed(found.name)
            except NotAName:
                continue
            if filed.item.owner in (None, self._root.owner):
                continue
            path = path_in(layout.NEW, found.name)
            is_folder = found.kind is Kind.FOLDER
            for name in folders.names_inside(path) if is_folder else (str(filed.item),):
                key = key_in(name)
                if key is not None:
                    yield key, _Arriving(path, filed, name)

    def _find_arriving(self, live: Live, key: int, since: int) -> int | None:
        arriving = self._arriving.get((live.name, key))
        if arriving is None or id_number(arriving.name) < first_number_of(since):
            return None
        if self._is_whole(arriving):
            return id_number(arriving.name)  # Whoever takes it over publishes it.
        # It never was; or somebody has just taken it over, and has told so.
        try:
            self._read_news()
        except OSError as error:
            raise explained(error) from error
        return self.known.of(live.name).find(key, since)

    def _is_torn(self, live: Live, key: int, id: int) -> bool:
        """Whether its sender has told of the message, and could not make it durable: a sync of it has
        failed, so that an heir will find that it was never sent."""
        arriving = self._arriving.get((live.name, key))
        if arriving is None or id_number(arriving.name) != id:
            return False
        return self._reads_whole(arriving) is False

    def _is_whole(self, arriving: _Arriving) -> bool:
        return self._reads_whole(arriving) is True

    def _reads_whole(self, arriving: _Arriving) -> bool | None:
        """Whether the message, and all that was sent with it, is there whole; None if it is not in
        `new/` any more. Raises `DiskError` if that can't be told."""
        path = arriving.path
        known = self._are_whole.get(path)
        if known is not None:
            return known
        try:
            is_whole = self._read(path, arriving.filed.item)
        except (Gone, FileNotFoundError):
            # It may have been leased there in the meantime.
            renamed = self._find_again(arriving)
            return None if renamed is None else self._reads_whole(renamed)
        except (Damaged, NotAName):
            is_whole = False
        except (Forbidden, OSError) as error:
            raise DiskError(detail=f"{path} can't be read: {error}") from error
        self._are_whole[path] = is_whole
        return is_whole

    def _read(self, path: str, item: Entry | Batch) -> bool:
        """Read it all from the disk; whether it is as much as was sent."""
        disk = self._root.disk
        if not isinstance(item, Batch):
            read_message(disk, path, item, afresh=True)
            return True
        inside = [found.name for found in disk.scan(path)]
        for name in inside:
            read_message(disk, path_in(path, name), parse_entry(name), afresh=True)
        return len(inside) >= item.count

    def _find_again(self, arriving: _Arriving) -> _Arriving | None:
        """The same message in `new/` under another name."""
        id = id_of(arriving.name)
        for _, each in self._look_at_new():
            if id_of(each.name) == id and each.path != arriving.path:
                return each
        return None

    def _read_news(self) -> None:
        """Raises `OSError`."""
        for path in self._segments.paths():
            if self._segments.is_own(path):
                continue
            begin = self._read_up_to.get(path, 0)
            lines, self._read_up_to[path] = self._segments.read(path, begin)
            for line in lines:
                if line.is_news:
                    self.known.of(line.queue).add(line.key, line.id)

    # The start, and time.

    def load(self, removed: Iterable[tuple[str, str]]) -> None:
        """Learn all keys at a start without others, when the index knows all names; `removed` are the
        queues and names of what was found deleted. Raises `StoreError` if segments can't be read."""
        self._read_up_to = learn_at_start(self.known, self._root, self._segments, removed)
        self._is_complete = True

    def tick(self) -> None:
        """Forget what is over."""
        self.known.forget_over()
        now = self._root.clock.monotonic()
        if now >= self._next_look and self._root.chores.unlinks:
            self._next_look = Millis(now + LOOK_EVERY)
            try:
                self._segments.unlink_over(self.known.is_over, look=self._root.is_shared)
            except OSError as error:
                log.warning("deduplication ids that are over stay for now: %s", error)
