"""Conversion of values and errors between the client's surface and the store. Pure.

The bounds of a request are those that a server has, so that a program may move from a folder to a
server and back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from datetime import timedelta
from enum import Enum
from typing import Any, Final, cast
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from spoolrack_store.model import operations as ops
from spoolrack_store.model import redrive_requests, reservation_requests, stage_requests
from spoolrack_store.model import settings as store_settings
from spoolrack_store.model.clock import HOUR, Millis
from spoolrack_store.model.dead_letter_records import DeadLetterRecord as StoreRecord
from spoolrack_store.model.errors import StoreError
from spoolrack_store.model.field_checks import check_span
from spoolrack_store.model.message_content import Attributes
from spoolrack_store.model.message_ids import sent_at
from spoolrack_store.model.names import body_path
from spoolrack_store.model.operations import Delete, Delivery, LastReceive, Send, SendResults
from spoolrack_store.model.settings import MIB, SCHEMA
from spoolrack_store.model.stage_requests import DEFAULT_TIME_TO_LIVE, Stage, chunk_of
from spoolrack_store.model.transitions import State as StoreState

from .. import _call_values as calls
from .._redrive_values import Redrive, RedriveState
from .._reservation_values import CommitResult, Reservation, ReservationState
from .._settings import QueueSettings
from .._stage_values import PublishResult, StageInfo, StageResult
from .._values import (
    BlockingMessage,
    ById,
    DeadLetterRecord,
    DeleteResult,
    Envelope,
    LeaseExtension,
    LeaseResult,
    MessageFilter,
    MessageState,
    Obstacle,
    OldLease,
    Outgoing,
    QueueCounts,
    QueueInfo,
    SendResult,
    Target,
    millis_of,
    moment_of,
)
from ..errors import InvalidUrl, SpoolrackError, _error_of

FORM: Final = "file:///the/root"
DEFAULT_PAGE: Final = 100
MAX_WAIT: Final = HOUR
RECEIVE_BYTES: Final = 4 * MIB
"""Of bodies and attributes in one receive, but always one message."""

_STATES: Final = {
    MessageState.READY: StoreState.READY,
    MessageState.LEASED: StoreState.LEASED,
    MessageState.DELAYED: StoreState.DELAYED,
}
_STATES_BACK: Final = {theirs: ours for ours, theirs in _STATES.items()}
_DEFAULTS: Final = store_settings.QueueSettings()
_YES: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderUrl:
    """The content of a file URL."""

    root: str
    """Absolute."""
    group_access: bool = False
    """Whether a root that is made shall be one for all processes of its group."""
    read_only: bool = False
    """Whether the root is only looked at: no file in it is changed, and every change is refused."""

    @property
    def url(self) -> str:
        return f"file://{quote(self.root, errors='surrogateescape')}"


def parse_folder_url(url: str) -> FolderUrl:
    """Parse a URL; raises `InvalidUrl`."""
    parts = urlsplit(url)
    root = unquote(parts.path, errors="surrogateescape")
    if parts.netloc not in ("", "localhost") or parts.fragment or "\0" in root:
        raise InvalidUrl(f"{url!r} names no folder: use {FORM}, an absolute path.")
    if not root.strip("/"):
        raise InvalidUrl(f"{url!r} can't be a root: use a folder of its own, as in {FORM}.")
    flags = {"group_access": False, "read_only": False}
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in flags or value not in _YES:
            raise InvalidUrl(
                f"{url!r} can't be opened: after the root there may be ?group_access=true or "
                f"?read_only=true, and not {name}={value}."
            )
        flags[name] = _YES[value]
    return FolderUrl(root=root.rstrip("/"), **flags)


# Numbers and spans.


def millis(seconds: float) -> Millis:
    """Return milliseconds, rounded up, so that a span below a millisecond doesn't become none."""
    # By way of whole nanoseconds: 0.1 s must not become 0.1000000000000000055 s, rounded up.
    return Millis(-(-round(seconds * 1e9) // 1_000_000))


def optional_millis(seconds: float | None) -> Millis | None:
    return None if seconds is None else millis(seconds)


def wait(seconds: float) -> Millis:
    span = millis(seconds)
    check_span("wait", span, 0, MAX_WAIT)
    return span


# Queues.


def changes(settings: Mapping[str, object]) -> dict[str, object]:
    """Return settings by the store's names; None is the default."""
    values: dict[str, object] = {}
    for name, value in settings.items():
        if value is None:
            values[name] = SCHEMA[name].default
        elif SCHEMA[name].is_span:
            values[name] = millis(cast(float, value))
        elif SCHEMA[name].scale > 1:
            values[name] = store_settings.thousandths(name, value)
        else:
            values[name] = value
    return values


def settings(values: Mapping[str, object]) -> store_settings.QueueSettings:
    return _DEFAULTS.changed(changes(values))


def _settings(settings: store_settings.QueueSettings) -> QueueSettings:
    values = {
        name: value / SCHEMA[name].scale if SCHEMA[name].scale > 1 else value
        for name, value in asdict(settings).items()
    }
    return QueueSettings(**values)


def queue_info(queue: ops.Queue, now: Millis) -> QueueInfo:
    """Return a queue's info at the Unix time `now`."""
    counts = queue.counts
    return QueueInfo(
        name=queue.name,
        settings=_settings(queue.settings),
        counts=QueueCounts(
            ready_count=counts.ready_count,
            leased_count=counts.leased_count,
            delayed_count=counts.delayed_count,
            byte_count=counts.byte_count,
            # A clock that stepped back since the send must not give a negative age.
            oldest_age=None if counts.oldest is None else max(0, now - counts.oldest) / 1_000,
        ),
        created_at=moment_of(queue.created_at),
        version=queue.version,
        labels=dict(queue.labels),
        blocking_message=shown(queue.blocking_message),
        obstacles=[shown(each) for each in queue.obstacles],
        oldest_leases=[shown(each) for each in queue.oldest_leases],
    )


# Messages.


def send(queue: str, messages: Sequence[Outgoing]) -> Send:
    """Return a send request by column: bodies as bytes, delays in seconds."""
    delays = {
        position: millis(cast(float, message.delay))
        for position, message in enumerate(messages)
        if message.delay is not None
    }
    ids = enumerate(message.deduplication_id for message in messages)
    return Send(
        queue=queue,
        bodies=[cast(bytes, message.body) for message in messages],
        attributes=_attributes(messages),
        deduplication_ids={position: id for position, id in ids if id},
        delays=delays,
        groups=_groups(messages),
        priorities={
            position: message.priority for position, message in enumerate(messages) if message.priority
        },
        deliver_at={
            position: Millis(millis_of(message.deliver_at))
            for position, message in enumerate(messages)
            if message.deliver_at is not None
        },
    )


def stage(call: calls.Stage) -> Stage:
    lives = call.time_to_live
    empty = Stage(
        stage=call.stage,
        chunk_number=call.chunk_number,
        queue=call.queue,
        bodies=[],
        time_to_live=DEFAULT_TIME_TO_LIVE if lives is None else millis(lives),
    )
    return chunk_of(empty, send(call.queue, call.messages))


def _groups(messages: Sequence[Outgoing]) -> dict[int, str]:
    groups = enumerate(message.group for message in messages)
    return {position: group for position, group in groups if group}


def _attributes(messages: Sequence[Outgoing]) -> dict[int, Attributes]:
    return {
        position: message.attributes for position, message in enumerate(messages) if message.attributes
    }


def envelopes(deliveries: Iterable[Delivery], root: str) -> list[Envelope]:
    """Return the messages that a receive in the folder `root` has leased."""
    return [
        Envelope(
            id=id,
            body=body,
            attributes=delivery.attributes.get(position, {}),
            group=delivery.groups.get(position, ""),
            priority=delivery.priority,
            body_size=len(body) if delivery.external_size is None else delivery.external_size,
            path="" if delivery.external_size is None else f"{root}/{body_path(id)}",
            sent_ms=delivery.sent_at,
            receive_count=delivery.receive_count,
            first_receive_ms=delivery.first_received_at,
            due_ms=delivery.lease_expires_at,
            receipt=receipt,
            state=MessageState.LEASED,
        )
        for delivery in deliveries
        for position, (id, receipt, body) in enumerate(
            zip(delivery.ids, delivery.receipts, delivery.bodies, strict=True)
        )
    ]


def envelope(message: ops.Message, root: str) -> Envelope:
    """Return a message of the folder `root`."""
    return Envelope(
        id=message.id,
        body=message.body,
        attributes=message.attributes,
        group=message.group,
        priority=message.priority,
        body_size=message.body_size,
        sent_ms=message.sent_at,
        receive_count=message.receive_count,
        first_receive_ms=message.first_received_at,
        due_ms=message.due,
        receipt=message.receipt or "",
        state=_STATES_BACK.get(message.state, MessageState.READY),
        dead_letter_records=[shown(record) for record in message.dead_letter_records]
        if message.dead_letter_records
        else (),
        path=f"{root}/{message.body_path}" if message.body_path else "",
    )


def message_filter(wanted: MessageFilter) -> ops.MessageFilter:
    since, before = wanted.sent_since, wanted.sent_before
    return ops.MessageFilter(
        states=states(wanted.states),
        sent_since=None if since is None else Millis(millis_of(since)),
        sent_before=None if before is None else Millis(millis_of(before)),
        group=wanted.group,
        attributes=wanted.attributes,
    )


def states(message_states: Collection[MessageState]) -> frozenset[StoreState]:
    return frozenset(_STATES[state] for state in message_states)


def delete(queue: str, targets: Sequence[Target]) -> tuple[Delete, list[int]]:
    """Return a delete request by column; and, for each answer of the store, the position of its
    target."""
    by_receipt = {at: named.receipt for at, named in enumerate(targets) if not isinstance(named, ById)}
    by_id = {at: named.id.lower() for at, named in enumerate(targets) if isinstance(named, ById)}
    request = Delete(
        queue=queue,
        receipts=list(by_receipt.values()),
        ids=list(by_id.values()),
        last_receives=last_receives(targets[at] for at in by_receipt),
    )
    return request, [*by_receipt, *by_id]


def last_receives(targets: Iterable[Target | LeaseExtension]) -> dict[int, LastReceive]:
    """Return the last receives that are named, by position."""
    return {
        position: LastReceive(last.receive_count, Millis(last.first_receive_ms))
        for position, each in enumerate(targets)
        if not isinstance(each, ById) and (last := each.last_receive) is not None
    }


# Results.

_KINDS: Final[Mapping[type, Callable[..., Any]]] = {
    ops.BlockingMessage: BlockingMessage,
    ops.Obstacle: Obstacle,
    ops.OldLease: OldLease,
    StoreRecord: DeadLetterRecord,
    redrive_requests.Redrive: Redrive,
    redrive_requests.RedriveState: RedriveState,
    reservation_requests.Committed: CommitResult,
    reservation_requests.Reservation: Reservation,
    reservation_requests.ReservationState: ReservationState,
    stage_requests.Published: PublishResult,
    stage_requests.Staged: StageResult,
    stage_requests.StageInfo: StageInfo,
}
"""The client's class for the store's: their fields have the same names."""


def shown(value: Any, name: str = "") -> Any:
    """Return the client's value for the store's, which has the field `name` of another one."""
    kind: Any = _KINDS.get(type(value))
    if kind is not None:
        if isinstance(value, Enum):
            return kind(value.value)
        return kind(**{each.name: shown(getattr(value, each.name), each.name) for each in fields(kind)})
    if name.endswith("_at") and value is not None:
        return moment_of(value)
    return tuple(value) if isinstance(value, list) else value


@contextmanager
def errors() -> Iterator[None]:
    """Raise the client's error for the store's."""
    try:
        yield
    except StoreError as failure:
        raise error(failure) from failure


def error(failure: StoreError) -> SpoolrackError:
    """Translate an error of the store: its reasons are a server's."""
    return _error_of(
        failure.reason,
        str(failure),
        retry_delay=None
        if failure.retry_after is None
        else timedelta(milliseconds=failure.retry_after),
        metadata={name: str(fact) for name, fact in failure.facts.items()},
    )


def send_results(stored: SendResults) -> list[SendResult]:
    return [
        SendResult(error=error(id))
        if isinstance(id, StoreError)
        else SendResult(id=id, sent_ms=sent_at(id), duplicate=position in stored.duplicates)
        for position, id in enumerate(stored.results)
    ]


def delete_result(answer: StoreError | None) -> DeleteResult:
    return DeleteResult(error=None if answer is None else error(answer))


def visibility_result(answer: Millis | StoreError) -> LeaseResult:
    if isinstance(answer, StoreError):
        return LeaseResult(error=error(answer))
    return LeaseResult(lease_expires_at=moment_of(answer) if answer else None)


def lease_result(answer: Millis | StoreError | None) -> LeaseResult:
    return LeaseResult(error=error(answer) if isinstance(answer, StoreError) else None)
