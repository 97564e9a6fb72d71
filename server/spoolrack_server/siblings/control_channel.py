"""The control channel between a supervisor and a worker process: each sends questions, the other
answers.

A pair of connected sockets that only these two processes have; a JSON object a line. A request has a
timeout. When the other end is gone, no request has an answer, and `run` returns.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any, Final

LONGEST: Final = 64 * 1024 * 1024
"""Bytes of an answer; one of a thousand queues has some hundred thousand."""

Serve = Callable[[str], Awaitable[Any]]
"""Answers a question, with what JSON can hold."""


class ControlChannel:
    """One end of the channel. Lives in one event loop."""

    @classmethod
    async def open(cls, end: socket.socket, serve: Serve) -> ControlChannel:
        end.setblocking(False)
        reader, writer = await asyncio.open_connection(sock=end, limit=LONGEST)
        return cls(reader, writer, serve)

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, serve: Serve
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self._reader = reader
        self._writer = writer
        self._serve = serve
        self._numbers = count()
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._answering: set[asyncio.Task[None]] = set()

    async def ask(self, what: str, seconds: float) -> Any | None:
        """Return the other end's answer; None if there is none in time."""
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        try:
            self._send({"ask": number, "what": what})
            return await asyncio.wait_for(answer, seconds)
        except (TimeoutError, ConnectionError):
            return None
        finally:
            del self._answers[number]

    async def run(self) -> None:
        """Answer questions until the other end is closed."""
        try:
            while line := await self._reader.readline():
                self._receive(json.loads(line))
        except (ConnectionError, ValueError):
            pass  # Cut off in the midst of a line, or of too long a one: as good as gone.
        finally:
            for answer in self._answers.values():
                if not answer.done():
                    answer.set_exception(ConnectionResetError())
            for task in self._answering:
                task.cancel()
            self.close()

    def close(self) -> None:
        """Close this end, also if `run` was cancelled before it began."""
        self._writer.close()

    def _receive(self, message: Any) -> None:
        if "ask" in message:
            task = asyncio.create_task(self._answer(message["ask"], message["what"]))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)
            return
        answer = self._answers.get(message["answer"])
        if answer is not None and not answer.done():
            answer.set_result(message["value"])

    async def _answer(self, number: int, what: str) -> None:
        value = await self._serve(what)
        # The other end may be gone.
        with contextlib.suppress(ConnectionError):
            self._send({"answer": number, "value": value})

    def _send(self, message: dict[str, Any]) -> None:
        if self._writer.is_closing():
            raise ConnectionResetError
        self._writer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
