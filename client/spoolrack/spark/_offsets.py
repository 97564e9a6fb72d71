"""Offsets of a query in its queues, and the slices of a batch for its tasks. Pure.

An offset names the last reservation that the query has been given: the stream `gen` is the query's own,
`sequence_number` counts its reservations, `n` the messages of this one. A batch is exactly the
reservation that its end names; where it began says nothing, because Spark makes a new beginning for a
first batch that it does again. A query of several queues has an offset in each, whose streams are named
after the query's and the queue: so a run finds the reservations of the run before.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from ._options import InvalidOption

NOTHING_YET: Final = -1
"""The number before the first reservation."""
WORTH_A_TASK: Final = 5_000
"""Messages that take a task longer than its own start, ..."""
BYTES_WORTH_A_TASK: Final = 8 * 1024 * 1024
"""... as so many bytes of bodies and attributes do, ..."""
TASKS: Final = 16
"""... and so many tasks at most, unless an option states the number."""


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
class QueuesOffset:
    """An offset in each queue of a query."""

    gen: str
    by_queue: Mapping[str, Offset]
    is_of_one: bool
    """Whether the query has one queue, and this offset the form of that one's."""

    @staticmethod
    def initial(queue: str | None) -> QueuesOffset:
        """Before all messages; of a query of the one `queue`, or of several."""
        first = initial()
        by_queue = {} if queue is None else {queue: first}
        return QueuesOffset(gen=first.gen, by_queue=by_queue, is_of_one=queue is not None)

    @staticmethod
    def from_json(given: Mapping[str, Any], queue: str | None) -> QueuesOffset:
        """Return the offset of a query of the one `queue`, or of several. Raises `InvalidOption` for a
        checkpoint of another source."""
        if queue is not None:
            offset = from_json(given)
            return QueuesOffset(gen=offset.gen, by_queue={queue: offset}, is_of_one=True)
        match given:
            case {"gen": str(gen), "queues": dict(queues)} if all(
                isinstance(one, dict) for one in queues.values()
            ):
                by_queue = {
                    name: from_json({"gen": _stream(gen, name), **one}) for name, one in queues.items()
                }
                return QueuesOffset(gen=gen, by_queue=by_queue, is_of_one=False)
        raise _other_source(given)

    def as_json(self) -> dict[str, Any]:
        if self.is_of_one:
            (offset,) = self.by_queue.values()
            return offset.as_json()
        return {
            "gen": self.gen,
            "queues": {
                queue: {"seq": offset.sequence_number, "n": offset.n}
                for queue, offset in sorted(self.by_queue.items())
            },
        }

    def of(self, queue: str) -> Offset:
        found = self.by_queue.get(queue)
        return found or Offset(gen=_stream(self.gen, queue), sequence_number=NOTHING_YET, n=0)

    def moved_to(self, ends: Mapping[str, Offset]) -> QueuesOffset:
        """Return where the query is once it has been given reservations of some queues."""
        return replace(self, by_queue={**self.by_queue, **ends}) if ends else self

    def batch_since(self, start: QueuesOffset) -> dict[str, Offset]:
        """Return the reservations of the batch that ends here."""
        return {
            queue: offset
            for queue, offset in self.by_queue.items()
            if not offset.is_initial and offset != start.by_queue.get(queue)
        }


def _stream(gen: str, queue: str) -> str:
    """Return the name of a query's stream of one of its queues: the same in each run."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{gen}/{queue}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Places in a reservation: from `begin` to before `end`."""

    begin: int
    end: int


def initial() -> Offset:
    """Return the offset before all messages, in a stream of the query's own."""
    return Offset(gen=str(uuid.uuid4()), sequence_number=NOTHING_YET, n=0)


def from_json(given: Mapping[str, Any]) -> Offset:
    """Parse an offset; raise `InvalidOption` for a checkpoint of another source."""
    match given:
        case {"gen": str(gen), "seq": int(sequence_number), "n": int(n)}:
            return Offset(gen=gen, sequence_number=sequence_number, n=n)
    raise _other_source(given)


def _other_source(given: Mapping[str, Any]) -> InvalidOption:
    return InvalidOption(
        f"The checkpoint holds the offset {given!r}, which is none of this source: give each query a "
        "checkpointLocation of its own, and a new one where the option queue changes from one name to "
        "several or back."
    )


def slices(messages: int, size: int, partitions: int | None) -> list[Slice]:
    """Cut a reservation of `size` bytes into parts of equal lengths, or one more; none is empty."""
    if partitions is None:
        partitions = min(TASKS, max(1, messages // WORTH_A_TASK, size // BYTES_WORTH_A_TASK))
    count = min(partitions, messages)
    return [
        Slice(begin=messages * part // count, end=messages * (part + 1) // count)
        for part in range(count)
    ]
