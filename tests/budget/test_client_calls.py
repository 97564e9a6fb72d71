"""A lone send, receive and delete call few functions of Python, in caller and threads of the client.

The blocking client is counted, in another thread than the main one: it is the asynchronous client and a
function around it. Counted are its own functions, gRPC's and those of the standard library.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

import pytest
import spoolrack
from spoolrack._transports.grpc_streams import RequestStream
from spoolrack.testing import running_server

from tests.support.function_calls import FunctionCalls

ROUNDS = 60
CEILINGS = {"send": 45, "receive": 55, "delete": 46, "ack": 6, "life of a stream": 154}
"""Calls of functions, properties, comprehensions and generators in the threads of client and caller. A
ceiling may only fall: lower it when a change has made the count smaller. A send was 82 and a delete 78
before a caller wrote to gRPC by itself."""
LAYERS = {"send": 4, "receive": 4, "delete": 4}
"""Coroutines from the queue's or the message's method to the request, both included."""
OF_A_WAIT = ("threading.py:current_thread", "threading.py:main_thread")
"""Not counted: gRPC calls them each time that it looks for an event, which depends on other threads."""
OF_THE_SERVER = (
    "spoolrack-server",
    "spoolrack-committer",
    "spoolrack-sync",
    "spoolrack-reaper",
    "asyncio",
)
"""Beginnings of the names of the threads of the server, which is in this process."""


def function_of_a_client(frame: FrameType) -> str | None:
    code, thread = frame.f_code, threading.current_thread().name
    if code.co_filename == __file__ or thread.startswith(OF_THE_SERVER) or "_poll_wrapper" in thread:
        return None
    name = f"{Path(code.co_filename).name}:{code.co_qualname}"
    return None if name in OF_A_WAIT else name


def of(calls: FunctionCalls, call: Callable[[], object]) -> Counter[str]:
    """Return the calls while `call` runs, without those of the count itself."""
    return calls.during(call) - calls.during(lambda: None)


def coroutines_of(frame: FrameType | None) -> int:
    """Count the coroutines that are on the stack of a frame."""
    count = 0
    while frame is not None:
        count += bool(frame.f_code.co_flags & inspect.CO_COROUTINE)
        frame = frame.f_back
    return count


@pytest.fixture(scope="module", autouse=True)
def without_traces() -> Iterator[None]:
    """Other tests of this process may have imported OpenTelemetry."""
    with patch.dict(sys.modules):
        sys.modules.pop("opentelemetry.trace", None)
        yield


def in_another_thread(
    name_of: Callable[[FrameType], str | None], work: Callable[[FunctionCalls, spoolrack.Queue], Any]
) -> Any:
    """Return what `work` returns in a thread beside the main one."""

    def counted_work() -> Any:
        with running_server() as server, FunctionCalls(name_of) as calls, server.client() as client:
            client.create_queue("q")
            return work(calls, client.queue("q"))

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(counted_work).result()


def counts(calls: FunctionCalls, queue: spoolrack.Queue) -> dict[str, Counter[str]]:
    # The first calls do work that is done once. How many steps a wait takes depends on other threads:
    # the least of several counts is the operation's own.
    rounds = [counts_of_calls(calls, queue) for _ in range(ROUNDS)]
    with queue.messages() as stream:
        lives = [counts_of_a_stream(calls, queue, stream) for _ in range(ROUNDS)]
    return {
        operation: min((each[operation] for each in found), key=Counter.total)
        for found in (rounds, lives)
        for operation in found[0]
    }


@pytest.fixture(scope="module")
def counted() -> Any:
    return in_another_thread(function_of_a_client, counts)


def counts_of_calls(calls: FunctionCalls, queue: spoolrack.Queue) -> dict[str, Counter[str]]:
    found: list[spoolrack.Message] = []
    return {
        "send": of(calls, lambda: queue.send(b"x")),
        "receive": of(calls, lambda: found.extend(queue.receive())),
        "delete": of(calls, lambda: found.pop().delete()),
    }


def counts_of_a_stream(
    calls: FunctionCalls, queue: spoolrack.Queue, stream: spoolrack.MessageStream
) -> dict[str, Counter[str]]:
    def live() -> None:
        queue.send(b"x")
        next(stream).delete()

    live()
    counts = {"life of a stream": of(calls, live)}
    queue.send_many([b"x"] * 3)
    first, second, third = (next(stream) for _ in range(3))
    stream.ack(first)  # It starts the thread; the next acks share its call.
    counts["ack"] = of(calls, lambda: stream.ack(second))
    stream.ack(third)
    return counts


@pytest.mark.parametrize("operation", CEILINGS)
def test_a_lone_operation_calls_no_more_functions_of_the_client_than_its_ceiling(
    counted: dict[str, Counter[str]], operation: str
) -> None:
    calls = counted[operation]

    assert 0 < calls.total() <= CEILINGS[operation], calls.most_common()


def test_a_lone_call_reaches_its_stream_through_few_coroutines() -> None:
    layers: list[int] = []

    def note_request(frame: FrameType) -> None:
        if frame.f_code is RequestStream.begin.__code__:
            layers.append(coroutines_of(frame))

    def send_and_delete(_: FunctionCalls, queue: spoolrack.Queue) -> None:
        queue.send(b"x")
        (message,) = queue.receive()
        message.delete()

    in_another_thread(note_request, send_and_delete)
    assert dict(zip(("send", "receive", "delete"), layers, strict=True)) == LAYERS
