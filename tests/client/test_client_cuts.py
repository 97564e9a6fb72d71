"""A connection that falls silent: nothing comes by it any more, and nothing closes it."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterator

import pytest
import spoolrack
from spoolrack import Client
from spoolrack._transports import grpc_calls
from spoolrack.testing import manual_clock, running_server
from spoolrack_store.manual_clock import ManualClock

from tests.support.silent_relay import SilentRelay
from tests.support.waiting import until

SOON = 0.3
"""Seconds of a ping and of its answer, in place of 15 and 10."""
LATE = 25
"""Seconds in which the client must have found out. Without the bound it takes gRPC a minute."""


@pytest.fixture
def quick_pings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_calls, "KEEPALIVE", SOON)
    monkeypatch.setattr(grpc_calls, "KEEPALIVE_TIMEOUT", SOON)


@pytest.fixture
def server() -> Iterator[tuple[Client, SilentRelay, ManualClock]]:
    """A client without the relay between, which can fall silent, and a clock that stands still."""
    clock = manual_clock()
    with running_server(clock=clock) as server, server.client() as client:
        client.create_queue("jobs")
        with SilentRelay(int(server.url.rpartition(":")[2])) as relay:
            yield client, relay, clock


def test_a_connection_with_a_call_is_given_up_within_the_default_timeout_of_a_call() -> None:
    # Or a send by which it is found out has no time for a second attempt.
    timeout = inspect.signature(spoolrack.connect).parameters["timeout"].default
    assert timeout > grpc_calls.KEEPALIVE + grpc_calls.KEEPALIVE_TIMEOUT
    # The server permits a ping each 10 s, and closes a connection for more.
    assert grpc_calls.KEEPALIVE > 10


def test_a_send_comes_through_though_grpc_awaits_the_answer_to_a_ping_of_its_own(
    server: tuple[Client, SilentRelay, ManualClock], quick_pings: None
) -> None:
    _, relay, _ = server
    with spoolrack.connect(relay.url, timeout=LATE) as client:
        queue = client.queue("jobs")
        # gRPC measures the bandwidth by a ping when data arrive: at one of these it waits for it.
        for number in range(20):
            queue.send(b"%d" % number)
        relay.fall_silent()
        queue.send(b"last")
        assert queue.info().counts.ready_count in (21, 22)  # The server may have the lost one, too.


@pytest.mark.parametrize("concurrency", [1, 4])
def test_messages_that_were_sent_into_a_dead_connection_come_again_at_once_and_uncounted(
    server: tuple[Client, SilentRelay, ManualClock], quick_pings: None, concurrency: int
) -> None:
    direct, relay, _ = server
    jobs = direct.queue("jobs")
    handled: list[tuple[bytes, int]] = []
    with spoolrack.connect(relay.url) as client:
        worker = client.queue("jobs").worker(
            lambda message: handled.append((message.body, message.receive_count)),
            concurrency=concurrency,
        )
        thread = threading.Thread(target=worker.run)
        thread.start()
        jobs.send(b"first")
        until(lambda: len(handled) == 1)
        until(lambda: jobs.info().counts.leased_count == 0)
        relay.fall_silent()
        for number in range(8):
            jobs.send(b"%d" % number)
        # They were never at the client. The server's clock stands still: no lease expires.
        until(lambda: len(handled) == 9)
        assert sorted(handled[1:]) == [(b"%d" % number, 1) for number in range(8)]
        worker.stop()
        thread.join()
