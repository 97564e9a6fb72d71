"""`python -m spoolrack_server.process.worker_main SETTINGS`: one worker process of a supervisor.

It reports on standard output when it serves. Its standard input is the control channel to the
supervisor: its end means that the supervisor is gone, and starts a drain.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import Callable

from ..siblings.control_channel import ControlChannel
from ..siblings.worker_processes import WorkerProcess
from ..system.loop_thread import LoopThread
from .serve import ListenAddresses, serve
from .serve_settings import ServeSettings
from .supervisor import READY


def main() -> None:
    settings = ServeSettings.from_json(json.loads(sys.argv[1]))
    sys.exit(asyncio.run(_serve(settings)))


async def _serve(settings: ServeSettings) -> int:
    worker = WorkerProcess(settings.number)
    # The disk may keep this loop, and the supervisor must know why.
    beside = LoopThread("spoolrack-channel")
    end = socket.socket(fileno=os.dup(sys.stdin.fileno()))
    channel = await beside.run(ControlChannel.open(end, worker.answer))
    worker.begin(channel)
    listening = asyncio.create_task(beside.run(channel.run()))

    def until_alone(end: Callable[[], None]) -> None:
        listening.add_done_callback(lambda _: end())

    try:
        return await serve(settings, _report_ready, until_alone, worker)
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
        beside.end()


def _report_ready(_: ListenAddresses) -> None:
    os.write(sys.stdout.fileno(), READY)


if __name__ == "__main__":
    main()
