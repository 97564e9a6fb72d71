"""Reports of what a stream has handed out: few, and the last one sure."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import spoolrack
from google.protobuf.duration_pb2 import Duration
from google.protobuf.empty_pb2 import Empty
from spoolrack import aio
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as rpc

from tests.client.odd_server import ONCE, SERVICE
from tests.support.waiting import until

COUNT = 1_000
Talk = Callable[[Iterator[rpc.StreamReceiveRequest]], Iterator[rpc.StreamReceiveResponse]]


@contextlib.contextmanager
def receiving(
    talk: Talk,
    *,
    deletes_wait_for: threading.Event | None = None,
    released: list[rpc.MessageRelease] | None = None,
) -> Iterator[str]:
    """Serve streams of receives by `talk`, and releases; yield the server's address. Without an event
    there are no deletes."""
    server = grpc.server(ThreadPoolExecutor(8))

    def serve(requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        context.send_initial_metadata(())
        yield from talk(requests)

    def release(request: rpc.ReleaseRequest, context: grpc.ServicerContext) -> rpc.ReleaseResponse:
        if released is not None:
            released.extend(request.releases)
        return rpc.ReleaseResponse(results=[rpc.ReleaseResult() for _ in request.releases])

    receive = grpc.stream_stream_rpc_method_handler(
        serve, rpc.StreamReceiveRequest.FromString, rpc.StreamReceiveResponse.SerializeToString
    )
    handlers = {
        "StreamReceive": receive,
        "Release": grpc.unary_unary_rpc_method_handler(
            release, rpc.ReleaseRequest.FromString, rpc.ReleaseResponse.SerializeToString
        ),
    }

    def delete(request: rpc.DeleteRequest, context: grpc.ServicerContext) -> rpc.DeleteResponse:
        assert deletes_wait_for is not None
        deletes_wait_for.wait(60)
        return rpc.DeleteResponse(results=[rpc.DeleteResult() for _ in request.targets])

    if deletes_wait_for is not None:
        handlers["Delete"] = grpc.unary_unary_rpc_method_handler(
            delete, rpc.DeleteRequest.FromString, rpc.DeleteResponse.SerializeToString
        )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(0).wait()


def frame(first: int, count: int) -> rpc.StreamReceiveResponse:
    messages = [pb.Message(id=f"{n}", body=b"x", receipt=f"{n}") for n in range(first, first + count)]
    received = rpc.ReceiveResponse(messages=messages, visibility_timeout=Duration(seconds=3_600))
    return rpc.StreamReceiveResponse(received=received)


class Listener:
    """Delivers `COUNT` messages, and hears the reports."""

    def __init__(self) -> None:
        self.first: rpc.ReceiveStart | None = None
        self.begun: list[int] = []
        self.in_flight: list[int] = []
        self.has_ended = threading.Event()

    def talk(self, requests: Iterator[rpc.StreamReceiveRequest]) -> Iterator[rpc.StreamReceiveResponse]:
        self.first = next(requests).start
        yield frame(0, COUNT)
        try:
            for request in requests:
                if request.HasField("stop"):
                    yield rpc.StreamReceiveResponse(stopped=Empty())
                else:
                    self.begun.append(request.report.begun)
                    self.in_flight.append(request.report.max_in_flight)
        finally:
            self.has_ended.set()


def test_a_stream_reports_seldom_and_at_last_all_that_it_has_handed_out() -> None:
    listener = Listener()
    with receiving(listener.talk) as url, spoolrack.connect(url, retry=ONCE) as client:
        stream = client.queue("jobs").messages(max_in_flight=COUNT)
        for _ in range(COUNT):
            next(stream)
        until(lambda: listener.begun[-1:] == [COUNT])
    assert listener.first is not None
    assert listener.first.concurrency == 1
    assert listener.begun == sorted(set(listener.begun))
    assert len(listener.begun) < COUNT / 4


async def test_a_stream_of_tasks_reports_as_one_of_threads_does() -> None:
    listener = Listener()
    with receiving(listener.talk) as url:
        async with aio.connect(url, retry=ONCE) as client:
            stream = client.queue("jobs").messages(max_in_flight=COUNT)
            for _ in range(COUNT):
                await anext(stream)
            while listener.begun[-1:] != [COUNT]:
                await stream.receive(1, wait=0.001)
    assert listener.begun == sorted(set(listener.begun))
    assert len(listener.begun) < COUNT / 4


@contextlib.contextmanager
def working(url: str, concurrency: int, prefetch: int) -> Iterator[threading.Semaphore]:
    """Run a worker whose handlers release a semaphore."""
    handled = threading.Semaphore(0)
    with spoolrack.connect(url, retry=ONCE) as client:
        worker = client.queue("jobs").worker(
            lambda message: handled.release(),
            concurrency=concurrency,
            prefetch=prefetch,
            on_error=lambda message, error: None,
        )
        running = threading.Thread(target=worker.run)
        running.start()
        yield handled
        worker.stop()
        running.join(60)


def test_a_worker_of_one_handler_reports_nothing() -> None:
    listener = Listener()
    with receiving(listener.talk) as url:
        with working(url, 1, COUNT) as handled:
            for _ in range(COUNT // 10):
                assert handled.acquire(timeout=60)
        assert listener.has_ended.wait(60)
    assert listener.first is not None
    assert (listener.first.concurrency, listener.begun) == (1, [])


def test_handlers_go_on_while_deletes_are_under_way_and_their_messages_take_no_place() -> None:
    listener = Listener()
    answer = threading.Event()
    with receiving(listener.talk, deletes_wait_for=answer) as url, working(url, 2, COUNT) as handled:
        for _ in range(COUNT):
            assert handled.acquire(timeout=60)
        until(lambda: listener.begun[-1:] == [COUNT])
        until(lambda: listener.in_flight[-1] == 2 + 2 * COUNT)
        answer.set()
        until(lambda: listener.in_flight[-1] == 2 + COUNT)
    assert listener.first is not None
    assert listener.first.concurrency == 2


def late(requests: Iterator[rpc.StreamReceiveRequest]) -> Iterator[rpc.StreamReceiveResponse]:
    """Deliver a message at once, and two when the client stops the stream."""
    next(requests)
    yield frame(0, 1)
    assert any(request.HasField("stop") for request in requests)
    yield frame(1, 2)
    yield rpc.StreamReceiveResponse(stopped=Empty())


def test_a_closed_stream_releases_the_messages_that_were_on_their_way() -> None:
    released: list[rpc.MessageRelease] = []
    with receiving(late, released=released) as url, spoolrack.connect(url, retry=ONCE) as client:
        with client.queue("jobs").messages() as stream:
            assert next(stream).id == "0"
        assert list(stream) == []
    assert [(each.receipt, each.uncounted) for each in released] == [("1", True), ("2", True)]


async def test_a_closed_stream_of_tasks_releases_them_too() -> None:
    released: list[rpc.MessageRelease] = []
    with receiving(late, released=released) as url:
        async with aio.connect(url, retry=ONCE) as client, client.queue("jobs").messages() as stream:
            assert (await anext(stream)).id == "0"
    assert [(each.receipt, each.uncounted) for each in released] == [("1", True), ("2", True)]
