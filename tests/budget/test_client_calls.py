"""A lone send, receive and delete call few functions of the client, in the caller and in its threads.

The blocking client is counted: it is the asynchronous one and a function around it.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import spoolrack
from spoolrack._transports.grpc_streams import RequestStream
from spoolrack.testing import running_server

PACKAGE = Path(spoolrack.__file__).parent
ROUNDS = 60
CEILINGS = {"send": 25, "receive": 42, "delete": 27, "ack": 5, "life of a stream": 88}
"""Calls of functions, properties, comprehensions and generators of the client, in all its threads; not
those of gRPC and of tracing. A ceiling may only fall: lower it when a change has made the count
smaller. A receive's was 29, and a life's 84, before the main thread left its calls of gRPC to another
one, so that Ctrl-C can't interrupt gRPC between two instructions that belong together."""
LAYERS = {"send": 5, "delete": 5}
"""Coroutines from the queue's or the message's method to the frame on a stream, both included."""


class Profile:
    """Counts the calls of the client's functions in this thread and in all that start from now on."""

    def __init__(self) -> None:
        self._calls: list[str] = []
        self._is_on = False
        self.layers = 0
        """Coroutines above the last request of a stream."""
        threading.setprofile(self._on_call)
        sys.setprofile(self._on_call)

    def _on_call(self, frame: FrameType, event: str, argument: Any) -> None:
        if self._is_on and event == "call":
            path = Path(frame.f_code.co_filename)
            # Other tests of this process may have begun to trace.
            if path.is_relative_to(PACKAGE) and path.name != "tracing.py":
                self._calls.append(f"{path.relative_to(PACKAGE)}:{frame.f_code.co_qualname}")
            if frame.f_code is RequestStream.request.__code__:
                self.layers = coroutines_of(frame)

    def calls_of(self, call: Callable[[], Any]) -> Counter[str]:
        self._calls.clear()
        self._is_on = True
        try:
            call()
        finally:
            self._is_on = False
        return Counter(self._calls)

    def end(self) -> None:
        threading.setprofile(None)
        sys.setprofile(None)


def coroutines_of(frame: FrameType | None) -> int:
    """Count the coroutines that are on the stack of a frame."""
    count = 0
    while frame is not None:
        count += bool(frame.f_code.co_flags & inspect.CO_COROUTINE)
        frame = frame.f_back
    return count


@pytest.fixture(scope="module")
def counted() -> dict[str, Counter[str]]:
    with running_server() as server:
        profile = Profile()
        try:
            with server.client() as client:
                client.create_queue("q")
                queue = client.queue("q")
                # The first calls do work that is done once. How many steps a wait takes depends on the
                # other threads: the least of several counts is the operation's own.
                rounds = [counts_of_calls(profile, queue) for _ in range(ROUNDS)]
                with queue.messages() as stream:
                    lives = [counts_of_a_stream(profile, queue, stream) for _ in range(ROUNDS)]
                return {
                    operation: min((each[operation] for each in found), key=Counter.total)
                    for found in (rounds, lives)
                    for operation in found[0]
                }
        finally:
            profile.end()


def counts_of_calls(profile: Profile, queue: spoolrack.Queue) -> dict[str, Counter[str]]:
    found: list[spoolrack.Message] = []
    return {
        "send": profile.calls_of(lambda: queue.send(b"x")),
        "receive": profile.calls_of(lambda: found.extend(queue.receive())),
        "delete": profile.calls_of(lambda: found.pop().delete()),
    }


def counts_of_a_stream(
    profile: Profile, queue: spoolrack.Queue, stream: spoolrack.MessageStream
) -> dict[str, Counter[str]]:
    def live() -> None:
        queue.send(b"x")
        next(stream).delete()

    live()
    counts = {"life of a stream": profile.calls_of(live)}
    queue.send_many([b"x"] * 3)
    first, second, third = (next(stream) for _ in range(3))
    stream.ack(first)  # It starts the thread; the next acks share its call.
    counts["ack"] = profile.calls_of(lambda: stream.ack(second))
    stream.ack(third)
    return counts


@pytest.mark.parametrize("operation", CEILINGS)
def test_a_lone_operation_calls_no_more_functions_of_the_client_than_its_ceiling(
    counted: dict[str, Counter[str]], operation: str
) -> None:
    calls = counted[operation]

    assert 0 < calls.total() <= CEILINGS[operation], calls.most_common()


def test_a_lone_send_and_delete_reach_their_stream_through_few_coroutines() -> None:
    with running_server() as server, server.client() as client:
        client.create_queue("q")
        queue, profile = client.queue("q"), Profile()
        try:
            profile.calls_of(lambda: queue.send(b"x"))
            sent = profile.layers
            (message,) = queue.receive()
            profile.calls_of(message.delete)
        finally:
            profile.end()
    assert {"send": sent, "delete": profile.layers} == LAYERS
