"""Encoding of the responses to sends, deletes and receives by column, in the wire format of Protocol
Buffers.

The messages of a request differ in few fields. The fields that they share are encoded once, and a
response is joined from them: protobuf's own classes cost some microseconds for each message, these
joins a fraction. Field numbers are those of `protos/spoolrack/v1`; the tests compare each response with
protobuf's. (https://protobuf.dev/programming-guides/encoding/)
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from google.rpc.status_pb2 import Status
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import StoreError
from spoolrack_store.model.message_ids import sent_at
from spoolrack_store.model.operations import Delivery, SendResults

from .status import status_of

_TIME_DIGITS: Final = 13
"""Characters of an id that are its time."""
_RESULTS: Final = b"\x0a"
"""The tag of the field `results`, which is the first in each response."""
_RECEIVED: Final = b"\x4a"
"""The tag of `received` in a `StreamReceiveResponse`."""
_LEASED: Final = b"\x50" + bytes([pb.MESSAGE_STATE_LEASED])


@lru_cache(4_096)
def varint(value: int) -> bytes:
    """Return a number that isn't negative as a varint."""
    digits = bytearray()
    while value > 0x7F:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    digits.append(value)
    return bytes(digits)


def field(tag: bytes, content: bytes) -> bytes:
    """Return a field of a type that has a length."""
    return tag + varint(len(content)) + content


def timestamp(moment: Millis) -> bytes:
    """Return the content of a `google.protobuf.Timestamp`."""
    seconds, millis = divmod(moment, 1_000)
    nanos = b"\x10" + varint(millis * 1_000_000) if millis else b""
    return b"\x08" + varint(seconds) + nanos


class ResponseTags(NamedTuple):
    """The tags of the fields in a stream's responses to requests."""

    correlation_id: bytes
    response: bytes
    error: bytes


SEND_TAGS: Final = ResponseTags(b"\x08", b"\x12", b"\x1a")
"""Those of a `StreamSendResponse`, and of a `StreamDeleteResponse`, as these two:"""
ACCEPTS_MORE: Final = b"\x20\x01"
"""`accepts_more`"""
MORE_RESPONSES: Final = b"\x2a"
"""The tag of `more`."""


def correlated(correlation_id: int, response: bytes, tags: ResponseTags = SEND_TAGS) -> bytes:
    """Return the response of a stream: the id of its request, and the response of a unary call."""
    return _id(correlation_id, tags) + tags.response + varint(len(response)) + response


def failed(correlation_id: int, error: Status, tags: ResponseTags = SEND_TAGS) -> bytes:
    """Return the response of a stream to a request that failed as a whole."""
    return _id(correlation_id, tags) + field(tags.error, error.SerializeToString())


def _id(correlation_id: int, tags: ResponseTags) -> bytes:
    if not correlation_id:
        return b""
    return tags.correlation_id + varint(correlation_id & 0xFFFF_FFFF_FFFF_FFFF)


def send_response(stored: SendResults) -> bytes:
    """Return a `SendResponse`."""
    ids: Sequence[Any] = stored.results
    is_plain = not stored.duplicates and all(type(id) is str for id in ids)
    if not is_plain or len({id[:_TIME_DIGITS] for id in ids}) != 1:
        return b"".join(
            field(_RESULTS, _send_result(result, is_duplicate=position in stored.duplicates))
            for position, result in enumerate(ids)
        )
    time = field(b"\x12", timestamp(sent_at(ids[0])))
    # All lengths are below 128: those of ids and times.
    length = 2 + len(ids[0]) + len(time)
    start = bytes((0x0A, 2 + length, 0x0A, length, 0x0A, len(ids[0]))).decode("latin-1")
    end = time.decode("latin-1")
    return f"{start}{(end + start).join(ids)}{end}".encode("latin-1")


def _send_result(result: str | StoreError, *, is_duplicate: bool) -> bytes:
    proto = rpc.SendResult()
    if isinstance(result, StoreError):
        proto.error.CopyFrom(status_of(result))
    else:
        moment = sent_at(result)
        proto.sent.id = result
        proto.sent.send_time.seconds = moment // 1_000
        proto.sent.send_time.nanos = moment % 1_000 * 1_000_000
        proto.sent.duplicate = is_duplicate
    return proto.SerializeToString()


def delete_response(results: Sequence[StoreError | None]) -> bytes:
    """Return a `DeleteResponse`."""
    done = _RESULTS + b"\x02\x12\0"  # an empty message `deleted`
    if not any(results):
        return done * len(results)
    return b"".join(
        done
        if result is None
        else field(_RESULTS, rpc.DeleteResult(error=status_of(result)).SerializeToString())
        for result in results
    )


def deliveries(leased: Collection[Delivery], wall: Millis, *, in_stream: bool = False) -> bytes:
    """Return a `ReceiveResponse` at the Unix time `wall`; `in_stream`: a `StreamReceiveResponse` that
    has it."""
    if not leased:
        return b""
    parts: list[bytes] = []
    for delivery in leased:
        _add_messages(parts, delivery)
    left = max(1, min(delivery.lease_expires_at for delivery in leased) - wall)
    parts.append(field(b"\x12", timestamp(Millis(left))))  # a Duration has the same fields
    if in_stream:
        parts[:0] = (_RECEIVED, varint(sum(map(len, parts))))
    return b"".join(parts)


def _add_messages(parts: list[bytes], delivery: Delivery) -> None:
    shared = field(b"\x2a", timestamp(delivery.sent_at)) + b"\x30" + varint(delivery.receive_count)
    if delivery.first_received_at is not None:
        shared += field(b"\x3a", timestamp(delivery.first_received_at))
    if delivery.priority:
        shared += b"\x70" + varint(delivery.priority)
    shared += field(b"\x4a", timestamp(delivery.lease_expires_at)) + _LEASED
    attributes, groups = delivery.attributes, delivery.groups
    # All ids of a delivery are of one length, and so are all receipts.
    id_length, receipt_length = len(delivery.ids[0]), len(delivery.receipts[0])
    id_tag, receipt_tag = b"\x0a" + varint(id_length), b"\x42" + varint(receipt_length)
    before = between = after = b""
    length_before, extra_before = -1, None
    columns = zip(delivery.ids, delivery.receipts, delivery.bodies, strict=True)
    for position, (id, receipt, body) in enumerate(columns):
        extra = b""
        if attributes and position in attributes:
            extra = _attributes(attributes[position])
        if groups and position in groups:
            extra += field(b"\x62", groups[position].encode())
        if len(body) != length_before or extra != extra_before:
            length_before, extra_before = len(body), extra
            body_length = varint(len(body))
            # A body in a file of its own may be left out.
            size = body_length if delivery.external_size is None else varint(delivery.external_size)
            between = b"\x12" + body_length
            after = b"\x20" + size + shared + extra + receipt_tag
            length = len(id_tag) + id_length + len(between) + len(body) + len(after) + receipt_length
            before = b"\x0a" + varint(length) + id_tag
        parts += (before, id.encode("ascii"), between, body, after, receipt.encode("ascii"))


def _attributes(attributes: Any) -> bytes:
    entries: list[bytes] = []
    for name, value in attributes.items():
        held = field(b"\x0a", value.encode()) if isinstance(value, str) else field(b"\x12", value)
        entries.append(field(b"\x1a", field(b"\x0a", name.encode()) + field(b"\x12", held)))
    return b"".join(entries)
