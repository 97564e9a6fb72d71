"""Redrives: how one is begun, though a connection breaks, and how all are listed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

from .. import arguments
from ..calling import Calling
from ..errors import InvalidRequest, RedriveRunning, Unreachable
from ..redrives import MAX_REDRIVEN_IDS, Redrive
from ..values import Seconds


async def start_redrive(
    calling: Calling,
    queue: str,
    *,
    destination: str,
    ids: Iterable[str] | None,
    source_queue: str,
    max_messages_per_second: int,
    timeout: Seconds | None,
) -> Redrive:
    """The redrive that was begun; if the answer was lost, the one that goes on and is just like it."""
    selected = _selected(ids)
    arguments.text("destination", destination)
    arguments.text("source_queue", source_queue)
    arguments.integer("max_messages_per_second", max_messages_per_second, 0, arguments.INT32)
    redriving = calling.transport.redriving
    in_doubt = False

    async def once(left: float) -> Redrive:
        nonlocal in_doubt
        try:
            return await redriving.start(
                queue,
                destination=destination,
                ids=selected,
                source_queue=source_queue,
                max_messages_per_second=max_messages_per_second,
                timeout=left,
            )
        except Unreachable:
            in_doubt = True
            raise
        except RedriveRunning as error:
            id = error.metadata.get("redrive")
            if not in_doubt or not id:
                raise
            found = await redriving.get(id, timeout=left)
            told = (found.destination, found.source_queue, found.max_messages_per_second)
            if told != (destination, source_queue, max_messages_per_second):
                raise
            return found

    return await calling.ask(once, timeout)


def _selected(ids: Iterable[str] | None) -> list[str]:
    if ids is None:
        return []
    named = [ids] if isinstance(ids, str) else arguments.some("ids", ids, "ids")
    selected = [arguments.text("an id", id) for id in named]
    if not 1 <= len(selected) <= MAX_REDRIVEN_IDS:
        # An empty selection would mean all of them on the wire, and hardly ever to the program.
        raise InvalidRequest(
            f"A redrive can't have {len(selected)} ids: name 1 to {MAX_REDRIVEN_IDS} of them, or none "
            "(ids=None) for all messages of the queue."
        )
    return selected


def list_redrives(calling: Calling, queue: str, timeout: Seconds | None) -> AsyncIterator[Redrive]:
    """The oldest first. `timeout` is for each page."""
    return _redrives(calling, arguments.text("queue", queue), arguments.timeout(timeout))


async def _redrives(calling: Calling, queue: str, timeout: float | None) -> AsyncIterator[Redrive]:
    redriving = calling.transport.redriving
    token = ""
    while True:
        after = token
        page = await calling.ask(
            lambda left, after=after: redriving.list_redrives(  # type: ignore[misc]
                queue=queue, token=after, limit=0, timeout=left
            ),
            timeout,
        )
        for redrive in page.redrives:
            yield redrive
        if not page.next_token:
            return
        token = page.next_token
