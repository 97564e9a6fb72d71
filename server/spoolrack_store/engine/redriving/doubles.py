"""What a power cut leaves of a redrive's last moves: a message that is in two queues.

A move was durable in the queue that it led to and not in the dead-letter queue. The redrive's name has
an owner as long as there may be such moves. What has arrived may have been received there already, so
that one is true, and what is still a dead letter is dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from ...files import layout
from ...index.hidden import QueueIndex
from ...model.errors import StoreError
from ...model.names import id_of
from ..root import Root, place_of_ready
from .redrives import Kept

log = logging.getLogger(__name__)


def drop_doubles(root: Root, redrives: Iterable[Kept]) -> None:
    """Nobody else may be there."""
    for kept in redrives:
        queue = kept.order.queue
        index = root.index.queues.get(queue)
        if kept.name.owner is None or index is None:
            continue
        names = [kept.order.destination] if kept.order.destination else list(root.index.queues)
        for name in names:
            other = root.index.queues.get(name)
            if other is not None and other is not index:
                for id in list(_in_both(index, other)):
                    _drop(root, queue, index, id)


def _in_both(index: QueueIndex, other: QueueIndex) -> Iterator[str]:
    """The ids of what is ready in `index` and in any state in `other`."""
    if len(other) < index.ready.count:
        ids = (*(id_of(name) for name, _ in other.ready.since("")), *other.hidden_ids())
        yield from (id for id in ids if index.ready.find(id) is not None)
        return
    for name, _ in index.ready.since(""):
        id = id_of(name)
        if other.find_hidden(id) is not None or other.ready.find(id) is not None:
            yield id


def _drop(root: Root, queue: str, index: QueueIndex, id: str) -> None:
    place = index.ready.find(id)
    if place is None:
        return
    name, folder = place
    index.ready.remove(name, folder)
    try:
        root.folders.drop(place_of_ready(queue, name, folder))
    except StoreError as error:
        log.error("message %s was moved out of %s, and can't be unlinked there: %s", id, queue, error)
        return
    if folder is not None and not folder.names:
        root.drop_after_sync(layout.ready(queue, folder.batch))
