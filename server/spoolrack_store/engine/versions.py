"""The files of queues' settings, a version each: created exclusively, never replaced, unlinked once.

It knows which versions a failure may have left behind, so that none is begun twice and none stays when
its queue is gone. What a version means is the catalog's.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection
from typing import Final

from ..files import layout
from ..files.disk import Kind
from ..files.folders import NameTaken, explained
from ..files.syncer import SyncFailed
from ..model.errors import StoreError
from ..model.names import QUEUE_NAME, make_token
from ..model.settings import QueueSettings, Record, encode
from .root import Root

log = logging.getLogger(__name__)

SETTINGS_FILE: Final = re.compile(
    rf"(?P<queue>{QUEUE_NAME.pattern})\.(?P<version>[1-9][0-9]{{0,14}})\.json"
)


class Versions:
    """Not thread-safe."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._left: dict[str, set[int]] = {}
        """Versions that don't count, and could not be unlinked."""
        self._tried: dict[str, int] = {}
        """The last version that was begun to be written: none is written twice."""

    def next_version(self, name: str, version: int) -> int:
        """The version after `version`, above those of which a part may still be there."""
        return max(version, self._tried.get(name, 0)) + 1

    def first(self, settings: QueueSettings) -> Record:
        """What the first version of a queue that is made now says."""
        salt = make_token(self._root.random)
        return Record(settings=settings, created_at=self._root.clock.wall(), salt=salt)

    def write(self, name: str, version: int, record: Record) -> int:
        """Create the file of a version; when it was written."""
        content = encode(record)
        self._tried[name] = version
        # A tombstone makes room.
        urgent = record.settings is None
        try:
            self._root.folders.write(layout.config(name, version), [content], sync=True, urgent=urgent)
        except NameTaken:
            raise
        except StoreError:
            # A part of it may be there still.
            self._left.setdefault(name, set()).add(version)
            raise
        return self.noted_ns(name, version)

    def noted_ns(self, name: str, version: int) -> int:
        """When the file of our version was written; 0 if that can't be told, and is asked again."""
        try:
            return self.written_ns(name, version) or 0
        except StoreError as error:
            log.warning("the settings of %s can't be looked at for now: %s", name, error)
            return 0

    def listed(self) -> dict[str, list[int]]:
        """All versions that are there, by queue, the newest first."""
        listed: dict[str, list[int]] = {}
        for found in self._root.folders.scan(layout.CONFIG):
            match = SETTINGS_FILE.fullmatch(found.name)
            if match is not None and found.kind is Kind.FILE:
                listed.setdefault(match["queue"], []).append(int(match["version"]))
        for versions in listed.values():
            versions.sort(reverse=True)
        return listed

    def written_ns(self, name: str, version: int) -> int | None:
        """When the file of a version was written; None if it isn't there."""
        try:
            return self._root.disk.facts(layout.config(name, version)).changed_ns
        except FileNotFoundError:
            return None
        except OSError as error:
            raise explained(error) from error

    def drop(self, name: str, version: int, written_ns: int = 0) -> None:
        """Unlink a version that is superseded; if that fails, remember it.

        With `written_ns` only the file of that time: others may have deleted the queue meanwhile, and
        made it again, with the same versions.
        """
        try:
            if written_ns and self.written_ns(name, version) not in (written_ns, None):
                return
            self._root.folders.drop(layout.config(name, version))
        except StoreError as error:
            log.warning("settings of %s that no longer count stay for now: %s", name, error)
            self._left.setdefault(name, set()).add(version)

    def require_durable(self, path: str) -> None:
        """Sync settings that a process which was killed may have written and not synced.

        What they supersede is dropped for them.
        """
        disk = self._root.disk
        if disk.can_sync_all:
            return  # The sync that ends the recovery covers it.
        try:
            disk.sync_file(path)
        except OSError as error:
            raise SyncFailed(str(error)) from error

    def leave(self, name: str, versions: Collection[int]) -> None:
        """Others have superseded these, and may not live to unlink them."""
        if versions:
            self._left.setdefault(name, set()).update(versions)

    def leave_older(self, name: str, version: int) -> None:
        """All that is there and older than `version` is superseded; raises `StoreError`."""
        self.leave(name, [older for older in self.listed().get(name, ()) if older < version])

    def drop_left(self, name: str) -> bool:
        """Unlink what could not be unlinked before; whether there was anything."""
        left = self._left.pop(name, None)
        if left is None:
            return False
        for version in left:
            self.drop(name, version)
        return True

    def is_left(self, name: str) -> bool:
        """Whether a version that doesn't count is still there."""
        return name in self._left

    def forget(self, name: str, *, gone: bool) -> None:
        """Nothing is left but the last version: if it is `gone`, nothing at all."""
        self._left.pop(name, None)
        if gone:
            self._tried.pop(name, None)
