"""Gathers messages to requests of a good size. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from ..v1 import queue_pb2 as pb
from ._rows import Sized

Chunk: TypeAlias = pb.MessageColumns | list[pb.OutgoingMessage]

MESSAGES: Final = 1_000
"""The contract's most for one request."""
BYTES: Final = 1024 * 1024
"""About as many bytes in one request: more doesn't make it faster."""
OPEN: Final = 64
"""Chunks of a delay and a priority that are gathered at once; beyond it the fullest goes."""


def chunks(messages: Iterable[Sized], *, is_staged: bool) -> Iterator[list[pb.OutgoingMessage]]:
    """Yield the messages in groups, in their order within each group.

    A chunk of a stage has one delay and one priority.
    """
    gathered: dict[tuple[float | None, int], list[pb.OutgoingMessage]] = {}
    sizes: dict[tuple[float | None, int], int] = {}
    for message, size, delay in messages:
        key = (delay, message.priority) if is_staged else (None, 0)
        group = gathered.get(key)
        if group is None:
            if len(gathered) >= OPEN:
                fullest = max(gathered, key=lambda one: len(gathered[one]))
                yield gathered.pop(fullest)
            group = gathered[key] = []
            sizes[key] = 0
        elif len(group) >= MESSAGES or sizes[key] + size > BYTES:
            yield group
            group = gathered[key] = []
            sizes[key] = 0
        group.append(message)
        sizes[key] += size
    yield from gathered.values()
