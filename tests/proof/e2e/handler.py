"""A consumer whose handler does what the message says, and tells it.

    handler.py URL QUEUE MANNER

`poison` ends the process at once, `patient` waits for a line of standard input when it comes for the
first time; all others are deleted at once. A manner is `worker`, `messages`, `acks`, or `aio`, a worker
of tasks.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from typing import Final

import spoolrack
from spoolrack import aio
from spoolrack.errors import StaleReceipt

from tests.proof.e2e.sender import PATIENCE, tell

IN_FLIGHT: Final = 16
POISONED: Final = 66
"""The exit code of a process that its message has killed."""


def begin(body: bytes, receives: int) -> bool:
    """Return whether it is to wait."""
    tell(f"begun {body.decode()} {receives}")
    if body == b"poison":
        os._exit(POISONED)
    return body == b"patient" and receives == 1


def handle(message: spoolrack.Message) -> None:
    if begin(message.body, message.receive_count):
        sys.stdin.readline()


async def handle_in_task(message: aio.Message) -> None:
    if begin(message.body, message.receive_count):
        await asyncio.to_thread(sys.stdin.readline)


async def work_in_tasks(url: str, name: str) -> None:
    async with aio.connect(url, timeout=PATIENCE) as client:
        await client.queue(name).work(handle_in_task, concurrency=1, prefetch=IN_FLIGHT - 1)


def main() -> None:
    url, name, manner = sys.argv[1:]
    if manner == "aio":
        asyncio.run(work_in_tasks(url, name))
        return
    queue = spoolrack.connect(url, timeout=PATIENCE).queue(name)
    if manner == "worker":
        queue.work(handle, concurrency=1, prefetch=IN_FLIGHT - 1)
        return
    stream = queue.messages(max_in_flight=IN_FLIGHT)
    for message in stream:
        handle(message)
        if manner == "acks":
            stream.ack(message)
        else:
            with contextlib.suppress(StaleReceipt):
                message.delete()


if __name__ == "__main__":
    main()
