"""Sends of files where a body goes in one call: a file of up to 64 MiB is read into memory."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from .._runtime import Runtime
from .._values import MAX_BODY_IN_MEMORY, Outgoing, SendResult
from ..errors import Unsupported
from .thread_runner import ThreadRunner


class WholeFiles:
    """`ClientTransport.send_file` by the `send` of a transport."""

    def __init__(self, send: Callable[..., Awaitable[Sequence[SendResult]]], runtime: Runtime) -> None:
        self._send = send
        self._threads = ThreadRunner(runtime)

    async def send(
        self,
        queue: str,
        path: str | os.PathLike[str],
        message: Outgoing,
        *,
        link: bool,
        timeout: float,
    ) -> SendResult:
        if link:
            raise Unsupported(
                "A file is linked into a folder: connect to that with file:///DIR, on its own machine."
            )
        body = await self._threads.run(lambda: _content(path))
        (result,) = await self._send(queue, [replace(message, body=body)], timeout=timeout)
        return result


def _content(path: str | os.PathLike[str]) -> bytes:
    with open(path, "rb") as file:
        body = file.read(MAX_BODY_IN_MEMORY + 1)
    if len(body) > MAX_BODY_IN_MEMORY:
        raise Unsupported(
            f"{os.fspath(path)} has more than 64 MiB, which go over HTTP or into a folder on this "
            "machine: POST it to /QUEUE/messages, or connect with file:///DIR."
        )
    return body
