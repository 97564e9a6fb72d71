"""A queue that exists, as its settings file says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..model.clock import Millis
from ..model.errors import InvalidSetting
from ..model.settings import QueueSettings, Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """A queue that exists."""

    name: str
    settings: QueueSettings
    version: int
    created_at: Millis
    salt: str
    """Another queue that is made under this name has another: see `model.keys`."""
    written_ns: int
    """When the file of this version was written, as the file system says: it tells a queue from one
    that was made again."""

    def record(self, settings: QueueSettings | None) -> Record:
        return Record(settings=settings, created_at=self.created_at, salt=self.salt)

    def goes_on_as(self, version: int, created_at: Millis) -> bool:
        """Whether another version, which isn't this one, is a later one of the same queue.

        A queue that is made again may begin in the same millisecond, but not above this version.
        """
        return version > self.version and created_at == self.created_at


def living(name: str, version: int, record: Record, written_ns: int) -> Live:
    return Live(
        name=name,
        settings=record.settings or QueueSettings(),
        version=version,
        created_at=record.created_at,
        salt=record.salt,
        written_ns=written_ns,
    )


def check_target(name: str, settings: QueueSettings, queues: Mapping[str, Live]) -> None:
    """Raise `InvalidSetting` for a dead-letter queue that isn't there, or leads back to `name`."""
    target = settings.dead_letter_queue
    if not target:
        return
    if target != name and target not in queues:
        raise InvalidSetting(name="dead_letter_queue", value=target, rule="must exist already")
    seen = {name}
    while target:
        if target in seen:
            raise InvalidSetting(
                name="dead_letter_queue",
                value=settings.dead_letter_queue,
                rule="must not lead back to the queue itself",
            )
        seen.add(target)
        live = queues.get(target)
        target = live.settings.dead_letter_queue if live is not None else ""
