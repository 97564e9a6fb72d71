"""Which messages of one commit a receive in the same commit may be given, in the simplest form."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from spoolrack_store.engine.groups import BATCH_MESSAGES, OWN_FOLDER

Each = TypeVar("Each")


@dataclass(slots=True)
class _Group(Generic[Each]):
    """What becomes one file, or one batch folder."""

    queue: str
    delay: int
    is_open: bool
    messages: list[tuple[Each, int]] = field(default_factory=list)
    """With their lengths."""


class ArrivalsModel(Generic[Each]):
    def __init__(self) -> None:
        self._groups: list[_Group[Each]] = []

    def clear(self) -> None:
        """A commit begins."""
        self._groups = []

    def add(self, queue: str, sent: Iterable[tuple[int, Each, int]]) -> None:
        """One call sends these: the delay of each, what it is, and its length."""
        by_delay: dict[int, list[tuple[Each, int]]] = {}
        for delay, message, length in sent:
            by_delay.setdefault(delay, []).append((message, length))
        for delay, messages in by_delay.items():
            is_small = len(messages) < OWN_FOLDER
            latest = next(
                (
                    group
                    for group in reversed(self._groups)
                    if group.is_open and (group.queue, group.delay) == (queue, delay)
                ),
                None,
            )
            if is_small and latest and len(latest.messages) + len(messages) <= BATCH_MESSAGES:
                latest.messages += messages
            else:
                self._groups.append(_Group(queue, delay, is_small, messages))

    def take(self, queue: str, room: int, bytes: int, *, is_empty: bool) -> list[Each]:
        """What a receive with so much room gets, who has found nothing ready any more."""
        taken: list[Each] = []
        while room > 0:
            mine = [each for each in self._groups if each.queue == queue and not each.delay]
            if not mine:
                break
            first = mine[0].messages
            length = sum(length for _, length in first)
            must = len(first) == 1 and is_empty and not taken
            if len(first) > room or (length > bytes and not must):
                self._groups = [each for each in self._groups if each not in mine]
                break
            self._groups.remove(mine[0])
            taken += [message for message, _ in first]
            room, bytes = room - len(first), bytes - length
        return taken
