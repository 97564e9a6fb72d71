"""Conversion between the contract's messages and the store's values, in both directions.

Pure. A field that is malformed, or beyond a bound that the contract states, raises an error that names
it; checks that depend on a queue are the store's. Absent and zero mean what the comments in
`protos/spoolrack/v1` say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any, Final, TypeVar

from google.api import field_behavior_pb2
from google.protobuf.descriptor import EnumDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message as AnyMessage
from google.protobuf.timestamp_pb2 import Timestamp
from spoolrack.v1 import columns_pb2 as columns
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack.v1 import redrive_service_pb2 as redrive_rpc
from spoolrack.v1 import reservation_service_pb2 as reservation_rpc
from spoolrack.v1 import schedule_service_pb2 as schedule_rpc
from spoolrack.v1 import staging_service_pb2 as staging_rpc
from spoolrack_store.model.clock import LAST_MOMENT, Millis
from spoolrack_store.model.dead_letter_records import MAX_RECEIVES, REJECTED, DeadLetterRecord
from spoolrack_store.model.errors import (
    InvalidMessage,
    InvalidRequest,
    InvalidSetting,
)
from spoolrack_store.model.field_checks import check_number, check_span
from spoolrack_store.model.message_content import Attributes, check_attribute_count
from spoolrack_store.model.operations import (
    LastReceive,
    Message,
    MessageFilter,
    MessageRun,
    Obstacle,
    Queue,
    UpdateQueue,
)
from spoolrack_store.model.redrive_requests import Redrive, RedriveState
from spoolrack_store.model.reservation_requests import Reservation, ReservationState
from spoolrack_store.model.schedule_requests import UpdateSchedule
from spoolrack_store.model.settings import (
    MAX_VISIBILITY,
    MIB,
    SCHEMA,
    QueueSettings,
    SettingKind,
    thousandths,
)
from spoolrack_store.model.stage_requests import StageInfo
from spoolrack_store.model.transitions import State

from ..app.bounds import MAX_COUNT
from ..app.schedules import PlannedSchedule

T = TypeVar("T")

MAX_IN_FLIGHT: Final = 10_000
DEFAULT_IN_FLIGHT: Final = 100
DEFAULT_RECEIVE_BYTES: Final = 4 * MIB
MAX_RECEIVE_BYTES: Final = 64 * MIB

_MAX_SECONDS: Final = 315_576_000_000
"""The most that a `google.protobuf.Duration` may hold: 10,000 years."""

STATES: Final[Mapping[State, pb.MessageState.ValueType]] = {
    State.READY: pb.MESSAGE_STATE_READY,
    State.LEASED: pb.MESSAGE_STATE_LEASED,
    State.DELAYED: pb.MESSAGE_STATE_DELAYED,
}
_REASONS: Final[Mapping[str, pb.DeadLetterReason.ValueType]] = {
    MAX_RECEIVES: pb.DEAD_LETTER_REASON_MAX_RECEIVES,
    REJECTED: pb.DEAD_LETTER_REASON_REJECTED,
}
_STATES_BACK: Final = {number: state for state, number in STATES.items()}

_DEFAULTS: Final = QueueSettings()


def words_of(kind: EnumDescriptor) -> dict[int, str]:
    """Return the words of an enum by their numbers: `GROUP_ORDER_STRICT` is "strict"."""
    prefix = kind.values_by_number[0].name.removesuffix("UNSPECIFIED")
    return {value.number: value.name.removeprefix(prefix).lower() for value in kind.values}


_CHOICES_BACK: Final = {
    field.name: words_of(field.enum_type)
    for field in pb.QueueSettings.DESCRIPTOR.fields
    if field.enum_type is not None
}
_CHOICES: Final = {
    setting: {choice: number for number, choice in words.items()}
    for setting, words in _CHOICES_BACK.items()
}


# Numbers, names and times.


def millis(duration: Duration, what: str, *, least: int = 0, most: int) -> Millis:
    """Return a span in milliseconds, rounded up; raise `InvalidRequest` about `what` if it is beyond
    its bounds."""
    span = _valid_span(duration, what)
    check_span(what, span, least, most)
    return span


def optional_span(message: AnyMessage, field: str, default: T) -> Millis | T:
    """Return a span whose bounds the store checks, in milliseconds; `default` if it is absent."""
    return _valid_span(getattr(message, field), field) if message.HasField(field) else default


def _valid_span(duration: Duration, what: str) -> Millis:
    try:
        return _span(duration)
    except ValueError as error:
        raise InvalidRequest(what=what, value=str(error), rule="must be a valid duration") from error


def _span(duration: Duration) -> Millis:
    seconds, nanos = duration.seconds, duration.nanos
    if (
        abs(seconds) > _MAX_SECONDS
        or abs(nanos) > 999_999_999
        or (seconds > 0 > nanos)
        or (seconds < 0 < nanos)
    ):
        raise ValueError(f"{seconds} s and {nanos} ns")
    # Rounded up: a span of less than a millisecond must not become none.
    return Millis(seconds * 1_000 + -(-nanos // 1_000_000))


def last_receive(receive: rpc.LastReceive) -> LastReceive:
    """Return the receive of a receipt; raise `InvalidRequest` for one that no message can have had."""
    if receive.receive_count < 1:
        raise InvalidRequest(
            what="last_receive.receive_count",
            value=receive.receive_count,
            rule="must be the receive_count of the received message, at least 1",
        )
    first = moment(receive.first_receive_time, "last_receive.first_receive_time")
    return LastReceive(receive.receive_count, first)


def duration(span: Millis) -> Duration:
    return Duration(seconds=span // 1_000, nanos=span % 1_000 * 1_000_000)


def timestamp(moment: Millis) -> Timestamp:
    return Timestamp(seconds=moment // 1_000, nanos=moment % 1_000 * 1_000_000)


def moment(timestamp: Timestamp, what: str) -> Millis:
    """Return a Unix time in milliseconds, rounded up; raise `InvalidRequest` about `what` for an
    invalid time, or one beyond the store's last."""
    unix_time = timestamp.seconds * 1_000 - (-timestamp.nanos // 1_000_000)
    if not 0 <= timestamp.nanos <= 999_999_999 or not 0 <= unix_time <= LAST_MOMENT:
        raise InvalidRequest(
            what=what,
            value=f"{timestamp.seconds} s and {timestamp.nanos} ns",
            rule="must be a time from 1970 to 2286",
        )
    return Millis(unix_time)


def optional_moment(message: AnyMessage, field: str) -> Millis | None:
    """Return the moment in a field; None if it is absent."""
    return moment(getattr(message, field), field) if message.HasField(field) else None


def fields_of(message: AnyMessage) -> dict[str, Any]:
    """Return the fields that a request sets, by their names. An optional field that is absent is left
    out; a field that only a response has, too."""
    fields: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        name, value = field.name, getattr(message, field.name)
        behavior = field.GetOptions().Extensions[field_behavior_pb2.field_behavior]
        if field_behavior_pb2.OUTPUT_ONLY in behavior:
            continue
        if field.has_presence and not message.HasField(name):
            continue
        match value:
            case Duration():
                value = _valid_span(value, name)
            case Timestamp():
                value = moment(value, name)
            case _ if name == "attributes":
                value = attributes(value)
            case _ if name == "states":
                value = states(value)
            case _ if field.is_repeated:
                value = list(value)
        fields[name] = value
    return fields


def _set(field: Timestamp, moment: Millis) -> None:
    field.seconds = moment // 1_000
    field.nanos = moment % 1_000 * 1_000_000


def check_count(count: int, what: str) -> None:
    if not 1 <= count <= MAX_COUNT:
        check_number(f"the number of {what}", count, 1, MAX_COUNT)


# Queues.


def settings(message: pb.QueueSettings) -> QueueSettings:
    return _DEFAULTS.changed(_present(message))


def queue_update(queue: pb.Queue, mask: FieldMask) -> UpdateQueue:
    """Return the update of the fields that a mask names; without a mask, of those that are present."""
    present = _present(queue.settings)
    paths = list(mask.paths)
    if not paths:
        paths = [f"settings.{field.name}" for field, _ in queue.settings.ListFields()]
        paths += ["labels"] if queue.labels else []
    elif paths == ["*"]:
        paths = ["settings", "labels"]
    changes: dict[str, object] = {}
    labels: dict[str, str | None] = {}
    for path in paths:
        field, _, name = path.partition(".")
        if path == "labels":
            labels |= queue.labels
        elif field == "labels" and name:
            labels[name] = queue.labels.get(name)
        elif path == "settings" or (field == "settings" and name in SCHEMA):
            for setting in [name] if name else SCHEMA:
                changes[setting] = present.get(setting, getattr(_DEFAULTS, setting))
        else:
            raise InvalidRequest(
                what="update_mask",
                value=path,
                rule='must be paths such as "settings.visibility_timeout", "labels", or "*" alone',
            )
    return UpdateQueue(
        name=queue.name,
        changes=changes,
        labels=labels,
        replaces_labels="labels" in paths,
        if_version=queue.version,
    )


def _present(message: pb.QueueSettings) -> dict[str, object]:
    """Return the settings that have a value in the message."""
    values: dict[str, object] = {}
    for field, value in message.ListFields():
        match SCHEMA[field.name].kind:
            case SettingKind.SPAN:
                try:
                    values[field.name] = _span(value)
                except ValueError as error:
                    raise InvalidSetting(
                        name=field.name, value=str(error), rule="must be a valid duration"
                    ) from error
            case SettingKind.RATE:
                values[field.name] = thousandths(field.name, value)
            case SettingKind.CHOICE:
                # A number of a later version is none of ours: the store says what there is.
                values[field.name] = _CHOICES_BACK[field.name].get(value, value)
            case _:
                values[field.name] = value
    return values


def queue_settings(settings: QueueSettings) -> pb.QueueSettings:
    proto = pb.QueueSettings()
    for setting in SCHEMA.values():
        value = getattr(settings, setting.name)
        match setting.kind:
            case SettingKind.SPAN:
                getattr(proto, setting.name).CopyFrom(duration(value))
            case SettingKind.RATE:
                setattr(proto, setting.name, value / 1_000)
            case SettingKind.CHOICE:
                setattr(proto, setting.name, _CHOICES[setting.name][value])
            case _:
                setattr(proto, setting.name, value)
    return proto


def queue(queue: Queue, now: Millis) -> pb.Queue:
    """Return a queue as a client sees it at the Unix time `now`."""
    counts, blocking = queue.counts, queue.blocking_message
    return pb.Queue(
        name=queue.name,
        settings=queue_settings(queue.settings),
        counts=pb.QueueCounts(
            ready_count=counts.ready_count,
            leased_count=counts.leased_count,
            delayed_count=counts.delayed_count,
            byte_count=counts.byte_count,
            # A clock that stepped back since the send must not give a negative age.
            oldest_age=None if counts.oldest is None else duration(Millis(max(0, now - counts.oldest))),
        ),
        create_time=timestamp(queue.created_at),
        version=queue.version,
        labels=queue.labels,
        blocking_message=None
        if blocking is None
        else pb.BlockingMessage(
            id=blocking.id, receive_count=blocking.receive_count, explanation=blocking.explanation
        ),
        obstacles=map(_obstacle, queue.obstacles),
        oldest_leases=[
            pb.OldLease(
                message_id=each.message_id,
                message_count=each.message_count,
                first_receive_time=None
                if each.first_received_at is None
                else timestamp(each.first_received_at),
                lease_expire_time=timestamp(each.lease_expires_at),
                receive_count=each.receive_count,
                stream=each.stream,
                consumer=each.consumer,
                receive_time=None if each.received_at is None else timestamp(each.received_at),
            )
            for each in queue.oldest_leases
        ],
    )


# Messages.


def attributes(by_name: Mapping[str, pb.Attribute]) -> dict[str, str | bytes]:
    check_attribute_count(len(by_name))
    values: dict[str, str | bytes] = {}
    for name, attribute in by_name.items():
        match attribute.WhichOneof("value"):
            case "string_value":
                values[name] = attribute.string_value
            case "binary_value":
                values[name] = attribute.binary_value
            case _:
                raise InvalidMessage(why=f"the attribute {name[:100]!r} has no value")
    return values


def message(message: Message) -> pb.Message:
    proto = pb.Message(
        id=message.id,
        body=message.body,
        body_size=message.body_size,
        receive_count=message.receive_count,
        receipt=message.receipt or "",
        state=STATES.get(message.state, pb.MESSAGE_STATE_UNSPECIFIED),
        group=message.group,
        priority=message.priority,
    )
    # A field set in place takes half the time of one that is made and then copied there.
    _set(proto.send_time, message.sent_at)
    if message.first_received_at is not None:
        _set(proto.first_receive_time, message.first_received_at)
    if message.due is not None:
        is_leased = message.state is State.LEASED
        _set(proto.lease_expire_time if is_leased else proto.deliver_time, message.due)
    _set_attributes(proto.attributes, message.attributes)
    if message.dead_letter_records:
        proto.dead_letter_records.extend(map(_record, message.dead_letter_records))
    return proto


def _set_attributes(field: MutableMapping[str, pb.Attribute], attributes: Attributes) -> None:
    for name, value in attributes.items():
        if isinstance(value, str):
            field[name].string_value = value
        else:
            field[name].binary_value = value


def run(run: MessageRun) -> columns.MessageRun:
    if len(run) == 1:
        (alone,) = run.messages()
        return columns.MessageRun(first=message(alone))
    proto = columns.MessageRun(
        first=message(run.first),
        columns=columns.MessageColumns(bodies=run.bodies, body_sizes=run.body_sizes, groups=run.groups),
    )
    for place, found in run.attributes.items():
        _set_attributes(proto.columns.attributes[place].by_name, found)
    return proto


def bodies(by_column: columns.MessageColumns) -> list[bytes]:
    """Return the bodies of messages by column; raise `InvalidRequest` for columns that don't belong
    together."""
    sizes, joined = by_column.body_sizes, by_column.bodies
    if (least := min(sizes, default=0)) < 0:
        raise InvalidRequest(what="body_sizes", value=least, rule="must have no length below 0")
    if sum(sizes) != len(joined):
        rule = f"must be the lengths of the bodies, which have {len(joined)} bytes"
        raise InvalidRequest(what="body_sizes", value=f"{sum(sizes)} bytes", rule=rule)
    for what, places in (("attributes", by_column.attributes), ("groups", by_column.groups)):
        for place in places:
            if not 0 <= place < len(sizes):
                rule = f"must name places of {len(sizes)} messages, from 0"
                raise InvalidRequest(what=what, value=place, rule=rule)
    found, end = [], 0
    for size in sizes:
        begin, end = end, end + size
        found.append(joined[begin:end])
    return found


def _record(record: DeadLetterRecord) -> pb.DeadLetterRecord:
    return pb.DeadLetterRecord(
        source_queue=record.source_queue,
        reason=_REASONS.get(record.reason, pb.DEAD_LETTER_REASON_UNSPECIFIED),
        receive_count=record.receive_count,
        first_receive_time=None
        if record.first_received_at is None
        else timestamp(record.first_received_at),
        dead_letter_time=timestamp(record.dead_lettered_at),
        redrive_queue=record.redrive_queue,
        redrive_time=None if record.redriven_at is None else timestamp(record.redriven_at),
        explanation=record.explanation,
    )


# Redrives, schedules, stages and reservations.

_REDRIVE_STATES: Final[Mapping[RedriveState, redrive_rpc.RedriveState.ValueType]] = {
    RedriveState.RUNNING: redrive_rpc.REDRIVE_STATE_RUNNING,
    RedriveState.DONE: redrive_rpc.REDRIVE_STATE_DONE,
    RedriveState.CANCELLED: redrive_rpc.REDRIVE_STATE_CANCELLED,
}


_RESERVATION_STATES: Final[Mapping[ReservationState, reservation_rpc.ReservationState.ValueType]] = {
    ReservationState.HELD: reservation_rpc.RESERVATION_STATE_HELD,
    ReservationState.LOST: reservation_rpc.RESERVATION_STATE_LOST,
}


def redrive(redrive: Redrive) -> redrive_rpc.Redrive:
    return redrive_rpc.Redrive(
        id=redrive.id,
        queue=redrive.queue,
        destination=redrive.destination,
        source_queue=redrive.source_queue,
        max_messages_per_second=redrive.max_messages_per_second,
        state=_REDRIVE_STATES[redrive.state],
        moved_count=redrive.moved_count,
        failed_count=redrive.failed_count,
        last_failure=redrive.last_failure,
        remaining_count=redrive.remaining_count,
        start_time=timestamp(redrive.started_at),
        end_time=None if redrive.ended_at is None else timestamp(redrive.ended_at),
    )


def _obstacle(obstacle: Obstacle) -> pb.Obstacle:
    return pb.Obstacle(reason=obstacle.reason, explanation=obstacle.explanation)


CHANGEABLE: Final = ("cron", "time_zone", "body", "attributes", "group")
"""Fields of a schedule that an update may name."""


def schedule(planned: PlannedSchedule) -> schedule_rpc.Schedule:
    queued, following = planned.queued, planned.next_tick
    schedule, last = queued.schedule, queued.last_tick
    proto = schedule_rpc.Schedule(
        queue=queued.queue,
        name=queued.name,
        cron=schedule.cron,
        time_zone=schedule.time_zone,
        body=schedule.body,
        group=schedule.group,
        paused=schedule.paused,
        create_time=timestamp(schedule.created_at),
        last_tick_time=None if last is None else timestamp(Millis(last * 1_000)),
        next_tick_time=None if following is None else timestamp(Millis(following * 1_000)),
        owner=schedule.owner,
        obstacles=map(_obstacle, planned.obstacles),
    )
    _set_attributes(proto.attributes, schedule.attributes)
    return proto


def schedule_update(schedule: schedule_rpc.Schedule, mask: FieldMask) -> UpdateSchedule:
    """Return the update of the fields that a mask names; without a mask, of those that are present."""
    paths = list(mask.paths)
    if not paths:
        paths = [field.name for field, _ in schedule.ListFields() if field.name in CHANGEABLE]
    elif paths == ["*"]:
        paths = list(CHANGEABLE)
    changes: dict[str, Any] = {}
    for path in paths:
        if path not in CHANGEABLE:
            rule = f'must be {", ".join(CHANGEABLE)}, or "*" alone'
            raise InvalidRequest(what="update_mask", value=path, rule=rule)
        value = getattr(schedule, path)
        changes[path] = attributes(value) if path == "attributes" else value
    return UpdateSchedule(queue=schedule.queue, name=schedule.name, **changes)


def stage(stage: StageInfo) -> staging_rpc.Stage:
    return staging_rpc.Stage(
        name=stage.name,
        chunk_count=stage.chunk_count,
        message_counts=stage.message_counts,
        expire_time=timestamp(stage.expires_at),
    )


def reservation(reservation: Reservation) -> reservation_rpc.Reservation:
    return reservation_rpc.Reservation(
        queue=reservation.queue,
        stream=reservation.stream,
        sequence_number=reservation.sequence_number,
        message_count=reservation.message_count,
        byte_count=reservation.byte_count,
        expire_time=timestamp(reservation.expires_at),
        state=_RESERVATION_STATES[reservation.state],
        read_count=reservation.read_count,
    )


# Requests.


def states(numbers: Iterable[pb.MessageState.ValueType]) -> frozenset[State]:
    found: set[State] = set()
    for each in numbers:
        if each not in _STATES_BACK:
            raise InvalidRequest(what="states", value=each, rule="must hold ready, leased or delayed")
        found.add(_STATES_BACK[each])
    return frozenset(found)


def message_filter(request: rpc.ListMessagesRequest) -> MessageFilter:
    return MessageFilter(
        states=states(request.states),
        sent_since=optional_moment(request, "sent_since"),
        sent_before=optional_moment(request, "sent_before"),
        group=request.group,
        attributes=attributes(request.attributes),
    )


def body_bytes(request: rpc.ListMessagesRequest) -> int | None:
    """Return the number of bytes of each body in a list; None for all."""
    if request.view not in rpc.MessageView.values():
        raise InvalidRequest(what="view", value=request.view, rule="must be basic or full")
    is_full = request.view == rpc.MESSAGE_VIEW_FULL
    if request.max_body_bytes < 0 or (request.max_body_bytes and not is_full):
        rule = "must be from 0 on, and goes with the view full"
        raise InvalidRequest(what="max_body_bytes", value=request.max_body_bytes, rule=rule)
    return (request.max_body_bytes or None) if is_full else 0


def visibility(message: rpc.ReceiveRequest | rpc.ReceiveStart) -> Millis | None:
    """Return the visibility timeout of a receive in milliseconds; None for the queue's."""
    if not message.HasField("visibility_timeout"):
        return None
    return millis(message.visibility_timeout, "visibility_timeout", least=1, most=MAX_VISIBILITY)
