"""What a check of a root has found. Values, no behaviour, no disk."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from ..model.transitions import State


class Remedy(Enum):
    """What a repair does about a problem."""

    QUARANTINE = "quarantine"
    """Puts it aside."""
    FOLDER = "folder"
    """Makes the folder anew."""
    SETTINGS = "settings"
    """Gives the queue the default settings."""
    HAND = "hand"
    """Nothing: only a person can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something that doesn't belong where it is, or isn't what its name says."""

    path: str
    """From the root. May hold anything that a file system allows in a name."""
    why: str
    remedy: Remedy = Remedy.QUARANTINE
    queue: str = ""
    """For `Remedy.SETTINGS`: whose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """Something unfinished: a running server is at work on it, or the next start finishes it."""

    path: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Aside:
    """What lies in one folder of `quarantine/`."""

    id: str
    """The folder's name."""
    name: str
    """What was put aside; empty if that is gone."""
    source: str
    """The path that it had; empty if no note says so."""
    why: str


@dataclass(slots=True)
class Tally:
    """A queue's whole messages."""

    counts: dict[State, int] = field(default_factory=dict)
    bytes: int = 0
    """Of bodies and attributes, without those that are removed."""
    is_doomed: bool = False
    """The queue is deleted, and its messages go with the next start."""

    def add(self, state: State, bytes: int) -> None:
        self.counts[state] = self.counts.get(state, 0) + 1
        if state is not State.REMOVED:
            self.bytes += bytes

    @property
    def messages(self) -> int:
        """Those that are not removed."""
        return sum(count for state, count in self.counts.items() if state is not State.REMOVED)


@dataclass(slots=True, kw_only=True)
class Report:
    queues: dict[str, Tally] = field(default_factory=dict)
    """By name, in order."""
    problems: list[Problem] = field(default_factory=list)
    leftovers: list[Leftover] = field(default_factory=list)
    aside: list[Aside] = field(default_factory=list)
    """What is in quarantine already."""
    owners: list[str] = field(default_factory=list)
    """Who says of himself that he writes here; he may be dead."""
    staged: int = 0
    """Stages that wait for their publication."""
    published: int = 0
    """Publications that are remembered."""
    reserved: int = 0
    """Sets that are reserved, without those that are known to be lost."""
    histories: int = 0
    checked: int = 0
    """Messages looked at."""
    bytes: int = 0
    """Bytes read."""
    unchecked: int = 0
    """Messages, at least, that moved on whenever they were to be looked at: a server is at work."""

    @property
    def is_clean(self) -> bool:
        return not self.problems


@dataclass(frozen=True, slots=True, kw_only=True)
class Mended:
    """A problem that a repair has dealt with, and how."""

    problem: Problem
    how: str
