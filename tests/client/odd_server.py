"""Servers that a client seldom meets: older ones, slow ones, ones that break off; and callers, in
threads or in tasks, whose calls are futures here and there."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

import grpc
import spoolrack
from spoolrack import RetryPolicy, aio
from spoolrack.v1 import queue_service_pb2 as rpc

T = TypeVar("T")
Talk = Callable[[Iterator[Any], grpc.ServicerContext], Iterator[Any]]

SERVICE = "spoolrack.v1.QueueService"
ONCE = RetryPolicy(attempts=1)
PATIENCE = 60.0
"""Seconds: only a defect takes longer."""


def sent(request: rpc.StreamSendRequest) -> rpc.StreamSendResponse:
    """Return the good answer: each message's id is its body."""
    response = rpc.SendResponse(results=_ids(request.request.messages))
    return rpc.StreamSendResponse(correlation_id=request.correlation_id, response=response)


def _ids(messages: Any) -> list[rpc.SendResult]:
    return [
        rpc.SendResult(sent=rpc.SentMessage(id=message.body.decode(errors="replace")))
        for message in messages
    ]


class OddServer:
    """Answers sends and deletes. `talk` is what it does with a stream of sends; without one it doesn't
    know streams."""

    def __init__(self, talk: Talk | None = None) -> None:
        self.calls: list[str] = []
        """The methods that were called, a stream once."""
        self.cancels = 0
        """So many deletes are ended as by a server that stops."""
        self._talk = talk
        self._server = grpc.server(ThreadPoolExecutor(32))
        self._server.add_generic_rpc_handlers((self._handler(),))
        self.url = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"

    def _handler(self) -> grpc.GenericRpcHandler:
        methods: dict[str, Any] = {
            "Send": grpc.unary_unary_rpc_method_handler(
                self._send, rpc.SendRequest.FromString, rpc.SendResponse.SerializeToString
            ),
            "Delete": grpc.unary_unary_rpc_method_handler(
                self._delete, rpc.DeleteRequest.FromString, rpc.DeleteResponse.SerializeToString
            ),
        }
        if self._talk is not None:
            methods["StreamSend"] = grpc.stream_stream_rpc_method_handler(
                self._stream_send,
                rpc.StreamSendRequest.FromString,
                lambda response: (
                    response if isinstance(response, bytes) else response.SerializeToString()
                ),
            )
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    def _send(self, request: rpc.SendRequest, _: grpc.ServicerContext) -> rpc.SendResponse:
        self.calls.append("Send")
        return rpc.SendResponse(results=_ids(request.messages))

    def _delete(self, request: rpc.DeleteRequest, context: grpc.ServicerContext) -> rpc.DeleteResponse:
        self.calls.append("Delete")
        if self.cancels:
            self.cancels -= 1
            context.abort(grpc.StatusCode.CANCELLED, "")
        return rpc.DeleteResponse(results=[rpc.DeleteResult() for _ in request.targets])

    def _stream_send(self, requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        self.calls.append("StreamSend")
        assert self._talk is not None
        yield from self._talk(requests, context)

    def start(self) -> None:
        self._server.start()

    def stop(self) -> None:
        self._server.stop(0).wait()


@contextlib.contextmanager
def odd_server(talk: Talk | None = None) -> Iterator[OddServer]:
    server = OddServer(talk)
    server.start()
    try:
        yield server
    finally:
        server.stop()


class Caller(Protocol):
    """A client whose calls go on beside the test."""

    def send(self, body: str, *, queue: str = "jobs", timeout: float = PATIENCE) -> Future[str]: ...

    def delete(
        self, receipt: str, *, queue: str = "jobs", timeout: float = PATIENCE
    ) -> Future[None]: ...

    def running(self) -> list[str]:
        """Return the names of the threads or tasks that work for it."""

    def close(self) -> None: ...


class ThreadCaller:
    def __init__(self, url: str, retry: RetryPolicy | None = None) -> None:
        self._before = set(threading.enumerate())
        self.client = spoolrack.connect(url, timeout=PATIENCE, retry=retry)
        self._pool = ThreadPoolExecutor(32)

    def send(self, body: str, *, queue: str = "jobs", timeout: float = PATIENCE) -> Future[str]:
        return self._pool.submit(self.client.queue(queue).send, body, timeout=timeout)

    def delete(self, receipt: str, *, queue: str = "jobs", timeout: float = PATIENCE) -> Future[None]:
        return self._pool.submit(self.client.queue(queue).delete, receipt, timeout=timeout)

    def running(self) -> list[str]:
        return [
            thread.name
            for thread in threading.enumerate()
            if thread not in self._before
            and not thread.name.startswith(("ThreadPoolExecutor", "spoolrack-read", "spoolrack-spare"))
        ]

    def close(self) -> None:
        self.client.close()
        self._pool.shutdown()


class TaskCaller:
    def __init__(self, url: str, retry: RetryPolicy | None = None) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

        async def connect() -> aio.Client:
            return aio.connect(url, timeout=PATIENCE, retry=retry)

        self.client = self._begin(connect()).result(PATIENCE)

    def _begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def send(self, body: str, *, queue: str = "jobs", timeout: float = PATIENCE) -> Future[str]:
        return self._begin(self.client.queue(queue).send(body, timeout=timeout))

    def delete(self, receipt: str, *, queue: str = "jobs", timeout: float = PATIENCE) -> Future[None]:
        return self._begin(self.client.queue(queue).delete(receipt, timeout=timeout))

    def running(self) -> list[str]:
        return [
            name for task in asyncio.all_tasks(self._loop) if (name := task.get_name())[:4] != "Task"
        ]

    def close(self) -> None:
        if self._thread.is_alive():
            self._begin(self.client.close()).result(PATIENCE)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(PATIENCE)
            self._loop.close()


Connect = Callable[..., Caller]
CALLERS: dict[str, Connect] = {"threads": ThreadCaller, "tasks": TaskCaller}
