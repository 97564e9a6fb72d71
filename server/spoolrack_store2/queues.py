"""The queues as the engine sees them: their settings by name."""

from __future__ import annotations

from dataclasses import dataclass

from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import InvalidQueueName, QueueNotFound
from spoolrack_store.model.names import is_queue_name
from spoolrack_store.model.settings import QueueSettings


@dataclass(slots=True)
class QueueRecord:
    """A queue's record in the catalogue."""

    name: str
    settings: QueueSettings
    created_at: Millis = Millis(0)


class Catalog:
    """The queues that there are. Not thread-safe."""

    def __init__(self) -> None:
        self.records: dict[str, QueueRecord] = {}

    def add(self, name: str, settings: QueueSettings) -> None:
        self.records[name] = QueueRecord(name, settings)

    def require(self, name: str) -> QueueRecord:
        """Return the queue's record; raise `InvalidQueueName` or `QueueNotFound`."""
        record = self.records.get(name)
        if record is None:
            if not is_queue_name(name):
                raise InvalidQueueName(name=name)
            raise QueueNotFound(queue=name)
        return record
