"""RabbitMQ: a quorum queue, and a durable classic one, with publisher confirms.

A confirm comes when the message is on disk. An acknowledgement, which is how a message is deleted, has
no answer: the consumer goes on at once, and after a crash the message may come again.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

import pika

from .. import server_processes
from .base import WAIT, Broken, Driver, Received, System, SystemFacts

_PREFETCH: Final = 100
_SERVER: Final = "/usr/lib/rabbitmq/bin/rabbitmq-server"
"""Debian's own would ask for its user, and keep its files where Debian does."""
_PERSISTENT: Final = 2


def _connect(address: str) -> Any:
    host, _, port = address.rpartition(":")
    return pika.BlockingConnection(pika.ConnectionParameters(host, int(port), heartbeat=0))


class RabbitDriver(Driver):
    def __init__(self, address: str, queue: str) -> None:
        super().__init__(address, queue)
        self._connection = _connect(address)
        self._channel = self._connection.channel()
        self._channel.queue_declare(queue, passive=True)
        self._channel.basic_qos(prefetch_count=_PREFETCH)
        self._properties = pika.BasicProperties(delivery_mode=_PERSISTENT)
        self._delivered: Any = None
        # The blocking channel waits for the confirm of each message before it sends the next; the
        # channel below it doesn't.
        self._inner: Any = self._channel._impl
        self._confirms = False
        self._tag = 0
        self._unconfirmed: set[int] = set()

    def _ask_for_confirms(self) -> None:
        asked: list[object] = []
        self._inner.confirm_delivery(self._on_confirm, callback=asked.append)
        self._wait(lambda: bool(asked))
        self._confirms = True

    def _on_confirm(self, frame: Any) -> None:
        tag = frame.method.delivery_tag
        if isinstance(frame.method, pika.spec.Basic.Nack):
            raise Broken(f"RabbitMQ refuses message {tag}")
        if frame.method.multiple:
            self._unconfirmed = {each for each in self._unconfirmed if each > tag}
        else:
            self._unconfirmed.discard(tag)

    def _wait(self, is_done: Callable[[], bool]) -> None:
        # As the blocking channel itself waits for its confirms.
        self._connection._flush_output(is_done)

    def send(self, body: bytes) -> None:
        self.send_many([body])

    def send_many(self, bodies: Sequence[bytes]) -> None:
        if not self._confirms:
            self._ask_for_confirms()
        self._unconfirmed = set(range(self._tag + 1, self._tag + 1 + len(bodies)))
        self._tag += len(bodies)
        for body in bodies:
            self._inner.basic_publish("", self.queue, body, self._properties)
        self._wait(lambda: not self._unconfirmed)

    def receive(self, count: int) -> list[Received]:
        messages: list[Received] = []
        for message in self.stream():
            if message is None:
                break
            messages.append(message)
            # Messages that have arrived are taken, too, without a wait for more.
            if len(messages) == count or not self._channel.get_waiting_message_count():
                break
        return messages

    def delete(self, messages: Sequence[Received]) -> None:
        # In the order in which they came, and nothing of ours is older: one frame for all.
        self._channel.basic_ack(messages[-1].handle, multiple=len(messages) > 1)

    def stream(self) -> Iterator[Received | None]:
        if self._delivered is None:
            self._delivered = self._channel.consume(self.queue, inactivity_timeout=WAIT)
        for method, _, body in self._delivered:
            yield None if method is None else Received(body, method.delivery_tag)

    def close(self) -> None:
        self._connection.close()


class Quorum(System):
    name = "quorum"
    queue_type: ClassVar[str] = "quorum"
    driver = RabbitDriver
    program = "epmd"
    facts = SystemFacts(
        title="RabbitMQ quorum queue",
        configuration=f"x-queue-type quorum, one node; publisher confirms, prefetch {_PREFETCH}",
        note="A delete is not confirmed: after a crash the message may come again.",
    )

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._names: server_processes.Server | None = None
        self._environment: dict[str, str] = {}

    @classmethod
    def why_not(cls) -> str | None:
        return super().why_not() or (None if Path(_SERVER).exists() else f"there is no {_SERVER}")

    def start(self) -> None:
        super().start()
        if self._names is None:
            self._start_names()
        port = server_processes.free_port()
        self._environment["RABBITMQ_NODE_PORT"] = str(port)
        self._environment["RABBITMQ_DIST_PORT"] = str(server_processes.free_port())
        self.server = server_processes.Server(
            [_SERVER], self.folder / "log", environment=self._environment, prefix=self.prefix
        )
        self.address = f"127.0.0.1:{port}"
        self.server.wait_for_port(port)

    def _start_names(self) -> None:
        """Erlang finds its nodes by epmd, which it would start as a daemon that stays."""
        port = server_processes.free_port()
        plugins, settings = self.folder / "plugins", self.folder / "rabbitmq.conf"
        plugins.write_text("[].\n")
        settings.write_text("loopback_users = none\n")
        at = str(self.folder)
        self._environment = {
            "HOME": at,
            "ERL_EPMD_PORT": str(port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"{self.name}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "RABBITMQ_MNESIA_BASE": f"{at}/mnesia",
            "RABBITMQ_LOG_BASE": f"{at}/logs",
            "RABBITMQ_LOGS": f"{at}/logs/rabbit.log",
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins),
            "RABBITMQ_CONFIG_FILE": str(settings),
            "RABBITMQ_CONF_ENV_FILE": os.devnull,
            "RABBITMQ_PID_FILE": f"{at}/pid",
        }
        command = [server_processes.find("epmd") or "epmd", "-port", str(port), "-address", "127.0.0.1"]
        self._names = server_processes.Server(command, self.folder / "epmd.log")
        self._names.wait_for_port(port)

    def stop(self) -> None:
        super().stop()
        if self._names is not None:
            self._names.end()
            self._names = None
        shutil.rmtree(self.folder, ignore_errors=True)

    def version(self) -> str:
        connection = _connect(self.address)
        version = str(connection._impl.server_properties["version"])
        connection.close()
        return version

    def create_queue(self, queue: str) -> None:
        self._ask(
            lambda channel: channel.queue_declare(
                queue, durable=True, arguments={"x-queue-type": self.queue_type}
            )
        )

    def delete_queue(self, queue: str) -> None:
        self._ask(lambda channel: channel.queue_delete(queue))

    def count(self, queue: str) -> int | None:
        count: int = self._ask(
            lambda channel: channel.queue_declare(queue, passive=True)
        ).method.message_count
        return count

    def _ask(self, what: Any) -> Any:
        connection = _connect(self.address)
        try:
            return what(connection.channel())
        finally:
            connection.close()


class Classic(Quorum):
    name = "classic"
    queue_type = "classic"
    facts = SystemFacts(
        title="RabbitMQ classic queue",
        configuration=f"durable, persistent messages; publisher confirms, prefetch {_PREFETCH}",
        note="A delete is not confirmed: after a crash the message may come again.",
    )
