"""Responses that are joined by column say what protobuf's own classes would."""

from __future__ import annotations

from google.protobuf.empty_pb2 import Empty
from hypothesis import given
from hypothesis import strategies as st
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_server.wire import convert, encoding
from spoolrack_server.wire.status import status_of
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import MessageNotFound, StaleReceipt
from spoolrack_store.model.message_ids import sent_at
from spoolrack_store.model.operations import Delivery, SendResults

ID = "018bcfe5-6800-7194-90e5-78aa96119{:03x}"
LATER = "018bcfe5-6801-7194-90e5-78aa96119{:03x}"
ERROR = MessageNotFound(queue="q", id=ID.format(0))

times = st.integers(1, 2**42).map(Millis)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
attributes = st.dictionaries(texts, st.one_of(texts, st.binary(max_size=300)), max_size=3)


@given(st.integers(0, 2**64 - 1))
def test_a_varint_is_protobufs(value: int) -> None:
    expected = rpc.StreamSendResponse(
        correlation_id=value - 2**64 if value >= 2**63 else value, response=rpc.SendResponse()
    )
    found = rpc.StreamSendResponse.FromString(encoding.correlated(value, b""))
    assert found == expected


@given(
    st.integers(-(2**63), 2**63 - 1),
    st.lists(st.sampled_from([ID, LATER, "error"]), min_size=1, max_size=300),
    st.sets(st.integers(0, 5)),
)
def test_the_response_to_a_send_has_a_result_for_each_message(
    correlation_id: int, kinds: list[str], duplicates: set[int]
) -> None:
    results = [ERROR if kind == "error" else kind.format(at) for at, kind in enumerate(kinds)]
    stored = SendResults(results=results, sent_at=Millis(0), duplicates=duplicates)
    expected = rpc.StreamSendResponse(correlation_id=correlation_id, response=rpc.SendResponse())
    for position, result in enumerate(results):
        made = expected.response.results.add()
        if isinstance(result, str):
            made.sent.id = result
            made.sent.send_time.CopyFrom(convert.timestamp(sent_at(result)))
            made.sent.duplicate = position in duplicates
        else:
            made.error.CopyFrom(status_of(result))
    raw = encoding.send_response(stored)
    assert rpc.SendResponse.FromString(raw) == expected.response
    streamed = encoding.correlated(correlation_id, raw)
    assert rpc.StreamSendResponse.FromString(streamed) == expected


@given(st.lists(st.booleans(), min_size=1, max_size=300))
def test_the_response_to_a_delete_has_a_result_for_each_target(done: list[bool]) -> None:
    stale = StaleReceipt(id=ID.format(0))
    raw = encoding.delete_response([None if each else stale for each in done])
    expected = rpc.DeleteResponse(
        results=[
            rpc.DeleteResult(deleted=Empty()) if each else rpc.DeleteResult(error=status_of(stale))
            for each in done
        ]
    )
    assert rpc.DeleteResponse.FromString(raw) == expected


def test_a_request_that_failed_as_a_whole_has_its_error() -> None:
    raw = encoding.failed(7, status_of(ERROR))
    expected = rpc.StreamSendResponse(correlation_id=7, error=status_of(ERROR))
    assert rpc.StreamSendResponse.FromString(raw) == expected


@st.composite
def deliveries(draw: st.DrawFn) -> Delivery:
    bodies = draw(st.lists(st.binary(max_size=400), min_size=1, max_size=5))
    count = len(bodies)
    queue = "q" * draw(st.integers(1, 80))
    return Delivery(
        queue=queue,
        sent_at=draw(times),
        receive_count=draw(st.integers(1, 10**9 - 1)),
        first_received_at=draw(st.none() | times),
        lease_expires_at=draw(times),
        ids=[ID.format(at) for at in range(count)],
        receipts=[f"{queue}:{ID.format(at)}~0123" for at in range(count)],
        bodies=bodies,
        attributes=draw(st.dictionaries(st.integers(0, count - 1), attributes)),
        groups=draw(st.dictionaries(st.integers(0, count - 1), st.text(min_size=1, max_size=128))),
    )


@given(st.lists(deliveries(), max_size=4), times)
def test_the_response_to_a_receive_has_all_that_is_known_of_each_message(
    leased: list[Delivery], wall: Millis
) -> None:
    expected = rpc.ReceiveResponse()
    for delivery in leased:
        expected.messages.extend(map(convert.message, delivery.messages()))
    if leased:
        left = max(1, min(delivery.lease_expires_at for delivery in leased) - wall)
        expected.visibility_timeout.CopyFrom(convert.duration(Millis(left)))
    assert rpc.ReceiveResponse.FromString(encoding.deliveries(leased, wall)) == expected
    if leased:
        framed = rpc.StreamReceiveResponse(received=expected)
        raw = encoding.deliveries(leased, wall, in_stream=True)
        assert rpc.StreamReceiveResponse.FromString(raw) == framed
    assert all(message.state == pb.MESSAGE_STATE_LEASED for message in expected.messages)
