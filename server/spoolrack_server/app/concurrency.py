"""softlayer/mq's workers: a bound on concurrent receives, and one on concurrent sends.

They are no threads. A call that finds all workers busy waits, first come, first served; a receive that
waits for messages keeps no worker busy. Nothing is bounded by default: the store batches waiting
requests in one commit, and does more the more there are.
"""

from __future__ import annotations

import asyncio


class ConcurrencyLimit:
    """The bounds of one server. Lives in one event loop."""

    def __init__(self, pairs: int | None) -> None:
        """None: as many as there is work for."""
        self.fetching = None if pairs is None else asyncio.Semaphore(pairs)
        """Taken while a receive is with the store."""
        self.saving = None if pairs is None else asyncio.Semaphore(pairs)
        """Taken while a send is with the store."""
