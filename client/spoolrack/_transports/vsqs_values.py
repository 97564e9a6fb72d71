"""Conversion of values between the client's surface and a vsqs folder. No I/O."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from .. import tracing
from .._settings import QueueSettings
from .._values import Envelope, MessageState, Outgoing, seconds_of
from ..errors import InvalidReceipt, InvalidUrl, MessageNotFound, SpoolrackError, Unsupported
from ..vsqs import _file_names as names
from ..vsqs._file_names import FileName

_LAST_MS: Final = 10**13 - 1
_RECEIPT: Final = re.compile(r"(0|[1-9][0-9]*)\.[0-9]+(\.[0-9]+)?", re.ASCII)
_NUMBER: Final = re.compile(r"0|[1-9][0-9]*", re.ASCII)
FORM: Final = "vsqs:///the/queue's/folder"


@dataclass(frozen=True, slots=True, kw_only=True)
class VsqsUrl:
    """The content of a vsqs URL."""

    path: str
    """Absolute, of the one queue that it leads to."""
    queue: str
    settings: QueueSettings


def parse_vsqs_url(url: str) -> VsqsUrl:
    """Parse a URL; raises `InvalidUrl`."""
    parts = urlsplit(url)
    path = unquote(parts.path).rstrip("/")
    if parts.netloc or not path.startswith("/") or parts.fragment or "\0" in path:
        raise InvalidUrl(f"{url!r} names no folder: use {FORM}, an absolute path.")
    settings = QueueSettings(max_message_size=0, deduplication_window=0.0)
    for name, text in parse_qsl(parts.query, keep_blank_values=True):
        match name:
            case "capacity" if text.isascii() and text.isdecimal() and int(text) > 0:
                settings = replace(settings, max_messages=int(text))
            case "visibility_timeout" if (seconds := _seconds(text)) is not None:
                settings = replace(settings, visibility_timeout=seconds)
            case _:
                raise InvalidUrl(
                    f"{url!r} can't be opened: after the folder there may be ?capacity=MESSAGES and "
                    f"visibility_timeout=SECONDS, and not {name}={text}."
                )
    return VsqsUrl(path=path, queue=path.rpartition("/")[2], settings=settings)


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds > 0 else None


def check_settings(
    values: Mapping[str, object], labels: Mapping[str, str | None], settings: QueueSettings
) -> None:
    """Raise `Unsupported` for labels, and for settings that differ from those the URL gave."""
    if labels:
        raise Unsupported("A vsqs folder keeps no labels: leave them out.")
    for name, value in values.items():
        if getattr(settings, name) != value:
            raise Unsupported(
                f"A vsqs folder keeps no settings, so {name} can't be {value!r}: each program has its "
                "own capacity and visibility timeout, which the URL can name (?capacity=1000)."
            )


def refusal_of(message: Outgoing) -> SpoolrackError | None:
    """Return the error of a message that a vsqs folder can't hold; None for any other message."""
    if message.attributes.keys() - tracing.NAMES:
        return Unsupported("A vsqs message has no attributes: put them into the body.")
    if message.delay is not None and seconds_of(message.delay) > 0:
        return Unsupported("A vsqs message can't be delayed.")
    if message.deliver_at is not None:
        return Unsupported("A vsqs message can't be delayed, so it has no deliver_at.")
    if message.deduplication_id:
        return Unsupported(
            "A vsqs folder remembers no deduplication_id: a repeated send may be there twice."
        )
    if message.group:
        return Unsupported("A vsqs message has no group: its folder has one order for all.")
    if message.priority:
        return Unsupported("A vsqs message has no priority: its folder has one order for all.")
    return None


def lease_of(receipt: str) -> FileName:
    """Return the name of the lease that a receipt proves; raise `InvalidReceipt`."""
    name = names.parse(receipt) if _RECEIPT.fullmatch(receipt) else None
    if name is None:
        raise InvalidReceipt(f"{receipt[:80]!r} is not a receipt of a vsqs folder.")
    return name


def number_of(id: str, queue: str) -> int:
    """Parse an id as a number; raise `MessageNotFound` for an id of another form."""
    if not _NUMBER.fullmatch(id):
        raise MessageNotFound(f"There is no message {id[:80]} in the queue {queue}.")
    return int(id)


def state_of(name: FileName, now: int) -> MessageState:
    """Return leased or ready; ready also if a lease is over and the message isn't requeued yet."""
    leased = name.expiration is not None and name.expiration > now
    return MessageState.LEASED if leased else MessageState.READY


def envelope_of(name: FileName, body: bytes, *, size: int, now: int, receipt: str = "") -> Envelope:
    """Return a message of vsqs. Its `receive_count` stays 0: vsqs doesn't count."""
    state = state_of(name, now)
    leased = bool(receipt) or state is MessageState.LEASED
    return Envelope(
        id=str(name.number),
        body=body,
        body_size=size,
        sent_ms=_millis(names.in_micros(name.number)),
        due_ms=_millis(name.expiration) if leased and name.expiration is not None else None,
        receipt=receipt,
        state=MessageState.LEASED if leased else MessageState.READY,
    )


def _millis(micros: int) -> int:
    return min(micros // 1_000, _LAST_MS)
