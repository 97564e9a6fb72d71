"""Messages of send and stage requests: validation by column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from spoolrack.v1 import queue_pb2 as pb
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import StoreError
from spoolrack_store.model.message_content import Attributes
from spoolrack_store.model.operations import Send
from spoolrack_store.model.settings import MAX_ATTRIBUTES, MAX_ATTRIBUTES_SIZE, MAX_DELAY

from ..app.trace_context import ROOM, TRACEPARENT
from . import convert, encoding


@dataclass(slots=True)
class Columns:
    """The valid messages of a request, by column."""

    bodies: list[bytes]
    attributes: dict[int, Attributes]
    deduplication_ids: dict[int, str]
    delays: dict[int, Millis]
    groups: dict[int, str]
    priorities: dict[int, int]
    deliver_at: dict[int, Millis]
    refused: dict[int, StoreError]
    """By position in the request; all others are by position among the valid ones."""


def columns(messages: Iterable[pb.OutgoingMessage]) -> Columns:
    """Return the store's columns of the valid messages, and the errors of the others."""
    made = Columns([], {}, {}, {}, {}, {}, {}, {})
    bodies = made.bodies
    for position, message in enumerate(messages):
        body = message.body
        # Protobuf serializes a message to know its size, with a million attributes too.
        if not message.attributes and message.ByteSize() == _size_of(len(body)):
            bodies.append(body)  # It has a body, and nothing else.
            continue
        try:
            attributes = convert.attributes(message.attributes) if message.attributes else None
            id = message.deduplication_id
            if id:
                convert.deduplication_id(id)
            delay = (
                convert.millis(message.delay, "delay", most=MAX_DELAY)
                if message.HasField("delay")
                else None
            )
            moment = (
                convert.moment(message.deliver_time, "deliver_time")
                if message.HasField("deliver_time")
                else None
            )
        except StoreError as error:
            made.refused[position] = error
            continue
        place = len(bodies)
        if attributes:
            made.attributes[place] = attributes
        if id:
            made.deduplication_ids[place] = id
        if delay is not None:
            made.delays[place] = delay
        if moment is not None:
            made.deliver_at[place] = moment
        if message.group:
            made.groups[place] = message.group
        if message.priority:
            made.priorities[place] = message.priority
        bodies.append(body)
    return made


@lru_cache(maxsize=1_024)
def _size_of(body_size: int) -> int:
    """Return the bytes of an `OutgoingMessage` that has a body of this size and nothing else."""
    return len(b"\x0a") + len(encoding.varint(body_size)) + body_size if body_size else 0


def inherit_context(trace: Mapping[str, str], messages: Iterable[pb.OutgoingMessage]) -> None:
    """Give the messages the trace context that came with their call, if they carry none."""
    if not trace:
        return
    for message in messages:
        held = message.attributes
        if len(held) >= MAX_ATTRIBUTES:
            continue
        size = sum(len(name) + each.ByteSize() for name, each in held.items())
        if TRACEPARENT not in held and size + ROOM <= MAX_ATTRIBUTES_SIZE:
            for name, value in trace.items():
                held[name].string_value = value


def send_of(
    queue: str, messages: Sequence[pb.OutgoingMessage]
) -> tuple[Send, Mapping[int, StoreError]]:
    """Return the send of the valid messages, and the errors of the others by position."""
    convert.check_count(len(messages), "messages")
    made = columns(messages)
    # Also with none that is valid: the store knows whether there is such a queue.
    send = Send(
        queue=queue,
        bodies=made.bodies,
        attributes=made.attributes,
        deduplication_ids=made.deduplication_ids,
        delays=made.delays,
        groups=made.groups,
        priorities=made.priorities,
        deliver_at=made.deliver_at,
    )
    return send, made.refused
