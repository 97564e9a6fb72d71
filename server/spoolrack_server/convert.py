"""Conversion between the contract's messages and the store's values, in both directions.

Pure. A field that is malformed, or beyond a bound that the contract states, raises an error that names
it; checks that depend on a queue are the store's. Absent and zero mean what the comments in
`protos/spoolrack/v1` say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping
from typing import Final, TypeVar, cast

from google.protobuf.descriptor import EnumDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message as AnyMessage
from google.protobuf.timestamp_pb2 import Timestamp
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_store.model.clock import HOUR, LAST_MOMENT, Millis
from spoolrack_store.model.dead_letter_records import DeadLetterRecord
from spoolrack_store.model.errors import (
    InvalidMessage,
    InvalidQueueName,
    InvalidRequest,
    InvalidSetting,
)
from spoolrack_store.model.field_checks import check_number, check_span, check_word
from spoolrack_store.model.message_content import Attributes, check_attribute_count
from spoolrack_store.model.message_ids import is_id
from spoolrack_store.model.names import is_queue_name
from spoolrack_store.model.operations import (
    CreateQueue,
    LastReceive,
    Message,
    MessageFilter,
    MessageRun,
    Purge,
    Queue,
    UpdateQueue,
)
from spoolrack_store.model.settings import MAX_VISIBILITY, MIB, SCHEMA, QueueSettings, SettingKind
from spoolrack_store.model.transitions import State

T = TypeVar("T")

MAX_COUNT: Final = 1_000
"""Messages, targets, changes or items of a page in one request."""
MAX_SKIP: Final = 100_000
"""Messages that a page of a list may pass over: commits wait meanwhile."""
MAX_IN_FLIGHT: Final = 10_000
DEFAULT_IN_FLIGHT: Final = 100
DEFAULT_PAGE: Final = 100
DEFAULT_RECEIVE_BYTES: Final = 4 * MIB
MAX_RECEIVE_BYTES: Final = 64 * MIB
MAX_WAIT: Final = HOUR

MAX_VERSION: Final = 10**15 - 1
"""Of a queue: its file's name has 15 digits."""
MAX_FILTERS: Final = 10
"""Attributes that a list may name."""
MAX_DEDUPLICATION_ID: Final = 128
"""Characters."""

LARGEST_RECORD: Final = 256
"""Bytes that one of them takes in a message, without its explanation."""

_MAX_SECONDS: Final = 315_576_000_000
"""The most that a `google.protobuf.Duration` may hold: 10,000 years."""

STATES: Final[Mapping[State, pb.MessageState.ValueType]] = {
    State.READY: pb.MESSAGE_STATE_READY,
    State.LEASED: pb.MESSAGE_STATE_LEASED,
    State.DELAYED: pb.MESSAGE_STATE_DELAYED,
}
_STATES_BACK: Final = {number: state for state, number in STATES.items()}

_DEFAULTS: Final = QueueSettings()


def _choices(setting: str) -> dict[str, int]:
    """Return the numbers of a setting's choices in its enum: the one of "strict" is `..._STRICT`."""
    kind = cast(EnumDescriptor, pb.QueueSettings.DESCRIPTOR.fields_by_name[setting].enum_type)
    prefix = kind.values_by_number[0].name.removesuffix("UNSPECIFIED")
    return {
        name.removeprefix(prefix).lower(): value.number
        for name, value in kind.values_by_name.items()
        if value.number
    }


_CHOICES: Final = {
    setting.name: _choices(setting.name)
    for setting in SCHEMA.values()
    if setting.kind is SettingKind.CHOICE
}
_CHOICES_BACK: Final = {
    setting: {number: choice for choice, number in choices.items()}
    for setting, choices in _CHOICES.items()
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
    found = timestamp.seconds * 1_000 - (-timestamp.nanos // 1_000_000)
    if not 0 <= timestamp.nanos <= 999_999_999 or not 0 <= found <= LAST_MOMENT:
        raise InvalidRequest(
            what=what,
            value=f"{timestamp.seconds} s and {timestamp.nanos} ns",
            rule="must be a time from 1970 to 2286",
        )
    return Millis(found)


def _set(field: Timestamp, moment: Millis) -> None:
    field.seconds = moment // 1_000
    field.nanos = moment % 1_000 * 1_000_000


def queue_name(name: str) -> str:
    if not is_queue_name(name):
        raise InvalidQueueName(name=name)
    return name


def message_id(id: str) -> str:
    if not is_id(id.lower()):
        raise InvalidRequest(what="id", value=id, rule="must be a UUID such as a send answers with")
    return id.lower()


def number(value: int, what: str, *, default: int, most: int) -> int:
    """Return a field that is from 1 to `most`, with 0 for `default`."""
    if value:
        check_number(what, value, 1, most)
    return value or default


def place(value: int, what: str, *, most: int) -> int:
    """Return a field that counts from 0, up to `most`."""
    check_number(what, value, 0, most)
    return value


def word(name: str, what: str, *, most: int) -> str:
    """Return a name that its user has chosen and that becomes part of a file's."""
    check_word(what, name, most)
    return name


def deduplication_id(id: str) -> str:
    """Return a valid deduplication id; empty for none."""
    if len(id) > MAX_DEDUPLICATION_ID:
        raise InvalidMessage(
            why=f"its deduplication id has {len(id)} characters, not 1 to {MAX_DEDUPLICATION_ID}"
        )
    return id


def check_count(count: int, what: str) -> None:
    check_number(f"the number of {what}", count, 1, MAX_COUNT)


# Queues.


def creation(queue: pb.Queue) -> CreateQueue:
    name = queue_name(queue.name)
    return CreateQueue(name=name, settings=settings(queue.settings), labels=dict(queue.labels))


def settings(message: pb.QueueSettings) -> QueueSettings:
    return _DEFAULTS.changed(_present(message))


def update(queue: pb.Queue, mask: FieldMask) -> UpdateQueue:
    """Return the fields of a queue that an update names; without a mask, those that are present."""
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
        name=queue_name(queue.name),
        changes=changes,
        labels=labels,
        replaces_labels="labels" in paths,
        if_version=version(queue.version),
    )


def version(version: int) -> int:
    """Return a version as a precondition; 0 for none."""
    return place(version, "version", most=MAX_VERSION)


def _present(message: pb.QueueSettings) -> dict[str, object]:
    """Return the settings that have a value in the message."""
    found: dict[str, object] = {}
    for field, value in message.ListFields():
        match SCHEMA[field.name].kind:
            case SettingKind.SPAN:
                try:
                    found[field.name] = _span(value)
                except ValueError as error:
                    raise InvalidSetting(
                        name=field.name, value=str(error), rule="must be a valid duration"
                    ) from error
            case SettingKind.CHOICE:
                # A number of a later version is none of ours: the store says what there is.
                found[field.name] = _CHOICES_BACK[field.name].get(value, value)
            case _:
                found[field.name] = value
    return found


def _settings(held: QueueSettings) -> pb.QueueSettings:
    made = pb.QueueSettings()
    for setting in SCHEMA.values():
        value = getattr(held, setting.name)
        match setting.kind:
            case SettingKind.SPAN:
                getattr(made, setting.name).CopyFrom(duration(value))
            case SettingKind.CHOICE:
                setattr(made, setting.name, _CHOICES[setting.name][value])
            case _:
                setattr(made, setting.name, value)
    return made


def queue(queue: Queue, now: Millis) -> pb.Queue:
    """Return a queue as a client sees it at the Unix time `now`."""
    counts, blocking = queue.counts, queue.blocking
    return pb.Queue(
        name=queue.name,
        settings=_settings(queue.settings),
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
            id=blocking.id, receive_count=blocking.receives, explanation=blocking.why
        ),
        obstacles=[
            pb.Obstacle(reason=each.reason, explanation=each.explanation) for each in queue.obstacles
        ],
        oldest_leases=[
            pb.OldLease(
                message_id=each.id,
                message_count=each.count,
                first_receive_time=None if each.first is None else timestamp(each.first),
                lease_expire_time=timestamp(each.due),
                receive_count=each.receives,
                stream=each.stream,
                consumer=each.consumer,
                receive_time=None if each.since is None else timestamp(each.since),
            )
            for each in queue.oldest_leases
        ],
    )


# Messages.


def attributes(by_name: Mapping[str, pb.Attribute]) -> dict[str, str | bytes]:
    check_attribute_count(len(by_name))
    found: dict[str, str | bytes] = {}
    for name, attribute in by_name.items():
        match attribute.WhichOneof("value"):
            case "string_value":
                found[name] = attribute.string_value
            case "binary_value":
                found[name] = attribute.binary_value
            case _:
                raise InvalidMessage(why=f"the attribute {name[:100]!r} has no value")
    return found


def message(message: Message) -> pb.Message:
    made = pb.Message(
        id=message.id,
        body=message.body,
        body_size=message.size,
        receive_count=message.receives,
        receipt=message.receipt or "",
        state=STATES.get(message.state, pb.MESSAGE_STATE_UNSPECIFIED),
        group=message.group,
        priority=message.priority,
    )
    # A field set in place takes half the time of one that is made and then copied there.
    _set(made.send_time, message.sent_at)
    if message.first_receive is not None:
        _set(made.first_receive_time, message.first_receive)
    if message.due is not None:
        is_leased = message.state is State.LEASED
        _set(made.lease_expire_time if is_leased else made.deliver_time, message.due)
    _set_attributes(made.attributes, message.attributes)
    if message.deaths:
        made.dead_letter_records.extend(map(_record, message.deaths))
    return made


def _set_attributes(field: MutableMapping[str, pb.Attribute], attributes: Attributes) -> None:
    for name, value in attributes.items():
        if isinstance(value, str):
            field[name].string_value = value
        else:
            field[name].binary_value = value


def run(run: MessageRun) -> pb.MessageRun:
    if len(run) == 1:
        (alone,) = run.messages()
        return pb.MessageRun(first=message(alone))
    made = pb.MessageRun(
        first=message(run.first),
        columns=pb.MessageColumns(bodies=run.bodies, body_sizes=run.sizes, groups=run.groups),
    )
    for place, found in run.attributes.items():
        _set_attributes(made.columns.attributes[place].by_name, found)
    return made


def bodies(columns: pb.MessageColumns) -> list[bytes]:
    """Return the bodies of messages by column; raise `InvalidRequest` for columns that don't belong
    together."""
    sizes, joined = columns.body_sizes, columns.bodies
    if min(sizes, default=0) < 0 or sum(sizes) != len(joined):
        rule = f"must be the lengths of the bodies, which have {len(joined)} bytes"
        raise InvalidRequest(what="body_sizes", value=f"{sum(sizes)} bytes", rule=rule)
    for what, places in (("attributes", columns.attributes), ("groups", columns.groups)):
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
        reason=record.reason,
        receive_count=record.receives,
        first_receive_time=None if record.first_receive is None else timestamp(record.first_receive),
        dead_letter_time=timestamp(record.dead_lettered_at),
        redrive_queue=record.redriven_to,
        redrive_time=None if record.redriven_at is None else timestamp(record.redriven_at),
        explanation=record.explanation,
    )


def states(numbers: Iterable[pb.MessageState.ValueType]) -> frozenset[State]:
    found: set[State] = set()
    for number in numbers:
        if number not in _STATES_BACK:
            raise InvalidRequest(what="states", value=number, rule="must hold ready, leased or delayed")
        found.add(_STATES_BACK[number])
    return frozenset(found)


def purge(request: rpc.PurgeQueueRequest) -> Purge:
    has_age = request.HasField("sent_before")
    return Purge(
        queue=queue_name(request.name),
        sent_before=moment(request.sent_before, "sent_before") if has_age else None,
        states=states(request.states),
    )


def message_filter(request: rpc.ListMessagesRequest) -> MessageFilter:
    since, before = (
        moment(getattr(request, name), name) if request.HasField(name) else None
        for name in ("sent_since", "sent_before")
    )
    if len(request.attributes) > MAX_FILTERS:
        rule = f"must be {MAX_FILTERS} at most"
        raise InvalidRequest(what="attributes", value=len(request.attributes), rule=rule)
    return MessageFilter(
        states=states(request.states),
        sent_since=since,
        sent_before=before,
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


def skip(request: rpc.ListMessagesRequest) -> int:
    """Return the number of messages that a list skips."""
    if request.skip and (request.group or request.attributes):
        rule = "goes with neither group nor attributes"
        raise InvalidRequest(what="skip", value=request.skip, rule=rule)
    if not 0 <= request.skip <= MAX_SKIP:
        raise InvalidRequest(what="skip", value=request.skip, rule=f"must be from 0 to {MAX_SKIP}")
    return request.skip


def visibility(message: rpc.ReceiveRequest | rpc.StreamReceiveRequest) -> Millis | None:
    """Return the visibility timeout of a receive in milliseconds; None for the queue's."""
    if not message.HasField("visibility_timeout"):
        return None
    return millis(message.visibility_timeout, "visibility_timeout", least=1, most=MAX_VISIBILITY)
