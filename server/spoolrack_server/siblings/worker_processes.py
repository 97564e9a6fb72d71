"""The other worker processes of a server, which a worker process reaches through the supervisor.

A scrape reaches the process that the kernel gives its connection to, and is answered for all of them:
that process asks the supervisor, which asks the others. Each process keeps series of its own, and
nothing is added up before Prometheus does, so that no counter ever decreases.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from ..system.loop_thread import run_in
from .control_channel import ControlChannel

METRIC_ROWS: Final = "metric_rows"
PROCESS: Final = "process"
HISTORY: Final = "history "
"""Followed by a queue's name."""
CONSUMERS: Final = "consumers "
"""Followed by a queue's name."""
STATE: Final = "state"
ANSWER_TIMEOUT: Final = 3.0
"""Seconds that one process has for an answer. Prometheus gives a scrape ten."""


class WorkerReport(Protocol):
    """The facts that a worker process reports."""

    @property
    def state(self) -> str: ...

    async def lives(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Return whether the process's event loop answers, or the disk keeps it from that. In any
        thread."""

    def answer(self, what: str) -> Coroutine[Any, Any, Any]:
        """Return `METRIC_ROWS`, `PROCESS`, or the `HISTORY` or `CONSUMERS` of a queue to the other
        processes."""


class WorkerProcess:
    """One worker process: it answers its supervisor, and requests the others' answers from it. Without
    a supervisor there are no others.

    The channel may live in the loop of another thread: then the state is told while the disk keeps the
    process's own.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self._channel: ControlChannel | None = None
        self._report: WorkerReport | None = None

    def begin(self, channel: ControlChannel) -> None:
        """Use a channel, in the process's own event loop."""
        self._channel = channel
        self._loop = asyncio.get_running_loop()

    def join(self, report: WorkerReport) -> None:
        """Start answering the supervisor."""
        self._report = report

    async def others(self, what: str) -> dict[int, Any]:
        """Return the answer of each other process; None: it didn't answer in time."""
        if self._channel is None:
            return {}
        asked = self._channel.ask(what, ANSWER_TIMEOUT + 1)
        found = await run_in(self._channel.loop, asked)
        return {int(number): answer for number, answer in (found or {}).items()}

    async def answer(self, what: str) -> Any:
        """Answer the supervisor, in the channel's loop. None as a state: the process hangs."""
        report = self._report
        if what == STATE:
            if report is None:
                return "starting"
            return report.state if await report.lives(self._loop) else None
        return [] if report is None else await run_in(self._loop, report.answer(what))


class WorkerProcesses:
    """The supervisor's control channels to all running worker processes."""

    def __init__(self) -> None:
        self._channels: dict[int, ControlChannel] = {}

    def answers_to(self, number: int) -> Callable[[str], Any]:
        """Return the handler of one worker's channel: it forwards questions to the others."""

        async def serve(what: str) -> dict[int, Any]:
            return await self._ask_all_but(number, what)

        return serve

    def add(self, number: int, channel: ControlChannel) -> None:
        self._channels[number] = channel

    def remove(self, number: int) -> None:
        self._channels.pop(number, None)

    async def states(self) -> dict[int, str | None]:
        """Return the state of each running worker process; None: it doesn't answer."""
        return await self._ask_all_but(None, STATE)

    async def _ask_all_but(self, asker: int | None, what: str) -> dict[int, Any]:
        asked = {number: channel for number, channel in self._channels.items() if number != asker}
        answers = await asyncio.gather(
            *(channel.ask(what, ANSWER_TIMEOUT) for channel in asked.values())
        )
        return dict(zip(asked, answers, strict=True))
