"""The servers behind a proxy: one, or those of several shards, at ports that they keep."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from tests.proof.proxies.real_proxy import RealProxy
from tests.support.ports import free_port
from tests.support.real_server import RealServer

SHARDS: Final = 3
GRPC, HTTP, SQS = 50051, 8080, 9324
FLAGS: Final = {GRPC: "--grpc", HTTP: "--http", SQS: "--sqs"}


class Servers:
    """`count` servers, of which each is a shard if there are several."""

    def __init__(self, folder: Path, count: int) -> None:
        self._folder = folder
        self._inside = "." if count == 1 else "shards"
        hosts = ["127.0.0.1"] if count == 1 else [f"shard{number}" for number in range(count)]
        self._ports = {(host, port): free_port() for host in hosts for port in FLAGS}
        self.routing: dict[str, Any] = {} if count == 1 else {"routing": "header"}
        """The arguments of `connect` for a client behind the proxy."""
        self.each = [
            RealServer(
                folder / f"root-{number}",
                folder / f"log-{number}",
                after=[
                    *(() if count == 1 else ("--shard", f"{number}/{count}")),
                    *(
                        word
                        for port, flag in FLAGS.items()
                        for word in (flag, f"127.0.0.1:{self._ports[host, port]}")
                    ),
                ],
            )
            for number, host in enumerate(hosts)
        ]

    def behind(self, kind: str, **more: Any) -> RealProxy:
        """Return a proxy in front of them."""
        return RealProxy(kind, self._ports, self._folder, inside=self._inside, **more)

    def homes(self) -> dict[str, list[int]]:
        """Return the shards that have each queue."""
        found: dict[str, list[int]] = {}
        for number, server in enumerate(self.each):
            for queue in server.client.list_queues():
                found.setdefault(queue.name, []).append(number)
        return found

    def start(self) -> None:
        for each in self.each:
            each.start()

    def kill(self) -> None:
        for each in self.each:
            each.kill()
