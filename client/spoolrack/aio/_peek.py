"""Looks at the messages of a queue, a page at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection

from .. import _arguments as arguments
from .._calls import Calling
from .._values import MAX_BATCH, Envelope, MessagePage, MessageState, Seconds
from ._pages import pages


def peek_envelopes(
    calling: Calling,
    queue: str,
    states: Collection[MessageState | str],
    *,
    max_body_bytes: int | None,
    limit: int | None,
    timeout: Seconds | None,
) -> AsyncIterator[Envelope]:
    """Messages in order, `limit` at most. `timeout` is for each page."""
    wanted = states_of(states)
    if max_body_bytes is not None:
        arguments.integer("max_body_bytes", max_body_bytes)
    if limit is not None:
        arguments.integer("limit", limit)
    return _envelopes(calling, queue, wanted, max_body_bytes, limit, arguments.timeout(timeout))


def states_of(states: Collection[MessageState | str]) -> frozenset[MessageState]:
    """The states that a caller names, one alone or several."""
    named = [states] if isinstance(states, str) else arguments.some("states", states, "states")
    return frozenset(map(_state, named))


def _state(named: MessageState | str) -> MessageState:
    try:
        return MessageState(named)
    except ValueError:
        rule = f"one of {', '.join(MessageState)}"
        raise arguments.refusal("a state", named, rule) from None


async def _envelopes(
    calling: Calling,
    queue: str,
    wanted: frozenset[MessageState],
    max_body_bytes: int | None,
    limit: int | None,
    timeout: float | None,
) -> AsyncIterator[Envelope]:
    left_over = limit

    async def ask(token: str, left: float) -> MessagePage:
        return await calling.transport.list_messages(
            queue,
            states=wanted,
            token=token,
            # 0 leaves the page's size to the other side.
            limit=0 if left_over is None else min(left_over, MAX_BATCH),
            max_body_bytes=max_body_bytes,
            timeout=left,
        )

    if limit == 0:
        return
    async for page in pages(calling, ask, timeout):
        for envelope in page.messages[:left_over]:
            yield envelope
        if left_over is not None:
            left_over -= len(page.messages)
            if left_over <= 0:
                return
