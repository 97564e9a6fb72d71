"""Batches, reservations and repeated sends through a real server that restarts in their middle."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import spoolrack
from spoolrack import Client, Queue
from spoolrack.errors import ReservationCommitted
from spoolrack.testing import RunningServer

from tests.support import STUCK
from tests.support.waiting import until

KIB = 1024


@pytest.fixture
def client(server: RunningServer) -> Iterator[Client]:
    with server.client(timeout=STUCK) as client:
        client.create_queue("jobs", visibility_timeout=600)
        yield client


@pytest.fixture
def jobs(client: Client) -> Queue:
    return client.queue("jobs")


def test_a_batch_goes_on_through_a_restart(server: RunningServer, client: Client, jobs: Queue) -> None:
    with jobs.batch() as batch:
        for number in range(3_000):
            batch.send(str(number))
            if number % 1_000 == 500:
                server.restart()
    assert batch.published is not None
    assert batch.published.message_count == 3_000
    assert [message.text for message in jobs.peek()] == [str(number) for number in range(3_000)]
    assert list(client.staging.list()) == []


def test_an_epoch_is_remembered_through_a_restart(
    server: RunningServer, client: Client, jobs: Queue
) -> None:
    for _ in range(2):
        with jobs.batch(writer="nightly", epoch=1) as batch:
            batch.send("a")
        server.restart()
    assert batch.published is not None
    assert batch.published.duplicate
    assert [message.text for message in jobs.peek()] == ["a"]


def test_a_read_goes_on_through_a_restart(server: RunningServer, client: Client, jobs: Queue) -> None:
    sent = [f"{number:04}" + "x" * 20 * KIB for number in range(400)]
    jobs.send_many(sent)
    assert jobs.reserve("s", 0) is not None
    found = []
    for message in client.reservations.read("s", 0):
        found.append(message.text)
        if len(found) == 30:
            # Deleted when it was read already: the places after it don't change for that.
            jobs.delete_by_id(message.id)
            server.restart()
    assert found == sent
    assert client.reservations.commit("s", 0).deleted_count == 399


def test_a_reserve_waits_through_a_restart(server: RunningServer, client: Client, jobs: Queue) -> None:
    found: list[spoolrack.Reservation | None] = []
    waiting = threading.Thread(target=lambda: found.append(jobs.reserve("s", 0, wait=3_000)))
    waiting.start()
    server.restart()
    with server.client() as other:
        other.queue("jobs").send("a")
    waiting.join(STUCK)
    assert [reservation and reservation.message_count for reservation in found] == [1]


def test_a_commit_is_remembered_through_a_restart(
    server: RunningServer, client: Client, jobs: Queue
) -> None:
    jobs.send_many(["a", "b"])
    jobs.reserve("s", 4, max_messages=1)
    client.reservations.commit("s", 4)
    server.restart()
    with pytest.raises(ReservationCommitted):
        jobs.reserve("s", 3)
    assert [message.text for message in jobs.peek()] == ["b"]


def test_an_id_is_remembered_through_a_restart(server: RunningServer, jobs: Queue) -> None:
    first = jobs.send("a", deduplication_id="order-1")
    (message,) = jobs.receive()
    message.delete()
    server.restart()
    assert jobs.send("a", deduplication_id="order-1") == first
    assert jobs.receive() == []


def test_sends_with_ids_through_restarts_arrive_once(server: RunningServer, jobs: Queue) -> None:
    done = threading.Event()
    sent: list[str] = []

    def send() -> None:
        for number in range(300):
            sent.append(jobs.send(str(number), deduplication_id=str(number)))
        done.set()

    sender = threading.Thread(target=send)
    sender.start()
    for some in (50, 150, 250):
        until(lambda some=some: len(sent) >= some)  # type: ignore[misc]
        server.restart()
    assert done.wait(STUCK)
    sender.join(STUCK)
    assert [message.text for message in jobs.peek()] == [str(number) for number in range(300)]
    assert [message.id for message in jobs.peek()] == sent
