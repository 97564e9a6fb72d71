"""A client, for threads or tasks: its connection, and its handles on queues."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Any, ClassVar
from weakref import WeakValueDictionary

from .. import _arguments as arguments
from .._retry import RetryPolicy
from .._runtime import Runtime
from .._transports import ClientTransport
from .._values import Seconds
from .client_context import ClientContext
from .queue_base import QueueBase

Queues = str | QueueBase | Iterable[str | QueueBase]
"""Queues of a stream or a worker, by names, handles and patterns."""


class ClientBase:
    """A client, for threads or tasks."""

    _queue_type: ClassVar[type[QueueBase]]
    _resource_types: ClassVar[Mapping[str, Callable[[ClientContext], object]]]

    def __init__(
        self,
        transport: ClientTransport,
        runtime: Runtime,
        *,
        timeout: Seconds = 30.0,
        retry: RetryPolicy | None = None,
        random: Random | None = None,
    ) -> None:
        self._context = ClientContext(transport, runtime, timeout=timeout, retry=retry, random=random)
        self._queues: WeakValueDictionary[str, Any] = WeakValueDictionary()
        """The handles that are in use, by name."""
        self._lock = runtime.lock()
        for name, resource in self._resource_types.items():
            setattr(self, name, resource(self._context))

    def _handle(self, name: str) -> Any:
        # One per name, so that all concurrent sends to a queue share its calls.
        arguments.text("name", name)
        with self._lock:
            found = self._queues.get(name)
            if found is None:
                found = self._queues[name] = self._queue_type(self._context, name)
        return found

    def __repr__(self) -> str:
        closed = ", closed" if self._context.closed else ""
        package = type(self).__module__.rpartition("._")[0]
        return f"<{package}.Client of {self._context.transport.target}{closed}>"
