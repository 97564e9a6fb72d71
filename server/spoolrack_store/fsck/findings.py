"""Findings of an inspection: values, and the collection that inspectors fill."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from ..files.disk import Disk, FolderEntry
from ..model.shards import Shard
from ..model.transitions import State

NOT_A_NAME: Final = "its name is none of ours"

Progress = Callable[[int, int], None]
"""Called with the number of messages checked, and of all messages by their names."""


class Remedy(Enum):
    """The action of a repair on a problem."""

    QUARANTINE = "quarantine"
    """Moves messages, or a foreign file, to quarantine."""
    READY = "ready"
    """Ends a lease or a delay: the messages are ready."""
    FOLDER = "folder"
    """Makes the folder anew."""
    SETTINGS = "settings"
    """Gives the queue the default settings."""
    HAND = "hand"
    """Nothing: only a person can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A file or name that doesn't match its place, its name or its content."""

    path: str
    """From the root. May hold anything that a file system allows in a name."""
    why: str
    remedy: Remedy = Remedy.QUARANTINE
    queue: str = ""
    """For `Remedy.SETTINGS`: the queue that lacks them."""
    members: int = 0
    """The mask of the messages that the problem is about; 0 where `path` is no message's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """Unfinished work of a running server, or of a crash, which the next start finishes."""

    path: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedFile:
    """Messages of one name, or a foreign file in a folder of its own, in quarantine."""

    id: str
    """For `restore`: the id of the only message or of the batch, or the name of the folder."""
    name: str
    """The file's name; empty if the file is gone."""
    path: str
    """Where it is."""
    source: str
    """The path that it had; empty where that isn't known: a message's name says its queue."""
    why: str


@dataclass(slots=True)
class MessageCounts:
    """Counts of a queue's undamaged messages."""

    counts: dict[State, int] = field(default_factory=dict)
    bytes: int = 0
    """Of bodies, without those of removed messages."""
    is_being_deleted: bool = False
    """The queue is deleted, and the next start removes its messages."""

    def add(self, state: State, messages: int, bytes: int) -> None:
        self.counts[state] = self.counts.get(state, 0) + messages
        if state is not State.REMOVED:
            self.bytes += bytes

    @property
    def messages(self) -> int:
        """Number of messages that are not removed."""
        return sum(count for state, count in self.counts.items() if state is not State.REMOVED)


@dataclass(slots=True, kw_only=True)
class Report:
    identity: str = ""
    """Of the root; empty: it has none yet."""
    shard: Shard | None = None
    """Which shard the root is; None: it is none, or its file is damaged."""
    queues: dict[str, MessageCounts] = field(default_factory=dict)
    """By name, in order."""
    problems: list[Problem] = field(default_factory=list)
    """By path."""
    leftovers: list[Leftover] = field(default_factory=list)
    """By path."""
    quarantined: list[QuarantinedFile] = field(default_factory=list)
    """The content of the quarantine."""
    owners: list[str] = field(default_factory=list)
    """The texts of the owners' files; their processes may be dead."""
    staged: int = 0
    """Stages that wait for their publication."""
    published: int = 0
    """Publications that are remembered."""
    reserved: int = 0
    """Sets that are reserved, without those that are lost."""
    checked: int = 0
    """Messages looked at."""
    bytes: int = 0
    """Bytes read."""
    unchecked: int = 0
    """Messages whose names changed between each two looks: a server is at work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mended:
    """A problem that a repair has solved, and the remedy."""

    problem: Problem
    how: str


class Findings:
    """The findings of all inspectors of one root, and the listing of its folders.

    A server may be at work: a file that is gone when it is noted was finished, and is skipped.
    """

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.report = Report()
        self._problems: dict[tuple[str, int], Problem] = {}
        self._leftovers: dict[str, Leftover] = {}

    def add(self, problem: Problem) -> None:
        if problem.remedy in (Remedy.FOLDER, Remedy.SETTINGS) or self.exists(problem.path):
            self._problems.setdefault((problem.path, problem.members), problem)

    def note(self, found: Problem | Leftover) -> None:
        if isinstance(found, Problem):
            self.add(found)
        else:
            self.add_leftover(found.path, found.why)

    def add_foreign(self, path: str, why: str = NOT_A_NAME) -> None:
        """Note a foreign file, which goes to quarantine unchanged."""
        self.add(Problem(path=path, why=why))

    def add_unrepairable(self, path: str, why: str) -> None:
        """Note a problem that only an operator can solve."""
        self.add(Problem(path=path, why=why, remedy=Remedy.HAND))

    def add_leftover(self, path: str, why: str) -> None:
        """Note unfinished work."""
        if self.exists(path):
            self._leftovers.setdefault(path, Leftover(path=path, why=why))

    def scan(self, folder: str) -> list[FolderEntry]:
        """Return all names in a folder, in order; none if it is missing."""
        try:
            return sorted(self.disk.scan(folder), key=lambda found: found.name)
        except (FileNotFoundError, NotADirectoryError):
            return []  # It was noted where the root was looked at.
        except OSError as error:
            self.add_unrepairable(folder, f"it can't be listed: {error.strerror}")
            return []

    def finish(self) -> Report:
        report = self.report
        report.queues = dict(sorted(report.queues.items()))
        report.problems = [self._problems[key] for key in sorted(self._problems)]
        report.leftovers = [self._leftovers[path] for path in sorted(self._leftovers)]
        return report

    def exists(self, path: str) -> bool:
        """Return whether something is at a path."""
        try:
            self.disk.facts(path)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return True
