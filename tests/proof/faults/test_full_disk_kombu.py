"""A worker of Celery on a server whose disk another program has filled to the last file."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import kombu
from kombu.asynchronous import Hub

from tests.support import STUCK
from tests.support.disk_filler import fill_files
from tests.support.real_server import MakeDisk, RealServer

TASKS = kombu.Queue("tasks", kombu.Exchange("tasks"), "tasks")
MAILBOX = kombu.Queue("mailbox", kombu.Exchange("box", "fanout"), expires=10.0)


def send(connection: Any, body: str, queue: Any) -> None:
    connection.Producer().publish(
        body, exchange=queue.exchange, routing_key="tasks", declare=[queue.exchange, queue]
    )


def test_a_worker_consumes_while_its_mailbox_cannot_be_made_and_gets_it_once_there_is_room(
    disk: MakeDisk, serve: Callable[..., RealServer]
) -> None:
    made = disk("ext4")
    server = serve(made.mount_point / "root")
    found: list[str] = []

    def take(body: str, message: Any) -> None:
        found.append(body)
        message.ack()

    hub = Hub()
    with kombu.Connection(f"spoolrack://127.0.0.1:{server.port}") as connection:
        send(connection, "task", TASKS)
        fill_files(made.mount_point / "foreign")
        connection.register_with_event_loop(hub)
        with connection.Consumer([MAILBOX, TASKS], callbacks=[take]):
            connection.drain_events(timeout=STUCK)
            assert found == ["task"]
            assert connection.transport.broker.is_missing("mailbox")
            shutil.rmtree(made.mount_point / "foreign")
            while connection.transport.broker.is_missing("mailbox"):
                connection.transport.broker.declare_deferred()
            send(connection, "inspect", MAILBOX)
            connection.drain_events(timeout=STUCK)
    hub.close()
    assert found == ["task", "inspect"]
