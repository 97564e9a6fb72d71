"""Conversion of messages between SQS and the store: bodies, attributes with their data types, MD5.

A message attribute is stored under its own name; its data type, unless that is String or Binary, in the
attribute `AWS.DataTypes`. System attributes are stored as `AWS.SenderId` and so on: names that begin
with "AWS." are reserved by SQS, so that none of a client's can be one. Attributes that the message has
from the headers of its request are named in `AWS.Inherited`: they are no message attributes. Pure.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from spoolrack_store.model.clock import Millis
from spoolrack_store.model.dead_letter_records import DeadLetterRecord
from spoolrack_store.model.message_content import Attributes
from spoolrack_store.model.names import FIFO
from spoolrack_store.model.operations import Message

from ..app.trace_context import TRACEPARENT, is_traceparent
from . import queue_attributes, sqs_errors
from .parameters import Parameters
from .receipt_handles import handle_of

MOST: Final = 10
"""Attributes of a message."""
LONGEST: Final = 1024 * 1024
"""Bytes of a message's body and attributes, and of those of a batch together."""
RESERVED: Final = "AWS."
TYPES: Final = "AWS.DataTypes"
SENDER: Final = "AWS.SenderId"
TRACE: Final = "AWS.TraceHeader"
DEDUPLICATION: Final = "AWS.MessageDeduplicationId"
INHERITED: Final = "AWS.Inherited"
ENCODING: Final = "body-encoding"
"""The attribute, with the value "base64", of a received body that isn't text that SQS can carry."""
SYSTEM_NAMES: Final = frozenset(
    {
        "All",
        "SenderId",
        "SentTimestamp",
        "ApproximateReceiveCount",
        "ApproximateFirstReceiveTimestamp",
        "SequenceNumber",
        "MessageDeduplicationId",
        "MessageGroupId",
        "AWSTraceHeader",
        "DeadLetterQueueSourceArn",
    }
)
"""The system attributes that a receive may ask for."""
_TOKEN: Final = re.compile(r"[A-Za-z0-9!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]{1,128}")
_NAME: Final = re.compile(r"(?!.*\.\.)[\w-][\w.-]{0,255}(?<!\.)")
"""With the letters and digits of all scripts."""
_TYPE: Final = re.compile(r"(String|Number|Binary)(\.[^\ud800-\udfff]{1,249})?")
_NUMBER: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_CONTROLS: Final = bytes(set(range(0x20)) - set(b"\t\n\r"))
"""ASCII that `NOT_XML` matches."""


Shown = tuple[str, str | bytes]
"""The data type and the value of an attribute."""


# Sends.


@dataclass(slots=True)
class SqsMessage:
    """A message of a send."""

    body: bytes
    attributes: dict[str, str | bytes]
    answer: dict[str, Any]
    """The MD5s of it, for the response."""
    size: int
    """Bytes, as SQS counts them: of the body, and of names, types and values of attributes."""


def outgoing(parameters: Parameters, sender: str) -> SqsMessage:
    """Parse the body and the attributes of a message to be sent."""
    text = parameters.required("MessageBody")
    body = text.encode(errors="replace")  # A lone surrogate, which is no XML either.
    wrong = _not_xml(text, body)
    if wrong:
        raise sqs_errors.invalid_contents(
            f"Invalid binary character '#x{ord(wrong):X}' was found in the message body, the set of "
            "allowed characters is #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to "
            "#x10FFFF"
        )
    message = SqsMessage(body, {}, {"MD5OfMessageBody": md5(body)}, len(body))
    given = parameters.structures("MessageAttributes")
    if given:
        _add_attributes(message, given)
    system = parameters.structures("MessageSystemAttributes")
    if system:
        _add_system_attributes(message, system)
    if sender:
        message.attributes[SENDER] = sender
    return message


def _add_attributes(message: SqsMessage, parameters: Mapping[str, Parameters]) -> None:
    if len(parameters) > MOST:
        raise sqs_errors.invalid_value(
            f"Number of message attributes [{len(parameters)}] exceeds the allowed maximum [{MOST}]."
        )
    attributes = {name: _attribute_in(name, each) for name, each in parameters.items()}
    types: dict[str, str] = {}
    for name, (kind, value) in attributes.items():
        message.attributes[name] = value
        if kind != _plain_type(value):
            types[name] = kind
        size = value if isinstance(value, bytes) else value.encode()
        message.size += len(name.encode()) + len(kind) + len(size)
    if types:
        message.attributes[TYPES] = json.dumps(types, separators=(",", ":"))
    message.answer["MD5OfMessageAttributes"] = md5_of_attributes(attributes)


def _add_system_attributes(message: SqsMessage, parameters: Mapping[str, Parameters]) -> None:
    attributes = {name: _attribute_in(name, each) for name, each in parameters.items()}
    for name, (kind, value) in attributes.items():
        if name != "AWSTraceHeader" or kind != "String":
            raise sqs_errors.invalid_value(
                f"Message system attribute name '{name[:100]}' is invalid: AWSTraceHeader, a String, "
                "is the only one."
            )
        message.attributes[TRACE] = value
    message.answer["MD5OfMessageSystemAttributes"] = md5_of_attributes(attributes)


def _attribute_in(name: str, parameters: Parameters) -> tuple[str, str | bytes]:
    """Return the data type and the value of an attribute."""
    if not _NAME.fullmatch(name) or name.lower().startswith(("aws.", "amazon.")):
        raise sqs_errors.invalid_value(
            f"Message (user) attribute name '{name[:100]}' is invalid. It may have up to 256 "
            "characters: letters, digits, '_', '-' and '.', no '.' at an end or beside another, and "
            "must not begin with AWS. or Amazon."
        )
    if parameters.has("StringListValues") or parameters.has("BinaryListValues"):
        raise sqs_errors.unsupported(
            "Message attribute list values in SendMessage operation are not supported."
        )
    kind = parameters.text("DataType") or ""
    if not _TYPE.fullmatch(kind):
        raise sqs_errors.invalid_value(
            f"The type of message (user) attribute '{name}' is invalid. You must use only the "
            "following supported type prefixes: Binary, Number, String."
        )
    if kind.startswith("Binary"):
        coded = parameters.text("BinaryValue")
        if not coded:
            raise _no_value(name, kind)
        try:
            return kind, base64.b64decode(coded, validate=True)
        except (binascii.Error, ValueError) as error:
            raise sqs_errors.unreadable(f"The BinaryValue of '{name}' is not base64.") from error
    value = parameters.text("StringValue")
    if not value:
        raise _no_value(name, kind)
    wrong = _not_xml(value, value.encode(errors="replace"))
    if wrong:
        raise sqs_errors.invalid_value(
            f"Invalid binary character '#x{ord(wrong):X}' was found in the message attribute '{name}'."
        )
    if kind.startswith("Number") and not _NUMBER.fullmatch(value.strip()):
        raise sqs_errors.invalid_value(
            f"Can't cast the value of message (user) attribute '{name}' to a number."
        )
    return kind, value


def _not_xml(text: str, raw: bytes) -> str:
    """Return the first character that SQS can't carry; empty: there is none. `raw`: `text` as UTF-8."""
    # Of ASCII, this is six times as fast as the expression.
    if text.isascii() and len(raw.translate(None, _CONTROLS)) == len(raw):
        return ""
    found = NOT_XML.search(text)
    return found[0] if found else ""


def _no_value(name: str, kind: str) -> sqs_errors.SqsError:
    return sqs_errors.invalid_value(
        f"Message (user) attribute '{name}' must contain a non-empty value of type '{kind}'."
    )


def _plain_type(value: str | bytes) -> str:
    return "String" if isinstance(value, str) else "Binary"


def token(parameters: Parameters, name: str) -> str:
    """Return the id of a group, a deduplication or an attempt; empty for none."""
    value = parameters.text(name)
    if value is None:
        return ""
    if not _TOKEN.fullmatch(value):
        raise sqs_errors.invalid_value(
            f"Value {value[:200]} for parameter {name} is invalid. Reason: {name} can only include "
            "alphanumeric and punctuation characters. 1 to 128 in length."
        )
    return value


# Receives.


def received(
    message: Message, received_at: Millis, system: set[str], names: Collection[str], place: str
) -> dict[str, Any]:
    """Return a received message with the requested attributes."""
    text, is_coded = _body_of(message)
    content: dict[str, Any] = {
        "MessageId": message.id,
        "ReceiptHandle": handle_of(message, received_at),
        "Body": text,
        "MD5OfBody": md5(text.encode()),
    }
    typed_attributes = _shown_attributes(message.attributes, names)
    if is_coded:
        typed_attributes[ENCODING] = "String", "base64"
    if typed_attributes:
        content["MessageAttributes"] = _as_json(typed_attributes)
        content["MD5OfMessageAttributes"] = md5_of_attributes(typed_attributes)
    if system:
        attributes = _system_attributes(message, place)
        if "All" not in system:
            attributes = {name: value for name, value in attributes.items() if name in system}
        if attributes:
            content["Attributes"] = attributes
    return content


def _system_attributes(message: Message, place: str) -> dict[str, str]:
    attributes = message.attributes
    deaths = _deaths_since_redrive(message)
    receives = message.receive_count + sum(death.receive_count for death in deaths)
    first = deaths[0].first_received_at if deaths else message.first_received_at
    system = {
        "SenderId": str(attributes.get(SENDER, place.partition(":")[2])),
        "SentTimestamp": str(message.sent_at),
        "ApproximateReceiveCount": str(receives),
        "ApproximateFirstReceiveTimestamp": str(first or 0),
    }
    if deaths:
        system["DeadLetterQueueSourceArn"] = queue_attributes.arn_of(deaths[-1].source_queue, place)
    if message.group:
        system["MessageGroupId"] = message.group
    if message.queue.endswith(FIFO):
        system["SequenceNumber"] = sequence_number(message.id)
    for name, stored in (("MessageDeduplicationId", DEDUPLICATION), ("AWSTraceHeader", TRACE)):
        value = attributes.get(stored)
        if isinstance(value, str):
            system[name] = value
    if deaths and message.queue.endswith(FIFO):
        system["MessageDeduplicationId"] = message.id
    if "AWSTraceHeader" not in system and TRACEPARENT in _inherited(attributes):
        parent = attributes.get(TRACEPARENT)
        if is_traceparent(parent):
            system["AWSTraceHeader"] = _trace_header(parent)
    return system


def _trace_header(traceparent: str) -> str:
    """Return a context of W3C as X-Ray has it."""
    _, trace, span, flags = traceparent.split("-")
    return f"Root=1-{trace[:8]}-{trace[8:]};Parent={span};Sampled={int(flags, 16) & 1}"


def _inherited(attributes: Attributes) -> Collection[str]:
    """Return the names of the attributes that came from the headers of the message's request."""
    names = attributes.get(INHERITED)
    return names.split() if isinstance(names, str) else ()


def _deaths_since_redrive(message: Message) -> Sequence[DeadLetterRecord]:
    """Return how a dead letter came to be one, as long as its count of receives goes on."""
    redriven = [
        place
        for place, death in enumerate(message.dead_letter_records)
        if death.redriven_at is not None
    ]
    return message.dead_letter_records[redriven[-1] + 1 :] if redriven else message.dead_letter_records


def sequence_number(id: str) -> str:
    """Return a number of 128 bits that rises with the order of the sends, from the id."""
    return f"{int(id.replace('-', ''), 16):039d}"


def _body_of(message: Message) -> tuple[str, bool]:
    """Return a body as text, and whether that is base64, because it isn't text that SQS can carry.

    Of one that has no place in memory it says where HTTP has it.
    """
    if len(message.body) < message.body_size:
        path = f"/{message.queue}/messages/{message.id}"
        return json.dumps({"spoolrack_body": {"path": path, "size": message.body_size}}), False
    try:
        text = message.body.decode()
    except UnicodeDecodeError:
        return base64.b64encode(message.body).decode(), True
    if _not_xml(text, message.body):
        return base64.b64encode(message.body).decode(), True
    return text, False


def _shown_attributes(attributes: Attributes, names: Collection[str]) -> dict[str, Shown]:
    """Return the data type and the value of each attribute that a receive asks for, by name; leave out
    a name that SQS can't carry."""
    types, inherited = _types_of(attributes), _inherited(attributes)
    return {
        name: _typed_value(types.get(name), value)
        for name, value in attributes.items()
        if not name.startswith(RESERVED)
        and name not in inherited
        and _is_wanted(name, names)
        and not NOT_XML.search(name)
    }


def _typed_value(kind: str | None, value: str | bytes) -> Shown:
    """Return the data type and the value of an attribute: text that SQS can't carry is Binary."""
    if isinstance(value, str):
        raw = value.encode()
        if _not_xml(value, raw):
            return "Binary", raw
    if kind is None or kind.startswith("Binary") != isinstance(value, bytes):
        kind = _plain_type(value)
    return kind, value


def _types_of(attributes: Attributes) -> Mapping[str, str]:
    stored = attributes.get(TYPES)
    types = queue_attributes.object_in(stored) if isinstance(stored, str) else None
    # Another one was not sent over SQS: no client of SQS can give this name.
    return {
        name: kind
        for name, kind in (types or {}).items()
        if isinstance(kind, str) and _TYPE.fullmatch(kind)
    }


def _is_wanted(name: str, patterns: Collection[str]) -> bool:
    for pattern in patterns:
        if pattern in ("All", "*", ".*", name):
            return True
        if pattern.endswith(".*") and name.startswith(pattern[:-2]):
            return True
    return False


def _as_json(attributes: Mapping[str, Shown]) -> dict[str, dict[str, str]]:
    return {
        name: {"StringValue": value, "DataType": kind}
        if isinstance(value, str)
        else {"BinaryValue": base64.b64encode(value).decode(), "DataType": kind}
        for name, (kind, value) in attributes.items()
    }


def md5(raw: bytes) -> str:
    return hashlib.md5(raw, usedforsecurity=False).hexdigest()


def md5_of_attributes(attributes: Mapping[str, Shown]) -> str:
    """Return the MD5 of attributes as SQS computes it: by name, each with lengths of 4 bytes."""
    digest = hashlib.md5(usedforsecurity=False)
    for name in sorted(attributes):
        kind, value = attributes[name]
        raw = value if isinstance(value, bytes) else value.encode()
        for part in (name.encode(), kind.encode()):
            digest.update(len(part).to_bytes(4, "big") + part)
        digest.update(b"\x02" if isinstance(value, bytes) else b"\x01")
        digest.update(len(raw).to_bytes(4, "big") + raw)
    return digest.hexdigest()
