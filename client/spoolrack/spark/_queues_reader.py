"""Streaming reads of several queues, without Spark: one, several, or those that match a pattern.

Each queue has a stream of reservations of its own (`_queue_reader`). A batch has at most one of them of
each queue. Of several queues one call tells which have messages, so that idle ones cost no calls; but
each is asked once by each run, for a reservation that the run before has not written down. Queues of
several shards are asked side by side. A shard that doesn't answer stops the query: a batch is of all.

With `deleteDelaySeconds` a finished batch stays leased, and so in reach of an older checkpoint, until
that delay is over. A run doesn't know when the batches of the run before were finished: their delay
begins with the run. A run that ends by itself waits for the delay of its last batch.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final

from ..errors import SpoolrackError
from ._light_client import AT_ONCE, LightClient, of_each
from ._offsets import Offset, QueuesOffset, slices
from ._options import ReadOptions
from ._queue_peek import MISSING, counts_of
from ._queue_reader import StreamReading, read_slice
from ._reservation_extender import ReservationExtender

FINISHED: Final = 16
"""Finished batches that are not deleted yet, at most: the server remembers 20 lost reservations of a
stream, and messages of forgotten ones would be delivered again, though they are finished."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of one reservation, for one task."""

    queue: str
    """The queue that it was reserved from."""
    root: str
    """The identity of the root that has it; empty: not known."""
    stream: str
    sequence_number: int
    part: range
    """Places in it."""


class QueuesReading:
    """One query's reading of its queues. Not thread-safe."""

    def __init__(self, options: ReadOptions, caller: LightClient) -> None:
        self._options = options
        self._caller = caller
        self._extender = ReservationExtender(options.hold_seconds)
        self._named = frozenset(options.named)
        self._readings: dict[str, StreamReading] = {}
        self._last: dict[str, int] = {}
        """The last sequence number that is reserved in each queue, as far as this run knows."""
        self._readable_queues: frozenset[str] | None = None
        """The only queues from which messages may yet come; None: all that match."""
        self._reserved_at = -math.inf
        """The monotonic time of the last batch: the first one waits for nothing."""
        self._noted: QueuesOffset | None = None
        """The last batch that is known to be finished."""
        self._finished: deque[tuple[float, QueuesOffset]] = deque()
        """Finished batches, each with the monotonic time from which on it may be deleted."""
        self._deletable: QueuesOffset | None = None
        """The last of those that may be deleted."""

    def only_what_is_there(self) -> None:
        """Limit the next batches to the messages that are ready now."""
        counts = counts_of(self._caller, self._options, must_exist=not self._options.waits_for_queue)
        self._readable_queues = self._named.union(counts)
        for queue in self._readable_queues:
            self._of(queue).limit(counts[queue].ready_count if queue in counts else 0)

    def latest(
        self, start: QueuesOffset, *, max_messages: int, max_bytes: int, is_only: bool = False
    ) -> QueuesOffset:
        """Delete the finished batches, and reserve the next one; return `start` if there is none.
        `is_only`: this run reserves no other."""
        self.commit(start)
        if is_only:
            self._wait_for_delays()
        if len(self._finished) >= FINISHED:
            if self._readable_queues is None:
                return start
            self._wait_for_delays(FINISHED - 1)  # Without a batch the run would end.
        may_wait = self._may_wait()
        counts: dict[str, Any] = {}
        if self._options.queues or may_wait:
            counts = counts_of(self._caller, self._options, must_exist=False)
        if may_wait and sum(one.ready_count for one in counts.values()) < self._options.min_messages:
            return start
        if self._options.queues:
            shares = _divided(max_messages, self._wanted(start, counts))
        else:
            shares = {self._options.place.queue: max_messages}
        total = sum(shares.values())

        def reserve(queue: str) -> Offset:
            share, before = shares[queue], start.of(queue)
            size = max(1, max_bytes * share // total)
            try:
                return self._of(queue).latest(before, max_messages=share, max_bytes=size)
            except SpoolrackError as error:
                must_exist = queue in self._named and not self._options.waits_for_queue
                if must_exist or error.reason != MISSING:
                    raise
                return before

        ends: dict[str, Offset] = {}
        for queue, end in of_each(shares, reserve).items():
            if not end.is_at(start.of(queue)):
                ends[queue] = end
                if self._options.delete_delay_seconds:
                    continue  # The run before may have left several.
            self._last[queue] = end.sequence_number
        if ends:
            self._reserved_at = self._caller.monotonic()
        elif self._readable_queues is not None:
            self._wait_for_delays()
        return start.moved_to(ends)

    def _of(self, queue: str) -> StreamReading:
        if queue not in self._readings:
            caller = self._caller.of(queue)
            self._readings[queue] = StreamReading(queue, self._options, caller, self._extender)
        return self._readings[queue]

    def _may_wait(self) -> bool:
        """Return whether the next batch may wait for more messages than are ready."""
        since = self._caller.monotonic() - self._reserved_at
        may_be_more = self._readable_queues is None and since < self._options.max_trigger_delay
        return bool(self._options.min_messages) and may_be_more

    def _wanted(self, start: QueuesOffset, counts: Mapping[str, Any]) -> dict[str, int]:
        """Return how many messages each queue has that is worth a call; one for a queue that isn't
        counted."""
        counts_wanted = {}
        for queue in sorted(self._named.union(counts)):
            ready = counts[queue].ready_count if queue in counts else 1
            if self._readable_queues is not None and queue not in self._readable_queues:
                continue
            if ready or self._last.get(queue) != start.of(queue).sequence_number:
                counts_wanted[queue] = max(1, ready)
        return counts_wanted

    def parts(self, start: QueuesOffset, end: QueuesOffset) -> list[tuple[Piece, ...]]:
        """Return the pieces of a batch for each task, and extend all its reservations."""
        batch = end.batch_since(start)
        reservations = of_each(batch, lambda queue: self._of(queue).extend(batch[queue]))
        counts = {queue: one.message_count for queue, one in reservations.items()}
        size = sum(one.byte_count for one in reservations.values())
        return [
            tuple(
                Piece(
                    queue=reservations[queue].queue,
                    root=end.of(queue).root,
                    stream=end.of(queue).gen,
                    sequence_number=end.of(queue).sequence_number,
                    part=part,
                )
                for queue, part in _cut(one, counts)
            )
            for one in slices(sum(counts.values()), size, self._options.partitions)
        ]

    def commit(self, done: QueuesOffset) -> None:
        """Note that all batches up to this one are finished, and delete the messages of those that are
        so for `deleteDelaySeconds`."""
        delay, now = self._options.delete_delay_seconds, self._caller.monotonic()
        is_initial = all(offset.is_initial for offset in done.by_queue.values())
        if done != self._noted and not is_initial:
            if delay and self._noted is None and not self._keep_finished(done):
                delay = 0.0  # Else this run would read again what the run before has finished.
            self._noted = done
            self._finished.append((now + delay, done))
        while self._finished and self._finished[0][0] <= now:
            _, self._deletable = self._finished.popleft()
        if self._deletable is not None:
            self._delete(self._deletable)

    def _wait_for_delays(self, most: int = 0) -> None:
        """Delete finished batches, each after its delay, until so many of them are left."""
        while len(self._finished) > most and self._noted is not None:
            self._caller.sleep(max(0.0, self._finished[0][0] - self._caller.monotonic()))
            self.commit(self._noted)

    def _keep_finished(self, done: QueuesOffset) -> bool:
        """Extend the batches that the run before has finished and not deleted. Return False if the hold
        of one is over."""

        def keep(queue: str) -> bool:
            try:
                return self._of(queue).keep_finished(done.by_queue[queue])
            except SpoolrackError as error:
                if error.reason != MISSING:
                    raise
                return True

        queues = [queue for queue, one in done.by_queue.items() if not one.is_initial]
        are_held = all(of_each(queues, keep).values())
        self._extender.extend_all()
        return are_held

    def _delete(self, done: QueuesOffset) -> None:
        def commit(queue: str) -> None:
            try:
                self._of(queue).commit(done.by_queue[queue])
            except SpoolrackError as error:
                # Its messages are gone with it. If it is named, the next reservation says so.
                if error.reason != MISSING:
                    raise

        uncommitted = [
            queue for queue, offset in done.by_queue.items() if not self._of(queue).is_committed(offset)
        ]
        of_each(uncommitted, commit)

    def lag(self, offset: QueuesOffset | None) -> dict[str, Any] | None:
        """Return the offset, and the messages behind it: for the query's progress. None: no server
        answers."""
        once = replace(self._caller, retry_seconds=0.0)
        try:
            counts = counts_of(once, self._options, must_exist=False)
        except SpoolrackError:
            # It is only shown: the next reservation finds out whether the server is there.
            return None
        return {
            **({} if offset is None else offset.as_json()),
            "ready": sum(one.ready_count for one in counts.values()),
            "leased": sum(one.leased_count for one in counts.values()),
            "delayed": sum(one.delayed_count for one in counts.values()),
            "oldestAgeSeconds": max(
                (one.oldest_age.ToMilliseconds() / 1_000 for one in counts.values()), default=0.0
            ),
            "readyByQueue": {queue: counts[queue].ready_count for queue in sorted(counts)},
        }

    def stop(self) -> None:
        """End the keeper. The messages stay with the query for a whole hold from now on."""
        self._extender.stop()


def read_pieces(caller: LightClient, pieces: Sequence[Piece]) -> Iterator[tuple[str, Sequence[Any]]]:
    """Yield the messages of a task's pieces in their order: the queue, and a list of runs.

    A read waits until its reservation is durably marked: the first reads of several pieces are made
    at once, so that the server makes their marks durable together.
    """

    def begin(piece: Piece) -> tuple[Sequence[Any] | None, Iterator[Sequence[Any]]]:
        at = caller.of(piece.queue).to(piece.root)
        frames = read_slice(at, piece.stream, piece.sequence_number, piece.part, queue=piece.queue)
        return next(frames, None), frames

    for number in range(0, len(pieces), AT_ONCE):
        for piece, (first, rest) in of_each(pieces[number : number + AT_ONCE], begin).items():
            for runs in chain([] if first is None else [first], rest):
                yield piece.queue, runs


def _divided(total: int, counts: Mapping[str, int]) -> dict[str, int]:
    """Return how much of `total` each queue gets, at least 1: equal shares, and what small queues leave
    of theirs goes to the others."""
    shares = {}
    for number, queue in enumerate(sorted(counts, key=lambda queue: (counts[queue], queue))):
        shares[queue] = max(1, min(counts[queue], total // (len(counts) - number)))
        total -= shares[queue]
    return shares


def _cut(part: range, counts: Mapping[str, int]) -> list[tuple[str, range]]:
    """Return where a part of all reservations, one after the other, lies in each of them."""
    pieces, offset = [], 0
    for queue, count in counts.items():
        places = range(max(part.start - offset, 0), min(part.stop - offset, count))
        if places:
            pieces.append((queue, places))
        offset += count
    return pieces
