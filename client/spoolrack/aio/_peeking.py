"""Looks at the messages of a queue, a page at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection

from .. import _arguments as arguments
from .._calling import Calling
from .._values import MAX_BATCH, Envelope, MessagePage, MessageState, Seconds


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
    named = [states] if isinstance(states, str) else arguments.some("states", states, "states")
    wanted = frozenset(map(_state, named))
    if max_body_bytes is not None:
        arguments.integer("max_body_bytes", max_body_bytes)
    if limit is not None:
        arguments.integer("limit", limit)
    return _envelopes(calling, queue, wanted, max_body_bytes, limit, arguments.timeout(timeout))


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
    token = ""
    left_over = limit
    while left_over is None or left_over > 0:
        page = await _page(calling, queue, wanted, max_body_bytes, left_over, token, timeout)
        for envelope in page.messages[:left_over]:
            yield envelope
        if left_over is not None:
            left_over -= len(page.messages)
        if not page.next_token:
            return
        token = page.next_token


async def _page(
    calling: Calling,
    queue: str,
    states: frozenset[MessageState],
    max_body_bytes: int | None,
    limit: int | None,
    token: str,
    timeout: Seconds | None,
) -> MessagePage:
    return await calling.ask(
        lambda left: calling.transport.list_messages(
            queue,
            states=states,
            token=token,
            # 0 leaves the page's size to the other side.
            limit=0 if limit is None else min(limit, MAX_BATCH),
            max_body_bytes=max_body_bytes,
            timeout=left,
        ),
        timeout,
    )
