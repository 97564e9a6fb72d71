"""Where a query is in its queue, and how a batch is cut into the slices of its tasks. Pure.

An offset names the last reservation that the query has been given: the stream `gen` is the query's
own, `sequence_number` counts its reservations, `n` the messages of this one. A batch is exactly the
reservation that its end names; where it began says nothing, because Spark makes a new beginning for a
first batch that it does again.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ._options import InvalidOption

NOTHING_YET: Final = -1
"""The number before the first reservation."""
WORTH_A_TASK: Final = 5_000
"""Messages that take a task longer than its own start, ..."""
TASKS: Final = 16
"""... and so many tasks at most, where nobody said how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    gen: str
    sequence_number: int
    n: int

    @property
    def is_initial(self) -> bool:
        return self.sequence_number == NOTHING_YET

    def as_json(self) -> dict[str, Any]:
        return {"gen": self.gen, "seq": self.sequence_number, "n": self.n}


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Places in a reservation: from `begin` to before `end`."""

    begin: int
    end: int


def initial() -> Offset:
    """Before all messages, in a stream that is nobody else's."""
    return Offset(gen=str(uuid.uuid4()), sequence_number=NOTHING_YET, n=0)


def from_json(given: Mapping[str, Any]) -> Offset:
    """Raises `InvalidOption` for a checkpoint of another source."""
    match given:
        case {"gen": str(gen), "seq": int(sequence_number), "n": int(n)}:
            return Offset(gen=gen, sequence_number=sequence_number, n=n)
    raise InvalidOption(
        f"The checkpoint holds the offset {given!r}, which is none of this source: "
        "give each query a checkpointLocation of its own."
    )


def slices(messages: int, partitions: int | None) -> list[Slice]:
    """Cuts a reservation into parts whose lengths differ by one at most; none is empty."""
    wanted = min(TASKS, messages // WORTH_A_TASK) if partitions is None else min(partitions, messages)
    count = max(1, wanted) if messages else 0
    return [
        Slice(begin=messages * part // count, end=messages * (part + 1) // count)
        for part in range(count)
    ]
