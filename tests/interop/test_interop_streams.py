"""Streams, credits, deadlines and cancellation mean the same in each language."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import spoolrack
from spoolrack._transports.grpc_stubs import Stubs
from spoolrack.v1 import queue_service_pb2 as rpc

from tests.interop.interop_driver import Driver, Stream, outgoing, raw
from tests.support import STUCK

CANCELLED: Final = 1
DEADLINE_EXCEEDED: Final = 4
NOT_FOUND: Final = 5
CREDITS: Final = 7
LONG_MS: Final = 600_000


@contextmanager
def most_leased(stub: Stubs, queue: str) -> Iterator[list[int]]:
    """Count the leased messages all the time meanwhile; yield the most, as the server counts."""
    most, over = [0], threading.Event()

    def look() -> None:
        while not over.is_set():
            counts = stub.GetQueue(rpc.GetQueueRequest(name=queue)).queue.counts
            most[0] = max(most[0], counts.leased_count)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield most
    finally:
        over.set()
        looking.join(STUCK)


def end_of(driver: Driver, stream: Stream, name: str) -> int:
    """Return the code with which a stream ends that is cancelled."""
    driver.do("cancel", stream=name)
    end, _ = stream.ended()
    assert end.reason == ""
    return end.code


def test_a_stream_never_holds_more_than_its_credits_and_brings_all_in_order(
    driver: Driver, queue: spoolrack.Queue, stub: Stubs, name: str
) -> None:
    bodies = [b"%d" % n for n in range(150)]
    queue.send_many(bodies)
    got: list[bytes] = []

    with most_leased(stub, queue.name) as most:
        stream = driver.stream(name, queue.name, max_in_flight=CREDITS)
        held = stream.take(CREDITS)
        # All credits are out: the server leases nothing more, however often it is asked.
        for _ in range(20):
            assert (
                stub.GetQueue(rpc.GetQueueRequest(name=queue.name)).queue.counts.leased_count == CREDITS
            )
        while True:
            got += [raw(message["body"]) for message in held]
            assert all(
                result == {}
                for result in driver.change(
                    "delete", queue.name, [message["receipt"] for message in held]
                )
            )
            if len(got) == len(bodies):
                break
            held = stream.take(1)
            assert len(held) <= CREDITS

    assert got == bodies
    assert most[0] == CREDITS
    assert end_of(driver, stream, name) == CANCELLED


def test_a_stream_brings_what_python_sends_while_it_waits(
    driver: Driver, queue: spoolrack.Queue, name: str
) -> None:
    stream = driver.stream(name, queue.name)
    for n in range(10):
        queue.send(b"%d" % n, attributes={"n": str(n)})
        (message,) = stream.take(1)
        assert raw(message["body"]) == b"%d" % n
        assert message["attributes"] == {"n": {"text": str(n)}}
    assert end_of(driver, stream, name) == CANCELLED


def test_a_message_sent_after_a_cancellation_is_not_leased_to_the_cancelled_stream(
    driver: Driver, queue: spoolrack.Queue, name: str
) -> None:
    stream = driver.stream(name, queue.name)
    assert end_of(driver, stream, name) == CANCELLED

    driver.send(queue.name, [outgoing(b"for another consumer")])

    # A message leased before the server noticed the cancellation returns at once.
    (message,) = queue.receive(wait=60)
    assert message.receive_count == 1


def test_undelivered_messages_of_a_cancelled_stream_return_without_the_language(
    driver: Driver, queue: spoolrack.Queue, stub: Stubs, name: str
) -> None:
    size, count = 1 << 20, 48
    queue.send_many([bytes(size)] * count)
    stream = driver.stream(name, queue.name, max_in_flight=count, visibility_ms=2_000)
    first = stream.take(1)

    driver.do("cancel", stream=name)
    end, rest = stream.ended()
    assert end.code == CANCELLED

    driver.change("release", queue.name, [message["receipt"] for message in first + rest])
    # Frames may have been on their way: those come back when they are due, and none is lost.
    found: set[str] = set()
    while len(found) < count:
        found |= {
            message.id for message in queue.receive(count, wait=60, visibility_timeout=LONG_MS / 1000)
        }
    assert stub.GetQueue(rpc.GetQueueRequest(name=queue.name)).queue.counts.leased_count == count


def test_a_long_poll_ends_empty_when_its_wait_is_over_and_at_once_with_a_message(
    driver: Driver, queue: spoolrack.Queue
) -> None:
    assert driver.receive(queue.name, wait_ms=30) == []

    polled = driver.begin("receive", queue=queue.name, max=5, wait_ms=LONG_MS)
    queue.send(b"now")

    (message,) = polled.result(STUCK)["messages"]
    assert raw(message["body"]) == b"now"


def test_a_long_poll_that_exceeds_its_deadline_says_so_and_leases_nothing_any_more(
    driver: Driver, queue: spoolrack.Queue
) -> None:
    refused = driver.refused(lambda: driver.receive(queue.name, wait_ms=LONG_MS, timeout_ms=250))

    assert (refused.code, refused.reason) == (DEADLINE_EXCEEDED, "")
    # Over the connection on which the server learns that the receive was cancelled.
    driver.send(queue.name, [outgoing(b"for another consumer")])
    (message,) = queue.receive(wait=60)
    assert message.receive_count == 1


def test_a_stream_that_exceeds_its_deadline_says_so(
    driver: Driver, queue: spoolrack.Queue, name: str
) -> None:
    stream = driver.stream(name, queue.name, timeout_ms=500)

    end, messages = stream.ended()

    assert (end.code, messages) == (DEADLINE_EXCEEDED, [])


def test_a_stream_that_is_refused_says_why_at_its_end(driver: Driver, name: str) -> None:
    end, messages = driver.stream(name, f"{name}-missing").ended()

    assert (end.code, end.reason, messages) == (NOT_FOUND, "QUEUE_NOT_FOUND", [])
    assert end.metadata == {"queue": f"{name}-missing"}


def test_requests_run_side_by_side_on_one_connection(driver: Driver, queue: spoolrack.Queue) -> None:
    polls = [driver.begin("receive", queue=queue.name, wait_ms=LONG_MS) for _ in range(20)]

    driver.send(queue.name, [outgoing(b"%d" % n) for n in range(20)])

    bodies = {raw(poll.result(STUCK)["messages"][0]["body"]) for poll in polls}
    assert bodies == {b"%d" % n for n in range(20)}
