"""A client behind a proxy that fails: the proxy's answers are no word of the server's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest
import spoolrack
from spoolrack import aio
from spoolrack.errors import (
    MessageTooLarge,
    PermissionDenied,
    SpoolrackError,
    Unauthenticated,
    Unreachable,
)
from spoolrack.testing import RunningServer, running_server

from tests.client.lossy_root import QUICK
from tests.client.odd_server import ONCE, PATIENCE, Connect, odd_server, sent
from tests.support.breaking_proxy import (
    Answer,
    BreakingProxy,
    begun,
    cut_short,
    go_away,
    hang_up,
    page,
    reset,
    status,
)
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(300)  # It waits for what a proxy breaks.

RESETS: Final = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13)
"""Codes of RST_STREAM; 12 (INADEQUATE_SECURITY) is a refusal for gRPC."""
PAGES: Final = (404, 408, 421, 429, 500, 502, 503, 504, 520)
TRANSIENT: Final[dict[str, Answer]] = {
    **{f"RST_STREAM {code}": reset(code) for code in RESETS},
    **{f"RST_STREAM {code} in the response": begun(reset(code)) for code in (0, 2, 8)},
    **{f"HTTP {code}": page(code) for code in PAGES},
    "HTTP 200": page(200),
    "no status": cut_short,
    "UNKNOWN": status(2, "Stream removed"),
    "RESOURCE_EXHAUSTED": status(8, "the rate is limited"),
    "INTERNAL": status(13, "upstream reset"),
    "UNAVAILABLE": status(14, "no healthy upstream"),
    "GOAWAY": go_away(0),
    "GOAWAY 2": go_away(2),
    "GOAWAY 11": go_away(11),
    "hang-up": hang_up,
}
"""Ends of a call that are no word of the server's, and pass."""
REFUSALS: Final[dict[str, tuple[Answer, type[SpoolrackError], str]]] = {
    "HTTP 401": (page(401), Unauthenticated, "HTTP 401"),
    "HTTP 403": (page(403), PermissionDenied, "HTTP 403"),
    "HTTP 407": (page(407), Unauthenticated, "HTTP 407"),
    "HTTP 413": (page(413), MessageTooLarge, "limit for request bodies"),
    "HTTP 302": (page(302), SpoolrackError, "no gRPC is served there"),
    "UNAUTHENTICATED": (status(16, "no token"), Unauthenticated, "no token"),
    "PERMISSION_DENIED": (status(7, "RBAC"), PermissionDenied, "RBAC"),
    "RESOURCE_EXHAUSTED": (status(8, "Received message larger than max"), MessageTooLarge, "its size"),
    "UNKNOWN": (status(2, "Exception calling application"), SpoolrackError, "answered UNKNOWN"),
}


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running_server() as server:
        yield server


@pytest.fixture
def queue(server: RunningServer, request: pytest.FixtureRequest) -> Iterator[spoolrack.Queue]:
    """Return a queue of its own, by a client that no proxy disturbs."""
    with server.client() as client:
        client.create_queue("jobs")
        yield client.queue("jobs")
        client.delete_queue("jobs")


@pytest.fixture
def proxy(server: RunningServer) -> Iterator[BreakingProxy]:
    with BreakingProxy(int(server.url.rsplit(":", 1)[1])) as proxy:
        yield proxy


def test_sends_and_deletes_outlast_a_failing_proxy(
    connect: Connect, proxy: BreakingProxy, queue: spoolrack.Queue
) -> None:
    caller = connect(proxy.url, retry=QUICK)
    for name, answer in TRANSIENT.items():
        proxy.answer(answer)
        caller.send(name).result(PATIENCE)
        (message,) = queue.receive()
        assert message.text == name
        proxy.answer(answer)
        caller.delete(message.receipt).result(PATIENCE)
    assert proxy.answered == 2 * len(TRANSIENT)
    counts = queue.info().counts
    assert (counts.ready_count, counts.leased_count) == (0, 0)


def test_receives_outlast_a_failing_proxy(proxy: BreakingProxy, queue: spoolrack.Queue) -> None:
    with spoolrack.connect(proxy.url, retry=QUICK) as client:
        for name, answer in TRANSIENT.items():
            queue.send(name)
            proxy.answer(answer)
            (message,) = client.queue("jobs").receive(wait=PATIENCE)
            assert message.text == name
            message.delete()


def test_a_stream_outlasts_each_end_that_a_proxy_makes(
    proxy: BreakingProxy, queue: spoolrack.Queue
) -> None:
    with (
        ThreadPoolExecutor(1) as threads,
        spoolrack.connect(proxy.url, retry=QUICK) as client,
        client.queue("jobs").messages() as stream,
    ):
        for name, answer in TRANSIENT.items():
            proxy.break_calls(answer)
            proxy.answer(answer)
            queue.send(name)
            message = threads.submit(next, stream).result(PATIENCE)
            assert message.text == name
            message.delete()


def test_a_worker_outlasts_each_end_that_a_proxy_makes(
    proxy: BreakingProxy, queue: spoolrack.Queue
) -> None:
    handled: list[str] = []
    with ThreadPoolExecutor(1) as threads, spoolrack.connect(proxy.url, retry=QUICK) as client:
        worker = client.queue("jobs").worker(lambda message: handled.append(message.text))
        works = threads.submit(worker.run)
        for name, answer in TRANSIENT.items():
            proxy.break_calls(answer)
            proxy.answer(answer)
            queue.send(name)
            until(lambda: name in handled or works.done())  # noqa: B023  # called in this round
            assert not works.done()
        worker.stop()
        works.result(PATIENCE)


@pytest.mark.slow
async def test_an_asynchronous_iterator_outlasts_each_end_that_a_proxy_makes(
    proxy: BreakingProxy, queue: spoolrack.Queue
) -> None:
    # What a server sends to a connection that has broken just now comes again after so long.
    await asyncio.to_thread(queue.update, visibility_timeout=2)
    async with aio.connect(proxy.url, retry=QUICK) as client:
        messages: AsyncIterator[aio.Message] = client.queue("jobs").messages()
        for name, answer in TRANSIENT.items():
            await asyncio.to_thread(proxy.break_calls, answer)
            await asyncio.to_thread(proxy.answer, answer)
            await asyncio.to_thread(queue.send, name)
            message = await asyncio.wait_for(anext(messages), PATIENCE)
            assert message.text == name
            await message.delete()


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal_of_a_proxy_is_raised_at_once(
    connect: Connect, proxy: BreakingProxy, queue: spoolrack.Queue, name: str
) -> None:
    answer, kind, text = REFUSALS[name]
    proxy.answer(*[answer] * 8)
    caller = connect(proxy.url)
    for call in (caller.send("a"), caller.delete("receipt")):
        with pytest.raises(SpoolrackError, match=text) as raised:
            call.result(PATIENCE)
        assert type(raised.value) is kind
        assert not raised.value.retryable


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal_of_a_proxy_ends_a_stream(
    proxy: BreakingProxy, queue: spoolrack.Queue, name: str
) -> None:
    answer, kind, text = REFUSALS[name]
    with spoolrack.connect(proxy.url, retry=QUICK) as client:
        proxy.answer(*[answer] * 8)
        with pytest.raises(SpoolrackError, match=text) as raised:
            next(client.queue("jobs").messages())
        assert type(raised.value) is kind


def test_a_receive_that_a_proxy_throttles_met_no_message_that_is_too_large(
    proxy: BreakingProxy, queue: spoolrack.Queue
) -> None:
    with spoolrack.connect(proxy.url, retry=ONCE) as client:
        proxy.answer(status(8, "the rate is limited"))
        with pytest.raises(Unreachable, match="RESOURCE_EXHAUSTED: the rate is limited"):
            client.queue("jobs").receive()


@pytest.mark.parametrize(
    "answer", [page(404), status(12), page(413)], ids=["HTTP 404", "UNIMPLEMENTED", "HTTP 413"]
)
def test_a_proxy_that_refuses_one_stream_turns_no_stream_off(connect: Connect, answer: Answer) -> None:
    with (
        odd_server(lambda requests, _: map(sent, requests)) as server,
        BreakingProxy(int(server.url.rsplit(":", 1)[1])) as proxy,
    ):
        caller = connect(proxy.url, retry=QUICK)
        proxy.answer(answer)
        for n in range(3):
            assert caller.send(f"{n}").result(PATIENCE) == f"{n}"
        assert server.calls[-1] == "StreamSend"
        assert server.calls.count("Send") <= 1


def test_sends_in_flight_arrive_though_a_proxy_ends_them(
    connect: Connect, proxy: BreakingProxy, queue: spoolrack.Queue
) -> None:
    caller = connect(proxy.url, retry=QUICK)
    ended = threading.Event()

    def end_calls() -> None:
        for answer in TRANSIENT.values():
            until(lambda: proxy.calls > 0 or ended.is_set())
            proxy.break_calls(answer)

    with ThreadPoolExecutor(1) as threads:
        ends = threads.submit(end_calls)
        ids = set()
        for n in range(40):
            ids |= {each.result(PATIENCE) for each in [caller.send(f"{n} {k}") for k in range(8)]}
        ended.set()
        ends.result(PATIENCE)
    assert len(ids) == 320
    assert ids <= {message.id for message in queue.receive(1_000)}
