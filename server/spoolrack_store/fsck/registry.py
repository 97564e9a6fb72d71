"""What `config/` says, for a check: which queues there are, and what is wrong with their settings.

Reads only. `catalog` reads the same files to serve them; this one to complain of them.
"""

from __future__ import annotations

import re
from typing import Final

from ..files import layout
from ..files.disk import Disk, Kind
from ..model.errors import DamagedSettings
from ..model.names import QUEUE_NAME
from ..model.settings import Record, decode
from .findings import Leftover, Problem, Remedy

SETTINGS_FILE: Final = re.compile(
    rf"(?P<queue>{QUEUE_NAME.pattern})\.(?P<version>[1-9][0-9]{{0,14}})\.json"
)


class Registry:
    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.names: set[str] = set()
        """Queues with settings or a tombstone."""
        self.doomed: set[str] = set()
        """Those with a tombstone."""
        self.letters: dict[str, str] = {}
        """The dead-letter queue of each that has one."""
        self.versions: dict[str, int] = {}
        """The highest version of each queue, damaged or not."""
        self.leftovers: dict[str, Leftover] = {}

    def read(self) -> dict[str, Problem]:
        """Read `config/`, again if it was read before; answers with what is wrong, by path."""
        self.names.clear()
        self.doomed.clear()
        self.letters.clear()
        self.leftovers.clear()
        problems: dict[str, Problem] = {}
        newest: dict[str, tuple[int, Record]] = {}
        try:
            listed = self._disk.scan(layout.CONFIG)
        except OSError:
            return {}  # Its absence was complained of.
        for found in listed:
            path = f"{layout.CONFIG}/{found.name}"
            match = SETTINGS_FILE.fullmatch(found.name)
            if match is None or found.kind is not Kind.FILE:
                problems[path] = Problem(path=path, why="not a settings file")
                continue
            queue, version = match["queue"], int(match["version"])
            self.versions[queue] = max(version, self.versions.get(queue, 0))
            try:
                content = self._disk.read(path)
                if not content:
                    # It is being written, or a crash came before it was: nobody was promised anything.
                    why = f"empty: these settings of the queue {queue} were never written"
                    self.leftovers[path] = Leftover(path=path, why=why)
                    continue
                record = decode(content, found.name)
            except FileNotFoundError:
                continue  # A newer version has taken its place: the folder is listed again if need be.
            except OSError as error:
                why = f"it can't be read: {error.strerror}"
                problems[path] = Problem(path=path, why=why, remedy=Remedy.HAND)
                self.names.add(queue)
                continue
            except DamagedSettings as error:
                problems[path] = Problem(path=path, why=str(error))
                continue
            if queue not in newest or newest[queue][0] < version:
                newest[queue] = (version, record)
        for queue, (version, record) in newest.items():
            self._take(queue, version, record)
        return problems

    def _take(self, queue: str, version: int, record: Record) -> None:
        self.names.add(queue)
        path = layout.config(queue, version)
        if record.settings is None:
            self.doomed.add(queue)
            self.leftovers[path] = Leftover(path=path, why=f"the queue {queue} is being deleted")
        elif record.settings.dead_letter_queue:
            self.letters[queue] = record.settings.dead_letter_queue
