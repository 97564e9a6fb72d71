"""Composition of the use cases over one store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from spoolrack_store.model.clock import Clock
from spoolrack_store.model.operations import Queue
from spoolrack_store.store import Store

from ..system.logs import Log
from .leases import Leases
from .memory import BYTES, Budget
from .messages import Messages
from .queues import Queues
from .receives import Receives
from .redrives import Redrives
from .reservations import Reservations
from .schedules import MaySend, Schedules, anyone_may
from .sends import Sends
from .stages import Stages
from .store_access import ConcurrencyLimit, StoreAccess

T = TypeVar("T")


class Application:
    """The use cases of one front. Lives in one event loop.

    Each front has an application of its own: none waits for the reads of another.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        log: Log,
        workers: ConcurrencyLimit | None = None,
        with_consumers: Callable[[Queue], Awaitable[Queue]] | None = None,
        may_send: MaySend = anyone_may,
        responses: Budget | None = None,
    ) -> None:
        """`with_consumers` adds the consumers of a queue's oldest leases that other processes know;
        `may_send` tells the permissions of callers that aren't calling. `responses` bounds the bytes of
        messages in unsent responses of the process."""
        self._access = StoreAccess(store, workers)
        self.root_id = store.root_id
        self.shard = store.shard
        """Which shard the root is; None: it is none."""
        self.owner = store.metrics.owner
        """The name under which this process writes."""
        self.leases = Leases(self._access, log)
        self.responses = responses or Budget("responses", BYTES)
        self.receives = Receives(self._access, self.leases, self.responses)
        self.queues = Queues(self._access, with_consumers)
        self.messages = Messages(self._access)
        self.sends = Sends(self._access)
        self.stages = Stages(self._access)
        self.reservations = Reservations(self._access, self.leases)
        self.redrives = Redrives(self._access)
        self.schedules = Schedules(self._access, clock, may_send)

    def bound(self, use_case: Callable[..., T]) -> Callable[..., T]:
        """Return a use case, such as `Queues.get`, of this application."""
        kind, _, name = use_case.__qualname__.partition(".")
        found: Callable[..., T] = getattr(getattr(self, kind.lower()), name)
        return found

    def arrive(self, requests: int, kind: str, stream: int) -> None:
        """Note that a stream of a kind brings requests, so many, before they are begun."""
        self._access.arrive(requests, kind, stream)

    async def in_thread(self, work: Callable[..., T], *of: Any) -> T:
        """Return the result of a work that takes too long for the event loop."""
        return await self._access.read(work, *of)

    async def close(self) -> None:
        """Return once all releases are done. No call may be running any more."""
        await self.leases.close()
        self._access.close()
