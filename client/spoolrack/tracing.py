"""Traces from a message's sender to its receiver, if the program uses OpenTelemetry.

A send takes along the context of the span that is active there, as W3C's Trace Context writes it, in
the attributes `traceparent` and `tracestate`; a worker's handler runs in a span that continues it. A
program that has not imported OpenTelemetry has no span: nothing is looked for or imported.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Link

    from ._message_base import MessageFacts
    from ._values import Attributes

__all__ = ["context_of", "link_of"]

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
NAMES: Final = frozenset({TRACEPARENT, TRACESTATE})
ROOM: Final = 1_024
"""Bytes of attributes that the two may take: with less room left, a message goes without."""
MAX_ATTRIBUTES_SIZE: Final = 64 * 1024

_API: Final = "opentelemetry.trace"


def context_of(message: MessageFacts) -> Context:
    """Return the trace context that the message was sent in; an empty one if it carries none.

    For a program that uses OpenTelemetry: raises `ImportError` if it isn't installed.
    """
    from opentelemetry.context import Context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator().extract(carrier_of(message.attributes), Context())


def link_of(message: MessageFacts) -> Link | None:
    """Return a link to the span that the message was sent in, for a span that works on several
    messages; None if it carries none. Raises `ImportError` as `context_of` does."""
    from opentelemetry.trace import Link, get_current_span

    sender = get_current_span(context_of(message)).get_span_context()
    return Link(sender) if sender.is_valid else None


def carrier_of(attributes: Attributes) -> dict[str, str]:
    """Return the attributes of a message that an OpenTelemetry propagator reads."""
    found = {name: attributes.get(name) for name in NAMES}
    return {name: value for name, value in found.items() if isinstance(value, str)}


def is_on() -> bool:
    """Return whether this program has imported OpenTelemetry, so that there may be a span."""
    return _API in sys.modules


def traced(attributes: Attributes) -> Attributes:
    """Return the attributes of a message to be sent, with the active span's context if there is one.

    A message that carries a context keeps it.
    """
    if _API not in sys.modules:
        return attributes
    context = current()
    if not context or TRACEPARENT in attributes:
        return attributes
    held = sum(len(name) + len(value) for name, value in attributes.items())
    return attributes if held + ROOM > MAX_ATTRIBUTES_SIZE else {**attributes, **context}


def current() -> dict[str, str]:
    """Return the active span's context in W3C's format; empty if there is none."""
    if not is_on():
        return {}
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    context: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(context)
    return context


def metadata() -> tuple[tuple[str, str], ...] | None:
    """Return the active span's context as the metadata of a call that isn't a send."""
    return tuple(current().items()) or None if _API in sys.modules else None


@contextmanager
def working_on(message: MessageFacts) -> Iterator[None]:
    """Open a span that continues the sender's, while a handler works on the message."""
    if not is_on():
        yield
        return
    from opentelemetry.trace import SpanKind, get_tracer

    link = link_of(message)
    with get_tracer("spoolrack.client").start_as_current_span(
        f"process {message.queue_name}",
        context_of(message),
        kind=SpanKind.CONSUMER,
        attributes={
            "messaging.system": "spoolrack",
            "messaging.operation.type": "process",
            "messaging.destination.name": message.queue_name,
            "messaging.message.id": message.id,
            "messaging.message.body.size": message.size,
            "spoolrack.receive_count": message.receive_count,
        },
        links=[link] if link is not None else [],
    ):
        yield
