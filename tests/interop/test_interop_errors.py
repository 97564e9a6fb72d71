"""Each language can tell what went wrong: code, reason, facts, and when to try again."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import pytest
import spoolrack
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_server.wire.status import CODES

from tests.interop.interop_driver import Driver
from tests.interop.interop_languages import Language
from tests.interop.reasons_server import failing_server, failures
from tests.support.run_processes import Served

UNAVAILABLE = 14


@pytest.fixture(scope="module")
def failing(language: Language) -> Iterator[Driver]:
    """A driver at a server that fails as it is told to."""
    with failing_server() as address:
        driver = Driver(language, address)
        yield driver
        driver.end()


@pytest.mark.parametrize("reason", sorted(CODES))
def test_every_reason_can_be_read_to_the_last_fact(failing: Driver, reason: str) -> None:
    failure = failures()[reason]

    refused = failing.refused(lambda: failing.call("GetQueue", rpc.GetQueueRequest(name=reason)))

    assert refused.code == failure.number
    assert refused.message == failure.message
    assert refused.domain == "spoolrack"
    assert refused.reason == reason
    assert refused.metadata == failure.metadata
    assert refused.retry_ms == failure.retry_after


def test_a_full_queue_names_the_time_to_wait(
    driver: Driver, python: spoolrack.Client, queue: spoolrack.Queue
) -> None:
    python.update_queue(queue.name, max_messages=1)
    queue.send(b"1")

    (refused,) = driver.send(queue.name, [{"body": ""}])

    assert refused["error"]["reason"] == "QUEUE_FULL"
    assert refused["error"]["retry_ms"] == 1_000


def test_a_server_that_is_not_there_is_unavailable_without_a_reason(
    drivers: Callable[[str], Driver],
) -> None:
    with socket.socket() as bound:  # and not listening: no other process gets the port meanwhile
        bound.bind(("127.0.0.1", 0))
        driver = drivers(f"127.0.0.1:{bound.getsockname()[1]}")

        refused = driver.refused(lambda: driver.receive("q", timeout_ms=60_000))

    assert (refused.code, refused.reason, refused.domain) == (UNAVAILABLE, "", "")
    assert (refused.metadata, refused.retry_ms) == ({}, None)


def test_a_driver_ends_with_its_input(drivers: Callable[[str], Driver], hall: Served) -> None:
    driver = drivers(hall.address)
    assert driver.refused(lambda: driver.receive("no/name")).reason == "INVALID_QUEUE_NAME"
    assert driver.finish() == 0
