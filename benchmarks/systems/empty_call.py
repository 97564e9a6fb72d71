"""The best case of one caller: a gRPC call that does nothing, and then the fsync of one new file.

The server is Python's grpc.aio, as Spoolrack's is: `python -m benchmarks.systems.empty_call`.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from pathlib import Path
from typing import Any, Final, cast

import grpc

from .. import server_processes
from .base import Driver, System, SystemFacts

_SERVICE: Final = "benchmarks.Empty"
_METHOD: Final = "Call"
_SAYS: Final = "listens at "


class EmptyCallDriver(Driver):
    """`address` is HOST:PORT, a space, and a folder."""

    def __init__(self, address: str, queue: str) -> None:
        super().__init__(address, queue)
        at, _, self._folder = address.partition(" ")
        self._channel = grpc.insecure_channel(at)
        self._call = cast(Any, self._channel).unary_unary(f"/{_SERVICE}/{_METHOD}")
        self._call(b"", timeout=10)
        self._prefix = secrets.token_hex(8)
        self._files_made = 0

    def send(self, body: bytes) -> None:
        self._call(body)
        self._files_made += 1
        path = f"{self._folder}/{self._prefix}-{self._files_made}"
        file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        os.write(file, body)
        os.fsync(file)
        os.close(file)

    def close(self) -> None:
        self._channel.close()


class EmptyCall(System):
    name = "empty-call"
    driver = EmptyCallDriver
    facts = SystemFacts(
        title="an empty gRPC call, then one fsync",
        configuration="grpc.aio answers with nothing; the caller then writes a file and fsyncs it",
        note="No queue: the least that a durable send through gRPC can cost.",
    )
    only = frozenset({"one"})
    is_checked = False

    @property
    def _files(self) -> Path:
        return self.folder / "files"

    def start(self) -> None:
        super().start()
        self._files.mkdir(exist_ok=True)
        log = self.folder / "log"
        self.server = server_processes.Server([sys.executable, "-m", __name__], log, folder=Path.cwd())
        self.address = f"{self.server.wait_for_line(_SAYS)} {self._files}"

    def create_queue(self, queue: str) -> None:
        """There is none."""

    def count(self, queue: str) -> int | None:
        return len(os.listdir(self._files))

    def delete_queue(self, queue: str) -> None:
        for file in self._files.iterdir():
            file.unlink()


async def _serve() -> None:
    async def answer(request: bytes, context: object) -> bytes:
        return b""

    server = grpc.aio.server()
    handlers: dict[str, Any] = {_METHOD: grpc.unary_unary_rpc_method_handler(cast(Any, answer))}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"{_SAYS}127.0.0.1:{port}", flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(_serve())
