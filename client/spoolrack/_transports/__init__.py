"""Transports: the client's interface to a store, by gRPC or in a folder.

A transport speaks in `values` and raises `errors`, nothing else; it doesn't retry and doesn't merge.
Its methods are coroutines. Those of a transport that was opened for `runtime.Threads` block instead
of suspending, so that the same core serves threads and tasks; those for `runtime.Tasks` suspend.
`timeout` is in seconds and bounds the one call; a call that takes longer raises `Timeout`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from .._call_values import Answer, Call, ReadReservation
from .._values import (
    DeleteResult,
    Envelope,
    InterruptedStream,
    LeaseExtension,
    LeaseResult,
    MessageRejection,
    MessageRelease,
    Outgoing,
    SendResult,
    Target,
)


class Deliveries(Protocol):
    """Messages as they arrive. One reader at a time."""

    async def next(self) -> Sequence[Envelope]:
        """Return at least one message; raise a `SpoolrackError` when the stream has ended, also by
        `cancel`."""

    def report(self, begun: int, max_in_flight: int, max_bytes_in_flight: int) -> None:
        """Tell the server soon how many of these messages were handed out or dropped, in order, and how
        many, of how many bytes, it may lease to the stream from now on; 0 bytes change nothing."""

    def connected(self) -> bool:
        """Return whether the server has accepted the stream."""

    on_connected: Callable[[], None]
    """Called by the reader once the server has accepted the stream. May be called again."""

    def stop(self) -> None:
        """Ask for no more messages: `next` returns those that are on their way, and then raises
        `ClientClosed`. May be repeated, from any thread."""

    def cancel(self) -> None:
        """End the stream, and a waiting `next`: messages on their way stay leased. May be repeated,
        from any thread."""


class Pages(Protocol):
    """Messages of a reservation, by pages. One reader."""

    async def next(self) -> Sequence[Envelope]:
        """Return messages, in order; none at the end."""

    def cancel(self) -> None:
        """End the read early. May be repeated, also after its end."""


Item = TypeVar("Item", contravariant=True)
Result = TypeVar("Result", covariant=True)


class BatchStream(Protocol[Item, Result]):
    """Calls of one kind to one queue on a stream, for which no caller waits."""

    target: str
    """The server, for the text of an error."""
    max_bytes: int
    """Size below which a call may go on the stream."""

    def begin(
        self,
        items: Sequence[Item],
        done: Callable[[Sequence[Result] | None, Exception | None], object],
    ) -> Callable[[], object]:
        """Begin a call. Later, maybe in another thread, `done` is called once: with a result for each
        item, with an error, or with neither, where only a call by itself can tell. Return what abandons
        the call: one that isn't written yet never is, and `done` may not be called."""


class ClientTransport(Protocol):
    """The operations of a store. Safe for use from several threads, or several tasks of one loop."""

    @property
    def target(self) -> str:
        """The URL of the server or folder."""

    @property
    def all(self) -> Sequence[ClientTransport]:
        """The transports of all shards; of a server or a folder it is the only one."""

    def home(self, queue: str) -> str:
        """Return the name of what a queue lies on: one batch can't go to two."""

    async def call(self, request: Call[Answer], *, timeout: float) -> Answer:
        """Make a call; return its answer."""

    def read(self, request: ReadReservation) -> Pages:
        """Return the messages of a reservation."""

    async def send(
        self, queue: str, messages: Sequence[Outgoing], *, timeout: float
    ) -> list[SendResult]:
        """Send 1 to 1,000 messages; a result for each. Bodies are bytes, delays are floats."""

    async def send_file(
        self,
        queue: str,
        path: str | os.PathLike[str],
        message: Outgoing,
        *,
        link: bool,
        timeout: float,
    ) -> SendResult:
        """Send the file at `path` as the body of a message, whose own body is ignored; with `link`
        without a copy. Raises `OSError` for a file that can't be read, `Unsupported`."""

    def send_stream(self, queue: str) -> BatchStream[Outgoing, SendResult] | None:
        """Return the stream of a queue's sends; None: there is none."""

    async def receive(
        self,
        queue: str,
        *,
        max_messages: int,
        wait: float,
        visibility_timeout: float | None,
        timeout: float,
    ) -> Sequence[Envelope]: ...

    def stream(
        self,
        queue: str,
        *,
        max_in_flight: int,
        max_bytes_in_flight: int,
        visibility_timeout: float | None,
        concurrency: int,
        stream_id: str = "",
        interrupted: Sequence[InterruptedStream] = (),
    ) -> Deliveries:
        """Open a stream of messages; a `max_bytes_in_flight` of 0 is no limit. Raises `Unsupported` for
        another value if the transport can't limit bytes. `concurrency`: how many messages are handled
        at a time, unless a report says more; the others are prefetched. `interrupted`: streams of this
        client whose connections were lost; of their messages those that have not arrived are released.
        """

    async def delete(
        self, queue: str, targets: Sequence[Target], *, timeout: float
    ) -> list[DeleteResult]:
        """Delete 1 to 1,000 messages; a result for each."""

    def delete_stream(self, queue: str) -> BatchStream[Target, DeleteResult] | None:
        """Return the stream of a queue's deletes; None: there is none."""

    async def extend(
        self, queue: str, extensions: Sequence[LeaseExtension], *, timeout: float
    ) -> list[LeaseResult]:
        """Extend 1 to 1,000 leases; a result for each."""

    async def release(
        self, queue: str, releases: Sequence[MessageRelease], *, timeout: float
    ) -> list[LeaseResult]:
        """Release 1 to 1,000 leases with delays; a result for each."""

    async def reject(
        self, queue: str, rejections: Sequence[MessageRejection], *, timeout: float
    ) -> list[LeaseResult]:
        """Make 1 to 1,000 leased messages dead letters; a result for each."""

    async def close(self) -> None:
        """End the calls in flight. No call may follow."""
