"""Offsets of a query in its queues, and the slices of a batch for its tasks. Pure.

An offset names the last reservation that the query has been given: the stream `gen` is the query's own,
`sequence_number` counts its reservations, `n` the messages of this one. A batch is exactly the
reservation that its end names; where it began says nothing, because Spark makes a new beginning for a
first batch that it does again. A query of several queues has an offset in each, whose streams are named
after the query's and the queue: so a run finds the reservations of the run before. The queues of a
shard are of one root, which an offset names by its identity: another server has other messages under
other numbers.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from .._shards import shard_of
from ..errors import RootDiffers
from ._options import InvalidOption

NOTHING_YET: Final = -1
"""The number before the first reservation."""
WORTH_A_TASK: Final = 25_000
"""Messages that take a task much longer than its own start, ..."""
BYTES_WORTH_A_TASK: Final = 32 * 1024 * 1024
"""... as so many bytes of bodies and attributes do, ..."""
WORTH_A_CORE: Final = 5
"""... and how many times fewer are enough for a task on a core that is idle otherwise."""
TASKS: Final = 16
"""Tasks at most, unless an option states the number."""


class SeveralServers(RootDiffers):
    """The calls of one batch have reached servers of different roots: nothing of it is done."""

    def __init__(self, roots: Sequence[str]) -> None:
        super().__init__(
            f"The endpoint leads to servers with different roots, {' and '.join(roots)}, and parts of "
            "one batch are on more than one of them: nothing of it is done. Give the query the "
            "endpoint of one of them, or, if they are shards, of each of them with commas between "
            "them. Stages and reservations of the others expire."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    gen: str
    sequence_number: int = NOTHING_YET
    n: int = 0
    root: str = ""
    """The identity of the root that has the stream; empty: a version of before didn't know it, or
    nothing is reserved yet."""

    def is_at(self, other: Offset | None) -> bool:
        """Return whether both name one reservation, or the same beginning."""
        if other is None:
            return False
        return (self.gen, self.sequence_number) == (other.gen, other.sequence_number)

    @property
    def is_initial(self) -> bool:
        return self.sequence_number == NOTHING_YET


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuesOffset:
    """An offset in each queue of a query."""

    gen: str
    only_queue: str | None
    """The queue of a query of one, whose stream and form in a checkpoint are the query's."""
    by_queue: Mapping[str, Offset] = field(default_factory=dict)
    roots: tuple[str, ...] = ("",)
    """As in `Offset`, by shard; a query of one queue has one, as a single server has."""

    @staticmethod
    def initial(only_queue: str | None, shards: int = 1) -> QueuesOffset:
        """Before all messages, in streams of the query's own."""
        return QueuesOffset(gen=str(uuid.uuid4()), only_queue=only_queue, roots=("",) * shards)

    @staticmethod
    def from_json(content: Mapping[str, Any], only_queue: str | None, shards: int = 1) -> QueuesOffset:
        """Return an offset of a query of one queue, or of several on so many shards. Raises
        `InvalidOption` for a checkpoint of another source."""
        match content:
            case {"gen": str(gen), "queues": dict(queues)} if only_queue is None:
                pass
            case {"gen": str(gen)} if only_queue is not None:
                queues = {only_queue: content}
            case _:
                raise _other_source(content)
        began_with = content.get("queue", only_queue)
        if began_with != only_queue:
            raise InvalidOption(
                f"The checkpoint is of the queue {began_with}, and the option queue says {only_queue}: "
                f"set it to {began_with}, or start with a new checkpointLocation and a new output path."
            )
        first = QueuesOffset(gen=gen, only_queue=only_queue, roots=_roots(content, shards))
        ends = {}
        for queue, one in queues.items():
            match one:
                case {"seq": int(sequence_number), "n": int(n)}:
                    ends[queue] = replace(first.of(queue), sequence_number=sequence_number, n=n)
                case _:
                    raise _other_source(content)
        return first.moved_to(ends)

    def as_json(self) -> dict[str, Any]:
        root: dict[str, Any] = {}
        if any(self.roots):
            root = {"root": self.roots[0]} if len(self.roots) == 1 else {"roots": [*self.roots]}
        if self.only_queue is not None:
            one = self.of(self.only_queue)
            # An offset of before stays as it is until the next batch: any other is one to Spark.
            queue = {"queue": self.only_queue} if root else {}
            return {"gen": self.gen, **_as_json(one), **queue, **root}
        queues = {queue: _as_json(offset) for queue, offset in sorted(self.by_queue.items())}
        return {"gen": self.gen, "queues": queues, **root}

    def of(self, queue: str) -> Offset:
        found = self.by_queue.get(queue)
        gen = self.gen if self.only_queue else _stream(self.gen, queue)
        return found or Offset(gen=gen, root=self.roots[self._shard(queue)])

    def _shard(self, queue: str) -> int:
        return shard_of(queue, len(self.roots))

    def moved_to(self, ends: Mapping[str, Offset]) -> QueuesOffset:
        """Return where the query is once it has been given reservations of some queues, those of a
        shard of one root."""
        roots = [*self.roots]
        for shard in {self._shard(queue) for queue in ends}:
            found = {end.root for queue, end in ends.items() if self._shard(queue) == shard}
            if len(found) > 1:
                raise SeveralServers(sorted(found))
            roots[shard] = found.pop()
        return replace(self, by_queue={**self.by_queue, **ends}, roots=tuple(roots))

    def batch_since(self, start: QueuesOffset) -> dict[str, Offset]:
        """Return the reservations of the batch that ends here."""
        return {
            queue: offset
            for queue, offset in self.by_queue.items()
            if not offset.is_initial and not offset.is_at(start.by_queue.get(queue))
        }


def _stream(gen: str, queue: str) -> str:
    """Return the name of a query's stream of one of its queues: the same in each run."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{gen}/{queue}"))


def _as_json(offset: Offset) -> dict[str, int]:
    return {"seq": offset.sequence_number, "n": offset.n}


def _roots(content: Mapping[str, Any], shards: int) -> tuple[str, ...]:
    """Return the root of each shard; raise `InvalidOption` for another number of them."""
    match content:
        case {"roots": [*roots]} if all(isinstance(root, str) for root in roots):
            pass
        case {"roots": _}:
            raise _other_source(content)
        case {"root": str(root)}:
            roots = [root]
        case _:
            return ("",) * shards
    if len(roots) != shards:
        raise InvalidOption(
            f"The checkpoint is of {_servers(len(roots))}, and the option endpoint names "
            f"{_servers(shards)}: name all that the query began with, in the order of their numbers. "
            "With another number of shards start with a new checkpointLocation and a new output path."
        )
    return tuple(roots)


def _servers(count: int) -> str:
    return f"{count} shards" if count > 1 else "one server"


def _other_source(content: Mapping[str, Any]) -> InvalidOption:
    return InvalidOption(
        f"The checkpoint holds the offset {content!r}, which is none of this source: give each query a "
        "checkpointLocation of its own, and a new one where the option queue changes from one name to "
        "several or back."
    )


def slices(
    messages: int, size: int, partitions: int | None, *, cores: int | None = None
) -> list[range]:
    """Cut a reservation of `size` bytes into ranges of places of equal lengths, or one more; none is
    empty. `cores`: of this machine, unless they are given."""
    if partitions is None:
        worth = max(messages / WORTH_A_TASK, size / BYTES_WORTH_A_TASK)
        idle = cores or os.cpu_count() or 1
        partitions = min(TASKS, max(1, int(worth), min(idle, int(worth * WORTH_A_CORE))))
    count = min(partitions, messages)
    return [range(messages * part // count, messages * (part + 1) // count) for part in range(count)]
