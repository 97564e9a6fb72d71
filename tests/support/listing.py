"""Lists of the messages in a queue, without a lease."""

from __future__ import annotations

from spoolrack_store.model.operations import Message, MessageFilter
from spoolrack_store.model.transitions import State
from spoolrack_store.store import Store


def messages_in(
    store: Store,
    queue: str,
    *,
    states: frozenset[State] = frozenset(),
    after: str = "",
    limit: int = 100,
    max_body_bytes: int | None = None,
) -> list[Message]:
    """Return up to `limit` messages above the id `after`; none only if there are no more."""
    wanted = MessageFilter(states=states)
    while True:
        page = store.page(queue, wanted, after=after, limit=limit, max_body_bytes=max_body_bytes)
        if page.messages or not page.last:
            return list(page.messages)
        after = page.last
