"""Redis: a stream with one consumer group, every write synced before its answer."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from typing import Any, Final, cast

import redis

from .. import server_processes
from .base import SLOW, SLOW_NOTE, SLOWING, WAIT, Driver, Received, System, SystemFacts

_GROUP: Final = "all"
_FIELD: Final = b"b"
_LARGE: Final = 64 << 20
"""Bytes of its log, after which it is written anew between the rounds."""


def _client(address: str) -> Any:
    host, _, port = address.rpartition(":")
    return redis.Redis(host=host, port=int(port))


class RedisDriver(Driver):
    def __init__(self, address: str, queue: str) -> None:
        super().__init__(address, queue)
        self._redis = _client(address)
        self._redis.ping()
        self._name = uuid.uuid4().hex

    def send(self, body: bytes) -> None:
        self._redis.xadd(self.queue, {_FIELD: body})

    def send_many(self, bodies: Sequence[bytes]) -> None:
        pipeline = self._redis.pipeline(transaction=False)
        for body in bodies:
            pipeline.xadd(self.queue, {_FIELD: body})
        pipeline.execute()

    def receive(self, count: int) -> list[Received]:
        entries_by_stream = self._redis.xreadgroup(
            _GROUP, self._name, {self.queue: ">"}, count=count, block=round(WAIT * 1_000)
        )
        return [
            Received(fields[_FIELD], id) for _, entries in entries_by_stream for id, fields in entries
        ]

    def delete(self, messages: Sequence[Received]) -> None:
        ids = [message.handle for message in messages]
        pipeline = self._redis.pipeline(transaction=False)
        pipeline.xack(self.queue, _GROUP, *ids)
        pipeline.xdel(self.queue, *ids)
        pipeline.execute()

    def close(self) -> None:
        self._redis.close()


class RedisStream(System):
    name = "redis"
    driver = RedisDriver
    program = "redis-server"
    facts = SystemFacts(
        title="Redis stream",
        configuration="appendonly yes, appendfsync always, save ''; XADD, XREADGROUP, XACK and XDEL",
    )

    def start(self) -> None:
        super().start()
        port = server_processes.free_port()
        settings = {
            "port": port,
            "bind": "127.0.0.1",
            "dir": self.folder,
            "appendonly": "yes",
            "appendfsync": "always",
            "save": "",
            "daemonize": "no",
        }
        words = (word for name, value in settings.items() for word in (f"--{name}", str(value)))
        self.run(port, *words)

    def version(self) -> str:
        return str(_client(self.address).info("server")["redis_version"])

    def create_queue(self, queue: str) -> None:
        _client(self.address).xgroup_create(queue, _GROUP, id="0", mkstream=True)

    def delete_queue(self, queue: str) -> None:
        _client(self.address).unlink(queue)

    def count(self, queue: str) -> int | None:
        return cast(int, _client(self.address).xlen(queue))

    def settle(self, queue: str) -> None:
        # Otherwise its log grows with all rounds, and the rewriting comes in the middle of one.
        client = _client(self.address)
        if client.info("persistence")["aof_current_size"] > _LARGE:
            try:
                client.bgrewriteaof()
            except redis.ResponseError as error:
                if "already in progress" not in str(error):
                    raise  # It may have begun by itself.
        while client.info("persistence")["aof_rewrite_in_progress"]:
            time.sleep(0.01)


class RedisSlow(RedisStream):
    """On a slow disk, to be set beside `SpoolrackSlow`."""

    name = "redis-slow"
    prefix = server_processes.slowed(SLOW)
    only = frozenset({"slow", "slow-life"})
    facts = SystemFacts(
        title="Redis stream, slow disk",
        configuration=f"{RedisStream.facts.configuration}; {SLOWING}",
        note=SLOW_NOTE,
    )
