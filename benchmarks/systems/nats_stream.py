"""NATS JetStream: a work queue on disk, synced at every write, with acknowledged acknowledgements.

Since 2.10 it has a setting for that. Before, the kernel has to do it: the attribute S on its folder,
which its files inherit, makes every write to them a synchronous one.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
from collections.abc import Coroutine, Sequence
from typing import Any, Final, TypeVar, cast

import nats
import nats.errors
from nats.js import api

from .. import server_processes
from .base import WAIT, Driver, Received, System, SystemFacts

T = TypeVar("T")

_CONSUMER: Final = "all"
_LEASE: Final = 600.0
_MORE: Final = 0.005
"""Seconds to wait for messages that were there, and that another may have taken."""
_SETS_SYNC: Final = (2, 10)


class NatsDriver(Driver):
    def __init__(self, address: str, queue: str) -> None:
        super().__init__(address, queue)
        self._loop = asyncio.new_event_loop()
        self._wait_for(self._connect())

    async def _connect(self) -> None:
        self._nats: Any = await nats.connect(f"nats://{self.address}", allow_reconnect=False)
        self._stream: Any = self._nats.jetstream(timeout=30.0)
        self._consumer: Any = None

    def _wait_for(self, what: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(what)

    def send(self, body: bytes) -> None:
        self._wait_for(self._stream.publish(self.queue, body))

    def send_many(self, bodies: Sequence[bytes]) -> None:
        async def send() -> None:
            await asyncio.gather(*(self._stream.publish(self.queue, body) for body in bodies))

        self._wait_for(send())

    def receive(self, count: int) -> list[Received]:
        async def receive() -> list[Received]:
            if self._consumer is None:
                self._consumer = await self._stream.pull_subscribe_bind(_CONSUMER, stream=self.queue)
            # Asked for many, it waits until it has them all: so only for those that are there.
            found = await self._fetch(1, WAIT)
            more = min(count - 1, found[0].metadata.num_pending) if found else 0
            if more:
                found += await self._fetch(more, _MORE)
            return [Received(message.data, message) for message in found]

        return self._wait_for(receive())

    async def _fetch(self, count: int, seconds: float) -> list[Any]:
        try:
            return cast(list[Any], await self._consumer.fetch(count, timeout=seconds))
        except (TimeoutError, nats.errors.TimeoutError):
            return []

    def delete(self, messages: Sequence[Received]) -> None:
        async def delete() -> None:
            given = [cast(Any, message.handle) for message in messages]
            await asyncio.gather(*(message.ack_sync(timeout=30.0) for message in given))

        self._wait_for(delete())

    def close(self) -> None:
        self._wait_for(self._nats.close())
        self._loop.close()


class NatsStream(System):
    name = "nats"
    driver = NatsDriver
    program = "nats-server"
    facts = SystemFacts(
        title="NATS JetStream",
        configuration="a file stream as work queue, one node; sync_interval always, or, before 2.10, "
        "every write synchronous (chattr +S); acknowledgements are acknowledged",
    )

    def start(self) -> None:
        super().start()
        port = server_processes.free_port()
        files = self.folder / "jetstream"
        files.mkdir(exist_ok=True)
        sync = ""
        if tuple(int(part) for part in self.version().split(".")[:2]) >= _SETS_SYNC:
            sync = ", sync_interval: always"
        else:
            subprocess.run(["chattr", "-R", "+S", str(files)], check=True)
        settings = self.folder / "nats.conf"
        store = f'store_dir: "{files}", max_file_store: 64GB, max_memory_store: 1GB{sync}'
        settings.write_text(f"listen: 127.0.0.1:{port}\njetstream {{ {store} }}\n")
        self.run(port, "-c", str(settings))

    def version(self) -> str:
        output = self.output_of("--version")
        found = re.search(r"\d+(\.\d+)+", output)
        return found[0] if found else output.strip()

    def create_queue(self, queue: str) -> None:
        async def create(stream: Any) -> None:
            await stream.add_stream(
                name=queue,
                subjects=[queue],
                retention=api.RetentionPolicy.WORK_QUEUE,
                storage=api.StorageType.FILE,
            )
            settings = api.ConsumerConfig(
                durable_name=_CONSUMER,
                ack_policy=api.AckPolicy.EXPLICIT,
                ack_wait=_LEASE,
                max_ack_pending=10_000,
            )
            await stream.add_consumer(queue, settings)

        self._ask(create)

    def delete_queue(self, queue: str) -> None:
        self._ask(lambda stream: stream.delete_stream(queue))

    def count(self, queue: str) -> int | None:
        return cast(int, self._ask(lambda stream: stream.stream_info(queue)).state.messages)

    def _ask(self, what: Any) -> Any:
        async def ask() -> Any:
            connection = await nats.connect(f"nats://{self.address}")
            try:
                return await what(connection.jetstream(timeout=60.0))
            finally:
                await connection.close()

        return asyncio.run(ask())
