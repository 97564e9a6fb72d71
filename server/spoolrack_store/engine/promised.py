"""Which answers may be told only when they are durable."""

from __future__ import annotations

from typing import Any

from ..model.errors import StoreError
from ..model.operations import ChangeVisibility, GiveBack, Receive, Request
from ..model.reservations import Reserve
from .catalog import Catalog
from .order import Outcome


def is_promised(request: Request[Any], outcome: Outcome, catalog: Catalog) -> bool:
    """Whether `outcome` may be told only when it is durable."""
    if isinstance(outcome, StoreError):
        return False
    if isinstance(request, Receive | Reserve) and not outcome:
        return False
    if isinstance(request, Receive | ChangeVisibility | GiveBack):
        live = catalog.queues.get(request.queue)
        return live is not None and not live.settings.relaxed_leases
    return True
