"""Promises of every transport about acks of a stream: deletions that are not waited for."""

from __future__ import annotations

import logging
import threading

import pytest
from spoolrack import Client, Queue
from spoolrack.errors import ClientClosed, InvalidReceipt

from tests.client.contract.conftest import World
from tests.support.waiting import until


def waiting(queue: Queue) -> int:
    counts = queue.info().counts
    return counts.ready_count + counts.leased_count


@pytest.mark.needs("streams")
def test_an_acked_message_is_deleted_once_the_stream_is_closed(jobs: Queue) -> None:
    jobs.send_many(str(number) for number in range(50))
    with jobs.messages() as stream:
        for _ in range(50):
            stream.ack(next(stream))
    assert waiting(jobs) == 0


@pytest.mark.needs("streams")
def test_acks_that_are_under_way_outlast_the_client(world: World) -> None:
    client = world.connect()
    client.create_queue("jobs")
    client.queue("jobs").send_many(["a", "b"])
    stream = client.queue("jobs").messages()
    stream.ack(next(stream))
    stream.ack(next(stream))
    client.close()
    with world.connect() as other:
        assert waiting(other.queue("jobs")) == 0


@pytest.mark.needs("streams")
def test_an_ack_gives_its_place_to_the_next_message(jobs: Queue) -> None:
    jobs.send_many(["a", "b", "c"])
    with jobs.messages(max_in_flight=1) as stream:
        for expected in ("a", "b", "c"):
            message = next(stream)
            assert message.text == expected
            stream.ack(message)


@pytest.mark.needs("streams")
def test_a_message_of_a_stream_is_acked_by_itself(jobs: Queue) -> None:
    jobs.send_many(str(number) for number in range(50))
    with jobs.messages(max_in_flight=10) as stream:
        for _ in range(50):
            next(stream).ack()
    assert waiting(jobs) == 0


def test_acks_of_received_messages_outlast_the_client(world: World, other: Client) -> None:
    with world.connect() as client:
        jobs = client.create_queue("jobs")
        jobs.send_many(["a", "b", "c"])
        for message in jobs.receive(3):
            message.ack()
    assert waiting(other.queue("jobs")) == 0


@pytest.mark.needs("delays", "receive counts")
def test_a_nack_makes_the_message_ready_again(jobs: Queue, world: World) -> None:
    jobs.send_many(["a", "b", "c"])
    a, b, c = jobs.receive(3)
    with a:
        a.nack()
    b.nack(count=False)
    c.nack(delay=5)
    until(lambda: jobs.info().counts.leased_count == 0)
    assert [(each.text, each.receive_count) for each in jobs.receive(3)] == [("a", 2), ("b", 1)]
    world.advance(5)
    assert [each.text for each in jobs.receive()] == ["c"]


@pytest.mark.needs("streams")
def test_a_handler_may_ack_its_message(jobs: Queue) -> None:
    jobs.send_many(["a", "b"])
    errors: list[Exception] = []
    worker = jobs.worker(lambda message: message.ack(), on_error=lambda _, error: errors.append(error))
    thread = threading.Thread(target=worker.run)
    thread.start()
    until(lambda: waiting(jobs) == 0)
    worker.stop()
    thread.join(60)
    assert errors == []


@pytest.mark.needs("streams")
def test_a_message_may_be_acked_in_its_block(jobs: Queue) -> None:
    jobs.send("a")
    with jobs.messages() as stream, next(stream) as message:
        stream.ack(message)
    assert waiting(jobs) == 0


@pytest.mark.needs("receive counts", "streams")
def test_an_ack_whose_lease_is_over_is_logged_and_the_message_comes_again(
    jobs: Queue, other: Client, caplog: pytest.LogCaptureFixture
) -> None:
    jobs.send("a")
    with caplog.at_level(logging.WARNING, "spoolrack"):
        with jobs.messages(max_in_flight=1) as stream:
            message = next(stream)
            other.queue("jobs").release_many([message])
            again = next(stream)
            stream.ack(message)
        assert "may come again" in caplog.text
    assert again.text == "a"
    assert waiting(jobs) == 1


@pytest.mark.needs("streams")
def test_an_ack_after_the_end_is_refused(jobs: Queue) -> None:
    jobs.send_many(["a", "b"])
    stream = jobs.messages()
    message = next(stream)
    stream.close()
    with pytest.raises(ClientClosed, match="stream is closed"):
        stream.ack(message)


@pytest.mark.needs("streams")
def test_a_message_that_was_not_received_can_not_be_acked(jobs: Queue) -> None:
    id = jobs.send("a")
    with jobs.messages() as stream, pytest.raises(InvalidReceipt):
        stream.ack(jobs.get(id))
