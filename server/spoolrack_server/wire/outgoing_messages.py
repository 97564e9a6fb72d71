"""Messages of send and stage requests: each is checked, and the valid ones are the store's columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1.staging_service_pb2 import StageRequest
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import InvalidRequest, StoreError
from spoolrack_store.model.message_content import MAX_ATTRIBUTES, MAX_DELAY, Attributes
from spoolrack_store.model.operations import Send
from spoolrack_store.model.stage_requests import DEFAULT_TIME_TO_LIVE, Stage, chunk_of, not_staged

from ..app.bounds import deduplication_id
from ..app.trace_context import inherits
from . import convert, encoding


def send_of(
    queue: str, messages: Sequence[pb.OutgoingMessage]
) -> tuple[Send, Mapping[int, StoreError]]:
    """Return the send of the valid messages, and the errors of the others by position."""
    convert.check_count(len(messages), "messages")
    bodies: list[bytes] = []
    attributes: dict[int, Attributes] = {}
    deduplication_ids: dict[int, str] = {}
    delays: dict[int, Millis] = {}
    groups: dict[int, str] = {}
    priorities: dict[int, int] = {}
    deliver_at: dict[int, Millis] = {}
    refusals: dict[int, StoreError] = {}
    for position, message in enumerate(messages):
        body, place = message.body, len(bodies)
        # Protobuf serializes a message to know its size, with a million attributes too.
        if not message.attributes and message.ByteSize() == _size_of(len(body)):
            bodies.append(body)  # It has a body, and nothing else.
            continue
        try:
            found = convert.attributes(message.attributes)
            id = message.deduplication_id and deduplication_id(message.deduplication_id)
            delay = moment = None
            if message.HasField("delay"):
                delay = convert.millis(message.delay, "delay", most=MAX_DELAY)
            if message.HasField("deliver_time"):
                moment = convert.moment(message.deliver_time, "deliver_time")
        except StoreError as error:
            refusals[position] = error
            continue
        if found:
            attributes[place] = found
        if id:
            deduplication_ids[place] = id
        if delay is not None:
            delays[place] = delay
        if moment is not None:
            deliver_at[place] = moment
        if message.group:
            groups[place] = message.group
        if message.priority:
            priorities[place] = message.priority
        bodies.append(body)
    # Also with none that is valid: the store knows whether there is such a queue.
    send = Send(
        queue=queue,
        bodies=bodies,
        attributes=attributes,
        deduplication_ids=deduplication_ids,
        delays=delays,
        groups=groups,
        priorities=priorities,
        deliver_at=deliver_at,
    )
    return send, refusals


@lru_cache(maxsize=1_024)
def _size_of(body_size: int) -> int:
    """Return the bytes of an `OutgoingMessage` that has a body of this size and nothing else."""
    return len(b"\x0a") + len(encoding.varint(body_size)) + body_size if body_size else 0


def inherit_context(trace: Mapping[str, str], messages: Iterable[pb.OutgoingMessage]) -> None:
    """Give the messages the trace context that came with their call, if they carry none."""
    if not trace:
        return
    for message in messages:
        attributes = message.attributes
        if len(attributes) >= MAX_ATTRIBUTES:
            continue  # Thousands may come, whose size needn't be known.
        size = sum(len(name) + each.ByteSize() for name, each in attributes.items())
        if inherits(trace, attributes, size):
            for name, value in trace.items():
                attributes[name].string_value = value


# Chunks of stages, which are stored whole or not at all: one invalid message fails the request.


def stage_of(request: StageRequest) -> Stage:
    """Return the chunk of a stage; raise an error that names its first invalid message."""
    empty = Stage(
        stage=request.stage,
        chunk_number=request.chunk_number,
        queue=request.queue,
        bodies=[],
        time_to_live=convert.optional_span(request, "time_to_live", DEFAULT_TIME_TO_LIVE),
    )
    with_bodies = _with_columns if request.HasField("columns") else _with_messages
    return with_bodies(empty, request)


def _with_columns(stage: Stage, request: StageRequest) -> Stage:
    if request.messages:
        raise InvalidRequest(
            what="messages",
            value=f"{len(request.messages)} messages",
            rule="must be empty with columns",
        )
    by_column = request.columns
    convert.check_count(len(by_column.body_sizes), "columns")
    return replace(
        stage,
        bodies=convert.bodies(by_column),
        attributes={
            place: convert.attributes(found.by_name) for place, found in by_column.attributes.items()
        },
        groups=dict(by_column.groups),
    )


def _with_messages(stage: Stage, request: StageRequest) -> Stage:
    by_column, refusals = send_of(request.queue, request.messages)
    for position, error in refusals.items():
        raise not_staged(position, error) from error
    return chunk_of(stage, by_column)
