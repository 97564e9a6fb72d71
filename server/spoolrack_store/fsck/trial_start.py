"""A start on an overlay: what the next start would change in a root, and what is under way in it.

The engine opens the root in memory, by the code of each start. What it puts aside, makes anew or
unlinks are findings, and so is what it can't be shown. A server may be at work, which moves names while
they are listed: a finding counts if the next trial makes it, too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from random import Random
from typing import BinaryIO, Final

from ..engine.adoption import adoptable
from ..engine.engine import Engine
from ..files.changes import PATH, SIZE
from ..files.disk import NOT_A_FILE, Disk, Facts, FileKind, FolderEntry, unlink_or_leave
from ..files.layout import (
    BODIES,
    DEAD_LETTERS,
    DELAY,
    FOLDERS,
    NEW,
    QUARANTINE,
    QUEUES,
    REDRIVES,
    REMOVE,
    STAGED,
    spare_owner,
)
from ..files.overlay import File, OverlayDisk
from ..model.clock import Clock
from ..model.errors import DamagedSettings, StoreError, TornSettings
from ..model.names import name_at
from ..model.redrive_names import parse_redrive
from ..model.settings import decode, parse_settings_path, settings_path
from ..model.stage_names import DROPPED
from .findings import Findings, Leftover, Problem, QuarantinedFile, Remedy
from .quarantined_files import list_quarantined

_UNLINKED: Final = {
    NEW: "a copy, a body or a spare file that no process needs",
    QUEUES: "a queue without settings and messages, which was never created",
    BODIES: "the body of no message",
    DEAD_LETTERS: "it tells of no message",
    STAGED: "it was never staged",
}
"""Why a start removes a file, by its folder; in all others are records."""
_ALL: Final = 1 << 62
"""More files than a root has."""

Paths = dict[str, list[str]]
"""By the text of a file's stem, the paths of all its names."""


def message_paths(scan: Callable[[str], Iterable[FolderEntry]]) -> Paths:
    """Return all names of messages, in folders as `scan` lists them: most messages move in this
    order."""
    queues = [each.name for each in scan(QUEUES) if each.kind is FileKind.FOLDER]
    paths: Paths = {}
    for folder in (NEW, *(f"{QUEUES}/{queue}" for queue in queues), DELAY, REMOVE, QUARANTINE):
        for each in scan(folder):
            name = name_at(f"{folder}/{each.name}") if each.kind is FileKind.FILE else None
            if name is not None:
                paths.setdefault(name.stem.text, []).append(name.path)
    return paths


class _TrialDisk(OverlayDisk):
    """An overlay that tells what was changed, and shows nothing that the disk refuses to show."""

    def __init__(self, disk: Disk) -> None:
        super().__init__(disk)
        self.made: dict[str, File] = {}
        """What is new, by its path."""
        self.gone: dict[str, None] = {}
        """The paths of what was renamed or unlinked."""
        self.refused: dict[str, str] = {}
        """Paths that the disk refuses to show, and why."""
        names = self._names(".")
        for folder in FOLDERS:
            if names.get(folder) is not FileKind.FOLDER:
                names[folder], self._folders[folder] = FileKind.FOLDER, {}

    def read(self, path: str, limit: int | None = None, *, afresh: bool = False) -> bytes:
        with self._hiding(path):
            return super().read(path, limit, afresh=afresh)

    def open(self, path: str) -> BinaryIO:
        with self._hiding(path):
            return super().open(path)

    def facts(self, path: str) -> Facts:
        with self._hiding(path):
            return super().facts(path)

    @contextmanager
    def _hiding(self, path: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            if error.errno in NOT_A_FILE:
                raise
            self.refused[path] = f"it can't be read: {error.strerror}"
            super()._take(path)
            raise FileNotFoundError(path) from error

    def _names(self, folder: str) -> dict[str, File]:
        try:
            return super()._names(folder)
        except NotADirectoryError:
            raise
        except OSError as error:
            if not isinstance(error, FileNotFoundError):  # Its queue has just been deleted.
                self.refused[folder] = f"it can't be listed: {error.strerror}"
            return self._folders.setdefault(folder, {})

    def _put(self, path: str, file: File) -> None:
        super()._put(path, file)
        self.made[path] = file

    def _take(self, path: str) -> None:
        super()._take(path)
        if self.made.pop(path, None) is None:
            self.gone[path] = None


class TrialStart:
    """A start that has found what it would do. Its changes are in memory alone."""

    def __init__(self, disk: Disk, clock: Clock, owners: Collection[str] = ()) -> None:
        """`owners` may be at work. Raise `StoreError`, `OSError` if the root can't be listed."""
        self._disk = _TrialDisk(disk)
        self._owners = owners
        # A body or a dead-letter file is made before its message, and unlinked after it.
        for folder in (BODIES, DEAD_LETTERS):
            self._disk.scan(folder)
        self.paths = message_paths(self._disk.scan)
        engine = self._started(clock)
        # The index, of all messages, isn't kept.
        self.records = engine.catalog.records
        self.tombstones = engine.catalog.tombstones
        self.lost_settings = engine.catalog.reset
        found = chain(self._under_way(engine), self._left(), self._lost(engine), self._put_aside())
        self.found: dict[str, Problem | Leftover] = {each.path: each for each in found}

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder that the start leaves there."""
        return [each.name for each in self._disk.scan(folder)]

    def _started(self, clock: Clock) -> Engine:
        disk = self._disk
        while True:
            engine = Engine(
                disk,
                disk.map(PATH, SIZE),
                clock=clock,
                random=Random(0),
                owner="",
                is_living=self._owners.__contains__,
            )
            engine.moves.effort.left = _ALL
            refused = len(disk.refused)
            try:
                engine.open()
                break
            except StoreError:
                # It begins anew without a file that the disk refuses to show.
                if len(disk.refused) == refused:
                    raise
        engine.moves.removed_files.unlink()
        for path in engine.index.unused_dead_letter_files:
            unlink_or_leave(disk, path)
        return engine

    def _put_aside(self) -> Iterator[Problem | Leftover]:
        """Yield what goes to quarantine, and what the disk refuses to show."""
        for file in list_quarantined(Findings(self._disk)):
            if file.path not in self._disk.made:
                continue
            if self._is_torn(file):
                yield Leftover(path=file.source, why="these settings were never written whole")
            else:
                yield Problem(path=file.source, why=file.why)
        for path, why in self._disk.refused.items():
            yield Problem(path=path, why=why, remedy=Remedy.HAND)

    def _is_torn(self, file: QuarantinedFile) -> bool:
        """Return whether a file is one of settings that were never answered."""
        try:
            return parse_settings_path(file.source) is not None and not decode(
                self._disk.read(file.path), file.name
            )
        except (DamagedSettings, OSError) as error:
            return isinstance(error, TornSettings)

    def _lost(self, engine: Engine) -> Iterator[Problem]:
        """Yield the queues whose folder or settings a start makes anew."""
        for path, file in self._disk.made.items():
            folder, _, queue = path.partition("/")
            if folder == QUEUES and file is FileKind.FOLDER:
                why = (
                    f"the folder of the queue {queue} is missing: messages that were ready in it are "
                    "lost, and only a backup has them"
                )
                yield Problem(path=path, why=why, remedy=Remedy.FOLDER)
        unread = {parsed[0] for path in self._disk.refused if (parsed := parse_settings_path(path))}
        for queue in self.lost_settings - unread:
            count = engine.index.queue(queue).total
            why = f"there are no settings of the queue {queue}, and {count} messages of it"
            yield Problem(path=f"{QUEUES}/{queue}", why=why, remedy=Remedy.SETTINGS, queue=queue)

    def _left(self) -> Iterator[Leftover]:
        """Yield what a start unlinks or names, and no living process needs."""
        targets = {file: path for path, file in self._disk.made.items() if isinstance(file, str)}
        for path in self._disk.gone:
            folder, _, name = path.partition("/")
            cause = _UNLINKED.get(folder, "it was never written whole")
            why = f"{cause}: the next start removes it"
            if path in targets:
                why = f"the next start gives it the name {targets[path]}"
            if spare_owner(name) not in self._owners:
                yield Leftover(path=path, why=why)

    def _under_way(self, engine: Engine) -> Iterator[Leftover]:
        """Yield the work that any process goes on with."""
        for name in filter(adoptable, self.names(NEW)):
            yield Leftover(path=f"{NEW}/{name}", why="put here by hand: it waits to be adopted")
        for name in self.names(STAGED):
            if name.endswith(DROPPED):
                why = "a stage that is dropped: its chunks are being unlinked"
                yield Leftover(path=f"{STAGED}/{name}", why=why)
        for name in self.names(REDRIVES):
            if parse_redrive(name).ended is None:
                why = "a redrive: any process that has the root open goes on with it"
                yield Leftover(path=f"{REDRIVES}/{name}", why=why)
        for queue, version in self.tombstones.items():
            why = f"the queue {queue} is being deleted"
            yield Leftover(path=settings_path(queue, version), why=why)
        leases_of, known = engine.index.leases_of, engine.reservations.index.of_token
        for token in leases_of.keys() - known.keys():
            why = "leased for a reservation that was never made: the next start makes it ready"
            for entry in leases_of[token]:
                yield Leftover(path=entry.name.path, why=why)
