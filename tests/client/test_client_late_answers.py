"""The answer of a receive whose caller has left: its messages are released, uncounted."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

import grpc
import pytest
import spoolrack
from spoolrack import aio
from spoolrack._transports import grpc_calls
from spoolrack.testing import RunningServer
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_server.process.server import Server

from tests.client.odd_server import SERVICE
from tests.support import STUCK
from tests.support.server_rig import until_waiting
from tests.support.waiting import until

AT_DIFFERENT_MOMENTS = 120


class LateServer:
    """Answers receives once it is told to, as if the answers had a long way."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.answers = threading.Event()
        self.released: list[rpc.MessageRelease] = []
        self._server = grpc.server(ThreadPoolExecutor(4))
        handlers = {
            "Receive": grpc.unary_unary_rpc_method_handler(
                self._receive,
                rpc.ReceiveRequest.FromString,
                rpc.ReceiveResponse.SerializeToString,
            ),
            "Release": grpc.unary_unary_rpc_method_handler(
                self._release,
                rpc.ReleaseRequest.FromString,
                rpc.ReleaseResponse.SerializeToString,
            ),
        }
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, handlers),)
        )
        self.url = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def stop(self) -> None:
        self.answers.set()
        self._server.stop(None).wait()

    def _receive(self, request: rpc.ReceiveRequest, context: Any) -> rpc.ReceiveResponse:
        self.asked.set()
        self.answers.wait(STUCK)
        return rpc.ReceiveResponse(messages=[pb.Message(id="1", receipt="receipt", receive_count=1)])

    def _release(self, request: rpc.ReleaseRequest, context: Any) -> rpc.ReleaseResponse:
        self.released.extend(request.releases)
        return rpc.ReleaseResponse(results=[rpc.ReleaseResult() for _ in request.releases])


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> Iterator[LateServer]:
    monkeypatch.setattr(grpc_calls, "LATE", STUCK)
    server = LateServer()
    yield server
    server.stop()


def assert_given_back(late: LateServer) -> None:
    (release,) = late.released
    assert (release.receipt, release.uncounted) == ("receipt", True)


async def test_a_cancelled_receive_gives_a_late_answer_back_before_its_client_is_closed(
    late: LateServer,
) -> None:
    async with aio.connect(late.url) as client:
        receiving = asyncio.create_task(client.queue("jobs").receive(wait=20))
        await asyncio.to_thread(late.asked.wait, STUCK)
        receiving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await receiving
        late.answers.set()
    assert_given_back(late)


def test_an_interrupted_receive_gives_a_late_answer_back_before_its_client_is_closed(
    late: LateServer,
) -> None:
    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        main = threading.main_thread().ident
        assert main is not None

        def interrupt_when_asked() -> None:
            late.asked.wait(STUCK)
            signal.pthread_kill(main, signal.SIGUSR1)

        interrupting = threading.Thread(target=interrupt_when_asked)
        with spoolrack.connect(late.url) as client:
            interrupting.start()
            with pytest.raises(KeyboardInterrupt):
                client.queue("jobs").receive(wait=20)
            late.answers.set()
            until(lambda: bool(late.released))
        interrupting.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert_given_back(late)


async def test_a_receive_whose_answer_never_comes_is_cancelled_at_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grpc_calls, "LATE", 0.0)
    async with Server(tmp_path / "root") as server, aio.connect(server.grpc_address) as client:
        queue = await client.create_queue("jobs")
        receiving = asyncio.create_task(queue.receive(wait=3_600))
        await until_waiting(server, 1)
        receiving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await receiving
        await until_waiting(server, 0)
        await queue.send(b"a")
        (message,) = await queue.receive(wait=STUCK)
        assert message.receive_count == 1


async def test_receives_that_are_cancelled_at_any_moment_leave_nothing_leased(
    server: RunningServer,
) -> None:
    async with aio.connect(server.url) as client:
        queue = await client.create_queue("jobs")
        returned = 0
        for number in range(AT_DIFFERENT_MOMENTS):
            await queue.send(b"a")
            with contextlib.suppress(TimeoutError):
                returned += len(await asyncio.wait_for(queue.receive(), 0.0005 * (number % 8)))
    # Closed, so that all late answers have come.
    with server.client() as client:
        counts = client.queue("jobs").info().counts
    assert (counts.leased_count, counts.ready_count) == (returned, AT_DIFFERENT_MOMENTS - returned)
