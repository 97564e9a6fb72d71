"""An echo of grpc.aio on an open stream: the least that a message through gRPC costs.

    python -m benchmarks.echo [FOLDER]

With a folder each frame is a durable file there before its answer: created, written, synced and
renamed, in an executor. That is the least that a durable message through gRPC costs, if each is a file.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, cast

import grpc

from .server_processes import Server

FRAME: Final = b"x" * 1_100
"""About as long as the frame of a message of 1 KiB."""
_SERVICE: Final = "benchmarks.Echo"
_METHOD: Final = "Exchange"
_PATH: Final = f"/{_SERVICE}/{_METHOD}"
_SAYS: Final = "listens at "


class EchoServer:
    """The server as a process of its own."""

    def __init__(self, log: Path, folder: Path | None = None) -> None:
        command = [sys.executable, "-m", __name__, *([] if folder is None else [str(folder)])]
        self._process = Server(command, log, folder=Path.cwd())
        self.address = self._process.wait_for_line(_SAYS)
        (self.pid,) = self._process.pids()

    def stop(self) -> None:
        self._process.end()


class EchoClient:
    """A caller with gRPC's blocking interface."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(address)
        self._requests: SimpleQueue[bytes | None] = SimpleQueue()
        method = cast(Any, self._channel).stream_stream(_PATH)
        self._answers: Iterator[bytes] = method(iter(self._requests.get, None))

    def exchange(self) -> None:
        self._requests.put(FRAME)
        _check(next(self._answers))

    def close(self) -> None:
        self._requests.put(None)
        self._channel.close()


class AioEchoClient:
    """A caller with gRPC's asyncio interface."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.aio.insecure_channel(address)
        self._stream = cast(Any, self._channel).stream_stream(_PATH)()

    async def exchange(self) -> None:
        await self._stream.write(FRAME)
        _check(await self._stream.read())

    async def close(self) -> None:
        await self._stream.done_writing()
        await self._channel.close()


def _check(answer: object) -> None:
    if answer != FRAME:
        raise RuntimeError(f"the echo answered {answer!r}, which isn't what was sent")


def file_writer(folder: Path) -> Callable[[bytes], None]:
    """Return a function that makes a durable file of its argument in `folder`."""
    new, ready = folder / "new", folder / "ready"
    new.mkdir(parents=True)
    ready.mkdir()
    numbers = count()

    def write(content: bytes) -> None:
        name = f"{next(numbers):010}"
        made = f"{new}/{name}"
        file = os.open(made, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        os.write(file, content)
        os.fsync(file)
        os.close(file)
        os.rename(made, f"{ready}/{name}")

    return write


async def _serve(write: Callable[[bytes], None] | None) -> None:
    async def exchange(_: object, context: Any) -> None:
        loop = asyncio.get_running_loop()
        while (request := await context.read()) is not grpc.aio.EOF:
            if write is not None:
                await loop.run_in_executor(None, write, request)
            await context.write(request)

    server = grpc.aio.server()
    handlers: dict[str, Any] = {_METHOD: grpc.stream_stream_rpc_method_handler(cast(Any, exchange))}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"{_SAYS}127.0.0.1:{port}", flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(_serve(file_writer(Path(sys.argv[1])) if len(sys.argv) > 1 else None))
