"""A server that fails as it is told to: with any reason of the contract, as Spoolrack's own would.

Most reasons can be met at a real server. Some need a disk that fails, or millions of messages: so that
their statuses are read in each language too, this answers GetQueue with the failure that the queue's
name stands for. The bytes come from the server's own table.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Final, Never

import grpc
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack.v1.queue_service_pb2_grpc import QueueServiceServicer, add_QueueServiceServicer_to_server
from spoolrack_server.wire.status import CODES, INTERNAL, Failure, failure_of
from spoolrack_store.model import errors
from spoolrack_store.model.errors import StoreError

STRANGE: Final = "Ω, 世界\n" * 40
"""Text that no header carries as it is, and longer than a fact may be."""

NO_ANSWER: Final = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
)


def _kinds(kind: type[StoreError]) -> Iterator[type[StoreError]]:
    for below in kind.__subclasses__():
        yield below
        yield from _kinds(below)


def failures() -> dict[str, Failure]:
    """Return each failure that a client may meet, by its reason, with facts that are hard to carry."""
    found = {INTERNAL.reason: INTERNAL}
    for kind in _kinds(errors.StoreError):
        if kind.reason in CODES:
            failure = failure_of(kind(**_facts_of(kind)))
            assert failure is not None
            found[kind.reason] = failure
    assert found.keys() == CODES.keys()
    return found


def _facts_of(kind: type[StoreError]) -> dict[str, object]:
    names = [part.split("}")[0].split("!")[0] for part in (kind.__doc__ or "").split("{")[1:]]
    return dict.fromkeys(names, STRANGE)


class _Failing(QueueServiceServicer):
    def __init__(self, failures: dict[str, Failure]) -> None:
        self._failures = failures

    def GetQueue(self, request: rpc.GetQueueRequest, context: grpc.ServicerContext) -> Never:  # noqa: N802
        failure = self._failures[request.name]
        context.set_trailing_metadata(failure.trailing_metadata())
        context.abort(failure.code, failure.message)
        raise AssertionError("aborted")


class _Breaking(QueueServiceServicer):
    def __init__(self) -> None:
        self._codes = list(NO_ANSWER)

    def Send(self, request: rpc.SendRequest, context: grpc.ServicerContext) -> rpc.SendResponse:  # noqa: N802
        if self._codes:
            context.abort(self._codes.pop(), "no answer came")
        sent = rpc.SendResult(sent=rpc.SentMessage(id="1"))
        return rpc.SendResponse(results=[sent] * len(request.messages))


def failing_server() -> AbstractContextManager[str]:
    """Return its address."""
    return _serving(_Failing(failures()))


def breaking_server() -> AbstractContextManager[str]:
    """Return the address of one whose first sends fail as without an answer: see `NO_ANSWER`."""
    return _serving(_Breaking())


@contextmanager
def _serving(servicer: QueueServiceServicer) -> Iterator[str]:
    server = grpc.server(ThreadPoolExecutor(4))
    add_QueueServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(grace=None).wait()
