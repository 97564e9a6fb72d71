"""What a store counts of its requests, by commit: one addition for each request, none for a message.

`send`, `requeue`, `expire`, `bury`, `publish`, `commit` and `redrive` are counted where a file moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spoolrack_store.model.errors import StoreError
from spoolrack_store.model.figures import Statistics
from spoolrack_store.model.reservations import Reservation, Reserve

from .operations import Delete, Outcome, Purge, Receive, Request


def count_commit(
    statistics: Statistics,
    requests: Sequence[Request[Any]],
    outcomes: Sequence[Outcome],
    began: float,
) -> None:
    """Count a commit that began then and is answered now."""
    if not requests:
        return
    statistics.commits.observe(statistics.watch() - began)
    statistics.requests.observe(len(requests))
    for request, outcome in zip(requests, outcomes, strict=True):
        if not isinstance(outcome, StoreError):
            _count(statistics, request, outcome)


def _count(statistics: Statistics, request: Request[Any], outcome: Outcome) -> None:
    if isinstance(request, Receive):
        statistics.count(request.queue, "receive", sum(len(each.ids) for each in outcome))
    elif isinstance(request, Delete):
        statistics.count(request.queue, "delete", outcome.count(None))
    elif isinstance(request, Purge):
        statistics.count(request.queue, "purge", outcome)
    elif isinstance(request, Reserve) and isinstance(outcome, Reservation) and outcome.is_new:
        statistics.count(request.queue, "reserve", outcome.messages)
