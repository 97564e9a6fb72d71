"""A client: queues as a whole. What happens inside one queue is in `queue`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import fields
from datetime import timedelta
from random import Random
from types import TracebackType
from typing import Any, Final, Self, Unpack

from ..calling import Calling
from ..errors import InvalidSetting, QueueNotFound
from ..retry import RetryPolicy
from ..runtime import Runtime, Tasks
from ..transports import Transport
from ..transports.opening import open_transport
from ..values import QueueInfo, QueueSettings, Seconds, Settings
from .queue import Queue

_KNOWN: Final = {setting.name: setting.default for setting in fields(QueueSettings)}


def connect(
    url: str = "127.0.0.1:50051", *, timeout: Seconds = 30.0, retry: RetryPolicy | None = None
) -> Client:
    """A client of the server at `url`, for the event loop that runs now: see `spoolrack.connect`."""
    runtime = Tasks()
    return Client(open_transport(url, runtime), runtime, timeout=timeout, retry=retry)


class Client:
    """A connection to a server; `connect` makes one. Use it with `async with`, or `close` it."""

    def __init__(
        self,
        transport: Transport,
        runtime: Runtime,
        *,
        timeout: Seconds = 30.0,
        retry: RetryPolicy | None = None,
        random: Random | None = None,
    ) -> None:
        self._calling = Calling(transport, runtime, timeout=timeout, retry=retry, random=random)
        self._queues: dict[str, Queue] = {}

    @property
    def calling(self) -> Calling:
        return self._calling

    def queue(self, name: str) -> Queue:
        """A handle on a queue. Makes no call: whether the queue exists shows at its first use."""
        # One per name, so that all who send to a queue share its calls.
        found = self._queues.get(name)
        return found or self._queues.setdefault(name, Queue(self._calling, name))

    async def create_queue(
        self, name: str, *, timeout: Seconds | None = None, **settings: Unpack[Settings]
    ) -> QueueInfo:
        """Create a queue. With equal settings it may be there already; with others: `QueueExists`."""
        named = {name: value for name, value in _checked(settings).items() if value is not None}
        transport = self._calling.transport
        return await self._calling.ask(
            lambda left: transport.create_queue(name, named, timeout=left), timeout
        )

    async def get_queue(self, name: str, *, timeout: Seconds | None = None) -> QueueInfo:
        """A queue's settings and what is in it now; raises `QueueNotFound`."""
        transport = self._calling.transport
        return await self._calling.ask(lambda left: transport.get_queue(name, timeout=left), timeout)

    async def queues(
        self, prefix: str = "", *, timeout: Seconds | None = None
    ) -> AsyncIterator[QueueInfo]:
        """All queues whose names begin so, by name. `timeout` is for each page of them."""
        transport = self._calling.transport
        token = ""
        while True:
            after = token
            page = await self._calling.ask(
                lambda left, after=after: transport.list_queues(  # type: ignore[misc]
                    prefix=prefix, token=after, limit=0, timeout=left
                ),
                timeout,
            )
            for queue in page.queues:
                yield queue
            if not page.next_token:
                return
            token = page.next_token

    async def update_queue(
        self, name: str, *, timeout: Seconds | None = None, **settings: Unpack[Settings]
    ) -> QueueInfo:
        """Change the settings that are named, and no others; None sets one back to its default."""
        changes = _checked(settings)
        if not changes:
            return await self.get_queue(name, timeout=timeout)
        transport = self._calling.transport
        return await self._calling.ask(
            lambda left: transport.update_queue(name, changes, timeout=left), timeout
        )

    async def delete_queue(self, name: str, *, timeout: Seconds | None = None) -> None:
        """Delete a queue with all its messages, for good; raises `QueueNotFound`."""
        calling = self._calling
        await calling.attempt(
            lambda deadline: calling.transport.delete_queue(name, timeout=calling.left(deadline)),
            timeout,
            done_if=QueueNotFound,
        )

    async def purge_queue(self, name: str, *, timeout: Seconds | None = None) -> int:
        """Delete all messages of a queue, leased and delayed ones too; returns how many."""
        transport = self._calling.transport
        return await self._calling.ask(lambda left: transport.purge_queue(name, timeout=left), timeout)

    async def close(self) -> None:
        """End the streams and what else is under way, and close the connection. Any number of times."""
        await self._calling.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def describe(self) -> str:
        closed = ", closed" if self._calling.closed else ""
        return f"{self._calling.transport.target}{closed}"

    def __repr__(self) -> str:
        return f"<spoolrack.aio.Client of {self.describe()}>"


def _checked(settings: Mapping[str, Any]) -> dict[str, object]:
    """Settings as the transport takes them: known names, spans in seconds."""
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
        if name == "lease_durability" and value not in ("strict", "relaxed", None):
            raise InvalidSetting(f"lease_durability can't be {value!r}: it is 'strict' or 'relaxed'.")
        checked[name] = value
    return checked
