"""Spans and metrics of messages by OpenTelemetry's messaging conventions 1.45, if the program uses it.

A send carries the context of its span in the attributes `traceparent` and `tracestate`, in the form of
W3C's Trace Context. A worker's handler runs in a span that continues it. Without a configured provider
a message carries the active context, and the handler continues it, without further spans. In a program
that has not imported OpenTelemetry nothing is looked for or imported.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Awaitable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import Counter, Histogram, MeterProvider
    from opentelemetry.trace import Link, Span, Tracer, TracerProvider

    from ._message_base import MessageFacts
    from ._values import Attributes, Envelope

T = TypeVar("T")

__all__ = ["context_of", "link_of"]

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
NAMES: Final = frozenset({TRACEPARENT, TRACESTATE})
ROOM: Final = 1_024
"""Bytes of attributes that the two may take: with less room left, a message goes without."""
MAX_ATTRIBUTES_SIZE: Final = 64 * 1024

SCOPE: Final = "spoolrack.client"
SCHEMA: Final = "https://opentelemetry.io/schemas/1.45.0"
BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
"""Seconds, as the conventions have them."""

API: Final = "opentelemetry.trace"
"""The module that a program with OpenTelemetry has imported."""
_METRICS: Final = "opentelemetry.metrics"
_ADDRESS: Final = re.compile(r"(?:grpcs?://)?(?:\[([^]]+)\]|([^:/,]+)):([0-9]+)")


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
    return _link(carrier_of(message.attributes))


def carrier_of(attributes: Attributes) -> dict[str, str]:
    """Return the attributes of a message that an OpenTelemetry propagator reads."""
    found = {name: attributes.get(name) for name in NAMES}
    return {name: value for name, value in found.items() if isinstance(value, str)}


def is_on() -> bool:
    """Return whether this program has imported OpenTelemetry, so that there may be a span."""
    return API in sys.modules


def traced(attributes: Attributes) -> Attributes:
    """Return the attributes of a message to be sent, with the active span's context if there is one.

    A message that carries a context keeps it.
    """
    if API not in sys.modules:
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
    return tuple(current().items()) or None if API in sys.modules else None


class HasTarget(Protocol):
    """A transport: asked for its target only where there is a span."""

    @property
    def target(self) -> str: ...


class Operation:
    """An operation on messages of a queue, as its caller reports it. The base class ignores it."""

    def note(self, count: int, *, id: str = "", received: Iterable[Envelope] = ()) -> None:
        """Note the number of messages; of a single one its id, of received ones all."""


OFF: Final[AbstractContextManager[Operation]] = nullcontext(Operation())


def operation(name: str, type: str, queue: str, at: HasTarget) -> AbstractContextManager[Operation]:
    """Observe an operation of a `type` of the conventions: send, receive or settle."""
    if API not in sys.modules or not _is_configured():
        return OFF
    return _operation(name, type, queue, at)


def settling(call: Awaitable[T], name: str, queue: str, at: HasTarget) -> Awaitable[T]:
    """Return a call that ends leases, observed."""
    if API not in sys.modules or not _is_configured():
        return call
    return _settling(call, name, queue, at)


def working_on(message: MessageFacts, at: HasTarget) -> AbstractContextManager[Operation]:
    """Observe a handler's work on a message, in a span that continues the sender's."""
    if API not in sys.modules:
        return OFF
    return _operation("process", "process", message.queue_name, at, message)


async def _settling(call: Awaitable[T], name: str, queue: str, at: HasTarget) -> T:
    with _operation(name, "settle", queue, at) as observed:
        result = await call
        if isinstance(result, list):
            observed.note(len(result))
        return result


def _is_configured() -> bool:
    """Return whether the program has set a provider. Those of the API itself do nothing."""
    set_providers: list[Any] = [sys.modules[API].get_tracer_provider()]
    if _METRICS in sys.modules:
        set_providers.append(sys.modules[_METRICS].get_meter_provider())
    return any(not type(each).__module__.startswith((API, _METRICS)) for each in set_providers)


class _Observed(Operation):
    def __init__(self, span: Span, count: int) -> None:
        self._span = span
        self.count = count

    def note(self, count: int, *, id: str = "", received: Iterable[Envelope] = ()) -> None:
        self.count = count
        if id:
            self._span.set_attribute("messaging.message.id", id)
        elif self._span.is_recording():
            self._span.set_attribute("messaging.batch.message_count", count)
            for each in received:
                link = _link(carrier_of(each.attributes))
                if link is not None:
                    self._span.add_link(link.context)


@contextmanager
def _operation(
    name: str, type: str, queue: str, at: HasTarget, message: MessageFacts | None = None
) -> Iterator[Operation]:
    from opentelemetry.metrics import get_meter_provider
    from opentelemetry.trace import SpanKind, get_tracer_provider

    common: dict[str, Any] = {
        "messaging.system": "spoolrack",
        "messaging.destination.name": queue,
        "messaging.operation.name": name,
        "messaging.operation.type": type,
        **_server(at.target),
    }
    of_message: dict[str, Any] = {}
    links: list[Link] = []
    if message is not None:
        of_message = {
            "messaging.message.id": message.id,
            "messaging.message.body.size": message.body_size,
            "messaging.spoolrack.message.receive_count": message.receive_count,
        }
        link = link_of(message)
        links = [] if link is None else [link]
    kinds = {"send": SpanKind.PRODUCER, "process": SpanKind.CONSUMER}
    instruments = _instruments(get_meter_provider())
    began = monotonic()
    count = 0 if type == "receive" else 1
    try:
        with _tracer(get_tracer_provider()).start_as_current_span(
            f"{name} {queue}",
            None if message is None else context_of(message),
            kind=kinds.get(type, SpanKind.CLIENT),
            attributes=common | of_message,
            links=links,
        ) as span:
            observed = _Observed(span, count)
            try:
                yield observed
            except BaseException as error:
                common["error.type"] = f"{error.__class__.__module__}.{error.__class__.__qualname__}"
                span.set_attribute("error.type", common["error.type"])
                raise
            finally:
                count = observed.count
    finally:
        durations = instruments.processed if type == "process" else instruments.operations
        durations.record(monotonic() - began, common)
        if count and type != "settle":
            (instruments.sent if type == "send" else instruments.consumed).add(count, common)


def _link(carrier: dict[str, str]) -> Link | None:
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, get_current_span
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    context = TraceContextTextMapPropagator().extract(carrier, Context())
    sender = get_current_span(context).get_span_context()
    return Link(sender) if sender.is_valid else None


@lru_cache(maxsize=16)
def _server(target: str) -> dict[str, str | int]:
    """Return the attributes of a server at `host:port`; none of a folder, or of several servers."""
    found = _ADDRESS.fullmatch(target)
    return (
        {"server.address": found[1] or found[2], "server.port": int(found[3])}
        if found is not None
        else {}
    )


@lru_cache(maxsize=1)
def _tracer(provider: TracerProvider) -> Tracer:
    from importlib.metadata import version

    return provider.get_tracer(SCOPE, version("spoolrack"), SCHEMA)


class _Instruments(NamedTuple):
    operations: Histogram
    processed: Histogram
    sent: Counter
    consumed: Counter


@lru_cache(maxsize=1)
def _instruments(provider: MeterProvider) -> _Instruments:
    from importlib.metadata import version

    meter = provider.get_meter(SCOPE, version("spoolrack"), SCHEMA)
    return _Instruments(
        meter.create_histogram(
            "messaging.client.operation.duration",
            "s",
            "Duration of a send, a receive or the end of leases",
            explicit_bucket_boundaries_advisory=BUCKETS,
        ),
        meter.create_histogram(
            "messaging.process.duration",
            "s",
            "Duration of a worker's handler",
            explicit_bucket_boundaries_advisory=BUCKETS,
        ),
        meter.create_counter(
            "messaging.client.sent.messages", "{message}", "Messages that were sent or refused"
        ),
        meter.create_counter(
            "messaging.client.consumed.messages", "{message}", "Messages that the program got"
        ),
    )
