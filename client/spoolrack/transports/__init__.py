"""What carries the client's operations to the folders: the seam between the surface and the ways to
a store: gRPC, or a folder itself.

A transport speaks in `values` and raises `errors`, nothing else; it doesn't retry and doesn't merge.
Its methods are coroutines. Those of a transport that was opened for `runtime.Threads` block instead
of suspending, so that the same core serves threads and tasks; those for `runtime.Tasks` suspend.
`timeout` is in seconds and bounds the one call; a call that takes longer raises `Timeout`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from ..values import (
    DeleteResult,
    Envelope,
    MessagePage,
    Outgoing,
    QueueInfo,
    QueuePage,
    SendResult,
    State,
    Target,
    VisibilityChange,
    VisibilityResult,
)


class Deliveries(Protocol):
    """Messages as they come. One reader at a time."""

    async def next(self) -> Sequence[Envelope]:
        """At least one message; raises a `SpoolrackError` when the stream has ended, for whatever
        reason: `cancel` included."""

    def connected(self) -> bool:
        """Whether the other side has taken the stream up."""

    def cancel(self) -> None:
        """End the stream, and with it a `next` that waits. From any thread, any number of times."""


class Transport(Protocol):
    """The operations of a store. Safe for use from several threads, or several tasks of one loop."""

    @property
    def target(self) -> str:
        """Where this leads, as a URL."""

    async def create_queue(
        self, name: str, settings: Mapping[str, object], *, timeout: float
    ) -> QueueInfo:
        """Create a queue, or find it with equal settings. Settings as in `values.QueueSettings`,
        only those that differ from the default or were named."""

    async def get_queue(self, name: str, *, timeout: float) -> QueueInfo: ...

    async def list_queues(self, *, prefix: str, token: str, limit: int, timeout: float) -> QueuePage:
        """By name; `limit` 0 leaves the page's size to the other side."""

    async def update_queue(
        self, name: str, changes: Mapping[str, object], *, timeout: float
    ) -> QueueInfo:
        """Change the settings that are named; None sets one back to its default."""

    async def delete_queue(self, name: str, *, timeout: float) -> None: ...

    async def purge_queue(self, name: str, *, timeout: float) -> int:
        """Delete all messages; answers how many."""

    async def send(
        self, queue: str, messages: Sequence[Outgoing], *, timeout: float
    ) -> list[SendResult]:
        """Send 1 to 1,000 messages; a result for each. Bodies are bytes, delays are floats."""

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
        self, queue: str, *, max_in_flight: int, visibility_timeout: float | None
    ) -> Deliveries: ...

    async def delete(
        self, queue: str, targets: Sequence[Target], *, timeout: float
    ) -> list[DeleteResult]:
        """Delete 1 to 1,000 messages; a result for each."""

    async def change_visibility(
        self, queue: str, changes: Sequence[VisibilityChange], *, timeout: float
    ) -> list[VisibilityResult]:
        """Extend or release 1 to 1,000 leases; a result for each."""

    async def get_message(self, queue: str, id: str, *, timeout: float) -> Envelope: ...

    async def list_messages(
        self,
        queue: str,
        *,
        states: Collection[State],
        token: str,
        limit: int,
        max_body_bytes: int | None,
        timeout: float,
    ) -> MessagePage:
        """In order; no states means all, `max_body_bytes` None means whole bodies."""

    async def close(self) -> None:
        """End what is under way. Nothing is called afterwards."""
