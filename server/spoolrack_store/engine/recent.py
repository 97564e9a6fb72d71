"""The contents of messages that were sent here a moment ago, so that they needn't be read back.

Bounded in bytes; the oldest give way. It knows contents and nothing else: that a message is still where
it was written, whoever delivers it must have made sure of. Without it everything works as with it.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from ..model.content import Content

RECENT_BYTES: Final = 32 * 1024 * 1024
"""Of bodies and attributes: some 30,000 messages of 1 KiB."""
_OVERHEAD: Final = 512
"""Bytes that a message costs beside its content, about."""


class Recent:
    """Not thread-safe."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = 0
        self._contents: OrderedDict[str, tuple[Content, int]] = OrderedDict()
        """By id, the oldest first."""

    def keep(self, id: str, content: Content) -> None:
        """Remember the content of the message `id`."""
        size = len(content.body) + _OVERHEAD
        for name, value in content.attributes.items():
            size += len(name) + len(value) + _OVERHEAD
        if size > self._limit:
            return
        self._contents[id] = content, size
        self._held += size
        while self._held > self._limit:
            _, (_, dropped) = self._contents.popitem(last=False)
            self._held -= dropped

    def holds(self, id: str) -> bool:
        """Whether `take` would find it."""
        return id in self._contents

    def take(self, id: str) -> Content | None:
        """The content of the message `id`, once; None if it isn't held."""
        found = self._contents.pop(id, None)
        if found is None:
            return None
        content, size = found
        self._held -= size
        return content
