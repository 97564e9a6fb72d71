"""Batches: messages that are staged, some at a time, and appear together at the end.

A chunk may be staged twice and a batch published twice without harm, so both are repeated as far as
the timeout goes. What can fail: a chunk, and then the batch; and the publication, which may then
have taken place all the same.
"""

from __future__ import annotations

import copy
import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Unpack

from .. import _arguments as arguments
from .._call_values import AbortStage, Publish, Stage
from .._runtime import Signal, Started
from .._shards import check_together
from .._stage_values import BatchOptions, PublishResult
from .._values import MAX_BATCH, Outgoing, seconds_of
from ..errors import InvalidRequest, OutcomeUnknown, SpoolrackError, StageNotFound, Timeout, Unreachable
from .client_context import ClientContext
from .outgoing import size_of

CHUNK_BYTES: Final = 1024 * 1024
"""Bytes of bodies and attributes in one chunk; a larger message is one by itself."""
HELD_BYTES: Final = 8 * CHUNK_BYTES
"""With messages for many queues: of all that isn't on its way yet."""
MESSAGE_BYTES: Final = 200
"""Overhead of a message."""
_OWN_RETENTION: Final = 600.0
"""Seconds. Only the batch itself repeats a publication without a writer. A later repetition finds no
stage: it can't publish twice."""
CLEANUP_TIMEOUT: Final = 5.0
"""Seconds for the cleanup of a batch that failed. Stages that are left expire."""

log = logging.getLogger("spoolrack")


_Key = tuple[str, float | None, int]
"""A queue, a delay and a priority: messages of one key share chunks."""


@dataclass(slots=True)
class _Pile:
    """Messages for one queue with one delay and priority, which will be a chunk."""

    messages: list[Outgoing] = field(default_factory=list)
    size: int = 0


class BatchBase:
    """A batch, for threads or tasks."""

    def __init__(
        self, context: ClientContext, queue: str | None = None, **options: Unpack[BatchOptions]
    ) -> None:
        arguments.check_options(options, BatchOptions)
        self._queue = queue
        self._queue_of_all = queue or ""
        """A queue on the shard of all of them."""
        self._writer, self._epoch = options.get("writer"), options.get("epoch")
        if (self._writer is None) is not (self._epoch is None):
            raise InvalidRequest("writer and epoch go together: give both or neither.")
        if self._writer is not None and self._epoch is not None:
            arguments.text("writer", self._writer)
            arguments.integer("epoch", self._epoch)
        self._in_flight = arguments.integer("in_flight", options.get("in_flight", 1), 1)
        self._context = context
        self._stage = f"{context.random.getrandbits(128):032x}"
        self._in_doubt = False
        self._epoch_retention = arguments.optional_span(
            "epoch_retention", options.get("epoch_retention")
        )
        self._time_to_live = arguments.optional_span("time_to_live", options.get("time_to_live"))
        self._publishes = arguments.flag("publish", options.get("publish", True))
        self._timeout = arguments.timeout(options.get("timeout"))
        self._lock = context.runtime.lock()
        self._piles: dict[_Key, _Pile] = {}
        self._gathered_bytes = 0
        self._chunks_in_flight: deque[Started] = deque()
        self._chunk_signals: set[Signal] = set()
        """Set when a call ends. Of one that a signal's handler kept from `_chunks_in_flight`, too."""
        self._is_dropped = False
        self._chunks = 0
        self._stored_chunks = 0
        self._failure: Exception | None = None
        self._expire_time: datetime | None = None
        self._is_over = False
        self._published: PublishResult | None = None
        self._messages = 0

    @property
    def stage(self) -> str:
        """The name under which the messages are staged: for `client.staging.publish` and `abort`."""
        return self._stage

    @property
    def message_count(self) -> int:
        """Number of messages in the batch so far."""
        return self._messages

    @property
    def expires_at(self) -> datetime | None:
        """Time at which the stage expires unless it is published. None: nothing is staged yet."""
        return self._expire_time

    @property
    def published(self) -> PublishResult | None:
        """The result of the publication. None: there was none, or none yet."""
        return self._published

    @property
    def writer(self) -> str:
        """The writer of the publication: the one that was named, or the stage itself."""
        return self._stage if self._writer is None else self._writer

    @property
    def epoch(self) -> int:
        """The epoch of the publication; 0 if none was named."""
        return self._epoch or 0

    @property
    def in_doubt(self) -> bool:
        """Whether the publication failed, or was interrupted, and may have taken place. The stage is
        then left; publish it again by the batch's writer and epoch."""
        return self._in_doubt

    async def _add(self, queue: str, message: Outgoing) -> None:
        if self._is_over:
            raise InvalidRequest("The batch has ended: begin another one.")
        self._queue_of_all = self._queue_of_all or queue
        if queue != self._queue_of_all:
            check_together(self._context.transport.home, self._queue_of_all, queue)
        if message.deliver_at is not None or message.deduplication_id:
            raise InvalidRequest(
                "A message of a batch can't have deliver_at or a deduplication_id: give it a delay, "
                "and the batch a writer and an epoch."
            )
        size = size_of(message)
        delay = None if message.delay is None else seconds_of(message.delay)
        key = (queue, delay, message.priority)
        pile = self._piles.get(key)
        if pile is not None and pile.size + size > CHUNK_BYTES:
            await self._set_off(key)
            pile = None
        if pile is None:
            pile = self._piles[key] = _Pile()
        pile.messages.append(message)
        pile.size += size
        self._gathered_bytes += size + MESSAGE_BYTES
        self._messages += 1
        if len(pile.messages) == MAX_BATCH:
            await self._set_off(key)
        while self._gathered_bytes > HELD_BYTES:
            await self._set_off(max(self._piles, key=lambda key: self._piles[key].size))

    async def _set_off(self, key: _Key) -> None:
        """Stage a pile beside the caller, once there is a place for it."""
        while len(self._chunks_in_flight) >= self._in_flight:
            await self._await_first()
        self._check()
        work = self._store(self._chunks, key[0], self._next_chunk(key))
        self._chunks += 1
        self._chunks_in_flight.append(self._context.runtime.start(work, "spoolrack-batch"))

    def _next_chunk(self, key: _Key) -> list[Outgoing]:
        pile = self._piles.pop(key)
        self._gathered_bytes -= pile.size + MESSAGE_BYTES * len(pile.messages)
        return pile.messages

    async def _await_first(self) -> None:
        await self._chunks_in_flight[0].join()  # Interrupted here, it is still the first.
        self._chunks_in_flight.popleft()

    def _check(self) -> None:
        """Raise what has failed beside the caller."""
        if self._failure is not None:
            raise copy.copy(self._failure) from self._failure

    async def _store(self, chunk: int, queue: str, messages: Sequence[Outgoing]) -> None:
        """Stage a chunk, unless the batch is dropped. An error is kept for the caller."""
        ended = self._context.runtime.signal()
        with self._lock:
            if self._is_dropped:
                return
            self._chunk_signals.add(ended)
        try:
            await self._stage_chunk(chunk, queue, messages)
        finally:
            self._chunk_signals.discard(ended)
            ended.set()

    async def _stage_chunk(self, chunk: int, queue: str, messages: Sequence[Outgoing]) -> None:
        try:
            request = Stage(
                stage=self._stage,
                chunk_number=chunk,
                queue=queue,
                messages=messages,
                time_to_live=self._time_to_live,
            )
            staged = await self._context.ask(request, self._timeout)
        except Exception as error:  # noqa: BLE001  # the next add or end raises it
            with self._lock:
                self._failure = self._failure or error
            return
        with self._lock:
            self._stored_chunks += 1
            first = self._expire_time = self._expire_time or staged.expires_at
            if staged.expires_at != first:
                # The stage is another one by now: to publish it would publish a part of the batch.
                self._failure = self._failure or StageNotFound(
                    f"The stage {self._stage} was gone before all of it was staged: it has expired, "
                    "or was aborted. Nothing was published."
                )

    async def _stage_rest(self) -> None:
        """Return once all messages are staged; raises what prevents that."""
        while self._piles:
            key = next(iter(self._piles))
            if len(self._piles) > 1:
                await self._set_off(key)
                continue
            while self._chunks_in_flight:
                await self._await_first()
            self._check()
            # The last one needs no task beside the caller.
            self._chunks += 1
            await self._store(self._chunks - 1, key[0], self._next_chunk(key))
        while self._chunks_in_flight:
            await self._await_first()
        self._check()
        if self._stored_chunks != self._chunks:
            raise Unreachable("The batch was interrupted before all of it was staged.")

    async def _publish(self) -> None:
        stages = [self._stage] if self._chunks else []
        if self._writer is None and not stages:
            self._published = PublishResult(message_count=0, last_epoch=0)
            return
        self._in_doubt = True
        try:
            request = Publish(
                writer=self.writer,
                epoch=self.epoch,
                stages=stages,
                queue=self._queue_of_all,
                message_count=self._messages,
                epoch_retention=_OWN_RETENTION if self._writer is None else self._epoch_retention,
            )
            published = await self._context.ask(request, self._timeout)
        except (Timeout, Unreachable, OutcomeUnknown):
            raise
        except SpoolrackError:
            self._in_doubt = False
            await self._drop()
            raise
        self._in_doubt = False
        if published.duplicate and self._writer is None:
            # By the first call, whose answer was lost.
            published = PublishResult(message_count=self._messages, last_epoch=published.last_epoch)
        elif published.duplicate:
            await self._drop()
        self._published = published

    async def _drop(self) -> None:
        """Abort the stage, if that takes only moments; it expires in any case."""
        with self._lock:
            self._is_dropped = True
            staging_now = tuple(self._chunk_signals)
        for started in self._chunks_in_flight:
            started.cancel()
        self._chunks_in_flight.clear()
        for ended in staging_now:
            await ended.wait(CLEANUP_TIMEOUT)
        if not self._chunks:
            return
        try:
            request = AbortStage(stage=self._stage, queue=self._queue_of_all)
            await self._context.ask(request, CLEANUP_TIMEOUT)
        except StageNotFound:
            pass  # Its only chunk was refused, or it has expired.
        except SpoolrackError as error:
            log.warning("stage %s is left until it expires: %s", self._stage, error)

    def __repr__(self) -> str:
        state = "published" if self._published else "ended" if self._is_over else "open"
        package = type(self).__module__.rpartition("._")[0]
        target = self._context.transport.target
        return f"<{package}.Batch {self._stage} at {target}, {self._messages} messages, {state}>"
