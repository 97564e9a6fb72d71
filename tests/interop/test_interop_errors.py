"""Each language can tell what went wrong: code, reason, facts, and when to try again."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import pytest
import spoolrack
from spoolrack._transports.grpc_stubs import Stubs
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_server.wire.status import CODES, INTERNAL

from tests.interop import provoking
from tests.interop import test_interop_messages as messages
from tests.interop import test_interop_restarts as restarts
from tests.interop.interop_driver import Driver, outgoing
from tests.interop.interop_languages import Language
from tests.interop.provoking import PROVOKE, Scene
from tests.interop.reasons_server import failing_server, failures
from tests.support.run_processes import Served

UNAVAILABLE = 14
NUMBERS = {reason: code.value[0] for reason, code in CODES.items()}


@pytest.fixture(scope="module")
def failing(language: Language) -> Iterator[Driver]:
    """A driver at a server that fails as it is told to."""
    with failing_server() as address:
        driver = Driver(language, address)
        yield driver
        driver.end()


def test_every_reason_is_provoked_or_said_why_not() -> None:
    tests = {
        name for name in (*globals(), *vars(messages), *vars(restarts)) if name.startswith("test_")
    }
    assert {*provoking.IN_RESULTS.values(), *provoking.ELSEWHERE.values()} <= tests
    lists = (PROVOKE, provoking.IN_RESULTS, provoking.ELSEWHERE, provoking.NOT_PROVOKED)
    named = [reason for reasons in lists for reason in reasons]
    assert sorted(named) == sorted([*CODES, INTERNAL.reason])


@pytest.mark.parametrize("reason", PROVOKE)
def test_a_real_refusal_can_be_read(
    driver: Driver, stub: Stubs, hall: Served, name: str, reason: str
) -> None:
    scene = Scene(stub=stub, root=hall.root, queue=name)
    method, request, facts = PROVOKE[reason](scene)

    refused = driver.refused(lambda: driver.call(method, request))

    assert refused.reason == reason
    assert refused.code == NUMBERS[reason]
    assert refused.domain == "spoolrack"
    assert facts.items() <= refused.metadata.items()
    assert refused.message
    assert (refused.retry_ms is not None) == (NUMBERS[reason] in {8, UNAVAILABLE})


@pytest.mark.parametrize("reason", sorted([*CODES, INTERNAL.reason]))
def test_every_reason_can_be_read_to_the_last_fact(failing: Driver, reason: str) -> None:
    failure = failures()[reason]

    refused = failing.refused(lambda: failing.call("GetQueue", rpc.GetQueueRequest(name=reason)))

    assert refused.code == failure.number
    assert refused.message == failure.message
    assert refused.domain == "spoolrack"
    assert refused.reason == reason
    assert refused.metadata == failure.metadata
    assert refused.retry_ms == failure.retry_after


def test_a_receipt_that_is_none_is_refused_beside_others(
    driver: Driver, queue: spoolrack.Queue
) -> None:
    queue.send(b"1")
    (message,) = driver.receive(queue.name)

    for op in ("delete", "release", "extend"):
        more = {"visibility_ms": 1000} if op == "extend" else {}
        (refused, *_) = driver.change(op, queue.name, ["no receipt"], **more)
        assert refused["error"]["reason"] == "INVALID_RECEIPT"
        assert refused["error"]["code"] == NUMBERS["INVALID_RECEIPT"]
        assert refused["error"]["metadata"] == {"receipt": "no receipt"}

    assert driver.change("delete", queue.name, [message["receipt"]]) == [{}]


def test_a_full_queue_names_the_time_to_wait(
    driver: Driver, python: spoolrack.Client, queue: spoolrack.Queue
) -> None:
    python.update_queue(queue.name, max_messages=1)
    queue.send(b"1")

    (refused,) = driver.send(queue.name, [{"body": ""}])

    assert refused["error"]["reason"] == "QUEUE_FULL"
    assert refused["error"]["retry_ms"] == 1_000


def test_attributes_that_are_too_large_are_refused_with_their_size(
    driver: Driver, queue: spoolrack.Queue
) -> None:
    (refused,) = driver.send(queue.name, [outgoing(b"", a=bytes(65_536))])

    assert refused["error"]["reason"] == "ATTRIBUTES_TOO_LARGE"
    assert refused["error"]["metadata"] == {"size": "65537", "limit": "65536"}


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
