"""A client: its connection, and the catalogue of queues."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import fields
from datetime import timedelta
from functools import partial
from random import Random
from types import TracebackType
from typing import Any, Final, Self, Unpack

from .. import _arguments as arguments
from .._client_context import ClientContext
from .._credentials import CredentialOptions
from .._retry import RetryPolicy
from .._runtime import Runtime, Tasks
from .._settings import CHOICES, MOST, QueueSettings, Settings
from .._stage_values import BatchOptions
from .._transports import ClientTransport
from .._transports.url import open_transport
from .._values import QueueInfo, Seconds
from ..errors import InvalidRequest, InvalidSetting, QueueNotFound
from ._batch import Batch
from ._pagination import items
from ._queue import Queue
from ._redrives import Redrives
from ._reservations import Reservations
from ._schedules import Schedules
from ._staging import Staging

_KNOWN: Final = {setting.name: setting.default for setting in fields(QueueSettings)}


def connect(
    url: str = "127.0.0.1:50051",
    *,
    timeout: Seconds = 30.0,
    retry: RetryPolicy | None = None,
    **credentials: Unpack[CredentialOptions],
) -> Client:
    """Return a client of the server at `url`, for the running event loop: see `spoolrack.connect`."""
    runtime = Tasks()
    return Client(open_transport(url, runtime, **credentials), runtime, timeout=timeout, retry=retry)


class Client:
    """A connection to a server; `connect` makes one. Use it with `async with`, or `close` it."""

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
        self._queues: dict[str, Queue] = {}
        self.staging = Staging(self._context)
        """Stages, which `batch` makes and publishes by itself."""
        self.reservations = Reservations(self._context)
        """Reservations, which `Queue.reserve` makes."""
        self.redrives = Redrives(self._context)
        """Redrives, which `Queue.redrive` begins."""
        self.schedules = Schedules(self._context)
        """Schedules: messages that are sent again and again."""

    def queue(self, name: str) -> Queue:
        """Return a handle on a queue. Makes no call: the first use of the handle raises `QueueNotFound`
        for a missing queue."""
        # One per name, so that all who send to a queue share its calls.
        found = self._queues.get(arguments.text("name", name))
        return found or self._queues.setdefault(name, Queue(self._context, name))

    async def create_queue(
        self,
        name: str,
        *,
        labels: Mapping[str, str] | None = None,
        timeout: Seconds | None = None,
        **settings: Unpack[Settings],
    ) -> QueueInfo:
        """Create a queue, or find it with equal settings and these labels; raise `QueueExists` if they
        differ."""
        arguments.text("name", name)
        given = {} if labels is None else labels
        arguments.labels(given)
        named = {name: value for name, value in _checked(settings).items() if value is not None}
        transport = self._context.transport
        return await self._context.call(
            lambda left: transport.create_queue(name, named, given, timeout=left), timeout
        )

    def list_queues(
        self, prefix: str = "", *, timeout: Seconds | None = None
    ) -> AsyncIterator[QueueInfo]:
        """Return all queues whose names begin with `prefix`, by name. `timeout` is for each page of
        them."""
        fetch = partial(self._context.transport.list_queues, prefix=arguments.text("prefix", prefix))
        return items(self._context, fetch, arguments.timeout(timeout))

    async def update_queue(
        self,
        name: str,
        *,
        labels: Mapping[str, str | None] | None = None,
        if_version: int | None = None,
        timeout: Seconds | None = None,
        **settings: Unpack[Settings],
    ) -> QueueInfo:
        """Change the settings and labels that are named, and no others; None sets a setting back to its
        default, and removes a label. With `if_version`, only in the queue of this `QueueInfo.version`;
        else `VersionMismatch`, also if the answer of such a change was lost and it was repeated."""
        arguments.text("name", name)
        version = arguments.version(if_version)
        given = {} if labels is None else labels
        arguments.labels(given, may_remove=True)
        changes = _checked(settings)
        if not changes and not given and not version:
            return await self.queue(name).info(timeout=timeout)
        transport = self._context.transport
        return await self._context.call(
            lambda left: transport.update_queue(name, changes, given, if_version=version, timeout=left),
            timeout,
        )

    async def delete_queue(
        self, name: str, *, if_version: int | None = None, timeout: Seconds | None = None
    ) -> None:
        """Delete a queue with all its messages, for good; raises `QueueNotFound`. With `if_version`,
        only the queue of this `QueueInfo.version`; else `VersionMismatch`."""
        context = self._context
        version = arguments.version(if_version)
        arguments.text("name", name)
        await context.attempt(
            lambda deadline: context.transport.delete_queue(
                name, if_version=version, timeout=context.left(deadline)
            ),
            timeout,
            done_if=QueueNotFound,
        )

    def batch(self, **options: Unpack[BatchOptions]) -> Batch:
        """Open a batch for several queues: see `spoolrack.Client.batch`."""
        return Batch(self._context, **options)

    async def close(self) -> None:
        """End the streams and the calls in flight, and close the connection. May be repeated."""
        await self._context.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _describe(self) -> str:
        closed = ", closed" if self._context.closed else ""
        return f"{self._context.transport.target}{closed}"

    def __repr__(self) -> str:
        return f"<spoolrack.aio.Client of {self._describe()}>"


def _checked(settings: Mapping[str, Any]) -> dict[str, object]:
    """Return settings as the transport takes them: known names, spans in seconds."""
    checked: dict[str, object] = {}
    for name, value in settings.items():
        if name not in _KNOWN:
            raise InvalidSetting(
                f"{name} is not a setting of a queue: there are {', '.join(sorted(_KNOWN))}."
            )
        if isinstance(value, timedelta):
            value = value.total_seconds()
        default = _KNOWN[name]
        kinds = (int, float) if isinstance(default, float) else type(default)
        if value is not None and (isinstance(value, bool) or not isinstance(value, kinds)):
            raise InvalidSetting(f"The setting {name} can't be {value!r}: it is like {default!r}.")
        if name in CHOICES and value not in (*CHOICES[name], None):
            choices = " or ".join(map(repr, CHOICES[name]))
            raise InvalidSetting(f"{name} can't be {value!r}: it is {choices}.")
        try:
            _check(name, value)
        except InvalidRequest as error:
            raise InvalidSetting(str(error)) from None
        checked[name] = value
    return checked


def _check(name: str, value: object) -> None:
    """Raise `InvalidRequest` for what has the right type, and can't be on the wire."""
    match value:
        case str():
            arguments.text(name, value)
        case int() if not isinstance(_KNOWN[name], float):
            arguments.integer(name, value, 0, MOST[name])
        case int() | float():
            arguments.span(name, value)
