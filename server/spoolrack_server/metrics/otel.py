"""Spans of a server's calls, by OpenTelemetry, an extra: `pip install ".[otel]" in a clone`.

They follow the semantic conventions 1.45 for servers of RPC and HTTP. A span continues the trace that
came with its call. A call whose messages carry traces is linked to each of them, or is the child of a
single one. Nothing is imported unless an endpoint for spans is set; an endpoint that can't be reached
delays no call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from ..app.trace_context import TRACEPARENT, context_in, is_traceparent
from ..system.addresses import names_loopback
from ..system.request_ids import HEADER

if TYPE_CHECKING:
    from aiohttp.web import BaseRequest
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span
    from opentelemetry.trace import TracerProvider as AnyProvider
    from opentelemetry.util.types import AttributeValue

Metadata = Iterable[tuple[str, str | bytes]]

RPC_ERRORS: Final = frozenset(
    {"UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"}
)
"""Codes that the conventions count as errors of a server."""
MESSAGES: Final = "messaging.batch.message_count"
MAX_LINKS: Final = 32
"""Of one request: of its messages' traces, the first ones."""
FLUSH_TIMEOUT: Final = 3_000
"""Milliseconds to give away what is still held, when the server stops."""


class TracingUnavailable(Exception):
    """Traces are requested, and a package is missing; the message names the remedy."""


class RpcSpan:
    """A span of a call over gRPC, or of a request of a stream."""

    def __init__(self, span: Span) -> None:
        self._span = span

    def end(self, code: str) -> None:
        """End the span with gRPC's name of a code."""
        _end(self._span, "rpc.response.status_code", code, is_error=code in RPC_ERRORS)


class HttpSpan:
    """A span of a request over HTTP."""

    def __init__(self, span: Span) -> None:
        self._span = span

    def end(self, code: str) -> None:
        """End the span with HTTP's number of a status, or gRPC's name of a cancellation."""
        if code.isdigit():
            _end(self._span, "http.response.status_code", int(code), is_error=code.startswith("5"))
        else:
            self._span.end()  # The client is gone: there was no response.


def _end(span: Span, key: str, code: str | int, *, is_error: bool) -> None:
    from opentelemetry.trace import Status, StatusCode

    span.set_attribute(key, code)
    if is_error:
        span.set_attribute("error.type", str(code))
        span.set_status(Status(StatusCode.ERROR))
    span.end()


class OtelTraces:
    """The spans of one server."""

    def __init__(self, provider: AnyProvider, owned: TracerProvider | None = None) -> None:
        """An `owned` provider is shut down in the end."""
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._tracer = provider.get_tracer(
            "spoolrack.server",
            version("spoolrack"),
            schema_url="https://opentelemetry.io/schemas/1.45.0",
        )
        self._owned = owned
        self._propagator = TraceContextTextMapPropagator()

    def rpc(self, full_name: str, request: Any, metadata: Metadata, request_id: str) -> RpcSpan:
        """Begin the span of a call to the method `full_name`, its service's name and its own."""
        full_name = "/".join(full_name.rsplit(".", 1))
        attributes: dict[str, AttributeValue] = {
            "rpc.system.name": "grpc",
            "rpc.method": full_name,
            f"rpc.response.metadata.{HEADER}": [request_id],
        }
        queue = getattr(getattr(request, "start", request), "queue", None)
        if isinstance(queue, str):
            attributes |= {"messaging.system": "spoolrack", "messaging.destination.name": queue}
        messages = getattr(request, "messages", None)
        if messages is not None:
            attributes[MESSAGES] = len(messages)
        return RpcSpan(self._span(full_name, attributes, context_in(metadata), messages or ()))

    def http(self, request: BaseRequest, route: str, request_id: str) -> HttpSpan:
        attributes: dict[str, AttributeValue] = {
            "http.request.method": request.method,
            "url.path": request.path,
            "url.scheme": request.scheme,
            f"http.response.header.{HEADER}": [request_id],
        }
        if route:
            attributes["http.route"] = route
        name = f"{request.method} {route}".strip()
        return HttpSpan(self._span(name, attributes, context_in(request.headers.items()), ()))

    def close(self) -> None:
        """Export the remaining spans, for a few seconds at most."""
        if self._owned is not None:
            self._owned.force_flush(FLUSH_TIMEOUT)
            self._owned.shutdown()

    def _span(
        self,
        name: str,
        attributes: dict[str, AttributeValue],
        carrier: dict[str, str],
        messages: Iterable[Any],
    ) -> Span:
        from opentelemetry.context import Context
        from opentelemetry.trace import Link, SpanKind, get_current_span

        sent = [self._propagator.extract(each, Context()) for each in _carriers_of(messages)]
        links = [Link(get_current_span(context).get_span_context()) for context in sent]
        parent: Context = Context()
        if carrier:
            parent = self._propagator.extract(carrier, parent)
        elif len(sent) == 1:
            (parent,) = sent
        return self._tracer.start_span(
            name, parent, kind=SpanKind.SERVER, attributes=attributes, links=links
        )


def _carriers_of(messages: Iterable[Any]) -> Iterator[dict[str, str]]:
    """Return the trace contexts of messages of the wire, each once."""
    parents: set[str] = set()
    for message in messages:
        if len(parents) >= MAX_LINKS:
            return
        attributes = message.attributes
        # To look into a map with [] would put it there.
        if TRACEPARENT not in attributes:
            continue
        carrier = {
            name: value.string_value for name, value in attributes.items() if name.startswith("trace")
        }
        parent = carrier[TRACEPARENT]
        if parent not in parents and is_traceparent(parent):
            parents.add(parent)
            yield carrier


def otlp_traces(url: str) -> OtelTraces:
    """Return a tracer that exports to the OTLP endpoint `url`, over gRPC; `http` is without TLS.

    Raises `TracingUnavailable`. OpenTelemetry's own environment variables configure the rest.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise TracingUnavailable(
            f"{url} is no OTLP endpoint: give one like http://127.0.0.1:4317, or https://…"
        )
    try:
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise TracingUnavailable(
            f'Traces need OpenTelemetry ({error}): pip install ".[otel]" in a clone.'
        ) from error
    named = {"service.name": "spoolrack", "service.version": version("spoolrack")}
    # The operator's environment takes precedence.
    resource = Resource.create().merge(Resource(named)).merge(OTELResourceDetector().detect())
    provider = TracerProvider(resource=resource)
    # A collector on this machine is reached directly, whatever proxy the environment names.
    direct: Any = (("grpc.enable_http_proxy", 0),) if names_loopback(parts.hostname or "") else None
    exporter = OTLPSpanExporter(endpoint=url, insecure=parts.scheme == "http", channel_options=direct)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return OtelTraces(provider, provider)
