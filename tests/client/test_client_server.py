"""The client against a real server that goes away, comes back, or was never there."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from itertools import count

import pytest
import spoolrack
from spoolrack import RetryPolicy, aio
from spoolrack._core import outages
from spoolrack._runtime import Threads
from spoolrack.errors import (
    ClientClosed,
    InvalidRequest,
    InvalidUrl,
    SpoolrackError,
    Timeout,
    Unreachable,
)
from spoolrack.testing import RunningServer

from tests.support.waiting import until


@pytest.fixture
def nowhere() -> Iterator[str]:
    """An address without a listener."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture
def silence() -> Iterator[str]:
    """The address of a listener that never answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(10)
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def test_a_server_that_is_not_there_is_named(nowhere: str) -> None:
    with (
        spoolrack.connect(nowhere, timeout=0.5) as client,
        pytest.raises(Unreachable, match=f"{nowhere}: is a Spoolrack server there"),
    ):
        client.queue("jobs").info()


def test_a_stream_to_nowhere_gives_up_by_its_timeout(nowhere: str) -> None:
    with spoolrack.connect(nowhere, timeout=0.5) as client, pytest.raises(Unreachable):
        next(client.queue("jobs").messages())


def test_a_server_that_is_silent_is_waited_for_as_long_as_the_timeout(silence: str) -> None:
    with spoolrack.connect(silence, timeout=30) as client:
        begin = time.monotonic()
        with pytest.raises((Timeout, Unreachable)):
            client.queue("jobs").send("a", timeout=0.2)
        assert time.monotonic() - begin >= 0.2


def test_a_refused_wait_is_named_as_it_was_given_however_slow_the_machine_is(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with server.client() as client:
        jobs = client.create_queue("jobs")
        seconds = count()
        monkeypatch.setattr(Threads, "monotonic", staticmethod(lambda: float(next(seconds))))
        calls: list[Callable[[], object]] = [
            lambda: jobs.receive(wait=7_200),
            lambda: jobs.reserve("s", 1, wait=7_200),
        ]
        for call in calls:
            with pytest.raises(InvalidRequest, match="wait can't be '2 h'"):
                call()


async def test_a_server_that_is_not_there_is_named_to_tasks_too(nowhere: str) -> None:
    async with aio.connect(nowhere, timeout=0.5) as client:
        with pytest.raises(Unreachable, match=nowhere):
            await client.queue("jobs").info()
        with pytest.raises(Unreachable):
            await anext(client.queue("jobs").messages())


def test_a_call_outlasts_a_restart_of_the_server(server: RunningServer) -> None:
    with server.client() as client:
        client.create_queue("jobs")
        jobs = client.queue("jobs")
        server.stop()
        sent: list[str] = []
        sending = threading.Thread(target=lambda: sent.append(jobs.send("a")))
        sending.start()
        server.start()
        sending.join(60)
        assert [message.id for message in jobs.receive(10)] == sent


def test_a_stream_outlasts_a_restart_of_the_server(server: RunningServer) -> None:
    with server.client() as client, server.client() as other:
        client.create_queue("jobs")
        other.queue("jobs").send("a")
        with client.queue("jobs").messages(max_in_flight=1) as stream:
            first = next(stream)
            server.restart()
            first.delete()
            other.queue("jobs").send("b")
            second = next(stream)
        assert (first.text, second.text) == ("a", "b")


def test_a_stream_that_was_idle_outlasts_a_restart_too(server: RunningServer) -> None:
    """Though it never got a message: the server's headers have told that it is connected."""
    with server.client(timeout=0.01) as client, server.client() as other:
        other.create_queue("jobs")
        received: list[str] = []
        stream = client.queue("jobs").messages()
        waiting = threading.Thread(target=lambda: received.append(next(stream).text))
        waiting.start()
        until(lambda: stream._core.connected)
        server.restart()
        other.queue("jobs").send("a")
        waiting.join(60)
        assert received == ["a"]
        stream.close()


async def test_a_stream_of_tasks_outlasts_a_restart_of_the_server(server: RunningServer) -> None:
    async with aio.connect(server.url) as client:
        await client.create_queue("jobs")
        jobs = client.queue("jobs")
        async with jobs.messages() as stream:
            await jobs.send("a")
            assert (await anext(stream)).text == "a"
            await asyncio.to_thread(server.restart)
            await jobs.send("b")
            assert (await anext(stream)).text == "b"


def test_a_closed_client_says_so(server: RunningServer) -> None:
    client = server.client()
    client.close()
    client.close()
    with pytest.raises(ClientClosed):
        client.queue("jobs").info()
    assert repr(client) == f"<spoolrack.Client of {server.url}, closed>"


@pytest.mark.parametrize("turns", [0, 1, 40])
async def test_a_call_of_a_task_ends_with_an_error_when_its_client_is_closed(
    silence: str, turns: int
) -> None:
    """The task isn't cancelled, so it sees no CancelledError: that would end what it runs in."""
    client = aio.connect(silence)
    waiting = asyncio.ensure_future(client.queue("jobs").info())
    for _ in range(turns):
        await asyncio.sleep(0)
    await client.close()
    with pytest.raises(ClientClosed):
        await waiting


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.queue("jobs").info(),
        lambda client: anext(client.reservations.read("stream", 1)),
    ],
    ids=["call", "read"],
)
async def test_a_task_that_is_cancelled_while_its_client_closes_stays_cancelled(
    silence: str, call: Callable[[aio.Client], Awaitable[object]]
) -> None:
    client = aio.connect(silence)
    waiting = asyncio.ensure_future(call(client))
    for _ in range(40):
        await asyncio.sleep(0)
    waiting.cancel()
    await client.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting


def test_a_foreign_server_is_named_in_the_error() -> None:
    """The server's own HTTP port, say."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(10_000)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

        answering = threading.Thread(target=answer)
        answering.start()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        with (
            spoolrack.connect(address, timeout=60, retry=RetryPolicy(attempts=1)) as client,
            pytest.raises(SpoolrackError, match=address),
        ):
            client.queue("jobs").info()
        answering.join(60)


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("localhost:1234", "grpc://localhost:1234"),
        ("grpc://localhost:1234", "grpc://localhost:1234"),
        ("grpc://example.org/", "grpc://example.org:50051"),
        ("[::1]:50051", "grpc://[::1]:50051"),
        ("10.0.0.1", "grpc://10.0.0.1:50051"),
        ("grpcs://example.org", "grpcs://example.org:50051"),
    ],
)
def test_urls_name_servers(url: str, target: str) -> None:
    with spoolrack.connect(url) as client:
        assert repr(client) == f"<spoolrack.Client of {target}>"


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("file://root", "names no folder"),
        ("vsqs://q", "names no folder"),
        ("http://host:1", "http:// is the HTTP port.s"),
        ("", "names no server"),
        ("host:port", "names no server"),
        ("host:0", "names no server"),
        ("host:65536", "names no server"),
        ("grpc://host:1/queue", "names no server"),
        ("grpc://user@host:1", "names a user"),
        ("a b:1", "names no server"),
    ],
)
def test_a_url_that_can_not_be_opened_is_refused_at_once(url: str, why: str) -> None:
    with pytest.raises(InvalidUrl, match=why):
        spoolrack.connect(url)


def test_an_outage_is_one_warning_at_its_begin_and_one_at_its_end_whatever_the_streams(
    server: RunningServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outages, "TOLD_AFTER", 0.1)
    caplog.set_level(logging.INFO, "spoolrack")

    def warnings() -> list[str]:
        return [
            each.getMessage()
            for each in caplog.records
            if each.name == "spoolrack" and each.levelno >= logging.WARNING
        ]

    with server.client() as client:
        for name in ("one", "two"):
            client.create_queue(name)
        with client.queue("one").messages() as one, client.queue("two").messages() as two:
            streams = one, two
            for name, stream in zip(("one", "two"), streams, strict=True):
                client.queue(name).send("before")
                next(stream).delete()
            server.stop()
            until(lambda: warnings())
            for name in ("one", "two"):  # Each tries again after its warning.
                tries = caplog.text.count(f"the stream of {name} is opened again")
                until(
                    lambda name=name, tries=tries: (
                        caplog.text.count(f"the stream of {name} is opened again") > tries + 1
                    )
                )
            assert len(warnings()) == 1
            assert "doesn't answer" in warnings()[0]
            server.start()
            until(lambda: len(warnings()) > 1)  # Without a message that arrives.
            for name, stream in zip(("one", "two"), streams, strict=True):
                client.queue(name).send("after")
                next(stream).delete()
    assert len(warnings()) == 2
    assert "answers again" in warnings()[1]
