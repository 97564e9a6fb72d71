"""The manifest of a publication: a sealed file, as `sealed` says.

Once it is durable, what it names is published, whatever has been moved so far; and it remembers the
writer's epoch. One that isn't whole is none. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from .clock import Millis
from .sealed import SealedRecord, StoredAs


def _first_ids(stages: Any) -> dict[str, str]:
    return {str(life): str(first) for life, first in stages.items()}


def _queues(queues: Any) -> dict[str, tuple[Millis, int]]:
    return {str(queue): (Millis(int(made)), int(version)) for queue, (made, version) in queues.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest(SealedRecord):
    stages: Annotated[Mapping[str, str], StoredAs(_first_ids)]
    """The names of the stages' folders, each with the lowest id of a batch in it: it tells the stage
    from one that is made later under the same name."""
    queues: Annotated[Mapping[str, tuple[Millis, int]], StoredAs(_queues)]
    """When each queue was made, and its version: they tell it from one that is made again. Without
    messages those of the writer's publication before, because a writer belongs to its queues, too."""
    messages: Annotated[int, StoredAs(int)]
    digest: Annotated[str, StoredAs(str)]
    """The writer's checksum of the messages; empty: none was given."""
    published_at: Annotated[Millis, StoredAs(int)]
    epoch_retention: Annotated[Millis, StoredAs(int, key="memory")]
    owner: Annotated[str, StoredAs(str)] = ""
    """The identity that has published it; empty: one that nothing keeps from any name, or a manifest
    from before identities were recorded."""

    @property
    def expires_at(self) -> Millis:
        """Unix time from which the epoch is not remembered."""
        return Millis(self.published_at + self.epoch_retention)
