"""What the names under a root say, for a check: no more than the names. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ..files import layout
from ..files.disk import Found
from ..model.names import Item, parse_filed, parse_item
from ..model.transitions import State


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A name in a folder of messages."""

    folder: str
    found: Found
    queue: str | None
    """In a queue's own folder, which."""

    @property
    def path(self) -> str:
        return f"{self.folder}/{self.found.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Filed:
    """What the name of a `Seen` says."""

    path: str
    found: Found
    queue: str
    item: Item
    state: State
    due: int


def filed_of(seen: Seen) -> Filed:
    """What a name says; raises `NotAName`."""
    if seen.queue is not None:
        queue, item, due, state = seen.queue, parse_item(seen.found.name), 0, State.READY
    else:
        filed = parse_filed(seen.found.name)
        queue, item, due = filed.queue, filed.item, filed.due or 0
        state = {layout.NEW: State.SENT, layout.REMOVE: State.REMOVED}.get(
            seen.folder, State.DELAYED if filed.token is None else State.LEASED
        )
    return Filed(path=seen.path, found=seen.found, queue=queue, item=item, state=state, due=due)


def count_in(name: str) -> int:
    """How many messages a name stands for, as far as it says."""
    _, tag, rest = name.partition(",n")
    digits = rest.partition(",")[0].partition("@")[0]
    return int(digits) if tag and digits.isdecimal() and len(digits) < 10 else 1
