"""The stages of `memory`: chunks of messages, and the epochs that were published."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from spoolrack._stage_values import PublishResult, StageInfo, StageResult
from spoolrack._values import Outgoing, Page, QueueSettings, moment_of, seconds_of
from spoolrack.errors import (
    AttributesTooLarge,
    ChunkDiffers,
    InvalidMessage,
    MessageTooLarge,
    QueueFull,
    SpoolrackError,
    StageNotFound,
)

from tests.client.memory import PAGE, Held, Memory, StagedMessages

DAY_MS = 24 * 60 * 60 * 1_000


def refusal_of(held: Held, settings: QueueSettings) -> SpoolrackError | None:
    """Why a queue can't hold a message."""
    if len(held.body) > settings.max_message_size:
        return MessageTooLarge()
    if held.size - len(held.body) > 64 * 1024:
        return AttributesTooLarge()
    return None


class MemoryStaging:
    """`spoolrack._transports.Staging` to a `Memory`."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def _stage(self, name: str) -> StagedMessages | None:
        stage = self._memory.stages.get(name)
        if stage is not None and stage.due_ms <= self._memory.now_ms:
            del self._memory.stages[name]
            return None
        return stage

    async def stage(
        self,
        stage: str,
        chunk: int,
        queue: str,
        messages: Sequence[Outgoing],
        *,
        time_to_live: float | None,
        timeout: float,
    ) -> StageResult:
        memory = self._memory
        with memory.lock:
            memory.called("stage", len(messages))
            found = self._stage(stage)
            if found is not None and chunk in found.chunks:
                kept = [(queue, held.body, held.attributes) for queue, held, _ in found.chunks[chunk]]
                if kept != [(queue, each.body, dict(each.attributes)) for each in messages]:
                    raise ChunkDiffers(f"The stage {stage} has another chunk {chunk}.")
                memory.answered("stage")
                return StageResult(
                    message_count=len(found.chunks[chunk]),
                    duplicate=True,
                    expires_at=moment_of(found.due_ms),
                )
            settings = memory.box(queue).settings
            chunks = []
            for message in messages:
                assert isinstance(message.body, bytes)
                held = Held(memory.new_id(), message.body, dict(message.attributes), memory.now_ms)
                refused = refusal_of(held, settings)
                if refused is not None:
                    raise InvalidMessage(str(refused))
                delay = None if message.delay is None else seconds_of(message.delay)
                chunks.append((queue, held, delay))
            if found is None:
                lives = DAY_MS if time_to_live is None else round(time_to_live * 1_000)
                found = memory.stages[stage] = StagedMessages(memory.now_ms + lives)
            found.chunks[chunk] = chunks
            memory.answered("stage")
            return StageResult(message_count=len(chunks), expires_at=moment_of(found.due_ms))

    async def publish(
        self,
        writer: str,
        epoch: int,
        stages: Sequence[str],
        *,
        epoch_retention: float | None,
        timeout: float,
    ) -> PublishResult:
        queues = self._memory
        with queues.lock:
            queues.called("publish", len(stages))
            last = queues.epochs.get(writer, -1)
            if epoch <= last:
                queues.answered("publish")
                return PublishResult(message_count=0, duplicate=True, last_epoch=last)
            found = []
            for name in stages:
                stage = self._stage(name)
                if stage is None:
                    raise StageNotFound(f"There is no stage {name}.")
                found += [each for chunk in sorted(stage.chunks) for each in stage.chunks[chunk]]
            boxes = {}
            for queue, count in Counter(queue for queue, _, _ in found).items():
                box = boxes[queue] = queues.box(queue)
                limit = box.settings.max_messages
                if limit and len(box.messages) + count > limit:
                    raise QueueFull(retry_delay=moment_of(1_000) - moment_of(0))
            for queue, held, delay in found:
                box = boxes[queue]
                waits = box.settings.delivery_delay if delay is None else delay
                held.due_ms = queues.now_ms + round(waits * 1_000) if waits else None
                box.messages[held.id] = held
            for name in stages:
                del queues.stages[name]
            queues.epochs[writer] = epoch
            queues.wake()
            queues.answered("publish")
        return PublishResult(message_count=len(found), last_epoch=epoch)

    async def abort(self, stage: str, *, timeout: float) -> int:
        with self._memory.lock:
            self._memory.called("abort")
            found = self._stage(stage)
            if found is None:
                return 0
            del self._memory.stages[stage]
            return sum(map(len, found.chunks.values()))

    async def list_stages(self, *, token: str, timeout: float) -> Page[StageInfo]:
        with self._memory.lock:
            self._memory.called("list_stages")
            names = [name for name in sorted(self._memory.stages) if name > token]
            page = names[:PAGE]
            stages = [self._info(name) for name in page]
            return Page(
                items=[stage for stage in stages if stage is not None],
                next_token=page[-1] if len(names) > len(page) else "",
            )

    def _info(self, name: str) -> StageInfo | None:
        stage = self._stage(name)
        if stage is None:
            return None
        return StageInfo(
            name=name,
            chunk_count=len(stage.chunks),
            message_counts=Counter(queue for chunk in stage.chunks.values() for queue, _, _ in chunk),
            expires_at=moment_of(stage.due_ms),
        )
