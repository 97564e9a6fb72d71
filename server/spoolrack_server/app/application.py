"""Composition of the use cases over one store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from spoolrack_store.model.clock import Clock
from spoolrack_store.model.operations import Queue
from spoolrack_store.store import Store

from ..system.logs import Log
from .leases import Leases
from .messages import Messages
from .queues import Queues
from .redrives import Redrives
from .reservations import Reservations
from .schedules import Schedules
from .sends import Sends
from .stages import Stages
from .store_access import ConcurrencyLimit, StoreAccess


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
    ) -> None:
        """`with_consumers` adds the consumers of a queue's oldest leases that other processes know."""
        self.access = StoreAccess(store, workers)
        self.leases = Leases(self.access, log)
        self.queues = Queues(self.access, with_consumers)
        self.messages = Messages(self.access)
        self.sends = Sends(self.access)
        self.stages = Stages(self.access)
        self.reservations = Reservations(self.access, self.leases)
        self.redrives = Redrives(self.access)
        self.schedules = Schedules(self.access, clock)

    async def close(self) -> None:
        """Return once all releases are done. No call may be running any more."""
        await self.leases.close()
        self.access.close()
