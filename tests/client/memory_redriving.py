"""The redrives of `memory`: dead letters that go back as the clock moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from spoolrack._redrive_values import Redrive, RedriveState
from spoolrack._values import Page, moment_of
from spoolrack.errors import InvalidRequest, RedriveNotFound, RedriveRunning

from tests.client.memory import PAGE, Memory, Redriven


class MemoryRedriving:
    """`spoolrack._transports.Redriving` to a `Memory`."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    async def start(
        self,
        queue: str,
        *,
        destination: str,
        ids: Sequence[str],
        source_queue: str,
        max_messages_per_second: int,
        timeout: float,
    ) -> Redrive:
        memory = self._memory
        with memory.lock:
            memory.called("start_redrive")
            box = memory.box(queue)
            if destination:
                memory.box(destination)
            if destination == queue:
                raise InvalidRequest("The destination is the queue itself.")
            self._drive()
            for running in memory.redrives.values():
                told = running.told
                if told.queue == queue and told.state is RedriveState.RUNNING:
                    raise RedriveRunning(metadata={"queue": queue, "redrive": told.id})
            wanted = {id.lower() for id in ids}
            selected = [
                held.id
                for held in box.in_order()
                if (not wanted or held.id in wanted)
                and source_queue in ("", held.deaths[-1].source_queue if held.deaths else "")
            ]
            told = Redrive(
                id=memory.new_id(),
                queue=queue,
                destination=destination,
                source_queue=source_queue,
                max_messages_per_second=max_messages_per_second,
                state=RedriveState.RUNNING,
                moved_count=0,
                failed_count=0,
                last_failure="",
                remaining_count=len(selected),
                started_at=moment_of(memory.now_ms),
                ended_at=None,
            )
            memory.redrives[told.id] = Redriven(told, selected, memory.now_ms)
            memory.answered("start_redrive")
            return told

    async def get(self, id: str, *, timeout: float) -> Redrive:
        with self._memory.lock:
            self._memory.called("get_redrive")
            return self._found(id).told

    async def list_redrives(self, *, queue: str, token: str, timeout: float) -> Page[Redrive]:
        with self._memory.lock:
            self._memory.called("list_redrives")
            self._drive()
            found = [
                redriven.told
                for id, redriven in sorted(self._memory.redrives.items())
                if id > token and queue in ("", redriven.told.queue)
            ]
            page = found[:PAGE]
            return Page(items=page, next_token=page[-1].id if len(found) > len(page) else "")

    async def cancel(self, id: str, *, timeout: float) -> Redrive:
        with self._memory.lock:
            self._memory.called("cancel_redrive")
            redriven = self._found(id)
            if redriven.told.state is RedriveState.RUNNING:
                end = moment_of(self._memory.now_ms)
                redriven.told = replace(redriven.told, state=RedriveState.CANCELLED, ended_at=end)
            return redriven.told

    def _found(self, id: str) -> Redriven:
        self._drive()
        if id not in self._memory.redrives:
            raise RedriveNotFound(f"There is no redrive {id}.")
        return self._memory.redrives[id]

    def _drive(self) -> None:
        """Move what the rates allow by now."""
        for redriven in self._memory.redrives.values():
            while redriven.told.state is RedriveState.RUNNING and redriven.left:
                rate, told = redriven.told.max_messages_per_second, redriven.told
                seconds = (self._memory.now_ms - redriven.begun_ms) // 1_000
                if rate and told.moved_count + told.failed_count >= rate * (seconds + 1):
                    break
                self._move(redriven, redriven.left.pop(0))
            if redriven.told.state is RedriveState.RUNNING and not redriven.left:
                end = moment_of(self._memory.now_ms)
                redriven.told = replace(redriven.told, state=RedriveState.DONE, ended_at=end)
        self._memory.wake()

    def _move(self, redriven: Redriven, id: str) -> None:
        told, boxes = redriven.told, self._memory.boxes
        held = boxes[told.queue].messages.get(id)
        told = replace(told, remaining_count=len(redriven.left))
        target = told.destination or (held.deaths[-1].source_queue if held and held.deaths else "")
        if held is not None and target in boxes:
            del boxes[told.queue].messages[id]
            boxes[target].messages[id] = held
            held.receives, held.first_receive_ms = 0, None
            if held.deaths:
                now = moment_of(self._memory.now_ms)
                held.deaths[-1] = replace(held.deaths[-1], redrive_queue=target, redriven_at=now)
            told = replace(told, moved_count=told.moved_count + 1)
        elif held is not None:
            why = f"the queue {target} is missing" if target else "it has no history"
            told = replace(told, failed_count=told.failed_count + 1, last_failure=why)
        redriven.told = told
