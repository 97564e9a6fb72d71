"""Fuzzing over gRPC: the server answers every request with a reason of its list, and stays as it was.

SPOOLRACK_FUZZ=5000 asks so often by each method, and differently each time.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from spoolrack_server.wire.contract import METHODS
from spoolrack_server.wire.status import CODES, INTERNAL

from tests.proof.fuzz.anything import QUEUES, requests, together
from tests.proof.fuzz.fuzz_rig import Fuzzed
from tests.support import STUCK

KINDS: Final = tuple(METHODS.values())
TRIES: Final = int(os.environ.get("SPOOLRACK_FUZZ", "25"))
IN_TIME: Final = 0.3
"""Seconds after which a stream that waits for messages has been given its chance."""
FUZZ: Final = settings(
    max_examples=TRIES,
    derandomize="SPOOLRACK_FUZZ" not in os.environ,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    database=None,
)
NOTHING: Final = {grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED}
"""How a client's own end of a call shows."""


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fuzzed]:
    with Fuzzed(tmp_path_factory.mktemp("fuzz"), QUEUES) as fuzzed:
        yield fuzzed


def path(method: MethodDescriptor) -> str:
    return f"/{method.containing_service.full_name}/{method.name}"


def ask(channel: grpc.Channel, method: MethodDescriptor, raw: list[bytes]) -> grpc.RpcError | None:
    """Send any bytes; return the error of the call."""
    kind = ("stream" if method.client_streaming else "unary") + (
        "_stream" if method.server_streaming else "_unary"
    )
    call: Any = getattr(channel, kind)(path(method))
    try:
        timeout = IN_TIME if method.name == "StreamReceive" else STUCK
        answer = call(iter(raw) if method.client_streaming else raw[0], timeout=timeout)
        if method.server_streaming:
            for _ in answer:
                pass
    except grpc.RpcError as error:
        return error
    return None


def check(error: grpc.RpcError | None) -> None:
    """Check that an error has a reason of the list, and is no internal error."""
    if error is None or error.code() in NOTHING:
        return
    raw = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin")
    assert raw is not None, error
    info = ErrorInfo()
    assert Status.FromString(raw).details[0].Unpack(info)
    assert CODES[info.reason] is error.code(), error
    assert info.reason != INTERNAL.reason, error
    assert error.details()


def waits_not(message: Message) -> Message:
    """Return the request without a wait for messages that never come."""
    if "wait" in message.DESCRIPTOR.fields_by_name:
        message.ClearField("wait")
    if "visibility_timeout" in message.DESCRIPTOR.fields_by_name:
        message.visibility_timeout.CopyFrom(Duration(seconds=1))
    return message


@pytest.mark.parametrize("method", KINDS, ids=lambda method: method.name)
def test_any_request_is_answered_or_refused_with_a_reason(
    fuzzed: Fuzzed, method: MethodDescriptor
) -> None:
    @FUZZ
    @given(together(requests(method.input_type), 4 if method.client_streaming else 1))
    def fuzz(made: Sequence[Message]) -> None:
        check(ask(fuzzed.channel, method, [waits_not(one).SerializeToString() for one in made]))

    fuzzed.fill()
    fuzz()
    fuzzed.check()


@pytest.mark.parametrize("method", KINDS, ids=lambda method: method.name)
def test_any_bytes_are_answered_or_refused_with_a_reason(
    fuzzed: Fuzzed, method: MethodDescriptor
) -> None:
    @FUZZ
    @given(st.lists(st.binary(max_size=200), min_size=1, max_size=3))
    def fuzz(raw: list[bytes]) -> None:
        check(ask(fuzzed.channel, method, raw))

    fuzzed.fill()
    fuzz()
    fuzzed.check()


@FUZZ
@given(name=st.text(st.characters(codec="ascii", exclude_characters="\0"), max_size=60))
def test_any_method_that_isnt_there_is_unimplemented(fuzzed: Fuzzed, name: str) -> None:
    known = {method.name for method in KINDS}
    if re.fullmatch(r"\w*", name) is None or name in known:
        return
    call = fuzzed.channel.unary_unary(f"/spoolrack.v1.QueueService/{name}")
    with pytest.raises(grpc.RpcError) as refused:
        call(b"", timeout=STUCK)
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_nothing_is_left_of_it_and_the_folders_are_sound(fuzzed: Fuzzed) -> None:
    """The last one: it ends the server."""
    fuzzed.check_for_leaks()
    fuzzed.check_folders()
    assert Path(fuzzed.root).is_dir()
