"""Trace context of a sender, in W3C's format: its place in a message, and its validation.

A message carries it as two attributes from its sender to its receiver, over any protocol. A context
that came with a call is given to those of its messages that carry none. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, MutableMapping
from typing import Final, TypeGuard

from spoolrack_store.model.message_content import MAX_ATTRIBUTES, MAX_ATTRIBUTES_SIZE

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
ROOM: Final = 1_024
"""Bytes of attributes that the two may take: with less room left, a message goes without."""

_PARENT: Final = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
)
_STATE: Final = re.compile(r"[\x20-\x7e]{1,512}")


def is_traceparent(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and _PARENT.fullmatch(value) is not None


def context_in(pairs: Iterable[tuple[str, str | bytes]]) -> dict[str, str]:
    """Return the trace context in headers or metadata; empty if there is none, or no valid one."""
    found = {name.lower(): value for name, value in pairs if name.lower() in (TRACEPARENT, TRACESTATE)}
    parent, state = found.get(TRACEPARENT), found.get(TRACESTATE)
    if not isinstance(parent, str) or not is_traceparent(parent):
        return {}
    context = {TRACEPARENT: parent}
    if isinstance(state, str) and _STATE.fullmatch(state):
        context[TRACESTATE] = state
    return context


def inherits(context: Mapping[str, str], names: Collection[str], size: int) -> bool:
    """Return whether a message takes the context of its call: its attributes, with these `names` and
    `size` in bytes, are neither one of a context, nor with it more than a message may have."""
    return (
        bool(context)
        and TRACEPARENT not in names
        and TRACESTATE not in names
        and len(names) + len(context) <= MAX_ATTRIBUTES
        and size + ROOM <= MAX_ATTRIBUTES_SIZE
    )


def inherit_context(context: Mapping[str, str], attributes: MutableMapping[str, str | bytes]) -> bool:
    """Give a message the context of its call, if it inherits it; return whether it does."""
    size = sum(len(name) + len(value) for name, value in attributes.items())
    found = inherits(context, attributes, size)
    if found:
        attributes.update(context)
    return found
