"""What one commit sends, by what becomes one file, or one batch folder."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from ..model.clock import Millis
from ..model.content import Attributes
from ..model.errors import StoreError
from ..model.operations import Sent

BATCH_MESSAGES: Final = 100
"""Calls share a batch folder up to this size: near the usual credit of a consumer, who then leases the
folder whole. One call is never split."""
BATCH_BYTES: Final = 4 * 1024 * 1024
OWN_FOLDER: Final = 8
"""A call of so many messages gets a batch folder of its own: whoever sends tens mostly takes tens, and
leases and deletes such a folder with one rename each."""


@dataclass(slots=True)
class Pending:
    """A valid message, and the place that its result belongs to."""

    body: bytes
    attributes: Attributes
    trailer: bytes
    results: list[Sent | StoreError | None]
    at: int
    key: int | None = None
    """Of its deduplication id, if it has one."""

    @property
    def bytes(self) -> int:
        return len(self.body) + len(self.trailer)


@dataclass(slots=True)
class Group:
    """Messages that become one file, or one batch folder."""

    queue: str
    delay: Millis
    messages: list[Pending] = field(default_factory=list)
    bytes: int = 0

    def fail(self, error: StoreError) -> None:
        for message in self.messages:
            message.results[message.at] = error


def merge(group: Group, groups: list[Group], open_groups: dict[tuple[str, Millis], Group]) -> None:
    """Let `group` share the batch folder of an earlier one, if both are small."""
    if len(group.messages) >= OWN_FOLDER:
        groups.append(group)
        return
    key = (group.queue, group.delay)
    there = open_groups.get(key)
    if (
        there is not None
        and len(there.messages) + len(group.messages) <= BATCH_MESSAGES
        and there.bytes + group.bytes <= BATCH_BYTES
    ):
        there.messages.extend(group.messages)
        there.bytes += group.bytes
        return
    groups.append(group)
    open_groups[key] = group
