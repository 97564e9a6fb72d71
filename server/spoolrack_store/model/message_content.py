"""Limits of a message's content, checked before a byte of it is written. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .clock import DAY, Millis, span_text
from .errors import AttributesTooLarge, InvalidMessage, MessageTooLarge
from .names import MAX_PRIORITY

Attributes = Mapping[str, str | bytes]

MAX_DELAY: Final = Millis(365 * DAY)
MAX_ATTRIBUTES: Final = 1_000
"""Attributes of a message."""
MAX_ATTRIBUTES_SIZE: Final = 64 * 1024
"""Bytes of all attribute names and values of a message together, as sent."""
MAX_GROUP = 128
"""Characters of a message's group."""
MAX_ATTRIBUTE_NAME = 256
"""Bytes of UTF-8 of an attribute's name."""


def check_group(group: str) -> None:
    """Raise `InvalidMessage` for an invalid group."""
    if not 1 <= len(group) <= MAX_GROUP:
        raise InvalidMessage(why=f"its group has {len(group)} characters, not 1 to {MAX_GROUP}")
    try:
        group.encode()
    except UnicodeEncodeError as error:
        raise InvalidMessage(why="its group is not Unicode text") from error


def check_priority(priority: int) -> None:
    """Raise `InvalidMessage` for an invalid priority."""
    if not 0 <= priority <= MAX_PRIORITY:
        raise InvalidMessage(why=f"its priority is {priority}, not 0 to {MAX_PRIORITY}")


def check_delay(delay: Millis) -> None:
    """Raise `InvalidMessage` for a delay that no message can have."""
    if not 0 <= delay <= MAX_DELAY:
        raise InvalidMessage(
            why=f"its delay of {span_text(delay)} is not from 0 s to {span_text(MAX_DELAY)}"
        )


def size_of(attributes: Attributes) -> int:
    """Return the bytes of valid attributes: of names and values."""
    return sum(
        len(name.encode()) + len(value.encode() if isinstance(value, str) else value)
        for name, value in attributes.items()
    )


def check_attribute_count(count: int) -> None:
    """Raise `InvalidMessage` for more attributes than a message may have, before any is converted."""
    if count > MAX_ATTRIBUTES:
        raise InvalidMessage(why=f"it has {count} attributes, and may have {MAX_ATTRIBUTES}")


def check_content(queue: str, body_size: int, attributes: Attributes, max_message_size: int) -> None:
    """Raise the error of invalid content, before a byte of it is written."""
    if body_size > max_message_size:
        raise MessageTooLarge(queue=queue, size=body_size, limit=max_message_size)
    check_attribute_count(len(attributes))
    size = 0
    for name, value in attributes.items():
        try:
            encoded = name.encode()
            size += len(encoded) + len(value.encode() if isinstance(value, str) else value)
        except UnicodeEncodeError as error:
            raise InvalidMessage(why=f"the attribute {name[:50]!r} is not valid Unicode") from error
        if not 1 <= len(encoded) <= MAX_ATTRIBUTE_NAME:
            raise InvalidMessage(
                why=f"an attribute's name has {len(encoded)} bytes, and must have 1 to "
                f"{MAX_ATTRIBUTE_NAME}"
            )
    if size > MAX_ATTRIBUTES_SIZE:
        raise AttributesTooLarge(size=size, limit=MAX_ATTRIBUTES_SIZE)
