"""Conversion between the contract's messages and the client's values, in both directions. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Final, cast

from google.protobuf.descriptor import EnumDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from .._settings import CHOICES, QueueSettings
from .._values import (
    BlockingMessage,
    ById,
    DeadLetterRecord,
    DeleteResult,
    Envelope,
    LastReceive,
    LeaseExtension,
    LeaseResult,
    MessageRelease,
    MessageState,
    Obstacle,
    OldLease,
    Outgoing,
    QueueCounts,
    QueueInfo,
    SendResult,
    Target,
    moment_of,
)
from ..errors import SpoolrackError, _error_of
from ..v1 import queue_pb2 as pb
from ..v1 import queue_service_pb2 as rpc
from ..v1 import schedule_service_pb2 as schedules

DOMAIN: Final = "spoolrack"
_SETTINGS: Final = pb.QueueSettings.DESCRIPTOR.fields_by_name


def _numbers(setting: str) -> dict[str, int]:
    """Return the numbers of a setting's choices in its enum: the one of "strict" is `..._STRICT`."""
    kind = cast(EnumDescriptor, _SETTINGS[setting].enum_type)
    prefix = kind.values_by_number[0].name.removesuffix("UNSPECIFIED")
    return {
        choice: kind.values_by_name[f"{prefix}{choice.upper()}"].number for choice in CHOICES[setting]
    }


_NUMBERS: Final = {setting: _numbers(setting) for setting in CHOICES}
_STATES: Final = {
    MessageState.READY: pb.MESSAGE_STATE_READY,
    MessageState.LEASED: pb.MESSAGE_STATE_LEASED,
    MessageState.DELAYED: pb.MESSAGE_STATE_DELAYED,
}
_REASONS: Final = {
    pb.DEAD_LETTER_REASON_MAX_RECEIVES: "max_receives",
    pb.DEAD_LETTER_REASON_REJECTED: "rejected",
}
_DELETED: Final = DeleteResult()
_STATES_BACK: Final = {number: state for state, number in _STATES.items()}


def duration(seconds: float) -> Duration:
    # By way of whole nanoseconds: 0.1 s must not become 0.1000000000000000055 s, rounded up.
    whole, nanos = divmod(round(seconds * 1e9), 1_000_000_000)
    return Duration(seconds=whole, nanos=nanos)


def optional_duration(seconds: float | None) -> Duration | None:
    return None if seconds is None else duration(seconds)


def _seconds(span: Duration) -> float:
    return span.seconds + span.nanos / 1e9


def millis(moment: Timestamp) -> int:
    return moment.seconds * 1_000 + moment.nanos // 1_000_000


def optional_moment(message: Message, field: str) -> datetime | None:
    """Return the time in a field; None if it is absent."""
    return moment_of(millis(getattr(message, field))) if message.HasField(field) else None


# Queues.


def queue(
    name: str,
    settings: Mapping[str, object],
    labels: Mapping[str, str | None],
    version: int = 0,
) -> pb.Queue:
    """Return a queue with the settings and labels that have a value; None is left out."""
    values: dict[str, object] = {}
    for setting, value in settings.items():
        if value is None:
            continue
        if setting in CHOICES:
            values[setting] = _NUMBERS[setting][cast(str, value)]
        elif _SETTINGS[setting].message_type is None:
            values[setting] = value
        else:
            values[setting] = duration(cast(float, value))
    return pb.Queue(
        name=name,
        # The names are checked by the surface.
        settings=pb.QueueSettings(**values),  # type: ignore[arg-type]
        version=version,
        labels={label: text for label, text in labels.items() if text is not None},
    )


def mask(settings: Mapping[str, object], labels: Mapping[str, str | None]) -> FieldMask:
    named = {"settings": settings, "labels": labels}
    return FieldMask(paths=[f"{field}.{name}" for field in named for name in sorted(named[field])])


def _settings(settings: pb.QueueSettings) -> QueueSettings:
    values: dict[str, object] = {}
    for field in fields(QueueSettings):
        value = getattr(settings, field.name)
        if field.name in CHOICES:
            names = {number: choice for choice, number in _NUMBERS[field.name].items()}
            # An older server says nothing of it, a later one may say what this client doesn't know.
            value = names.get(value, field.default)
        elif _SETTINGS[field.name].message_type is not None:
            value = _seconds(value)
        values[field.name] = value
    return QueueSettings(**values)  # type: ignore[arg-type]


def queue_info(queue: pb.Queue) -> QueueInfo:
    counts = queue.counts
    blocking = queue.blocking_message
    return QueueInfo(
        name=queue.name,
        settings=_settings(queue.settings),
        counts=QueueCounts(
            ready_count=counts.ready_count,
            leased_count=counts.leased_count,
            delayed_count=counts.delayed_count,
            byte_count=counts.byte_count,
            oldest_age=_seconds(counts.oldest_age) if counts.HasField("oldest_age") else None,
        ),
        created_at=moment_of(millis(queue.create_time)),
        version=queue.version,
        labels=dict(queue.labels),
        blocking_message=BlockingMessage(
            id=blocking.id, receive_count=blocking.receive_count, explanation=blocking.explanation
        )
        if queue.HasField("blocking_message")
        else None,
        obstacles=[obstacle(each) for each in queue.obstacles],
        oldest_leases=[
            OldLease(
                message_id=each.message_id,
                message_count=each.message_count,
                first_received_at=optional_moment(each, "first_receive_time"),
                lease_expires_at=moment_of(millis(each.lease_expire_time)),
                receive_count=each.receive_count,
                stream=each.stream,
                consumer=each.consumer,
                received_at=optional_moment(each, "receive_time"),
            )
            for each in queue.oldest_leases
        ],
    )


def obstacle(obstacle: pb.Obstacle) -> Obstacle:
    return Obstacle(reason=obstacle.reason, explanation=obstacle.explanation)


# Messages.


def outgoing(message: Outgoing) -> pb.OutgoingMessage:
    sent = pb.OutgoingMessage(
        body=message.body,  # type: ignore[arg-type]  # bytes, by then
        deduplication_id=message.deduplication_id,
        group=message.group,
        priority=message.priority,
    )
    for name, value in message.attributes.items():
        sent.attributes[name].CopyFrom(attribute(value))
    if message.delay is not None:
        sent.delay.CopyFrom(duration(cast(float, message.delay)))
    if message.deliver_at is not None:
        sent.deliver_time.FromDatetime(message.deliver_at)
    return sent


def leased(response: rpc.ReceiveResponse) -> list[Envelope]:
    """Return the leased messages of a response."""
    said = response.HasField("visibility_timeout")
    visibility = _seconds(response.visibility_timeout) if said else None
    return [envelope(message, visibility) for message in response.messages]


def envelope(message: pb.Message, visibility_timeout: float | None = None) -> Envelope:
    return Envelope(
        id=message.id,
        body=message.body,
        # Most have none, and to look takes less than to walk through nothing.
        attributes=attributes(message) if message.attributes else {},
        body_size=message.body_size,
        sent_ms=millis(message.send_time),
        receive_count=message.receive_count,
        first_receive_ms=millis(message.first_receive_time)
        if message.HasField("first_receive_time")
        else None,
        due_ms=millis(message.lease_expire_time)
        if message.HasField("lease_expire_time")
        else millis(message.deliver_time)
        if message.HasField("deliver_time")
        else None,
        visibility_timeout=visibility_timeout,
        receipt=message.receipt,
        state=_STATES_BACK.get(message.state, MessageState.READY),
        group=message.group,
        priority=message.priority,
        dead_letter_records=[_record(each) for each in message.dead_letter_records]
        if message.dead_letter_records
        else (),
    )


def _record(record: pb.DeadLetterRecord) -> DeadLetterRecord:
    return DeadLetterRecord(
        source_queue=record.source_queue,
        reason=_REASONS.get(record.reason, "unspecified"),
        receive_count=record.receive_count,
        first_received_at=optional_moment(record, "first_receive_time"),
        dead_lettered_at=moment_of(millis(record.dead_letter_time)),
        redrive_queue=record.redrive_queue,
        redriven_at=optional_moment(record, "redrive_time"),
        explanation=record.explanation,
    )


def attributes(message: pb.Message | schedules.Schedule) -> dict[str, str | bytes]:
    return {
        name: attribute.binary_value
        if attribute.WhichOneof("value") == "binary_value"
        else attribute.string_value
        for name, attribute in message.attributes.items()
    }


def attribute(value: str | bytes) -> pb.Attribute:
    if isinstance(value, str):
        return pb.Attribute(string_value=value)
    return pb.Attribute(binary_value=value)


def states(message_states: Collection[MessageState]) -> list[pb.MessageState.ValueType]:
    return [_STATES[state] for state in message_states]


def target(message: Target) -> rpc.DeleteTarget:
    if isinstance(message, ById):
        return rpc.DeleteTarget(id=message.id)
    if message.last_receive is None:
        return rpc.DeleteTarget(receipt=message.receipt)
    return rpc.DeleteTarget(receipt=message.receipt, last_receive=last_receive(message.last_receive))


def last_receive(receive: LastReceive | None) -> rpc.LastReceive | None:
    if receive is None:
        return None
    seconds, rest = divmod(receive.first_receive_ms, 1_000)
    first = Timestamp(seconds=seconds, nanos=rest * 1_000_000)
    return rpc.LastReceive(receive_count=receive.receive_count, first_receive_time=first)


def extension(change: LeaseExtension) -> rpc.LeaseExtension:
    return rpc.LeaseExtension(
        receipt=change.receipt,
        visibility_timeout=duration(change.seconds),
        last_receive=last_receive(change.last_receive),
    )


def release(message: MessageRelease) -> rpc.MessageRelease:
    return rpc.MessageRelease(
        receipt=message.receipt,
        delay=optional_duration(message.delay),
        reason=message.reason,
        uncounted=not message.count,
    )


# Results.


def server_error(status: Status) -> SpoolrackError | None:
    """Return the error that a status stands for, of a call or of one message of many; None if it isn't
    one of Spoolrack's."""
    info: ErrorInfo | None = None
    delay: timedelta | None = None
    for detail in status.details:
        if detail.Is(ErrorInfo.DESCRIPTOR):
            info = ErrorInfo()
            detail.Unpack(info)
        elif detail.Is(RetryInfo.DESCRIPTOR):
            retry = RetryInfo()
            detail.Unpack(retry)
            delay = retry.retry_delay.ToTimedelta()
    if info is None or info.domain != DOMAIN:
        return None
    return _error_of(info.reason, status.message, retry_delay=delay, metadata=info.metadata)


def error(status: Status) -> SpoolrackError:
    """Return the error of one message of many, or of a stream's request."""
    return server_error(status) or SpoolrackError(status.message)


def send_result(result: rpc.SendResult) -> SendResult:
    if result.HasField("error"):
        return SendResult(error=error(result.error))
    sent = result.sent
    return SendResult(id=sent.id, sent_ms=millis(sent.send_time), duplicate=sent.duplicate)


def delete_result(result: rpc.DeleteResult) -> DeleteResult:
    return DeleteResult(error=error(result.error)) if result.HasField("error") else _DELETED


def extension_result(result: rpc.LeaseExtensionResult) -> LeaseResult:
    return LeaseResult(
        lease_expires_at=moment_of(millis(result.lease_expire_time))
        if result.HasField("lease_expire_time")
        else None,
        error=error(result.error) if result.HasField("error") else None,
    )


def lease_result(result: rpc.ReleaseResult | rpc.RejectResult) -> LeaseResult:
    return LeaseResult(error=error(result.error) if result.HasField("error") else None)
