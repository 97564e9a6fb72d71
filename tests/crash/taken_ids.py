"""What was answered about deduplication ids: each is stored once within its window, in each queue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from seen import Found
from spoolrack_store.model.ids import sent_at
from spoolrack_store.model.settings import QueueSettings

Label = tuple[str, str]
"""A queue, and an id in it."""


@dataclass(slots=True)
class TakenIds:
    labels: dict[bytes, Label] = field(default_factory=dict)
    """Of each body that was sent with an id."""
    taken: dict[Label, str] = field(default_factory=dict)
    """The message that was last acknowledged for each."""
    windows: dict[str, int] = field(default_factory=dict)
    over: set[str] = field(default_factory=set)
    """Messages whose windows were over by a clock that was set since."""

    def copy(self) -> TakenIds:
        return TakenIds(self.labels, dict(self.taken), dict(self.windows), set(self.over))

    def are(self, queues: Mapping[str, QueueSettings]) -> None:
        """These queues are there now: of one that isn't, no id counts any more."""
        self.windows = {name: settings.deduplication_window for name, settings in queues.items()}
        for label in [label for label in self.taken if label[0] not in queues]:
            del self.taken[label]

    def forget(self, queue: str) -> None:
        """The queue was deleted: another one of that name may take the same ids."""
        for label in [label for label in self.taken if label[0] == queue]:
            del self.taken[label]

    def clock_is_set(self, ids: Iterable[str], before: int, after: int) -> None:
        """Of these messages, and those that are known, some windows are over, or are over now."""
        late = max(before, after)
        shortest = min(self.windows.values(), default=0)
        self.over.update(id for id in ids if sent_at(id) + shortest <= late)
        for label, id in list(self.taken.items()):
            if not self._is_within(label, id, late):
                del self.taken[label]
                self.over.add(id)

    def first_of(self, label: Label, now: int) -> str | None:
        """The message that must be named by an answer that was decided at Unix time `now`, and may be
        told when another was stored since."""
        first = self.taken.get(label)
        if first is None or sent_at(first) > now:
            return None
        return first if self._is_within(label, first, now) else None

    def clash(self, label: Label, id: str) -> str | None:
        """The message that was stored for it as well, within the window of whichever came first."""
        other = self.taken.get(label)
        if other is None:
            return None
        one, next = sorted((other, id))
        return other if self._is_within(label, one, sent_at(next)) else None

    def take(self, label: Label, id: str) -> None:
        """The message was stored for it. One that was sent later may have been answered before."""
        self.taken[label] = max(id, self.taken.get(label, ""))

    def twice(self, found: Mapping[str, Found], known: Mapping[str, bytes]) -> tuple[str, str] | None:
        """Two messages that were stored for one id of one queue, within its window."""
        by_key: dict[str, list[str]] = {}
        for id, each in found.items():
            if each.name.key is not None and id not in self.over:
                by_key.setdefault(each.name.key, []).append(id)
        for ids in by_key.values():
            ids.sort()
            for one, next in pairwise(ids):
                label = self.labels.get(known.get(one, found[one].body))
                if label is not None and self._is_within(label, one, sent_at(next)):
                    return one, next
        return None

    def _is_within(self, label: Label, id: str, now: int) -> bool:
        return now < sent_at(id) + self.windows.get(label[0], 0)
