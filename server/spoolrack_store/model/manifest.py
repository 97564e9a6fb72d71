"""The manifest of a publication: a sealed file, as `sealed` says.

Once it is durable, what it names is published, whatever has been moved so far; and it remembers the
writer's epoch. One that isn't whole is none. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .clock import Millis
from .sealed import NotWhole, seal, unseal


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    stages: Mapping[str, str]
    """The names of the stages' folders, each with the lowest id of a batch in it: it tells the stage
    from one that is made later under the same name."""
    queues: Mapping[str, tuple[Millis, int]]
    """When each queue was made, and its version: they tell it from one that is made again. Without
    messages those of the writer's publication before, because a writer belongs to its queues, too."""
    messages: int
    digest: str
    """The writer's checksum of the messages; empty: none was given."""
    published_at: Millis
    epoch_retention: Millis
    owner: str = ""
    """The identity that has published it; empty: one that nothing keeps from any name, or a manifest
    from before identities were recorded."""

    @property
    def expires_at(self) -> Millis:
        """Unix time from which the epoch is not remembered."""
        return Millis(self.published_at + self.epoch_retention)


def encode(manifest: Manifest) -> bytes:
    return seal(
        {
            "stages": dict(manifest.stages),
            "queues": {queue: list(made) for queue, made in manifest.queues.items()},
            "messages": manifest.messages,
            "digest": manifest.digest,
            "published_at": manifest.published_at,
            "memory": manifest.epoch_retention,
            "owner": manifest.owner,
        }
    )


def decode(content: bytes) -> Manifest:
    """Parse a manifest; raise `NotWhole`."""
    # Any: the conversions refuse what isn't what it should be.
    parts: dict[str, Any] = unseal(content)
    try:
        return Manifest(
            stages={str(folder): str(first) for folder, first in parts["stages"].items()},
            queues={
                str(queue): (Millis(int(made)), int(version))
                for queue, (made, version) in parts["queues"].items()
            },
            messages=int(parts["messages"]),
            digest=str(parts["digest"]),
            published_at=Millis(int(parts["published_at"])),
            epoch_retention=Millis(int(parts["memory"])),
            owner=str(parts.get("owner", "")),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NotWhole(f"it can't be read: {error}") from error
