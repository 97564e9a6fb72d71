"""Request streams of sends and deletes: their callers, their failures, their end."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
import spoolrack
from spoolrack import aio
from spoolrack._transports.grpc_streams import LARGE
from spoolrack.errors import ClientClosed, SpoolrackError, StaleReceipt, Timeout, Unreachable
from spoolrack.testing import RunningServer, running_server

from tests.client.lossy_root import QUICK
from tests.client.odd_server import ONCE, PATIENCE, Connect, ThreadCaller, odd_server, sent
from tests.support.waiting import until


@pytest.fixture
def server() -> Iterator[RunningServer]:
    with running_server() as server, server.client() as client:
        client.create_queue("jobs")
        yield server


def good(requests: Iterator[Any], _: grpc.ServicerContext) -> Iterator[Any]:
    return map(sent, requests)


def test_callers_share_streams(connect: Connect) -> None:
    with odd_server(good) as server:
        caller = connect(server.url)
        for n in range(50):
            assert caller.send(str(n)).result(PATIENCE) == str(n)
        assert server.calls == ["StreamSend"]
        sends = [caller.send(str(n), queue=f"q{n % 5}") for n in range(200)]
        assert [each.result(PATIENCE) for each in sends] == [str(n) for n in range(200)]
        assert server.calls == ["StreamSend"]


def test_requests_that_wait_share_a_message_if_the_server_reads_it(connect: Connect) -> None:
    messages: list[int] = []
    gathered = threading.Event()

    def talk(requests: Iterator[Any], _: grpc.ServicerContext) -> Iterator[Any]:
        for request in requests:
            messages.append(1 + len(request.more))
            if len(messages) == 2:
                gathered.wait(PATIENCE)  # The transport takes no more than a window of large requests.
            response = sent(request)
            response.accepts_more = request.accepts_more
            response.more.extend(map(sent, request.more))
            yield response

    with odd_server(talk) as server:
        caller = connect(server.url)
        assert caller.send("first").result(PATIENCE) == "first"
        bodies = [str(n) * (LARGE // 16) for n in range(8)] * 4
        sends = [caller.send(body, queue=f"q{n}") for n, body in enumerate(bodies)]
        gathered.set()
        assert [each.result(PATIENCE) for each in sends] == bodies
        assert sum(messages) == 1 + len(bodies)
        assert 1 < max(messages) <= 32


def test_requests_are_not_joined_for_a_server_that_would_not_read_them(connect: Connect) -> None:
    messages: list[int] = []

    def talk(requests: Iterator[Any], _: grpc.ServicerContext) -> Iterator[Any]:
        for request in requests:
            messages.append(1 + len(request.more))
            yield sent(request)

    with odd_server(talk) as server:
        caller = connect(server.url)
        sends = [caller.send(str(n), queue=f"q{n}") for n in range(100)]
        assert [each.result(PATIENCE) for each in sends] == [str(n) for n in range(100)]
        assert messages == [1] * 100


def test_a_server_that_knows_no_streams_is_called_once_for_each_request(connect: Connect) -> None:
    with odd_server() as server:
        caller = connect(server.url, retry=ONCE)
        for n in range(3):
            assert caller.send(str(n)).result(PATIENCE) == str(n)
            caller.delete("receipt").result(PATIENCE)
        assert server.calls == ["Send", "Delete"] * 3


def test_a_large_message_is_sent_in_a_call_of_its_own(connect: Connect) -> None:
    with odd_server(good) as server:
        caller = connect(server.url)
        body = "x" * LARGE
        assert caller.send(body).result(PATIENCE) == body
        assert caller.send("small").result(PATIENCE) == "small"
        caller.delete("x" * LARGE).result(PATIENCE)
        assert server.calls == ["Send", "StreamSend", "Delete"]


def test_a_call_that_times_out_affects_no_other_call(connect: Connect) -> None:
    """Though its answer comes late, and between those of others."""
    let_go = threading.Event()

    def talk(requests: Iterator[Any], _: grpc.ServicerContext) -> Iterator[Any]:
        held: list[Any] = []
        for request in requests:
            if request.request.messages[0].body == b"slow":
                held.append(request)
                continue
            if request.request.messages[0].body == b"free":
                let_go.wait(PATIENCE)
                yield from map(sent, held)
            yield sent(request)

    with odd_server(talk) as server:
        caller = connect(server.url, retry=ONCE)
        slow = caller.send("slow", timeout=0.3)
        assert caller.send("a", queue="other").result(PATIENCE) == "a"
        free = caller.send("free", queue="third")
        with pytest.raises(Timeout, match="may have taken place"):
            slow.result(PATIENCE)
        let_go.set()
        assert free.result(PATIENCE) == "free"
        assert caller.send("b").result(PATIENCE) == "b"
        assert server.calls == ["StreamSend"]


def test_a_stream_that_breaks_fails_what_is_under_way_and_the_next_call_opens_another(
    connect: Connect,
) -> None:
    taken = threading.Semaphore(0)
    breaks = threading.Event()

    def talk(requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        for request in requests:
            if request.request.messages[0].body == b"held":
                taken.release()
                if request.request.queue == "b":
                    breaks.wait(PATIENCE)
                    context.abort(grpc.StatusCode.UNAVAILABLE, "gone")
            else:
                yield sent(request)

    with odd_server(talk) as server:
        caller = connect(server.url, retry=ONCE)
        first = caller.send("held", queue="a")
        assert taken.acquire(timeout=PATIENCE)
        second = caller.send("held", queue="b")
        assert taken.acquire(timeout=PATIENCE)
        breaks.set()
        with pytest.raises(Unreachable, match="gone"):
            second.result(PATIENCE)
        with pytest.raises(Unreachable, match="gone"):
            first.result(PATIENCE)
        assert first.exception() is not second.exception()
        assert caller.send("good").result(PATIENCE) == "good"
        assert server.calls == ["StreamSend"] * 2


@pytest.mark.parametrize("code", ["UNAVAILABLE", "CANCELLED"])
def test_requests_of_a_broken_stream_are_sent_again(connect: Connect, code: str) -> None:
    broken = 0

    def talk(requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        nonlocal broken
        for request in requests:
            if broken < 3:
                broken += 1
                context.abort(grpc.StatusCode[code], "not now")
            yield sent(request)

    with odd_server(talk) as server:
        caller = connect(server.url, retry=QUICK)
        assert caller.send("a").result(PATIENCE) == "a"
        assert server.calls == ["StreamSend"] * 4


def test_a_call_that_a_stopping_server_has_cancelled_is_made_again(connect: Connect) -> None:
    with odd_server() as server:
        server.cancels = 2
        connect(server.url, retry=QUICK).delete("receipt").result(PATIENCE)
        assert server.calls == ["Delete"] * 3


def test_a_server_that_ends_a_stream_as_if_all_was_done_is_asked_again(connect: Connect) -> None:
    ends = [True, False]

    def talk(requests: Iterator[Any], _: grpc.ServicerContext) -> Iterator[Any]:
        for request in requests:
            if ends.pop(0):
                return
            yield sent(request)

    with odd_server(talk) as server:
        assert connect(server.url, retry=QUICK).send("a").result(PATIENCE) == "a"


def test_closing_fails_what_is_under_way_and_leaves_nothing_running(connect: Connect) -> None:
    taken = threading.Event()

    def talk(requests: Iterator[Any], _: grpc.ServicerContext) -> Iterator[Any]:
        for _request in requests:
            taken.set()
        return iter(())

    with odd_server(talk) as server:
        caller = connect(server.url)
        under_way = caller.send("a")
        assert taken.wait(PATIENCE)
        assert caller.running()
        caller.close()
        with pytest.raises(ClientClosed):
            under_way.result(PATIENCE)
        until(lambda: not caller.running())


def test_closing_an_idle_client_leaves_nothing_running(connect: Connect, server: RunningServer) -> None:
    caller = connect(server.url)
    caller.send("a").result(PATIENCE)
    with pytest.raises(StaleReceipt):
        caller.delete(stale_receipt(server)).result(PATIENCE)
    assert caller.running()
    caller.close()
    until(lambda: not caller.running())


def test_the_calls_of_a_crowd_are_in_the_order_in_which_each_of_them_was_made(
    connect: Connect, server: RunningServer
) -> None:
    caller = connect(server.url)
    for n in range(10):
        sends = [caller.send(f"{n} {each}") for each in range(5)]
        for each in sends:
            each.result(PATIENCE)
    with server.client() as client:
        found = [message.text.split()[0] for message in client.queue("jobs").receive(50)]
    assert found == [str(n) for n in range(10) for _ in range(5)]


def stale_receipt(server: RunningServer) -> str:
    with server.client() as client:
        (message,) = client.queue("jobs").receive()
        message.release()
        client.queue("jobs").receive()
        return message.receipt


def test_a_client_that_is_garbage_collected_leaves_nothing_running() -> None:
    ended = threading.Event()

    def talk(requests: Iterator[Any], _: grpc.ServicerContext) -> Iterator[Any]:
        try:
            yield from map(sent, requests)
        finally:
            ended.set()

    before = set(threading.enumerate())
    with odd_server(talk) as server:
        client: spoolrack.Client | None = spoolrack.connect(server.url)
        assert client is not None
        client.queue("jobs").send("a")
        client = None
        gc.collect()
        assert ended.wait(PATIENCE)
        until(lambda: not [each for each in threading.enumerate() if is_ours(each, before)])


def is_ours(thread: threading.Thread, before: set[threading.Thread]) -> bool:
    return thread not in before and thread.name == "spoolrack-responses"


def test_streams_outlast_restarts_of_the_server(connect: Connect, server: RunningServer) -> None:
    caller = connect(server.url)
    expected: list[str] = []
    for n in range(3):
        expected.append(caller.send(f"before {n}").result(PATIENCE))
        server.restart()
        expected.append(caller.send(f"after {n}").result(PATIENCE))
    with server.client() as client:
        found = client.queue("jobs").receive(10)
        assert [message.id for message in found] == expected
        server.restart()
        for message in found:
            caller.delete(message.receipt).result(PATIENCE)
        server.restart()
        counts = client.queue("jobs").info().counts
    assert (counts.ready_count, counts.leased_count) == (0, 0)


def test_a_drain_answers_what_is_under_way_and_what_it_refused_goes_to_the_next_server(
    connect: Connect, server: RunningServer
) -> None:
    caller = connect(server.url)
    sends = [caller.send(f"first {n}") for n in range(100)]
    sends[0].result(PATIENCE)
    server.stop()
    sends += [caller.send(f"second {n}") for n in range(20)]
    server.start()
    ids = {each.result(PATIENCE) for each in sends}
    assert len(ids) == 120
    with server.client() as client:
        found = {message.id: message.receipt for message in client.queue("jobs").receive(1_000)}
        assert ids <= set(found)
        deletes = [caller.delete(receipt) for receipt in found.values()]
        deletes[0].result(PATIENCE)
        server.restart()
        for each in deletes:
            each.result(PATIENCE)
        counts = client.queue("jobs").info().counts
    assert (counts.ready_count, counts.leased_count) == (0, 0)


def test_one_refused_message_or_target_is_refused_to_its_caller_alone(
    connect: Connect, server: RunningServer
) -> None:
    with server.client() as client:
        client.update_queue("jobs", max_message_size=10)
    caller = connect(server.url)
    sends = [caller.send("too long a body" if n == 7 else str(n)) for n in range(20)]
    outcomes = [each.exception(PATIENCE) for each in sends]
    assert [n for n, outcome in enumerate(outcomes) if outcome is not None] == [7]
    stale = stale_receipt(server)
    with server.client() as client:
        receipts = [message.receipt for message in client.queue("jobs").receive(20)]
    deletes = [caller.delete(receipt) for receipt in [*receipts[:9], stale, *receipts[9:]]]
    outcomes = [each.exception(PATIENCE) for each in deletes]
    assert [type(outcome) for outcome in outcomes if outcome is not None] == [StaleReceipt]
    assert isinstance(outcomes[9], StaleReceipt)


def test_the_calls_of_threads_start_one_thread() -> None:
    """gRPC's private names are those that the client knows: else two threads of gRPC run, too."""
    with odd_server(good) as server:
        caller = ThreadCaller(server.url)
        try:
            assert caller.send("a").result(PATIENCE) == "a"
            assert caller.running() == ["spoolrack-responses"]
        finally:
            caller.close()


class Interceptor(grpc.StreamStreamClientInterceptor):
    def __init__(self) -> None:
        self.methods: list[str] = []

    def intercept_stream_stream(self, continuation: Any, details: Any, requests: Any) -> Any:
        self.methods.append(details.method)
        return continuation(details, requests)


def test_an_interceptor_that_the_program_gives_to_all_channels_sees_the_streams(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    interceptor, insecure_channel = Interceptor(), grpc.insecure_channel

    def intercepted(*given: Any, **options: Any) -> grpc.Channel:
        return grpc.intercept_channel(insecure_channel(*given, **options), interceptor)

    with odd_server(good) as server:
        monkeypatch.setattr(grpc, "insecure_channel", intercepted)
        with spoolrack.connect(server.url) as client:
            assert client.queue("jobs").send("a") == "a"
    assert interceptor.methods == ["/spoolrack.v1.QueueService/StreamSend"]


def test_a_response_that_cannot_be_read_is_an_error_of_its_requests(connect: Connect) -> None:
    def talk(requests: Iterator[Any], _: grpc.ServicerContext) -> Iterator[Any]:
        return (b"\xff\xff" for _request in requests)

    with odd_server(talk) as server:
        sending = connect(server.url, retry=ONCE).send("a")
        with pytest.raises(SpoolrackError, match=r"deserializing response|ended the stream"):
            sending.result(PATIENCE)


async def test_a_cancelled_task_cancels_no_other_call() -> None:
    taken, free = threading.Event(), threading.Event()

    def talk(requests: Iterator[Any], _: grpc.ServicerContext) -> Iterator[Any]:
        for request in requests:
            if request.request.queue == "slow":
                taken.set()
                free.wait(PATIENCE)
            yield sent(request)

    with odd_server(talk) as server:
        async with aio.connect(server.url) as client:
            cancelled = asyncio.create_task(client.queue("slow").send("a"))
            await asyncio.to_thread(taken.wait, PATIENCE)
            other = asyncio.create_task(client.queue("other").send("b"))
            cancelled.cancel()
            await asyncio.wait([cancelled])
            assert cancelled.cancelled()
            free.set()
            assert await other == "b"
            assert await client.queue("slow").send("c") == "c"
        assert server.calls == ["StreamSend"]
