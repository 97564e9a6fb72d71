"""Gathers messages to requests of a good size. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from ..v1 import queue_pb2 as pb
from ._rows import Sized

MESSAGES: Final = 1_000
"""The contract's most for one request."""
BYTES: Final = 1024 * 1024
"""About as many bytes in one request: more doesn't make it faster."""
OPEN: Final = 64
"""As many delays at once, each with a chunk of its own; beyond it the fullest goes."""


def chunks(messages: Iterable[Sized], *, by_delay: bool) -> Iterator[list[pb.OutgoingMessage]]:
    """The messages in groups, each of one delay if `by_delay`, in their order within each group."""
    gathered: dict[float | None, list[pb.OutgoingMessage]] = {}
    sizes: dict[float | None, int] = {}
    for message, size, delay in messages:
        key = delay if by_delay else None
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
