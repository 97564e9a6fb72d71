"""A lone send, receive and delete call few functions of the client, in the caller and in its threads.

The blocking client is counted: it is the asynchronous one and a function around it.
"""

from __future__ import annotations

import inspect
from collections import Counter
from pathlib import Path
from types import FrameType

import pytest
import spoolrack
from spoolrack._transports.grpc_streams import RequestStream
from spoolrack.testing import running_server

from tests.support.function_calls import FunctionCalls

PACKAGE = Path(spoolrack.__file__).parent
ROUNDS = 60
CEILINGS = {"send": 25, "receive": 42, "delete": 27, "ack": 5, "life of a stream": 88}
"""Calls of functions, properties, comprehensions and generators of the client, in all its threads; not
those of gRPC and of tracing. A ceiling may only fall: lower it when a change has made the count
smaller. A receive's was 29, and a life's 84, before the main thread left its calls of gRPC to another
one, so that Ctrl-C can't interrupt gRPC between two instructions that belong together."""
LAYERS = {"send": 5, "delete": 5}
"""Coroutines from the queue's or the message's method to the frame on a stream, both included."""


def function_of_the_client(frame: FrameType) -> str | None:
    path = Path(frame.f_code.co_filename)
    # Other tests of this process may have begun to trace.
    if not path.is_relative_to(PACKAGE) or path.name == "tracing.py":
        return None
    return f"{path.relative_to(PACKAGE)}:{frame.f_code.co_qualname}"


def coroutines_of(frame: FrameType | None) -> int:
    """Count the coroutines that are on the stack of a frame."""
    count = 0
    while frame is not None:
        count += bool(frame.f_code.co_flags & inspect.CO_COROUTINE)
        frame = frame.f_back
    return count


@pytest.fixture(scope="module")
def counted() -> dict[str, Counter[str]]:
    with (
        running_server() as server,
        FunctionCalls(function_of_the_client) as calls,
        server.client() as client,
    ):
        client.create_queue("q")
        queue = client.queue("q")
        # The first calls do work that is done once. How many steps a wait takes depends on the
        # other threads: the least of several counts is the operation's own.
        rounds = [counts_of_calls(calls, queue) for _ in range(ROUNDS)]
        with queue.messages() as stream:
            lives = [counts_of_a_stream(calls, queue, stream) for _ in range(ROUNDS)]
    return {
        operation: min((each[operation] for each in found), key=Counter.total)
        for found in (rounds, lives)
        for operation in found[0]
    }


def counts_of_calls(calls: FunctionCalls, queue: spoolrack.Queue) -> dict[str, Counter[str]]:
    found: list[spoolrack.Message] = []
    return {
        "send": calls.during(lambda: queue.send(b"x")),
        "receive": calls.during(lambda: found.extend(queue.receive())),
        "delete": calls.during(lambda: found.pop().delete()),
    }


def counts_of_a_stream(
    calls: FunctionCalls, queue: spoolrack.Queue, stream: spoolrack.MessageStream
) -> dict[str, Counter[str]]:
    def live() -> None:
        queue.send(b"x")
        next(stream).delete()

    live()
    counts = {"life of a stream": calls.during(live)}
    queue.send_many([b"x"] * 3)
    first, second, third = (next(stream) for _ in range(3))
    stream.ack(first)  # It starts the thread; the next acks share its call.
    counts["ack"] = calls.during(lambda: stream.ack(second))
    stream.ack(third)
    return counts


@pytest.mark.parametrize("operation", CEILINGS)
def test_a_lone_operation_calls_no_more_functions_of_the_client_than_its_ceiling(
    counted: dict[str, Counter[str]], operation: str
) -> None:
    calls = counted[operation]

    assert 0 < calls.total() <= CEILINGS[operation], calls.most_common()


def test_a_lone_send_and_delete_reach_their_stream_through_few_coroutines() -> None:
    layers: list[int] = []

    def note_request(frame: FrameType) -> None:
        if frame.f_code is RequestStream.request.__code__:
            layers.append(coroutines_of(frame))

    with running_server() as server, FunctionCalls(note_request), server.client() as client:
        client.create_queue("q")
        queue = client.queue("q")
        queue.send(b"x")
        sent = layers[-1]
        (message,) = queue.receive()
        message.delete()
    assert {"send": sent, "delete": layers[-1]} == LAYERS
