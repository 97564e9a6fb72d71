"""A client: queues as a whole. What happens inside one queue is in `queue`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import aclosing
from dataclasses import fields
from datetime import timedelta
from random import Random
from types import TracebackType
from typing import Any, Final, Self, Unpack

from .. import arguments
from ..calling import Calling
from ..credentials import CredentialOptions
from ..errors import InvalidRequest, InvalidSetting, QueueNotFound
from ..message import MessageFacts
from ..outgoing import outgoing_of_all
from ..reading import Reading
from ..redrives import Redrive
from ..reservations import Committed, Reservation
from ..retry import RetryPolicy
from ..runtime import Runtime, Tasks
from ..stages import BatchOptions, Published, StagedChunk, StageInfo
from ..transports import Transport
from ..transports.opening import open_transport
from ..values import (
    MAX_BATCH,
    Envelope,
    Outgoing,
    QueueInfo,
    QueueSettings,
    Seconds,
    Settings,
)
from .batch import Batch
from .queue import Queue
from .redriving import list_redrives

_KNOWN: Final = {setting.name: setting.default for setting in fields(QueueSettings)}


def connect(
    url: str = "127.0.0.1:50051",
    *,
    timeout: Seconds = 30.0,
    retry: RetryPolicy | None = None,
    **credentials: Unpack[CredentialOptions],
) -> Client:
    """A client of the server at `url`, for the event loop that runs now: see `spoolrack.connect`."""
    runtime = Tasks()
    return Client(open_transport(url, runtime, **credentials), runtime, timeout=timeout, retry=retry)


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
        found = self._queues.get(arguments.text("name", name))
        return found or self._queues.setdefault(name, Queue(self._calling, name))

    async def create_queue(
        self, name: str, *, timeout: Seconds | None = None, **settings: Unpack[Settings]
    ) -> QueueInfo:
        """Create a queue. With equal settings it may be there already; with others: `QueueExists`."""
        arguments.text("name", name)
        named = {name: value for name, value in _checked(settings).items() if value is not None}
        transport = self._calling.transport
        return await self._calling.ask(
            lambda left: transport.create_queue(name, named, timeout=left), timeout
        )

    async def get_queue(self, name: str, *, timeout: Seconds | None = None) -> QueueInfo:
        """A queue's settings and what is in it now; raises `QueueNotFound`."""
        transport = self._calling.transport
        arguments.text("name", name)
        return await self._calling.ask(lambda left: transport.get_queue(name, timeout=left), timeout)

    def queues(self, prefix: str = "", *, timeout: Seconds | None = None) -> AsyncIterator[QueueInfo]:
        """All queues whose names begin so, by name. `timeout` is for each page of them."""
        return self._list_queues(arguments.text("prefix", prefix), arguments.timeout(timeout))

    async def _list_queues(self, prefix: str, timeout: float | None) -> AsyncIterator[QueueInfo]:
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
        arguments.text("name", name)
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
        arguments.text("name", name)
        await calling.attempt(
            lambda deadline: calling.transport.delete_queue(name, timeout=calling.left(deadline)),
            timeout,
            done_if=QueueNotFound,
        )

    async def purge_queue(self, name: str, *, timeout: Seconds | None = None) -> int:
        """Delete all messages of a queue, leased and delayed ones too; returns how many."""
        transport = self._calling.transport
        arguments.text("name", name)
        return await self._calling.ask(lambda left: transport.purge_queue(name, timeout=left), timeout)

    def batch(self, **options: Unpack[BatchOptions]) -> Batch:
        """Messages for several queues that appear together: see `spoolrack.Client.batch`."""
        return Batch(self._calling, **options)

    async def stage(
        self,
        stage: str,
        chunk: int,
        queue: str,
        messages: Iterable[bytes | str | Outgoing],
        *,
        time_to_live: Seconds | None = None,
        timeout: Seconds | None = None,
    ) -> StagedChunk:
        """Store one chunk of a stage, all of it or nothing: see `spoolrack.Client.stage`."""
        arguments.text("stage", stage)
        arguments.integer("chunk", chunk)
        arguments.text("queue", queue)
        outgoing = list(outgoing_of_all(messages))
        arguments.integer("the number of messages", len(outgoing), 1, MAX_BATCH)
        lives = arguments.optional_span("time_to_live", time_to_live)
        staging = self._calling.transport.staging
        return await self._calling.ask(
            lambda left: staging.stage(stage, chunk, queue, outgoing, time_to_live=lives, timeout=left),
            timeout,
        )

    async def publish(
        self,
        writer: str,
        epoch: int,
        stages: Iterable[str],
        *,
        memory: Seconds | None = None,
        timeout: Seconds | None = None,
    ) -> Published:
        """Make all messages of the stages appear, or none: see `spoolrack.Client.publish`."""
        arguments.text("writer", writer)
        arguments.integer("epoch", epoch)
        names = [arguments.text("a stage", name) for name in arguments.some("stages", stages, "names")]
        remembered = arguments.optional_span("memory", memory)
        staging = self._calling.transport.staging
        return await self._calling.ask(
            lambda left: staging.publish(writer, epoch, names, memory=remembered, timeout=left), timeout
        )

    async def abort(self, stage: str, *, timeout: Seconds | None = None) -> int:
        """Drop a stage; returns how many messages it had. 0: there is none, which is a success."""
        staging = self._calling.transport.staging
        arguments.text("stage", stage)
        return await self._calling.ask(lambda left: staging.abort(stage, timeout=left), timeout)

    def stages(self, *, timeout: Seconds | None = None) -> AsyncIterator[StageInfo]:
        """All stages, by name. `timeout` is for each page of them."""
        return self._list_stages(arguments.timeout(timeout))

    async def _list_stages(self, timeout: float | None) -> AsyncIterator[StageInfo]:
        staging = self._calling.transport.staging
        token = ""
        while True:
            after = token
            page = await self._calling.ask(
                lambda left, after=after: staging.list_stages(  # type: ignore[misc]
                    token=after, limit=0, timeout=left
                ),
                timeout,
            )
            for stage in page.stages:
                yield stage
            if not page.next_token:
                return
            token = page.next_token

    async def confirm(
        self,
        stream: str,
        seq: int,
        hold: Seconds | None = None,
        *,
        timeout: Seconds | None = None,
    ) -> Reservation:
        """Hold a reservation for so long from now on: see `spoolrack.Client.confirm`."""
        arguments.text("stream", stream)
        arguments.integer("seq", seq)
        span = arguments.optional_span("hold", hold)
        reserving = self._calling.transport.reserving
        return await self._calling.ask(
            lambda left: reserving.confirm(stream, seq, hold=span, timeout=left), timeout
        )

    def read_reservation(
        self,
        stream: str,
        seq: int,
        begin: int = 0,
        end: int | None = None,
        *,
        timeout: Seconds | None = None,
    ) -> AsyncIterator[MessageFacts]:
        """The messages of a reservation: see `spoolrack.Client.read_reservation`."""
        return _unbound(self.read_envelopes(stream, seq, begin, end, timeout=timeout))

    def read_envelopes(
        self, stream: str, seq: int, begin: int, end: int | None, *, timeout: Seconds | None
    ) -> AsyncGenerator[Envelope, None]:
        arguments.text("stream", stream)
        arguments.integer("seq", seq)
        arguments.integer("begin", begin)
        if end is not None:
            arguments.integer("end", end)
        arguments.timeout(timeout)
        return Reading(self._calling, stream, seq, begin=begin, end=end, timeout=timeout).envelopes()

    async def commit_reservations(
        self, stream: str, up_to: int, *, timeout: Seconds | None = None
    ) -> Committed:
        """Delete the messages of a stream's sets up to a number: see
        `spoolrack.Client.commit_reservations`."""
        arguments.text("stream", stream)
        arguments.integer("up_to", up_to)
        reserving = self._calling.transport.reserving
        return await self._calling.ask(
            lambda left: reserving.commit(stream, up_to, timeout=left), timeout
        )

    async def release_reservation(
        self, stream: str, seq: int, *, timeout: Seconds | None = None
    ) -> None:
        """Give the messages of a reservation back: see `spoolrack.Client.release_reservation`."""
        arguments.text("stream", stream)
        arguments.integer("seq", seq)
        reserving = self._calling.transport.reserving
        await self._calling.ask(lambda left: reserving.release(stream, seq, timeout=left), timeout)

    def reservations(
        self, queue: str = "", stream: str = "", *, timeout: Seconds | None = None
    ) -> AsyncIterator[Reservation]:
        """The reservations of a queue, of a stream, or all. `timeout` is for each page of them."""
        return self._list_reservations(
            arguments.text("queue", queue),
            arguments.text("stream", stream),
            arguments.timeout(timeout),
        )

    async def _list_reservations(
        self, queue: str, stream: str, timeout: float | None
    ) -> AsyncIterator[Reservation]:
        reserving = self._calling.transport.reserving
        token = ""
        while True:
            after = token
            page = await self._calling.ask(
                lambda left, after=after: reserving.list_reservations(  # type: ignore[misc]
                    queue=queue, stream=stream, token=after, limit=0, timeout=left
                ),
                timeout,
            )
            for reservation in page.reservations:
                yield reservation
            if not page.next_token:
                return
            token = page.next_token

    async def get_redrive(self, id: str, *, timeout: Seconds | None = None) -> Redrive:
        """A redrive, and how far it is; raises `RedriveNotFound`."""
        redriving = self._calling.transport.redriving
        arguments.text("id", id)
        return await self._calling.ask(lambda left: redriving.get(id, timeout=left), timeout)

    def redrives(self, queue: str = "", *, timeout: Seconds | None = None) -> AsyncIterator[Redrive]:
        """The redrives of a dead-letter queue, or all: see `spoolrack.Client.redrives`."""
        return list_redrives(self._calling, queue, timeout)

    async def cancel_redrive(self, id: str, *, timeout: Seconds | None = None) -> Redrive:
        """End a redrive: see `spoolrack.Client.cancel_redrive`."""
        redriving = self._calling.transport.redriving
        arguments.text("id", id)
        return await self._calling.ask(lambda left: redriving.cancel(id, timeout=left), timeout)

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


async def _unbound(envelopes: AsyncGenerator[Envelope, None]) -> AsyncGenerator[MessageFacts, None]:
    async with aclosing(envelopes):
        async for envelope in envelopes:
            yield MessageFacts(envelope, "")


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
            most = arguments.INT32 if name == "max_receives" else arguments.INT64
            arguments.integer(name, value, 0, most)
        case int() | float():
            arguments.span(name, value)
