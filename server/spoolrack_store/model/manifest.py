"""The manifest of a publication: a line of JSON, and a line with its checksum.

Once it is durable, what it names is published, whatever has been moved so far; and it remembers the
writer's epoch. One that isn't whole is none. Pure.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from .clock import Millis


class NotAManifest(ValueError):
    """These bytes are not a whole manifest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    stages: Mapping[str, str]
    """The names of the stages' folders, each with the lowest id of a batch in it: it tells the stage
    from one that is made later under the same name."""
    queues: Mapping[str, tuple[Millis, int]]
    """When each queue was made, and its version: they tell it from one that is made again."""
    messages: int
    published_at: Millis
    memory: Millis

    @property
    def forget_at(self) -> Millis:
        """Unix time from which on nobody needs to remember the epoch."""
        return Millis(self.published_at + self.memory)


def encode(manifest: Manifest) -> bytes:
    parts = {
        "stages": dict(manifest.stages),
        "queues": {queue: list(made) for queue, made in manifest.queues.items()},
        "messages": manifest.messages,
        "published_at": manifest.published_at,
        "memory": manifest.memory,
    }
    line = json.dumps(parts, separators=(",", ":")).encode() + b"\n"
    return line + f"{zlib.crc32(line):08x}\n".encode()


def decode(content: bytes) -> Manifest:
    """Raises `NotAManifest`."""
    line, end, checksum = content.partition(b"\n")
    if checksum != f"{zlib.crc32(line + end):08x}\n".encode():
        raise NotAManifest("it isn't whole")
    try:
        parts = json.loads(line)
        return Manifest(
            stages={str(folder): str(first) for folder, first in parts["stages"].items()},
            queues={
                str(queue): (Millis(int(made)), int(version))
                for queue, (made, version) in parts["queues"].items()
            },
            messages=int(parts["messages"]),
            published_at=Millis(int(parts["published_at"])),
            memory=Millis(int(parts["memory"])),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise NotAManifest(f"it can't be read: {error}") from error
