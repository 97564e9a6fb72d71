"""The queues of `config/`, for an inspection, and the faults of their settings. Reads only."""

from __future__ import annotations

from ..files.disk import Disk, FileKind
from ..files.layout import CONFIG
from ..model.errors import DamagedSettings
from ..model.settings import Record, decode, parse_settings_path, settings_path
from .findings import Leftover, Notes, Problem, Remedy


class Registry:
    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.names: set[str] = set()
        """Queues with settings or a tombstone."""
        self.being_deleted: set[str] = set()
        """Those with a tombstone."""
        self.versions: dict[str, int] = {}
        """The highest version of each queue, damaged or not."""
        self.problems: list[Problem] = []
        self.leftovers: list[Leftover] = []

    def read(self) -> None:
        """Read `config/`; again with each call."""
        self.names, self.being_deleted, self.versions = set(), set(), {}
        self.problems, self.leftovers = [], []
        newest: dict[str, tuple[int, Record]] = {}
        try:
            listed = self._disk.scan(CONFIG)
        except OSError:
            return  # Its absence is noted where the root is looked at.
        for file in listed:
            path = f"{CONFIG}/{file.name}"
            parsed = parse_settings_path(path)
            if parsed is None or file.kind is not FileKind.FILE:
                self.problems.append(Problem(path=path, why="not a settings file"))
                continue
            queue, version = parsed
            self.versions[queue] = max(version, self.versions.get(queue, 0))
            try:
                content = self._disk.read(path)
                if not content:
                    # It is being written, or was when the power failed: no answer rests on it.
                    why = f"empty: these settings of the queue {queue} were never written"
                    self.leftovers.append(Leftover(path=path, why=why))
                    continue
                record = decode(content, file.name)
            except FileNotFoundError:
                continue  # A newer version has taken its place.
            except OSError as error:
                why = f"it can't be read: {error.strerror}"
                self.problems.append(Problem(path=path, why=why, remedy=Remedy.HAND))
                self.names.add(queue)
                continue
            except DamagedSettings as error:
                self.problems.append(Problem(path=path, why=str(error)))
                continue
            if queue not in newest or newest[queue][0] < version:
                newest[queue] = version, record
        for queue, (version, record) in newest.items():
            self.names.add(queue)
            if record.settings is None:
                self.being_deleted.add(queue)
                path = settings_path(queue, version)
                self.leftovers.append(Leftover(path=path, why=f"the queue {queue} is being deleted"))

    def add_to(self, notes: Notes) -> None:
        """Note the faults of the settings."""
        for problem in self.problems:
            notes.problem(problem)
        for leftover in self.leftovers:
            notes.leave(leftover.path, leftover.why)
