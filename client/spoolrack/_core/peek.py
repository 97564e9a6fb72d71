"""Peeks: messages of a queue without a lease, a page at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from datetime import datetime

from .. import _arguments as arguments
from .._call_values import ListMessages
from .._values import MAX_BATCH, Attributes, Envelope, MessageFilter, MessageState, Seconds
from .client_context import ClientContext
from .pagination import pages


def peek_envelopes(
    context: ClientContext,
    queue: str,
    wanted: MessageFilter,
    *,
    max_body_bytes: int | None,
    limit: int | None,
    timeout: Seconds | None,
) -> AsyncIterator[Envelope]:
    """Yield messages in order, `limit` at most. `timeout` is for each page."""
    if max_body_bytes is not None:
        arguments.integer("max_body_bytes", max_body_bytes)
    if limit is not None:
        arguments.integer("limit", limit)
    return _envelopes(context, queue, wanted, max_body_bytes, limit, arguments.timeout(timeout))


def filter_of(
    states: Collection[MessageState | str],
    sent_since: datetime | None,
    sent_before: datetime | None,
    group: str,
    attributes: Attributes | None,
) -> MessageFilter:
    """Return the filter that a caller names; raise `InvalidRequest`."""
    if attributes is not None:
        arguments.attributes(attributes)
    return MessageFilter(
        states=states_of(states),
        sent_since=arguments.optional_moment("sent_since", sent_since),
        sent_before=arguments.optional_moment("sent_before", sent_before),
        group=arguments.text("group", group),
        attributes=attributes or {},
    )


def states_of(states: Collection[MessageState | str]) -> frozenset[MessageState]:
    """Return the states that a caller names, one alone or several."""
    named = [states] if isinstance(states, str) else arguments.some("states", states, "states")
    return frozenset(map(_state, named))


def _state(state: MessageState | str) -> MessageState:
    try:
        return MessageState(state)
    except ValueError:
        rule = f"one of {', '.join(MessageState)}"
        raise arguments.refusal("a state", state, rule) from None


async def _envelopes(
    context: ClientContext,
    queue: str,
    wanted: MessageFilter,
    max_body_bytes: int | None,
    limit: int | None,
    timeout: float | None,
) -> AsyncIterator[Envelope]:
    left_over = limit

    if limit == 0:
        return
    request = ListMessages(
        queue=queue,
        wanted=wanted,
        # 0 leaves the page's size to the server.
        page_size=0 if limit is None else min(limit, MAX_BATCH),
        max_body_bytes=max_body_bytes,
    )
    async for page in pages(context, request, timeout):
        for envelope in page.items[:left_over]:
            yield envelope
        if left_over is not None:
            left_over -= len(page.items)
            if left_over <= 0:
                return
            request.page_size = min(left_over, MAX_BATCH)
