"""Headers and queries: attributes, facts of a message, times, conditions.

Pure. A value that can't be read raises `InvalidRequest`, naming the header or the parameter.

Attributes are headers both ways. A header's name has no case and only some of ASCII, and its value no
line feeds; so all other characters of a name or a value are percent-encoded, as UTF-8, and a header
that reads `%41` means "A". Names without it are in lower case. Bytes are base64, under a prefix of
their own. Of a request, two headers of HTTP's own are attributes: Content-Type and Content-Encoding. Of
a response only Content-Type is: any other would change how a client reads the response, and the sender
of the message may have meant something else by that name.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol, TypeVar
from urllib.parse import unquote

from aiohttp import web
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import InvalidReceipt, InvalidRequest
from spoolrack_store.model.field_checks import check_span
from spoolrack_store.model.message_content import MAX_DELAY, Attributes, check_group
from spoolrack_store.model.names import MAX_PRIORITY
from spoolrack_store.model.operations import LastReceive, Message
from spoolrack_store.model.receipts import parse as parse_receipt
from spoolrack_store.model.transitions import State

from ..app import bounds
from ..http.http_errors import RangeNotSatisfiable
from ..wire.json_form import moment_in, span_in, time_text

TEXT: Final = "x-attribute-"
BINARY: Final = "x-binary-attribute-"
CONTENT_TYPE: Final = "content-type"
KEPT: Final = frozenset({CONTENT_TYPE, "content-encoding"})
"""HTTP's own headers of a request that are attributes of the message."""
ATTRIBUTE_FILTERS: Final = ("attribute", "binary_attribute")
"""Parameters that filter a list of messages, and may be repeated."""
DELAY: Final = "X-Message-Delay"
DEDUPLICATION: Final = "X-Message-Deduplication-Id"
GROUP: Final = "X-Message-Group"
PRIORITY: Final = "X-Message-Priority"
RECEIVE_COUNT: Final = "X-Message-Receive-Count"
FIRST_RECEIVE_TIME: Final = "X-Message-First-Receive-Time"
DELIVER_TIME: Final = "X-Message-Deliver-Time"
ANY_BYTES: Final = "application/octet-stream"

_OWN: Final = "x-message-"
_KNOWN: Final = frozenset(
    _OWN + name
    for name in (
        *("delay", "deliver-time", "deduplication-id", "group", "priority"),
        # Of answers: their headers may be copied into a request.
        *("id", "state", "send-time", "receive-count", "first-receive-time"),
        *("lease-expire-time", "receipt", "duplicate"),
    )
)
_IN_NAMES: Final = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_.")
_IN_VALUES: Final = frozenset(range(0x20, 0x7F)) - {ord("%")}
_HEADER_VALUE: Final = re.compile(r"(?![ \t])[^\x00-\x08\x0a-\x1f\x7f]*(?<![ \t])")
"""Values that a header carries unencoded: no white space at the ends, which would be lost."""
_PRIORITY: Final = re.compile(f"[0-{MAX_PRIORITY}]")
_VERSION: Final = re.compile(r'"(?P<version>[1-9][0-9]{0,14})"|\*')
_RANGE: Final = re.compile(r"bytes=([0-9]*)-([0-9]*)")
_LAST_PLACE: Final = 18
"""Digits of a place in a body; with more it lies beyond any."""
_COUNT: Final = re.compile(r"[1-9][0-9]{0,8}")
_ONE_TIME: Final = "must be one time with its zone, such as 2026-12-24T18:00:00Z"

T = TypeVar("T")


class Fields(Protocol):
    """Headers or parameters, in which a name may be repeated."""

    def getall(self, key: str, default: list[str]) -> list[str]: ...


def require_known(headers: Iterable[str]) -> None:
    """Raise `InvalidRequest` for an unknown `X-Message` header of a send, which would otherwise be
    ignored."""
    for header in headers:
        if header.lower().startswith(_OWN) and header.lower() not in _KNOWN:
            raise InvalidRequest(
                what="the header",
                value=header,
                rule=f"must be X-Message-Delay, {DEDUPLICATION}, {GROUP} or {PRIORITY}: a send has no "
                "other",
            )


# Attributes.


def attributes_of(headers: Mapping[str, str]) -> dict[str, str | bytes]:
    """Return the attributes of a request; a repeated one is refused.

    `X-Attribute-Content-Type` outranks `Content-Type`, which some clients send unasked.
    """
    attributes: dict[str, str | bytes] = {}
    own_headers: dict[str, str | bytes] = {}
    for header, value in headers.items():
        lower, into = header.lower(), attributes
        attribute: str | bytes = value
        if lower in KEPT:
            name, into = lower, own_headers
        elif lower.startswith(TEXT):
            name = _decoded(lower[len(TEXT) :], header)
            attribute = _decoded(value, header)
        elif lower.startswith(BINARY):
            name = _decoded(lower[len(BINARY) :], header)
            attribute = _bytes(value, f"the header {header}")
        else:
            continue
        if name in into:
            raise InvalidRequest(what="the header", value=header, rule="names an attribute twice")
        into[name] = attribute
    # Where an attribute can't be HTTP's own header as it is, both are sent.
    return own_headers | attributes


def headers_of(attributes: Attributes) -> dict[str, str]:
    """Return the headers that carry `attributes`, and always the body's content type."""
    headers: dict[str, str] = {}
    for name, value in attributes.items():
        if isinstance(value, bytes):
            headers[BINARY.title() + _encoded(name, _IN_NAMES)] = base64.b64encode(value).decode()
        elif name == CONTENT_TYPE and _HEADER_VALUE.fullmatch(value):
            headers["Content-Type"] = value
        else:
            headers[TEXT.title() + _encoded(name, _IN_NAMES)] = _encoded_value(value)
    headers.setdefault("Content-Type", ANY_BYTES)
    return headers


def _decoded(text: str, header: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError as error:
        raise InvalidRequest(
            what="the header", value=header, rule="must be UTF-8 where it is percent-encoded"
        ) from error


def _bytes(text: str, what: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise InvalidRequest(what=what, value=text, rule="must be base64") from error


def _encoded(text: str, plain: frozenset[int]) -> str:
    return "".join(chr(byte) if byte in plain else f"%{byte:02X}" for byte in text.encode())


def _encoded_value(text: str) -> str:
    # White space around a header's value is no part of it.
    stripped = text.strip(" ")
    before, _, after = text.partition(stripped) if stripped else (text, "", "")
    return "%20" * len(before) + _encoded(stripped, _IN_VALUES) + "%20" * len(after)


# Facts of a message.


def message_headers(message: Message) -> dict[str, str]:
    """Return all headers of a response with this message's body."""
    headers = headers_of(message.attributes)
    headers["X-Message-Id"] = message.id
    headers["X-Message-State"] = message.state.value
    headers["X-Message-Send-Time"] = time_text(message.sent_at)
    headers[RECEIVE_COUNT] = str(message.receive_count)
    if message.first_received_at is not None:
        headers[FIRST_RECEIVE_TIME] = time_text(message.first_received_at)
    if message.due is not None:
        end = "X-Message-Lease-Expire-Time" if message.state is State.LEASED else DELIVER_TIME
        headers[end] = time_text(message.due)
    if message.receipt is not None:
        headers["X-Message-Receipt"] = message.receipt
    if message.group:
        headers[GROUP] = _encoded_value(message.group)
    if message.priority:
        headers[PRIORITY] = str(message.priority)
    headers["Cache-Control"] = "no-store"
    # A message's content must not become a page that speaks in this server's name.
    headers["X-Content-Type-Options"] = "nosniff"
    headers["Content-Security-Policy"] = "sandbox; default-src 'none'"
    return headers


# Parameters of a request.


def attribute_filter(query: Fields) -> dict[str, str | bytes]:
    """Return the attributes that `attribute` and `binary_attribute` name, each of which may be
    repeated."""
    wanted: dict[str, str | bytes] = {}
    for parameter in ATTRIBUTE_FILTERS:
        for text in query.getall(parameter, []):
            name, equals, value = text.partition("=")
            what = f"the parameter {parameter}"
            if not (name and equals):
                raise InvalidRequest(what=what, value=text, rule="must be a name, = and a value")
            if name in wanted:
                raise InvalidRequest(what=what, value=text, rule="names an attribute twice")
            wanted[name] = value if parameter == "attribute" else _bytes(value, what)
    return wanted


def _given(headers: Fields, header: str, read: Callable[[str], T], rule: str) -> T | None:
    """Return what `read` makes of a header; None without it. Raise as `_required` does."""
    return _required(headers, header, read, rule) if headers.getall(header, []) else None


def _required(headers: Fields, header: str, read: Callable[[str], T], rule: str) -> T:
    """Return what `read` makes of a header. Raise `InvalidRequest` with the rule for a value that it
    refuses by `ValueError`."""
    text = ", ".join(headers.getall(header, []))
    try:
        return read(text)
    except ValueError as error:
        raise InvalidRequest(what=f"the header {header}", value=text, rule=rule) from error


def delay(headers: Fields) -> Millis | None:
    """Return the delay of a send; None: the queue's."""
    span = _given(headers, DELAY, span_in, "must be one number of seconds")
    if span is not None:
        check_span(f"the header {DELAY}", span, 0, MAX_DELAY)
    return span


def deliver_at(headers: Fields) -> Millis | None:
    """Return the Unix time until which the message is hidden; None: its delay decides."""
    return _given(headers, DELIVER_TIME, moment_in, _ONE_TIME)


def deduplication_id(headers: Fields) -> str:
    """Return the deduplication id of a send; empty for none."""
    found = _text(headers, DEDUPLICATION)
    return "" if found is None else bounds.deduplication_id(found)


def group(headers: Fields) -> str:
    """Return the group of a send; empty for none."""
    found = _text(headers, GROUP)
    if found is None:
        return ""
    check_group(found)
    return found


def priority(headers: Fields) -> int:
    """Return the priority of a send; 0 for none."""
    rule = f"must be a number from 0 to {MAX_PRIORITY}"
    return _given(headers, PRIORITY, lambda text: _matching(_PRIORITY, text), rule) or 0


def _matching(digits: re.Pattern[str], text: str) -> int:
    if not digits.fullmatch(text):
        raise ValueError(text)
    return int(text)


def _text(headers: Fields, header: str) -> str | None:
    values = headers.getall(header, [])
    if not values:
        return None
    text = _decoded(values[0], header)
    # Bytes that are no UTF-8 come as half of a pair of surrogates.
    if len(values) > 1 or any("\ud800" <= character <= "\udfff" for character in text):
        raise InvalidRequest(
            what=f"the header {header}", value=", ".join(values), rule="must be one text, as UTF-8"
        )
    return text


def receipt(headers: Fields, id: str) -> str | None:
    """Return the receipt that a delete of message `id` must still hold; None if it names none."""
    values = headers.getall("If-Match", [])
    if not values:
        return None
    text = ", ".join(values)
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = text[1:-1]
    if parse_receipt(text.partition(":")[0], text).id != id:
        raise InvalidReceipt(receipt=text)
    return text


def required_receipt(headers: Fields, id: str) -> str:
    """Return the receipt of a request; raise `InvalidRequest` without one."""
    found = receipt(headers, id)
    if found is None:
        raise InvalidRequest(what="If-Match", value="", rule="must be the message's receipt")
    return found


def last_receive(query: Fields, headers: Fields) -> LastReceive | None:
    """Return the receive of a receipt, if the query allows an expired lease."""
    allowed = query.getall("allow_expired", ["false"])
    if allowed not in (["true"], ["false"]):
        what = "the parameter allow_expired"
        raise InvalidRequest(what=what, value=", ".join(allowed), rule="must be true or false")
    if allowed == ["false"]:
        return None
    rule = "must be the one of the received message, as allow_expired needs it"
    count = _required(headers, RECEIVE_COUNT, lambda text: _matching(_COUNT, text), rule)
    return LastReceive(count, _required(headers, FIRST_RECEIVE_TIME, moment_in, _ONE_TIME))


def version_tag(version: int) -> str:
    """Return the entity tag of a queue: its version."""
    return f'"{version}"'


def required_version(headers: Fields) -> int | None:
    """Return the version that a queue must have for a change; 0 for any, None if the request names
    none."""
    text = ", ".join(headers.getall("If-Match", []))
    if not text:
        return None
    match = _VERSION.fullmatch(text)
    if match is None:
        raise InvalidRequest(
            what="If-Match",
            value=text,
            rule='must be the ETag of a GET of the queue, such as "3", or *',
        )
    return int(match["version"] or 0)


# Parts of a body.


def tag(id: str) -> str:
    """Return the entity tag of a message's body, which never changes."""
    return f'"{id}"'


def part(request: web.Request, id: str, size: int) -> tuple[int, int] | None:
    """Return the first byte of the requested range, and its length; None: the whole body.

    Several ranges, or one that can't be read, are ignored, as RFC 9110 has it. Raises
    `RangeNotSatisfiable`.
    """
    match = _RANGE.fullmatch(request.headers.get("Range", ""))
    if match is None or request.headers.get("If-Range", tag(id)) != tag(id):
        return None
    first, last = (int(digits[:_LAST_PLACE]) if digits else None for digits in match.groups())
    if first is None and last is None:
        return None
    if first is None:
        first, last = max(0, size - (last or 0)), size - 1
    elif last is not None and last < first:
        return None
    if first >= size:
        raise RangeNotSatisfiable(size=size)
    return first, min(size - 1 if last is None else last, size - 1) - first + 1


def part_headers(first: int, count: int, size: int) -> Mapping[str, str]:
    return {"Content-Range": f"bytes {first}-{first + count - 1}/{size}"}
