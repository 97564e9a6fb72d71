"""A streaming query's reading of the one queue `jobs`, whose offsets are that queue's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from spoolrack.spark._light_client import LightClient
from spoolrack.spark._offsets import Offset, QueuesOffset
from spoolrack.spark._options import ReadOptions
from spoolrack.spark._queues_reader import QueuesReading
from spoolrack.v1 import columns_pb2

QUEUE = "jobs"


def offset_of(one: Offset) -> QueuesOffset:
    return QueuesOffset(gen=one.gen, only_queue=QUEUE, by_queue={QUEUE: one})


def initial() -> Offset:
    """Return the offset before all messages, in a stream of a new query."""
    return QueuesOffset.initial(QUEUE).of(QUEUE)


class JobsReading:
    def __init__(self, options: ReadOptions, caller: LightClient) -> None:
        self._reading = QueuesReading(options, caller)
        self.only_what_is_there = self._reading.only_what_is_there
        self.stop = self._reading.stop

    def latest(self, start: Offset, *, max_messages: int, max_bytes: int) -> Offset:
        end = self._reading.latest(offset_of(start), max_messages=max_messages, max_bytes=max_bytes)
        return end.of(QUEUE)

    def parts(self, start: Offset, end: Offset) -> list[range]:
        return [piece.part for (piece,) in self._reading.parts(offset_of(start), offset_of(end))]

    def commit(self, done: Offset) -> None:
        self._reading.commit(offset_of(done))

    def lag(self, offset: Offset) -> dict[str, Any] | None:
        return self._reading.lag(offset_of(offset))


def bodies_of(runs: Iterable[columns_pb2.MessageRun]) -> Iterator[bytes]:
    """Yield the body of each message of a page of `read_slice`."""
    for run in runs:
        if not run.HasField("columns"):
            yield run.first.body
            continue
        end = 0
        for size in run.columns.body_sizes:
            begin, end = end, end + size
            yield run.columns.bodies[begin:end]
