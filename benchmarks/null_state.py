"""The null server's state in memory, and its form for a client. Values, and no promises."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from spoolrack.v1 import columns_pb2
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import reservation_service_pb2 as reserved
from spoolrack.v1 import staging_service_pb2 as staged


@dataclass(slots=True)
class StoredMessage:
    """One message: its id is made when it is first looked at."""

    body: pb.OutgoingMessage
    sent_at: float
    id: str
    receives: int = 0


@dataclass(slots=True)
class Hold:
    """One reservation."""

    queue: str
    messages: list[StoredMessage]
    receives: list[int]
    """Of each message, with this hold."""
    size: int
    span: float
    due: float
    is_lost: bool = False
    reads: int = 0
    is_read: bool = False


@dataclass(slots=True)
class Fault:
    """Makes calls of one method fail, before or after they took effect."""

    method: str
    times: int = 1
    skip: int = 0
    """So many calls are let be first."""
    code: grpc.StatusCode = grpc.StatusCode.UNAVAILABLE
    is_after: bool = False
    action: Callable[[grpc.ServicerContext], None] | None = None
    """An action before the call fails, such as the end of its caller."""


@dataclass(slots=True)
class StoredStage:
    chunks: dict[int, tuple[str, Sequence[pb.OutgoingMessage]]] = field(default_factory=dict)


def message_of(held: StoredMessage) -> pb.Message:
    whole = int(held.sent_at)
    return pb.Message(
        id=held.id,
        body=held.body.body,
        attributes=held.body.attributes,
        body_size=len(held.body.body),
        send_time=Timestamp(seconds=whole, nanos=int((held.sent_at - whole) * 1e3) * 1_000_000),
        receive_count=held.receives,
        state=pb.MESSAGE_STATE_READY,
    )


def messages_of(request: staged.StageRequest) -> Sequence[pb.OutgoingMessage]:
    if not request.HasField("columns"):
        return request.messages
    columns, end, messages = request.columns, 0, []
    for place, size in enumerate(columns.body_sizes):
        begin, end = end, end + size
        message = pb.OutgoingMessage(
            body=columns.bodies[begin:end], group=columns.groups.get(place, "")
        )
        if place in columns.attributes:
            for name, attribute in columns.attributes[place].by_name.items():
                message.attributes[name].CopyFrom(attribute)
        messages.append(message)
    return messages


def runs_of(page: Sequence[StoredMessage]) -> Iterator[columns_pb2.MessageRun]:
    """Yield messages by column, where they have no attributes and follow each other."""
    begin = 0
    for end in range(1, len(page) + 1):
        if end < len(page) and _follows(page[end - 1], page[end]):
            continue
        run = page[begin:end]
        first = message_of(run[0])
        if len(run) == 1:
            yield columns_pb2.MessageRun(first=first)
        else:
            first.body, first.body_size = b"", 0
            bodies = [held.body.body for held in run]
            columns = columns_pb2.MessageColumns(bodies=b"".join(bodies), body_sizes=map(len, bodies))
            yield columns_pb2.MessageRun(first=first, columns=columns)
        begin = end


def _follows(before: StoredMessage, held: StoredMessage) -> bool:
    return (
        int(held.id[24:], 16) == int(before.id[24:], 16) + 1
        and (before.id[:24], before.sent_at, before.receives)
        == (held.id[:24], held.sent_at, held.receives)
        and not before.body.attributes
        and not held.body.attributes
    )


def reservation_of(name: tuple[str, int], hold: Hold) -> reserved.Reservation:
    return reserved.Reservation(
        queue=hold.queue,
        stream=name[0],
        sequence_number=name[1],
        message_count=len(hold.messages),
        byte_count=hold.size,
        expire_time=Timestamp(seconds=int(hold.due)),
        state=reserved.RESERVATION_STATE_LOST if hold.is_lost else reserved.RESERVATION_STATE_HELD,
        read_count=hold.reads,
    )


def seconds(span: Duration) -> float:
    return span.seconds + span.nanos / 1e9


def refuse(context: grpc.ServicerContext, code: grpc.StatusCode, reason: str, text: str) -> NoReturn:
    info = AnyMessage()
    info.Pack(ErrorInfo(reason=reason, domain="spoolrack"))
    status = Status(code=code.value[0], message=text, details=[info])
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    context.abort(code, text)
    raise AssertionError("abort raises")
