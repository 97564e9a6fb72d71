"""The messages of the contract: for each request and response of each RPC, in JSON and in binary.

The vectors of each type are made from the contract itself, so that a new RPC or field has its vectors
without a change here: one in which nothing is set, and one for each choice of a oneof in which
everything is. By hand come those that a codec may get wrong. Knows nothing of servers.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor, OneofDescriptor
from google.protobuf.json_format import MessageToJson
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_server.wire.contract import METHODS

NOT_TEXT: Final = bytes(range(256))
UNICODE: Final = "Grüße, 世界 \N{SNAKE} \u0000 \u2028"
NUMBERS: Final = {FieldDescriptor.CPPTYPE_INT32: 1_000_000, FieldDescriptor.CPPTYPE_INT64: 1 << 40}
TEXTS: Final = {
    "queue": "jobs",
    "name": "jobs",
    "id": "01890a5d-ac96-774b-bcce-b302099a8057",
    "receipt": "jobs:01890a5d-ac96-774b-bcce-b302099a8057~0123456789abc",
    "stream": "reader-1",
    "stage": "stage-1",
    "stages": "stage-1",
    "writer": "writer-1",
    "reason": "QUEUE_FULL",
    "prefix": "jo",
}

"""Which member of each oneof is set, by the oneof's full name."""


def _full_status() -> Status:
    """Return an error with a delay. Its details are in the order of their keys."""
    status = Status(code=8, message="The queue jobs is full, with 5 of 5 messages.")
    info = ErrorInfo(
        reason="QUEUE_FULL",
        domain="spoolrack",
        metadata={"queue": "jobs", "held": "5", "limit": "5", "unit": "messages"},
    )
    status.details.add().Pack(info, deterministic=True)
    status.details.add().Pack(RetryInfo(retry_delay={"seconds": 1}))
    return status


FULL: Final = _full_status()


def vectors() -> list[dict[str, Any]]:
    """Return each: `name`, `type`, `json` (canonical protobuf JSON) and `binary` (base64)."""
    made = []
    for kind in types():
        made.append(_vector(f"{kind.full_name}, empty", GetMessageClass(kind)()))
        for number, message in enumerate(_full(kind)):
            made.append(_vector(f"{kind.full_name}, full {number + 1}", message))
    return [*made, *(_vector(name, message) for name, message in _by_hand())]


def types() -> list[Descriptor]:
    """Return the requests and responses of all RPCs, in the contract's order."""
    found = [kind for method in METHODS.values() for kind in (method.input_type, method.output_type)]
    return list({kind.full_name: kind for kind in found}.values())


def serialized(message: Message) -> bytes:
    """With the entries of maps in the order of their keys, and fields in that of their numbers."""
    return message.SerializeToString(deterministic=True)


def as_json(message: Message) -> dict[str, Any]:
    # A map's entries come in any order.
    found: dict[str, Any] = json.loads(MessageToJson(message, sort_keys=True))
    return found


def _vector(name: str, message: Message) -> dict[str, Any]:
    return {
        "name": name,
        "type": message.DESCRIPTOR.full_name,
        "json": as_json(message),
        "binary": base64.b64encode(serialized(message)).decode(),
    }


def _full(kind: Descriptor) -> Iterator[Message]:
    """With every field set, and every choice of every oneof below in one of them."""
    for number in range(max([1, *(len(oneof.fields) for oneof in _oneofs(kind, set()))])):
        message = GetMessageClass(kind)()
        _fill(message, number)
        yield message


def _oneofs(kind: Descriptor, seen: set[str]) -> Iterator[OneofDescriptor]:
    if kind.full_name in seen:
        return
    seen.add(kind.full_name)
    yield from kind.oneofs
    for field in kind.fields:
        if field.message_type is not None:
            yield from _oneofs(field.message_type, seen)


def _fill(message: Any, choice: int) -> None:
    kind = message.DESCRIPTOR
    match kind.full_name:
        case "google.protobuf.Duration":
            message.FromMilliseconds(90_061_500)
            return
        case "google.protobuf.Timestamp":
            message.FromMilliseconds(1_767_323_045_678)
            return
        case "google.protobuf.FieldMask":
            message.paths.extend(["visibility_timeout", "max_messages"])
            return
        case "google.rpc.Status":
            message.CopyFrom(FULL)
            return
    for field in kind.fields:
        oneof = field.containing_oneof
        if oneof is not None and oneof.fields[choice % len(oneof.fields)] is not field:
            continue
        _fill_field(message, field, choice)


def _fill_field(message: Any, field: FieldDescriptor, choice: int) -> None:
    is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
    if is_map:
        value = field.message_type.fields_by_name["value"]
        is_text = field.message_type.fields_by_name["key"].type == FieldDescriptor.TYPE_STRING
        for key in ("one", UNICODE) if is_text else (0, 2**31 - 1):
            if value.message_type is not None:
                _fill(getattr(message, field.name)[key], choice)
            else:
                getattr(message, field.name)[key] = _scalar(value)
    elif field.message_type is not None and field.is_repeated:
        # One that is full, unless it is of the same kind, and one in which nothing is set.
        if field.message_type is not message.DESCRIPTOR:
            _fill(getattr(message, field.name).add(), choice)
        getattr(message, field.name).add()
    elif field.message_type is not None:
        getattr(message, field.name).SetInParent()  # One without fields is set, too.
        _fill(getattr(message, field.name), choice)
    elif field.is_repeated:
        getattr(message, field.name).extend([_scalar(field), _scalar(field)])
    else:
        setattr(message, field.name, _scalar(field))


def _scalar(field: FieldDescriptor) -> Any:
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_STRING:
            if field.type == FieldDescriptor.TYPE_BYTES:
                return NOT_TEXT
            return TEXTS.get(field.name, UNICODE)
        case FieldDescriptor.CPPTYPE_ENUM:
            return field.enum_type.values[-1].number
        case FieldDescriptor.CPPTYPE_BOOL:
            return True
        case FieldDescriptor.CPPTYPE_DOUBLE:
            return 0.25 + field.number
        case number:
            return NUMBERS[number] + field.number


def _by_hand() -> Iterator[tuple[str, Message]]:
    def sending(**fields: Any) -> rpc.SendRequest:
        return rpc.SendRequest(queue="jobs", messages=[pb.OutgoingMessage(**fields)])

    yield "a body that is not UTF-8", sending(body=b"\xff\xfe\x00\xc3\x28")
    yield "an empty body and no attributes, which is a message all the same", sending()
    yield (
        "an empty text and no bytes, which are set all the same",
        sending(
            attributes={"text": pb.Attribute(string_value=""), "bytes": pb.Attribute(binary_value=b"")}
        ),
    )
    yield "an attribute without a value", sending(attributes={"neither": pb.Attribute()})
    yield "a delay of nothing, which is not the queue's", sending(delay={})
    yield "a delay of a millisecond", sending(delay={"nanos": 1_000_000})
    yield "a body of 100,000 bytes", sending(body=NOT_TEXT * 391)
    yield (
        "the largest correlation id",
        rpc.StreamSendRequest(correlation_id=(1 << 63) - 1, request=rpc.SendRequest(queue="jobs")),
    )
    yield "the smallest correlation id", rpc.StreamSendResponse(correlation_id=-(1 << 63))
    yield (
        "a view, which shows all of each body",
        rpc.ListMessagesRequest(queue="jobs", view=rpc.MESSAGE_VIEW_FULL),
    )
    yield (
        "several states",
        rpc.ListMessagesRequest(
            queue="jobs", states=[pb.MESSAGE_STATE_READY, pb.MESSAGE_STATE_DELAYED]
        ),
    )
    yield "a state of a later version", rpc.GetMessageResponse(message=pb.Message(state=99))  # type: ignore[arg-type]
    yield (
        "a moment before 1970",
        rpc.GetMessageResponse(message=pb.Message(send_time={"seconds": -1, "nanos": 999_000_000})),
    )
    yield (
        "fields of a later version, which must not hurt",
        rpc.GetQueueResponse.FromString(
            rpc.GetQueueResponse(queue=pb.Queue(name="jobs")).SerializeToString()
            + b"\xfa\x7f\x05later"  # the field 2047
        ),
    )
    yield (
        "results that are mixed",
        rpc.SendResponse(
            results=[
                rpc.SendResult(sent=rpc.SentMessage(id=TEXTS["id"], duplicate=True)),
                rpc.SendResult(error=FULL),
                rpc.SendResult(),
            ]
        ),
    )
