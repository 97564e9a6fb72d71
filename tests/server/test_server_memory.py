"""The memory's watermark and budgets, with a measurement that the test makes up."""

from __future__ import annotations

import asyncio
import io
import os
import resource
import weakref
from collections.abc import AsyncIterator
from mmap import ACCESS_READ, MAP_ANONYMOUS, MAP_PRIVATE, PAGESIZE, mmap
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import grpc
import pytest
import spoolrack.aio
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_server.app import memory as memory_module
from spoolrack_server.app.memory import (
    IDLE,
    LASTING,
    LEAST_LIMIT,
    Budget,
    MemoryLimiter,
    anonymous,
    default_watermark,
)
from spoolrack_server.process.serve_settings import ServeSettings
from spoolrack_server.process.server import Server
from spoolrack_server.rpc.calls import Requests, ServerCalls
from spoolrack_server.system.logs import make_log
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.errors import MemoryLimit

from tests.support import MIB
from tests.support.server_rig import Client, connected, next_messages, refused

pytestmark = pytest.mark.timeout(300)  # It moves hundreds of megabytes.

WATERMARK = 1 << 40


class Measured:
    """A server's view of its memory, as a test sets it."""

    def __init__(self, server: Server) -> None:
        self._memory = server._memory
        self.now = 0
        self._memory._measure = lambda: self.now

    def set(self, now: int) -> None:
        self.now = now
        self._memory.check()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with Server(
        ServeSettings(root=str(tmp_path), memory_watermark=WATERMARK), clock=ManualClock()
    ) as server:
        yield server


@pytest.fixture
def measured(server: Server) -> Measured:
    return Measured(server)


@pytest.fixture
async def client(server: Server) -> AsyncIterator[Client]:
    async with connected(server) as client:
        yield client


async def test_past_the_watermark_sends_are_refused_and_all_else_goes_on(
    client: Client, measured: Measured
) -> None:
    await client.create()
    await client.send(b"1", b"2")
    measured.set(WATERMARK + 1)
    no = await refused(client.send(b"3"))
    assert (no.code, no.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "MEMORY_LIMIT")
    assert no.retry_millis == 1_000
    first, second = await client.receive(2)
    assert await client.delete(first.receipt) == []
    await client.release(second.receipt)
    assert (await client.counts()).ready_count == 1
    measured.set(WATERMARK // 2)
    await client.send(b"4")
    assert (await client.counts()).ready_count == 2


async def test_sends_over_http_are_refused_too(
    server: Server, client: Client, measured: Measured
) -> None:
    await client.create()
    measured.set(WATERMARK + 1)

    def send() -> tuple[int, str]:
        try:
            urlopen(Request(f"{server.http_url}/q/messages", data=b"x", method="POST"))
        except HTTPError as error:
            with error:
                return error.code, error.read().decode()
        raise AssertionError("it was taken")

    code, content = await asyncio.to_thread(send)
    assert code == 503
    assert "MEMORY_LIMIT" in content


async def test_a_stream_of_sends_ends_when_all_it_took_is_answered(
    client: Client, measured: Measured
) -> None:
    await client.create()
    stream = client.stub.StreamSend()
    request = rpc.StreamSendRequest(
        correlation_id=1, request=rpc.SendRequest(queue="q", messages=[pb.OutgoingMessage(body=b"x")])
    )
    await stream.write(request)
    answer = await stream.read()
    assert answer.response.results[0].sent.id
    measured.set(WATERMARK + 1)
    no = await refused(_until_end(stream))
    assert no.reason == "MEMORY_LIMIT"
    assert (await client.counts()).ready_count == 1


async def test_a_client_of_ours_sends_again_when_there_is_memory_again(
    server: Server, client: Client, measured: Measured
) -> None:
    await client.create()
    async with spoolrack.aio.connect(server.grpc_address) as ours:
        queue = ours.queue("q")
        await asyncio.gather(*(queue.send(b"x") for _ in range(20)))
        measured.set(WATERMARK + 1)
        sends = asyncio.gather(*(queue.send(b"x") for _ in range(20)))
        assert (await refused(client.send(b"y"))).reason == "MEMORY_LIMIT"
        measured.set(0)
        await sends
    assert (await client.counts()).ready_count == 40


async def test_a_request_that_is_being_read_ends_with_the_call(
    client: Client, measured: Measured, server: Server
) -> None:
    await client.create()
    send = client.channel.stream_unary("/spoolrack.v1.QueueService/Send")()
    delete = client.channel.stream_unary("/spoolrack.v1.QueueService/Delete")()
    for call in (send, delete):
        await call.wait_for_connection()
    while len(server._memory._reading) < 2:
        await asyncio.sleep(0)
    measured.set(WATERMARK + 1)
    assert (await refused(send)).reason == "MEMORY_LIMIT"
    assert not delete.done()
    measured.set(2 * WATERMARK)
    assert (await refused(delete)).reason == "MEMORY_LIMIT"
    assert server._memory._reading == set()


async def test_a_large_request_is_refused_that_would_reach_the_watermark(
    client: Client, measured: Measured
) -> None:
    await client.create(max_message_size=8 * MIB)
    measured.set(WATERMARK - 5 * MIB)
    assert (await refused(client.send(bytes(4 * MIB)))).reason == "MEMORY_LIMIT"
    await client.send(b"small")
    measured.set(0)
    await client.send(bytes(4 * MIB))


async def test_the_metrics_tell_of_the_watermark(server: Server, measured: Measured) -> None:
    page = await server.observer.page("")
    assert b"spoolrack_memory_refuses_sends{" in page[0]
    measured.set(WATERMARK + 1)
    rows = {name: value for name, _, value in await server.observer.own()}
    assert rows["spoolrack_memory_refuses_sends"] == 1
    assert rows["spoolrack_memory_watermark_bytes"] == WATERMARK
    assert rows["spoolrack_memory_used_bytes"] == WATERMARK + 1


async def test_unread_frames_are_bounded_and_others_wait_for_their_room(
    server: Server, client: Client
) -> None:
    server._memory.responses.total = 100 * MIB
    await client.create(max_message_size=60 * MIB)
    for _ in range(3):
        await client.send(bytes(60 * MIB))
    async with connected(server) as unread, connected(server) as waiting:
        first = unread.stream(1)
        await first.initial_metadata()
        await client.until_leased(1)
        second = waiting.stream(1)
        reading = asyncio.ensure_future(next_messages(second, 1))
        for _ in range(100):
            assert (await client.counts()).leased_count == 1
            assert not reading.done()
        # A small message isn't held up.
        await client.create("small")
        await client.send(b"x", queue="small")
        assert [each.body for each in await client.receive(queue="small")] == [b"x"]
        first.cancel()
        (message,) = await reading
        assert len(message.body) == 60 * MIB
        second.cancel()


async def _until_end(stream: Any) -> None:
    while await stream.read() is not grpc.aio.EOF:
        pass


async def test_a_budget_is_shared_by_connections_and_given_back() -> None:
    budget = Budget("requests", 200 * MIB)
    with budget.share("a", 90 * MIB):
        assert not budget.fits("a", 20 * MIB)
        assert budget.fits("b", 100 * MIB)
        with budget.share("b", 100 * MIB), pytest.raises(MemoryLimit):
            budget.reserve("c", 20 * MIB)
        assert budget.fits("a", 1_000)
    assert budget.used == 0
    # Or else it could never be sent.
    assert budget.fits("a", 300 * MIB)


def test_memory_is_measured_where_no_descriptor_is_left() -> None:
    assert anonymous()
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            os.open("/proc/self/statm", os.O_RDONLY)
        assert anonymous()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_anonymous_memory_is_measured_and_mapped_files_are_not(tmp_path: Path) -> None:
    file = tmp_path / "library"
    file.write_bytes(bytes(64 * MIB))
    before = anonymous()
    assert before is not None
    with file.open("rb") as opened, mmap(opened.fileno(), 0, access=ACCESS_READ) as mapped:
        assert sum(mapped[page] for page in range(0, 64 * MIB, PAGESIZE)) == 0
        assert (anonymous() or 0) < before + 32 * MIB
    # Memory of the system: freed memory of earlier tests could be given again.
    with mmap(-1, 64 * MIB, flags=MAP_PRIVATE | MAP_ANONYMOUS) as held:
        for page in range(0, 64 * MIB, PAGESIZE):
            held[page] = 1
        assert (anonymous() or 0) > before + 32 * MIB
    assert MemoryLimiter(make_log()).watermark is None


class _Cycle:
    def __init__(self) -> None:
        self.own = self


def test_garbage_in_cycles_is_collected_before_sends_are_refused() -> None:
    used = WATERMARK + 1

    def freed() -> None:
        nonlocal used
        used = 0

    weakref.finalize(_Cycle(), freed)
    memory = MemoryLimiter(make_log(), WATERMARK, lambda: used)
    memory.check()
    assert not memory.is_over
    memory.require()


def test_a_refusal_ends_with_the_garbage_that_has_come_up_since() -> None:
    used, now = WATERMARK + 1, 0.0

    def freed() -> None:
        nonlocal used
        used = 0

    memory = MemoryLimiter(make_log(), WATERMARK, lambda: used, lambda: now)
    memory.check()
    assert memory.is_over
    weakref.finalize(_Cycle(), freed)
    now += 1
    memory.check()
    assert not memory.is_over


def test_a_refusal_that_lasts_says_so() -> None:
    now = 0.0
    memory = MemoryLimiter(make_log(), WATERMARK, lambda: WATERMARK + 1, lambda: now)
    memory.check()
    with pytest.raises(MemoryLimit) as at_first:
        memory.require()
    now = 2 * LASTING + 1
    with pytest.raises(MemoryLimit) as later:
        memory.require()
    assert "min" not in str(at_first.value)
    assert "for 2 min, and stays there until messages are received" in str(later.value)


def test_a_memory_that_cannot_be_read_now_changes_nothing() -> None:
    measured: list[int | None] = [WATERMARK + 1, WATERMARK + 1, None]
    memory = MemoryLimiter(make_log(), WATERMARK, lambda: measured.pop(0))
    memory.check()
    memory.check()
    assert memory.is_over


def test_the_default_watermark_leaves_what_an_idle_server_takes() -> None:
    assert default_watermark(0.5, 1) > IDLE
    assert default_watermark(0.5, 10_000) == IDLE


@pytest.mark.parametrize(
    ("limit", "processes", "watermark"), [(128, 1, 96), (512, 1, 288), (512, 2, 144)]
)
def test_the_default_watermark_is_as_the_page_about_sizes_says(
    monkeypatch: pytest.MonkeyPatch, limit: int, processes: int, watermark: int
) -> None:
    monkeypatch.setattr(memory_module, "memory_limit", lambda: limit * MIB)
    assert default_watermark(0.5, processes) == watermark * MIB


def test_a_start_says_which_limit_is_too_small() -> None:
    said = io.StringIO()
    log = make_log(stream=said)
    MemoryLimiter(log, IDLE, lambda: 0).warn_if_too_small(LEAST_LIMIT)
    MemoryLimiter(log).warn_if_too_small(None)
    assert said.getvalue() == ""
    MemoryLimiter(log, IDLE - 1, lambda: 0).warn_if_too_small(None)
    MemoryLimiter(log).warn_if_too_small(LEAST_LIMIT - 1)
    watermark, container = said.getvalue().splitlines()
    assert f"watermark={IDLE - 1} least={IDLE}" in watermark
    assert f"limit={LEAST_LIMIT - 1} least={LEAST_LIMIT}" in container


def test_the_bytes_of_a_request_are_given_back_after_its_connection_is_gone() -> None:
    memory = MemoryLimiter(make_log())
    peers = iter(["ipv4:127.0.0.1:1"])
    context: Any = SimpleNamespace(peer=lambda: next(peers, ""))
    service = rpc.DESCRIPTOR.services_by_name["QueueService"]
    method = service.methods_by_name["StreamSend"]
    requests = Requests(ServerCalls(make_log(), memory=memory), memory, context, method)
    body = b"x" * MIB
    send = rpc.SendRequest(queue="q", messages=[pb.OutgoingMessage(body=body)])
    requests.size = rpc.StreamSendRequest(request=send).ByteSize()
    assert requests.reserve() > MIB
    requests.close()
    assert memory.requests.used == 0
