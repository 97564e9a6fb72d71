"""A handle on one queue, for threads or tasks: what it batches, and the streams that it opens."""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator, Callable
from dataclasses import fields
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from .. import _arguments as arguments
from .._values import (
    Envelope,
    Outgoing,
    QueueInfo,
    Seconds,
    SendResult,
    StreamOptions,
)
from .acks import Acks
from .batcher import Batcher
from .client_context import ClientContext
from .lease_batches import LeaseBatches
from .outgoing import size_of
from .stream import EnvelopeStream

ACKS_IN_FLIGHT: Final = 100
"""Messages of a handle, outside of streams, a quarter of which makes a full call of acks."""
_CREATED: Final = {each.name for each in fields(QueueInfo)} - {"name"}


class QueueBase:
    """The state of a handle on a queue, for threads or tasks, and the types of what it returns."""

    _message_type: ClassVar[Callable[..., Any]]
    _stream_type: ClassVar[Callable[..., Any]]
    _batch_type: ClassVar[Callable[..., Any]]
    _reservations_type: ClassVar[Callable[..., Any]]
    _redrives_type: ClassVar[Callable[..., Any]]

    def __init__(self, context: ClientContext, name: str) -> None:
        self._context = context
        self._name = name
        self._created: QueueInfo | None = None
        transport, runtime = context.transport, context.runtime
        self._sends: Batcher[Outgoing, SendResult] = Batcher(
            runtime, partial(transport.send, name), size_of, stream=transport.send_stream(name)
        )
        self._lease_batches = LeaseBatches(context, name)

    @property
    def name(self) -> str:
        """The queue's name."""
        return self._name

    @cached_property
    def _acks(self) -> Acks:
        """Acks of messages that no stream has received."""
        return Acks(self._context, self._name, max_in_flight=ACKS_IN_FLIGHT)

    def _envelopes(
        self,
        *,
        max_in_flight: int = 100,
        max_bytes_in_flight: int | None = None,
        visibility_timeout: Seconds | None = None,
        timeout: Seconds | None = None,
        concurrency: int | None = None,
        until_dropped: bool = False,
        on_arrival: Callable[[], None] | None = None,
        is_one_of_several: bool = False,
        **unknown: object,
    ) -> EnvelopeStream:
        arguments.check_options(unknown, StreamOptions)
        return EnvelopeStream(
            self._context,
            self._name,
            max_in_flight=arguments.integer("max_in_flight", max_in_flight, 1, arguments.MAX_IN_FLIGHT),
            max_bytes_in_flight=0
            if max_bytes_in_flight is None
            else arguments.integer("max_bytes_in_flight", max_bytes_in_flight, 1),
            visibility_timeout=arguments.optional_span(
                "visibility_timeout", visibility_timeout, is_positive=True
            ),
            connect_timeout=self._context.timeout_of(timeout),
            concurrency=concurrency,
            until_dropped=until_dropped,
            on_arrival=on_arrival,
            is_one_of_several=is_one_of_several,
        )

    def _bind(self, envelope: Envelope) -> Any:
        return self._message_type(envelope, self)

    async def _bound(self, envelopes: AsyncIterator[Envelope]) -> AsyncIterator[Any]:
        async for envelope in envelopes:
            yield self._message_type(envelope, self)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Return what `create_queue` once returned, a `QueueInfo`, has under this name."""
            created = self.__dict__.get("_created")
            if created is None or name not in _CREATED:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            warnings.warn(
                f"create_queue() returns a handle: use its info().{name} in place of .{name}",
                DeprecationWarning,
                stacklevel=2,
            )
            return getattr(created, name)

    def __repr__(self) -> str:
        package = type(self).__module__.rpartition("._")[0]
        return f"<{package}.Queue {self._name} at {self._context.transport.target}>"
